//! `seatrial traces compare`.

use std::path::Path;

use serde::Serialize;
use task::printable;
use trace::{Comparison, TaskPair};

use super::arguments::Compare;
use super::stats::{gathered, interval, number};
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, table};

/// A comparison that says which document it is.
#[derive(Serialize)]
struct Named<'a> {
    schema: &'static str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Compares two sets of trials.
pub fn run(output: Output, directory: &Path, arguments: &Compare) -> Result {
    let first = gathered(output, &[directory.join(&arguments.first)])?;
    let second = gathered(output, &[directory.join(&arguments.second)])?;
    let comparison = trace::compare(&first.trials, &second.trials);
    output.json(&Named { schema: "seatrial.traces-compare/1", comparison: &comparison })?;
    let shown: Vec<_> = comparison
        .tasks
        .iter()
        .filter(|pair| arguments.all || pair.first.0.total_cmp(&pair.second.0).is_ne())
        .map(row)
        .collect();
    if !shown.is_empty() {
        output.print(table(["task", "A", "trials", "B", "trials", "B - A"], shown))?;
        output.print("")?;
    }
    output.print(format_args!(
        "{}, {} in A only, {} in B only; without a reward that counts: {} trials of A, {} of B",
        count(comparison.common as usize, "common task"),
        comparison.only_first,
        comparison.only_second,
        comparison.dropped[0],
        comparison.dropped[1]
    ))?;
    if comparison.common > 0 && comparison.difference.is_none() {
        output.warn("the rewards are too large to be summed up; their difference is not known");
    }
    if comparison.common == 0 {
        return Err(Failure::new(Exit::Failed, "there is no task with rewards in both").silent());
    }
    if let Some(path) = &arguments.html {
        let path = directory.join(path);
        let [first, second] = [&arguments.first, &arguments.second].map(|path| path.display().to_string());
        let html = trace::compare_page(&first, &second, &comparison);
        artifact::write_atomic(&path, html.as_bytes()).or_exit(Exit::Failed)?;
        output.say(format_args!("wrote {}", path.display()));
    }
    output.print(format_args!(
        "mean over tasks: A {}, B {}, difference {}{}",
        number(comparison.first),
        number(comparison.second),
        number(comparison.difference),
        interval(comparison.interval)
    ))?;
    let p = comparison.p_value.map_or_else(String::new, |p| format!(" (p = {p:.3}, exact McNemar test)"));
    output.print(format_args!(
        "B is better on {} and worse on {}{p}",
        count(comparison.better as usize, "task"),
        comparison.worse
    ))
}

fn row(pair: &TaskPair) -> [String; 6] {
    let difference = pair.second.0 - pair.first.0;
    [
        printable(pair.task.as_bytes()),
        number(Some(pair.first.0)),
        pair.first.1.to_string(),
        number(Some(pair.second.0)),
        pair.second.1.to_string(),
        number(Some(difference).filter(|difference| difference.is_finite())),
    ]
}
