//! `seatrial traces stats`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use task::printable;
use trace::{
    Breakdown, Distribution, Gathered, Group, Interval, MeanOver, Method, Stage, Subset, TrialTally,
};

use super::arguments::Stats;
use super::{export, failure, skipped};
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, count, table};

/// Larger numbers are shown with an exponent.
const LARGE: f64 = 1e15;

/// Breakdowns with more lines than this are shown on request only.
const SHOWN: usize = 40;

/// Statistics that say which document they are.
#[derive(Serialize)]
struct Named<'a> {
    schema: &'static str,
    #[serde(flatten)]
    stats: &'a trace::Stats,
    reading: &'a Gathered,
}

/// Prints what trials amount to.
pub fn run(output: Output, directory: &Path, arguments: &Stats) -> Result {
    let paths: Vec<_> = arguments.paths.iter().map(|path| directory.join(path)).collect();
    let gathered = gathered(output, &paths)?;
    if gathered.trials.is_empty() {
        return Err(Failure::new(Exit::Failed, "no trial was found"));
    }
    let stats = trace::stats(&gathered.trials, arguments.threshold);
    output.json(&Named { schema: "seatrial.traces-stats/1", stats: &stats, reading: &gathered })?;
    if let Some(path) = &arguments.html {
        let path = directory.join(path);
        let title =
            arguments.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        artifact::write_atomic(&path, trace::stats_page(&title, &stats).as_bytes()).or_exit(Exit::Failed)?;
        output.say(format_args!("wrote {}", path.display()));
    }
    show(output, &stats, arguments.all)
}

/// Reads the facts, and tells what stood in the way.
pub fn gathered(output: Output, paths: &[PathBuf]) -> Result<Gathered> {
    let gathered = trace::gather(paths).map_err(|error| failure(&error))?;
    let others = [
        (gathered.copies, "equal copies of other trials"),
        (gathered.other_rows, "rows of earlier turns and of helpers"),
    ];
    for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
        output.say(format_args!("{number} {what}, not counted"));
    }
    export::named(output, "contradiction", &gathered.contradictions);
    export::named(output, "malformed", &gathered.malformed);
    export::named(output, "odd", &gathered.odd);
    skipped(output, &gathered.read);
    Ok(gathered)
}

fn show(output: Output, stats: &trace::Stats, all: bool) -> Result {
    let tally = &stats.all;
    if tally.rewarded > 0 && tally.graded.is_none() {
        output.warn("the rewards are too large to be summed up; their means are not known");
    }
    output.print(counts(tally))?;
    output.print(format_args!("mean reward {}", mean(tally.graded)))?;
    output.print(format_args!("  with errors as 0 {}", mean(tally.errors_as_zero)))?;
    output.print(format_args!("  without trials that hit a limit {}", mean(tally.unlimited)))?;
    if !stats.exceptions.is_empty() {
        output.print("")?;
        let rows = stats.exceptions.iter().map(|count| {
            let rewards: Vec<_> =
                count.rewards.iter().map(|(reward, times)| format!("{reward}: {times}")).collect();
            [
                printable(count.exception.as_bytes()),
                count.stage.map_or("-", Stage::name).into(),
                count.trials.to_string(),
                count.rewarded.to_string(),
                rewards.join(", "),
            ]
        });
        output.print(table(["exception", "stage", "trials", "reward counts", "rewards"], rows))?;
    }
    let spreads = [
        ("turns", &stats.turns),
        ("turns, reward above 0", &stats.turns_by_success[0]),
        ("turns, reward 0", &stats.turns_by_success[1]),
        ("prompt tokens", &stats.prompt_tokens),
        ("completion tokens", &stats.completion_tokens),
        ("cost in dollars", &stats.cost_usd),
        ("wall time in ms", &stats.wall_ms),
    ];
    let rows: Vec<_> =
        spreads.iter().filter_map(|(name, spread)| Some(distribution(name, spread.as_ref()?))).collect();
    if !rows.is_empty() {
        output.print("")?;
        output.print(table(["", "known", "min", "p50", "p90", "p99", "max", "mean"], rows))?;
    }
    let groups = &stats.groups;
    output.print("")?;
    let subset = |what: &str, trials: &Subset| {
        output.print(format_args!(
            "{what} in {}: {} rewarded, {} solved, mean {}",
            count(trials.trials as usize, "trial"),
            trials.rewarded,
            trials.solved,
            number(trials.mean)
        ))
    };
    subset("context or answer full", &stats.truncation)?;
    if stats.without_turn.trials > 0 {
        subset("no turn of the agent", &stats.without_turn)?;
    }
    output.print(format_args!(
        "{}: {} mixed, {} without variance ({} all 0, {} all 1, {} all equal), {} with fewer than two rewards",
        count(groups.groups as usize, "group"),
        groups.mixed,
        groups.without_variance(),
        groups.all_zero,
        groups.all_one,
        groups.all_equal,
        groups.too_few
    ))?;
    if !stats.pass_at.is_empty() {
        output.print("")?;
        let rows = stats.pass_at.iter().map(|at| {
            [at.k.to_string(), format!("{:.4}", at.any), format!("{:.4}", at.all), at.tasks.to_string()]
        });
        output.print(table(["k", "pass@k", "pass^k", "tasks"], rows))?;
        if stats.pass_at_dropped > 0 {
            output.print(format_args!(
                "{} without a reward that counts: not in pass@k",
                count(stats.pass_at_dropped as usize, "trial")
            ))?;
        }
    }
    if !stats.formats.is_empty() {
        let formats: Vec<_> =
            stats.formats.iter().map(|(format, number)| format!("{format}: {number}")).collect();
        output.print(format_args!("\ntrajectories: {}", formats.join(", ")))?;
    }
    for (name, lines) in [
        ("model", &stats.models),
        ("run", &stats.runs),
        ("repository", &stats.repositories),
        ("task", &stats.tasks),
    ] {
        breakdown(output, name, lines, all)?;
    }
    let mut mixed: Vec<_> = stats.group_list.iter().filter(|group| group.trials > 1).collect();
    mixed.sort_by_key(|group| group.spread);
    if !mixed.is_empty() && (all || mixed.len() <= SHOWN) {
        output.print("")?;
        let header = ["run", "agent", "model", "task", "graded", "of", "mean", "std", "rewards"];
        output.print(table(header, mixed.into_iter().map(group)))?;
    }
    Ok(())
}

fn breakdown(output: Output, name: &str, lines: &[Breakdown], all: bool) -> Result {
    // One line without a name says nothing that the whole does not say.
    if let [only] = lines
        && (only.name.is_none() || !all)
    {
        return Ok(());
    }
    output.print("")?;
    if !all && lines.len() > SHOWN {
        return output.print(format_args!("{}; --all shows them", count(lines.len(), name)));
    }
    let header = [name, "trials", "rewarded", "errored", "other", "solved", "mean", "errors as 0", "pass@1"];
    let rows = lines.iter().map(|line| {
        let tally = &line.tally;
        [
            printable(line.name.as_deref().unwrap_or("-").as_bytes()),
            tally.trials.to_string(),
            tally.rewarded.to_string(),
            tally.errored.to_string(),
            (tally.ungraded + tally.incomplete).to_string(),
            tally.solved.to_string(),
            number(tally.graded.map(|mean| mean.mean)),
            number(tally.errors_as_zero.map(|mean| mean.mean)),
            number(line.pass_at.first().map(|at| at.any)),
        ]
    });
    output.print(table(header, rows))
}

fn group(group: &Group) -> [String; 9] {
    [
        printable(group.run_id.as_bytes()),
        printable(group.agent.as_deref().unwrap_or("-").as_bytes()),
        printable(group.model.as_deref().unwrap_or("-").as_bytes()),
        printable(group.task.as_deref().unwrap_or("-").as_bytes()),
        group.graded.to_string(),
        group.trials.to_string(),
        number(group.mean),
        number(group.std),
        group.spread.name().into(),
    ]
}

fn counts(tally: &TrialTally) -> String {
    let mut parts = vec![format!("{} rewarded", tally.rewarded), format!("{} errored", tally.errored)];
    for (number, what) in [(tally.ungraded, "ungraded"), (tally.incomplete, "incomplete")] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    format!(
        "{}: {}; {} solved, something went wrong in {}",
        count(tally.trials as usize, "trial"),
        parts.join(", "),
        tally.solved,
        tally.with_exception
    )
}

fn mean(mean: Option<MeanOver>) -> String {
    mean.map_or_else(
        || "-".into(),
        |mean| format!("{} over {}{}", number(Some(mean.mean)), mean.over, interval(mean.interval)),
    )
}

/// An interval with how it was found, or nothing.
pub fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |interval| {
        let method = match interval.method {
            Method::Wilson => "Wilson",
            Method::BootstrapOverTasks => "bootstrap over tasks",
        };
        format!(" (95 %: {:.4} to {:.4}, {method})", interval.low, interval.high)
    })
}

/// A number that may not be known.
pub fn number(number: Option<f64>) -> String {
    number.map_or_else(
        || "-".into(),
        |number| if number.abs() < LARGE { format!("{number:.4}") } else { format!("{number:.4e}") },
    )
}

fn distribution(name: &str, spread: &Distribution) -> [String; 8] {
    let shown =
        |number: f64| if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.3}") };
    [
        name.into(),
        spread.count.to_string(),
        shown(spread.min),
        shown(spread.p50),
        shown(spread.p90),
        shown(spread.p99),
        shown(spread.max),
        format!("{:.1}", spread.mean),
    ]
}
