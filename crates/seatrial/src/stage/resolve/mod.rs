//! `seatrial resolve`: the final set and its splits.

mod explain;

use std::collections::BTreeMap;

use dataset::resolve::{
    PoolTarget, Replacement, ResolveRules, SplitSizes, Verdicts, candidates, replacements,
};
use ident::{Digest, TaskId};
use record::{CheckDocument, MaterializeDocument, PlanDocument, ProofDocument, Selection};
use serde_json::json;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::{Output, table};
use crate::project::{Project, section_digest};
use crate::stage::check::CHECKS;
use crate::stage::materialize::{MATERIALIZE, file_digest};
use crate::stage::plan::{PLAN, RESERVES};
use crate::stage::prove::{self, PROOFS};
use crate::stage::{check, images, materialize};

pub use explain::run as explain;

/// Name of the document.
pub const SELECTION: &str = "selection.json";

/// The documents that the set is chosen by.
pub struct Documents {
    /// The primaries.
    pub plan: PlanDocument,
    /// The reserves.
    pub reserves: PlanDocument,
    /// The task directories.
    pub materialized: MaterializeDocument,
    /// The findings.
    pub checks: CheckDocument,
    /// The verdicts.
    pub proofs: ProofDocument,
    /// Tasks without an image that they should have.
    set_aside: BTreeMap<TaskId, String>,
}

impl Documents {
    /// Reads them; refused when one is about another state than the others.
    pub fn load(project: &Project) -> Result<Self> {
        let (plan, _) = artifact::load::<PlanDocument>(&project.path(PLAN))?;
        let (reserves, _) = artifact::load::<PlanDocument>(&project.path(RESERVES))?;
        let (materialized, _) = materialize::load(project)?;
        let (checks, _) = check::load(project)?;
        let (proofs, _) = prove::load(project)?;
        let set_aside = images::missing(project, &materialized)?;
        Ok(Self { plan, reserves, materialized, checks, proofs, set_aside })
    }

    /// As the rules take them.
    pub fn verdicts(&self) -> Verdicts<'_> {
        Verdicts {
            plan: &self.plan,
            reserves: &self.reserves,
            materialized: &self.materialized,
            checks: &self.checks,
            proofs: &self.proofs,
            set_aside: &self.set_aside,
        }
    }
}

/// The command.
pub fn run(output: Output, project: &Project) -> Result {
    let documents = Documents::load(project)?;
    let selection = choose(output, project, &documents)?;
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
    let (_, excluded) = candidates(documents.verdicts()).or_exit(Exit::Conflict)?;
    let replaced = replacements(&documents.plan, &selection, &excluded);
    if !replaced.is_empty() {
        output.print("")?;
        output.print(table(
            ["pool", "not in the set", "because it", "in its place"],
            replaced.iter().map(row),
        ))?;
    }
    output.json(&json!({
        "tasks": selection.tasks.len(),
        "excluded": excluded,
        "replaced": replaced,
        "shortages": selection.shortages,
        "document": SELECTION,
    }))
}

fn row(replaced: &Replacement) -> [String; 4] {
    let id = |id: &Option<TaskId>| id.as_ref().map_or("-".to_owned(), ToString::to_string);
    let why = replaced.why.as_ref().map_or("was not planned".to_owned(), ToString::to_string);
    [replaced.stage.clone(), id(&replaced.lost), why, id(&replaced.by)]
}

/// Chooses and writes the document.
pub fn write(output: Output, project: &Project) -> Result<Selection> {
    choose(output, project, &Documents::load(project)?)
}

fn choose(output: Output, project: &Project, documents: &Documents) -> Result<Selection> {
    let (candidates, _) = candidates(documents.verdicts()).or_exit(Exit::Conflict)?;
    let similar = &documents.checks.similar;
    let resolved = dataset::resolve::resolve(inputs(project)?, &rules(project), &candidates, similar)
        .map_err(|error| {
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
    for group in &resolved.together {
        let names: Vec<&str> = group.iter().map(ident::RepoKey::as_str).collect();
        output.stage("", format_args!("in one split because of near-duplicates: {}", names.join(", ")));
    }
    Ok(resolved.selection)
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
    if project.recipe.images.is_some() {
        let (materialized, _) = artifact::load::<MaterializeDocument>(&project.path(MATERIALIZE))?;
        inputs.insert("images".to_owned(), section_digest(&images::missing(project, &materialized)?)?);
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
