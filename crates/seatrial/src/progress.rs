//! Progress of trials: a bar on a terminal, plain lines elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use record::Outcome;
use tokio::sync::mpsc::UnboundedReceiver;
use trial::Event;

use crate::output::Output;

/// Shows the events of a job until it ends. `planned` is the expected number of trials; it may grow.
pub async fn show(output: Output, stage: &'static str, planned: u64, mut events: UnboundedReceiver<Event>) {
    let bar = if output.bars() { ProgressBar::new(planned) } else { ProgressBar::hidden() };
    let style = "{msg:>12}  {bar:32} {pos}/{len} trials, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(stage);
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut done = 0;
    while let Some(event) = events.recv().await {
        let Event::Finished { task, agent, outcome, wall, .. } = event else { continue };
        done += 1;
        if done > bar.length().unwrap_or(0) {
            bar.set_length(done);
        }
        bar.set_position(done);
        if let Outcome::Failed { reason, detail, .. } = &outcome {
            let line = format!("{stage:>12}  {task}, {agent}: {} ({detail})", name_of(*reason));
            bar.suspend(|| output.say(line));
        } else if !output.bars() && done % 25 == 0 {
            output.stage(
                stage,
                format_args!("{done} trials done; last {task}, {agent}, {:.1} s", wall.as_secs_f64()),
            );
        }
    }
    bar.finish_and_clear();
}

/// A reason as it is spelled on disk.
pub fn name_of<T: serde::Serialize>(reason: T) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(name)) => name,
        _ => "unknown".into(),
    }
}
