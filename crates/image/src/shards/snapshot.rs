//! What a registry has.

use std::collections::BTreeMap;

use ident::Digest;

/// The live tags of all shards, by shard. A shard whose tags are not known is no part of a snapshot: unknown is not zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    shards: Vec<BTreeMap<String, Option<String>>>,
}

impl Snapshot {
    /// Tags with the digests of those that matter, one map a shard.
    pub fn new(shards: Vec<BTreeMap<String, Option<String>>>) -> Self {
        Self { shards }
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The tags of a shard.
    pub fn tags(&self, shard: u32) -> impl Iterator<Item = &str> {
        self.shards[shard as usize].keys().map(String::as_str)
    }

    /// How many tags a shard has.
    pub fn count(&self, shard: u32) -> u64 {
        self.shards[shard as usize].len() as u64
    }

    /// Whether a tag is live in a shard and names that image.
    pub fn has(&self, shard: u32, tag: &str, digest: &str) -> bool {
        self.live(shard, tag, digest) == Live::ThatImage
    }

    /// What a tag names in a shard.
    pub(super) fn live(&self, shard: u32, tag: &str, digest: &str) -> Live {
        match self.shards[shard as usize].get(tag) {
            None => Live::Nothing,
            Some(found) if found.as_deref() == Some(digest) => Live::ThatImage,
            Some(_) => Live::Another,
        }
    }

    /// The shards in which a tag is live, with what it names there.
    pub(super) fn places<'a>(&'a self, tag: &'a str) -> impl Iterator<Item = (u32, Option<&'a str>)> {
        (0_u32..)
            .zip(&self.shards)
            .filter_map(move |(shard, tags)| tags.get(tag).map(|digest| (shard, digest.as_deref())))
    }

    /// The digest of all tags, which a plan names as its input.
    pub fn digest(&self) -> Digest {
        let mut text = String::new();
        for (number, tags) in self.shards.iter().enumerate() {
            text.extend([&number.to_string(), "\n"]);
            for (tag, digest) in tags {
                text.extend(["\t", tag, "\t", digest.as_deref().unwrap_or("-"), "\n"]);
            }
        }
        Digest::of(text)
    }
}

#[cfg(test)]
impl Snapshot {
    /// A registry with that many empty shards.
    pub(super) fn empty(shards: u32) -> Self {
        Self { shards: vec![BTreeMap::new(); shards as usize] }
    }

    /// Adds a tag.
    pub(super) fn insert(&mut self, shard: u32, tag: impl Into<String>, digest: Option<String>) {
        self.shards[shard as usize].insert(tag.into(), digest);
    }
}

/// What a tag names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    Nothing,
    ThatImage,
    /// Another image, or one whose digest was not asked for.
    Another,
}
