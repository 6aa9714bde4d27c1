//! Progress of trials: a bar on a terminal, plain lines elsewhere.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use record::{Outcome, Reason};
use tokio::sync::mpsc::UnboundedReceiver;
use trial::{Agent, Event};

use crate::output::{Output, set_bar};

/// How often a line is said where there is no bar.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Shows the events of a job until it ends. `planned` is the expected number of trials; it may grow.
pub async fn show(output: Output, stage: &'static str, planned: u64, mut events: UnboundedReceiver<Event>) {
    let bar = if output.bars() { ProgressBar::new(planned) } else { ProgressBar::hidden() };
    // The last part gives way to narrow terminals, so that the line never wraps.
    let style = "{prefix:>12}  {bar:20} {pos}/{len}  {wide_msg}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(stage);
    bar.enable_steady_tick(Duration::from_millis(200));
    set_bar(output.bars().then(|| bar.clone()));
    let mut count = Count { begun: Instant::now(), earlier: 0, running: 0, rewarded: 0, errored: 0 };
    let mut said = Instant::now();
    let mut told = BTreeSet::new();
    while let Some(event) = events.recv().await {
        match event {
            Event::TakenOver { rewarded, errored } => {
                count.earlier = (rewarded + errored) as u64;
                count.rewarded += rewarded as u64;
                count.errored += errored as u64;
            }
            Event::Started { .. } => count.running += 1,
            Event::Retried { .. } => count.running = count.running.saturating_sub(1),
            Event::Finished { task, agent, outcome, reward, flags, .. } => {
                count.running = count.running.saturating_sub(1);
                // A cheat whose reward is refused got the answer that it was to get.
                let withstood = matches!(agent, Agent::Cheat(_))
                    && matches!(&outcome, Outcome::Failed { reason: Reason::RewardUnsafe, .. });
                let answered = reward.is_some() || withstood;
                count.rewarded += u64::from(answered);
                count.errored += u64::from(!answered);
                if let Outcome::Failed { reason, detail, .. } = &outcome
                    && !withstood
                {
                    output.stage(stage, format_args!("{task}, {agent}: {reason} ({detail})"));
                }
                // Cheats break things; what others miss is said once a task.
                for (reason, detail) in flags.iter().filter(|_| !matches!(agent, Agent::Cheat(_))) {
                    if told.insert((task.clone(), *reason)) {
                        let reward = reward.map(|reward| format!("reward {reward}, ")).unwrap_or_default();
                        output.stage(stage, format_args!("{task}, {agent}: {reward}{reason} ({detail})"));
                    }
                }
            }
        }
        let planned = planned.max(count.ended());
        bar.set_length(planned);
        bar.set_position(count.ended());
        bar.set_message(format!("{count}{}", count.pace(planned)));
        if !output.bars() && said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            output.stage(
                stage,
                format_args!("{}/{planned} trials, {count}{}", count.ended(), count.pace(planned)),
            );
        }
    }
    set_bar(None);
    bar.finish_and_clear();
}

/// How far a job is.
struct Count {
    begun: Instant,
    /// What had ended before this process began.
    earlier: u64,
    running: u64,
    rewarded: u64,
    errored: u64,
}

impl Count {
    fn ended(&self) -> u64 {
        self.rewarded + self.errored
    }

    /// Rate so far, and how long the rest takes at that rate; nothing before the first end.
    fn pace(&self, planned: u64) -> String {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        let rate = (self.ended() - self.earlier) as f64 / seconds;
        let left = planned.saturating_sub(self.ended()) as f64;
        match (rate > 0.0, rate >= 1.0) {
            (false, _) => String::new(),
            (true, true) => format!(", {rate:.1} a second, {:.0} s left", left / rate),
            (true, false) => format!(", {:.1} s each, {:.0} s left", 1.0 / rate, left / rate),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, rewarded, errored, .. } = self;
        write!(f, "{rewarded} rewarded, {errored} errored, {running} running")
    }
}

/// A reason as it is spelled on disk.
pub fn name_of<T: serde::Serialize>(reason: T) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "unknown".into(),
    }
}
