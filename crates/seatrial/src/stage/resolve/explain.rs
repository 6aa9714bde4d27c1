//! `seatrial resolve explain`: why a task is in the set and in its split, or is not.

use dataset::resolve::{Explanation, Fate};
use ident::TaskId;
use serde_json::json;

use super::{Documents, rules};
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, table};
use crate::project::Project;

/// The command. It asks the verdicts and the recipe as they are, not an earlier selection.
pub fn run(output: Output, project: &Project, task: &str) -> Result {
    let task_id: TaskId = task.parse().or_exit(Exit::Usage)?;
    let documents = Documents::load(project)?;
    let explanation =
        dataset::resolve::explain(documents.verdicts(), &rules(project), &task_id).or_exit(Exit::Conflict)?;
    if explanation.outcome == Fate::NotPlanned {
        let message = format!("task `{task_id}` is neither in plan.json nor in reserves.json");
        return Err(Failure::new(Exit::Usage, message)
            .hint(format!("`seatrial plan explain {task_id}` tells why the plan does not have it")));
    }
    output.print(text(&explanation))?;
    output.json(&json!(explanation))
}

fn text(explanation: &Explanation) -> String {
    let verdict = match &explanation.outcome {
        Fate::Chosen { stage, split, reserve } => {
            let from = if *reserve { "a reserve" } else { "a primary" };
            format!("chosen for {split}, {from} of pool `{stage}`")
        }
        Fate::LeftOver { stage } => format!("can be chosen from pool `{stage}`, and is not"),
        Fate::Excluded { exclusion, .. } => format!("cannot be chosen: it {exclusion}"),
        Fate::NotPlanned => "not planned".to_owned(),
    };
    let mut before = "";
    let mut rows: Vec<[String; 2]> = Vec::new();
    for step in &explanation.steps {
        // What steps are about stands in front of the first of them only.
        let about = if step.about == before { "" } else { step.about };
        before = step.about;
        rows.push([about.to_owned(), step.finding.clone()]);
    }
    rows.push(["outcome".into(), verdict]);
    table(["task", explanation.task_id.as_str()], rows)
}
