//! `seatrial traces convert`.

use std::path::Path;

use serde_json::json;
use trace::{CleanStep, ConvertOptions};

use super::arguments::{Advantage, Cleaning, Convert, Form};
use super::{failure, skipped};
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, count};

/// Writes samples and tells what was cleaned and left out.
pub fn run(output: Output, directory: &Path, arguments: &Convert) -> Result {
    if arguments.drop_constant_groups && !matches!(arguments.to, Form::Rl | Form::Difficulty) {
        let message = "--drop-constant-groups belongs to --to rl and --to difficulty";
        return Err(Failure::new(Exit::Usage, message));
    }
    let clean: Vec<CleanStep> = arguments
        .clean
        .iter()
        .flat_map(|cleaning| match cleaning {
            Cleaning::All => CleanStep::ALL.to_vec(),
            Cleaning::Step(step) => vec![*step],
        })
        .collect();
    let options = ConvertOptions {
        form: arguments.to.into(),
        clean,
        filter: arguments.filter.map(Into::into),
        advantage: match arguments.advantage {
            Advantage::Std => trace::Advantage::Std,
            Advantage::Mean => trace::Advantage::Mean,
        },
        drop_constant_groups: arguments.drop_constant_groups,
    };
    let paths: Vec<_> = arguments.paths.iter().map(|path| directory.join(path)).collect();
    let out = directory.join(&arguments.out);
    let report = trace::convert(&paths, &options, &out).map_err(|error| failure(&error))?;
    output.json(&json!({
        "schema": "seatrial.traces-convert/1",
        "out": out.display().to_string(),
        "convert": report,
    }))?;
    if report.samples > 0 {
        output.print(format_args!(
            "{}: {} of {}",
            out.display(),
            count(report.samples as usize, "sample"),
            count(report.trials as usize, "trial")
        ))?;
    }
    for (why, number) in &report.left_out {
        output.say(format_args!("left out: {number}: {why}"));
    }
    for (step, number) in report.cleaned.iter().filter(|(_, number)| **number > 0) {
        output.say(format_args!("cleaned: {number}: {step}"));
    }
    let others = [
        (report.copies, "equal copies of other trials"),
        (report.other_rows, "rows of earlier turns and of helpers"),
        (report.prefix_breaks, "turns whose prompt does not begin with the turn before"),
    ];
    for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
        output.say(format_args!("{number} {what}"));
    }
    super::export::named(output, "secret masked", &report.masked);
    super::export::named(output, "malformed", &report.quarantined);
    super::export::named(output, "odd", &report.odd);
    skipped(output, &report.read);
    if report.samples == 0 {
        return Err(super::export::nothing("no trial became a sample"));
    }
    Ok(())
}
