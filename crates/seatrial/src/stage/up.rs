//! `seatrial up`: every stage that is stale, in order, and at the end the table of what became of the candidates.

use std::collections::BTreeMap;
use std::time::Instant;

use ::source::{PullMode, Records};
use dataset::Frozen;
use record::Status;
use serde_json::json;

use crate::cli::Jobs;
use crate::failure::Result;
use crate::output::{Output, table};
use crate::project::Project;
use crate::stage::status::Standing;
use crate::stage::{check, export, freeze, materialize, plan, prove, resolve, source};

/// The command.
pub fn run(output: Output, project: &Project, jobs: &Jobs) -> Result {
    let begun = Instant::now();
    let mut pulled = source::pull(output, project, PullMode::Lock)?;
    let candidates = pulled.records.values().map(candidates).sum();
    // Planning is pure and quick: doing it anew costs less than trusting a document that somebody may have edited.
    plan::write(output, project, &mut pulled)?;
    drop(pulled);
    // Tests that a proof puts into quarantine leave other tasks, which are proved in their turn. Each round takes tests away, so
    // there is a last one.
    loop {
        if materialize::load(project).is_ok() {
            output.stage("materialize", "as before");
        } else {
            materialize::write(output, project)?;
        }
        if check::load(project).is_ok() {
            output.stage("check", "as before");
        } else {
            check::write(output, project)?;
        }
        // Verdicts are recomputed from the ledger; only what is missing there is run.
        let (_, quarantined) = prove::write(output, project, jobs, &prove::Asked::default())?;
        if quarantined == 0 {
            break;
        }
    }
    if resolve::load(project).is_ok() {
        output.stage("resolve", "as before");
    } else {
        resolve::write(output, project)?;
    }
    let frozen = freeze::write(output, project, None)?;
    let exported = export::write(output, project, &frozen.path, &export::wanted(project))?;

    let standing = Standing::load(output, project)?;
    let steps = steps(candidates, &standing, &frozen)?;
    output.print("")?;
    output.print(table(
        ["step", "tasks", "why"],
        steps.iter().map(|step| [step.name.clone(), step.tasks.to_string(), step.why.clone()]),
    ))?;
    output.print(format_args!("\nfrozen    {}", frozen.path.display()))?;
    for exported in &exported {
        output.print(format_args!("exported  {}", exported.path.display()))?;
    }
    output.print(format_args!("digest    {}", frozen.manifest.semantic_digest))?;
    output.stage("up", format_args!("done in {:.1} s", begun.elapsed().as_secs_f64()));
    output.json(&json!({
        "candidates": candidates,
        "steps": steps.iter().map(|step| json!({"step": step.name, "tasks": step.tasks, "why": step.why})).collect::<Vec<_>>(),
        "frozen": frozen.path.display().to_string(),
        "semantic_digest": frozen.manifest.semantic_digest,
        "exports": exported.iter().map(|exported| exported.path.display().to_string()).collect::<Vec<_>>(),
    }))
}

/// How many task candidates a source gives.
fn candidates(records: &Records) -> u64 {
    match records {
        Records::InstanceKeys(_) | Records::Tasks(_) => records.report().rows,
        _ => 0,
    }
}

/// One line of the closing table; removed tasks are negative.
struct Step {
    name: String,
    tasks: i64,
    why: String,
}

/// From all candidates to the frozen set; the numbers add up.
fn steps(candidates: u64, standing: &Standing, frozen: &Frozen) -> Result<Vec<Step>> {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let candidates = i64::try_from(candidates).unwrap_or(i64::MAX);
    let tallies = standing.tallies()?;
    let mut steps = vec![
        Step { name: "candidates".into(), tasks: candidates, why: String::new() },
        Step {
            name: "plan".into(),
            tasks: count(standing.tasks.len()) - candidates,
            why: "no evidence, over a cap, or beyond target and reserves".into(),
        },
    ];
    let mut reasons: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (task, status) in standing.statuses()? {
        let group = match status {
            Status::Rejected { reason, .. } => ("rejected", reason.as_str()),
            Status::Error { reason, .. } => ("error", reason.as_str()),
            Status::Pending => ("pending", "not yet decided"),
            Status::Accepted => continue,
        };
        reasons.entry(group).or_default().push(task.as_str());
    }
    for ((kind, reason), tasks) in reasons {
        let why = match tasks.as_slice() {
            [one] => (*one).to_owned(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            [] => String::new(),
        };
        steps.push(Step { name: format!("{kind}: {reason}"), tasks: -count(tasks.len()), why });
    }
    let accepted: u64 = tallies.values().map(|tally| tally.accepted).sum();
    let frozen = frozen.manifest.counts.tasks;
    steps.push(Step {
        name: "resolve".into(),
        tasks: i64::try_from(frozen).unwrap_or(i64::MAX) - i64::try_from(accepted).unwrap_or(i64::MAX),
        why: "accepted, but a near-duplicate, or the pool was full, or the repository at its cap".into(),
    });
    steps.push(Step {
        name: "frozen".into(),
        tasks: i64::try_from(frozen).unwrap_or(i64::MAX),
        why: splits(standing),
    });
    steps.retain(|step| step.tasks != 0);
    Ok(steps)
}

fn splits(standing: &Standing) -> String {
    let mut sizes: BTreeMap<record::Split, usize> = BTreeMap::new();
    for split in standing.selected.values() {
        *sizes.entry(*split).or_default() += 1;
    }
    sizes.iter().map(|(split, size)| format!("{size} {split}")).collect::<Vec<_>>().join(", ")
}
