//! `seatrial plan explain`: why a task is in the plan, or is not.

use ::plan::{Explanation, Outcome};
use serde_json::json;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, table};
use crate::project::Project;
use crate::stage::plan;

/// The command. It asks the sources and the recipe as they are, not the documents of an earlier plan.
pub fn run(output: Output, project: &Project, task: &str) -> Result {
    let mut pulled = plan::read(project)?;
    let input = plan::plan_input(project, &mut pulled)?;
    let explanation = ::plan::explain(&input, task).or_exit(Exit::Usage)?;
    if explanation.outcome == Outcome::NoInstance && !known(&input, task) {
        let message = format!("nothing is known of a task `{task}`");
        let near = near(&input, task);
        let failure = Failure::new(Exit::Usage, message);
        return Err(match near {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("ids are compared byte by byte; see the ids in plan.json"),
        });
    }
    output.print(text(&explanation))?;
    output.json(&json!(explanation))
}

/// Whether anything names the id: a list or evidence.
fn known(input: &::plan::PlanInput, task: &str) -> bool {
    input.sets.values().any(|ids| ids.iter().any(|id| id == task))
        || input.trajectories.iter().any(|row| row.instance_id == task)
        || input.reward_means.iter().any(|row| row.instance_id_or_commit_hash == task)
        || input.image_states.iter().any(|row| row.task_id == task)
}

/// An id that differs in case only, or else the only one that begins like it.
fn near<'i>(input: &'i ::plan::PlanInput, task: &str) -> Option<&'i str> {
    let ids = || input.instances.iter().map(|row| row.id.as_str());
    let folded = task.trim().to_lowercase();
    if let Some(same) = ids().find(|id| id.to_lowercase() == folded) {
        return Some(same);
    }
    let mut beginning = ids().filter(|id| !task.is_empty() && id.starts_with(task));
    match (beginning.next(), beginning.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

fn text(explanation: &Explanation) -> String {
    let verdict = match &explanation.outcome {
        Outcome::Primary { stage, place } => format!("primary {place} of pool `{stage}`"),
        Outcome::Reserve { stage, place } => format!("reserve {place} of pool `{stage}`"),
        Outcome::Left { stage } => format!("in pool `{stage}`, but not taken"),
        Outcome::InNoPool => "in no pool".to_owned(),
        Outcome::NoInstance => "no instance, so no pool can take it".to_owned(),
    };
    let mut before = "";
    let mut rows: Vec<[String; 2]> = Vec::new();
    for step in &explanation.steps {
        // A pool's name stands in front of its first step only.
        let about = if step.about == before { String::new() } else { step.about.clone() };
        before = &step.about;
        rows.push([about, step.finding.clone()]);
    }
    rows.push(["outcome".into(), verdict]);
    let heading = ["task".to_owned(), explanation.task_id.clone()];
    table([&*heading[0], &*heading[1]], rows)
}
