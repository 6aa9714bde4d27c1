//! `seatrial images tags`: what the shards have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{registry, runtime, shards, unknown};
use crate::failure::Result;
use crate::output::{Output, table};
use crate::project::Project;

/// Live tags by shard.
pub fn run(output: Output, project: &Project) -> Result {
    let shards = shards(project)?;
    let registry = registry(project)?;
    let live =
        runtime()?.block_on(registry.snapshot(&shards, &BTreeSet::new())).map_err(|error| unknown(&error))?;
    let limit = shards.config().tag_limit;
    let rows = shards.numbers().map(|number| {
        let tags = live.count(number);
        let room = limit.saturating_sub(tags);
        [shards.name(number).to_owned(), tags.to_string(), room.to_string()]
    });
    output.print(table(["shard", "tags", "room"], rows))?;
    let total: u64 = shards.numbers().map(|number| live.count(number)).sum();
    let room = limit * u64::from(shards.config().shards);
    output.stage("images", format_args!("{total} tags; the shards hold {room}, {limit} each"));
    let listed: BTreeMap<String, Vec<&str>> =
        shards.numbers().map(|number| (shards.repository(number), live.tags(number).collect())).collect();
    output.json(&json!({ "schema": "seatrial.images-tags/1", "tag_limit": limit, "shards": listed }))
}
