//! `seatrial resolve`: the final set and its splits.

use std::collections::BTreeMap;

use dataset::resolve::{Exclusion, PoolTarget, ResolveRules, SplitSizes, Verdicts, candidates};
use ident::{Digest, TaskId};
use record::{PlanDocument, Selection};
use serde_json::json;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, table};
use crate::project::{Project, section_digest};
use crate::stage::check::{self, CHECKS};
use crate::stage::materialize::{self, MATERIALIZE, file_digest};
use crate::stage::plan::{PLAN, RESERVES};
use crate::stage::prove::{self, PROOFS};

/// Name of the document.
pub const SELECTION: &str = "selection.json";

/// The command.
pub fn run(output: Output, project: &Project) -> Result {
    let (selection, excluded) = write(output, project)?;
    let rows = selection.tasks.iter().map(|task| {
        let place = if task.reserve { "reserve" } else { "primary" };
        [
            task.split.to_string(),
            task.stage.clone(),
            task.repo.to_string(),
            place.to_owned(),
            task.task_id.to_string(),
        ]
    });
    output.print(table(["split", "pool", "repository", "from", "task"], rows))?;
    output.json(&json!({
        "tasks": selection.tasks.len(),
        "excluded": excluded,
        "shortages": selection.shortages,
        "document": SELECTION,
    }))
}

/// Chooses and writes the document; returns also why every other planned task was not a candidate.
pub fn write(output: Output, project: &Project) -> Result<(Selection, BTreeMap<TaskId, Exclusion>)> {
    let (plan, _) = artifact::load::<PlanDocument>(&project.path(PLAN))?;
    let (reserves, _) = artifact::load::<PlanDocument>(&project.path(RESERVES))?;
    let (materialized, _) = materialize::load(project)?;
    let (checks, _) = check::load(project)?;
    let (proofs, _) = prove::load(project)?;
    let verdicts = Verdicts {
        plan: &plan,
        reserves: &reserves,
        materialized: &materialized,
        checks: &checks,
        proofs: &proofs,
        set_aside: &BTreeMap::new(),
    };
    let (candidates, excluded) = candidates(verdicts).or_exit(Exit::Conflict)?;
    let resolved =
        dataset::resolve::resolve(inputs(project)?, &rules(project), &candidates).map_err(|error| {
            Failure::from_error(Exit::Refused, &error)
                .hint("nothing was written; see `seatrial status`, or set allow_shortfall = true")
        })?;
    if resolved.selection.tasks.is_empty() {
        let message = "no accepted task is left to choose from";
        return Err(
            Failure::new(Exit::Refused, message).hint("nothing was written; `seatrial status` says why")
        );
    }
    artifact::store(&project.path(SELECTION), &resolved.selection)?;
    let sizes = resolved.sizes;
    output.stage(
        "resolve",
        format_args!(
            "{} tasks chosen of {} accepted: {} train, {} validation, {} test",
            resolved.selection.tasks.len(),
            candidates.len(),
            sizes.train,
            sizes.validation,
            sizes.test
        ),
    );
    for short in &resolved.selection.shortages {
        output.stage("", format_args!("{}: {} of {}", short.what, short.have, short.wanted));
    }
    Ok((resolved.selection, excluded))
}

/// The document and its digest; refused when anything that it was made from has changed.
pub fn load(project: &Project) -> Result<(Selection, Digest)> {
    let (document, digest) = artifact::load::<Selection>(&project.path(SELECTION))?;
    if document.inputs == inputs(project)? {
        Ok((document, digest))
    } else {
        let message = format!("{SELECTION} was made from other verdicts or another recipe");
        Err(Failure::new(Exit::Conflict, message).hint("run `seatrial resolve`, or `seatrial up`"))
    }
}

/// Digests of everything that decides the selection.
pub fn inputs(project: &Project) -> Result<artifact::Inputs> {
    let recipe = &project.recipe;
    let recipe = section_digest(&(&recipe.resolve, &recipe.pools, &recipe.aliases))?;
    let mut inputs = BTreeMap::from([("seatrial.toml".to_owned(), recipe)]);
    for name in [PLAN, RESERVES, MATERIALIZE, CHECKS, PROOFS] {
        inputs.insert(name.to_owned(), file_digest(&project.path(name))?);
    }
    Ok(inputs)
}

/// The recipe's rules for the set.
pub fn rules(project: &Project) -> ResolveRules {
    let recipe = &project.recipe.resolve;
    ResolveRules {
        pools: project
            .recipe
            .pools
            .iter()
            .map(|pool| PoolTarget { stage: pool.stage.clone(), target: pool.target })
            .collect(),
        repo_cap: recipe.repo_cap,
        split: SplitSizes {
            train: recipe.split.train,
            validation: recipe.split.validation,
            test: recipe.split.test,
        },
        allow_shortfall: recipe.allow_shortfall,
    }
}
