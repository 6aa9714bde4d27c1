//! `seatrial images rewrite`: verified copies in the place of base images.

use std::collections::BTreeMap;

use artifact::Document;
use ident::Digest;
use image::ImageRef;
use record::{ImageKind, PlacedImage, RewriteDocument};
use serde_json::json;

use super::{original, placements, wanted_tasks};
use crate::failure::Result;
use crate::output::{Output, count};
use crate::project::Project;
use crate::stage::materialize::{self, MATERIALIZE};
use crate::stage::status::Standing;

/// Name of the document.
pub const REWRITE: &str = "rewrite.json";

/// The command: writes down which copy stands for which base. `materialize` puts them into the tasks.
pub fn run(output: Output, project: &Project) -> Result {
    let (materialized, _) = materialize::load(project)?;
    let standing = Standing::load(output, project)?;
    let placed: BTreeMap<String, PlacedImage> = placements(project)?
        .into_iter()
        .filter(|image| image.kind == ImageKind::Baseanchor)
        .map(|image| (image.key.clone(), image))
        .collect();
    let (mut bases, mut pending) = (BTreeMap::new(), Vec::new());
    for task in wanted_tasks(&standing, &materialized)? {
        let key = match original(task)? {
            ImageRef::Host | ImageRef::Scratch => continue,
            reference => reference.to_string(),
        };
        match placed.get(&key) {
            Some(PlacedImage { repository, tag, digest, .. }) => {
                bases.insert(key, format!("{repository}:{tag}@{digest}"));
            }
            None if !pending.contains(&key) => pending.push(key),
            None => {}
        }
    }
    pending.sort();
    let document = RewriteDocument { schema: RewriteDocument::SCHEMA.into(), bases };
    let changed = Rewrite::load(project)?.0 != Rewrite(document.bases.clone());
    artifact::store(&project.path(REWRITE), &document)?;
    for key in &pending {
        output.say(format_args!(
            "pending: {key}: no registry was seen to have a copy; `images mirror` makes one"
        ));
    }
    output.stage(
        "images",
        format_args!("{} with a copy, {} pending", count(document.bases.len(), "base image"), pending.len()),
    );
    if changed {
        output.stage(
            "",
            format_args!("{MATERIALIZE} is stale now: `seatrial up`, or `materialize` and what follows"),
        );
    }
    output.json(&json!({ "document": REWRITE, "bases": document.bases, "pending": pending }))
}

/// What stands in the place of base images now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rewrite(BTreeMap<String, String>);

impl Rewrite {
    /// Reads the document, where there is one that says anything, with its digest.
    pub fn load(project: &Project) -> Result<(Self, Option<Digest>)> {
        let found = artifact::load_optional::<RewriteDocument>(&project.path(REWRITE))?;
        Ok(match found {
            Some((document, digest)) if !document.bases.is_empty() => (Self(document.bases), Some(digest)),
            _ => (Self::default(), None),
        })
    }

    /// The copy of an image, where there is one.
    pub fn copy_of(&self, image: &str) -> Option<String> {
        let reference: ImageRef = image.parse().ok()?;
        self.0.get(&reference.to_string()).cloned()
    }
}
