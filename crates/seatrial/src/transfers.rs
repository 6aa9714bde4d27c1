//! Progress of downloads and uploads: a bar on a terminal, a plain line now and then elsewhere.

use std::pin::pin;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use crate::output::{Output, set_bar};

/// How often a line is said where there is no bar.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A bar that leaves the screen with its owner, however the work ends.
struct Shown(ProgressBar);

impl Drop for Shown {
    fn drop(&mut self) {
        set_bar(None);
        self.0.finish_and_clear();
    }
}

/// Carries out `work` and shows what it transfers: `look` tells how many bytes of how many. Nothing is shown before anything is to be
/// transferred.
pub async fn shown<T>(
    output: Output,
    stage: &'static str,
    look: impl Fn() -> (u64, u64),
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    let mut said = Instant::now();
    let mut bar: Option<Shown> = None;
    loop {
        tokio::select! {
            ended = &mut work => return ended,
            _ = ticks.tick() => {}
        }
        let (received, wanted) = look();
        if wanted == 0 {
            continue;
        }
        if output.bars() {
            let Shown(bar) = bar.get_or_insert_with(|| begin(stage));
            bar.set_length(wanted);
            bar.set_position(received);
        } else if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            let (received, wanted) = (HumanBytes(received), HumanBytes(wanted));
            output.stage(stage, format_args!("{received} of {wanted} are there"));
        }
    }
}

fn begin(stage: &'static str) -> Shown {
    let bar = ProgressBar::new(0);
    let style = "{prefix:>12}  {bar:20} {bytes}/{total_bytes}  {binary_bytes_per_sec}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(stage);
    set_bar(Some(bar.clone()));
    Shown(bar)
}
