//! `seatrial images diff`: what one plan of images does otherwise than another.

use std::path::Path;

use image::shards::{PlanDiff, ShardPlan, diff};
use serde_json::json;

use crate::cli;
use crate::failure::Result;
use crate::output::{Output, table};

/// The command.
pub fn run(output: Output, directory: &Path, arguments: &cli::ImagesDiff) -> Result {
    let (before, _) = artifact::load::<ShardPlan>(&directory.join(&arguments.before))?;
    let (after, _) = artifact::load::<ShardPlan>(&directory.join(&arguments.after))?;
    let found = diff(&before, &after);
    if found == PlanDiff::default() {
        output.print("the plans are the same")?;
    }
    let row = |what: &str, image: &str, place: String| [what.to_owned(), image.to_owned(), place];
    let mut rows: Vec<_> = found.added.iter().map(|image| row("added", image, String::new())).collect();
    rows.extend(found.removed.iter().map(|image| row("removed", image, String::new())));
    rows.extend(found.changed.iter().map(|image| row("changed", image, String::new())));
    rows.extend(found.moved.iter().map(|(image, from, to)| row("moved", image, format!("{from} -> {to}"))));
    if !rows.is_empty() {
        output.print(table(["what", "image", "place"], rows))?;
    }
    if !found.shards.is_empty() {
        let rows = found
            .shards
            .iter()
            .map(|(shard, before, after)| [shard.clone(), before.to_string(), after.to_string()]);
        output.print("")?;
        output.print(table(["shard", "tags before", "tags after"], rows))?;
    }
    output.json(&json!({ "schema": "seatrial.images-diff/1", "diff": found }))
}
