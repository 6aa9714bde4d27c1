//! Which shard an image goes to.
//!
//! The first that applies decides:
//!
//! 1. The tag is live with the wanted content: it stays. Live in several shards, the place of the earlier plan counts, then the
//!    home, then the lowest number; the others are named as duplicates, and nothing is removed.
//! 2. An earlier plan put it somewhere: it stays there, or is put there again.
//! 3. Its home, the hash of its key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use record::{ImageKind, Overflow, PlacedImage, Placement};

use super::names::number;
use super::snapshot::Live;
use super::{Action, PlanError, Reason, Shards, Snapshot, Wanted};

/// The place of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) shard: u32,
    pub(super) tag: String,
    pub(super) action: Action,
    pub(super) reason: Reason,
    /// Other shards that have the same tag with the same content.
    pub(super) duplicates: Vec<u32>,
}

/// What images are placed by.
pub(super) struct Places<'a> {
    shards: &'a Shards,
    snapshot: &'a Snapshot,
    /// Earlier places by kind and key; none when everything goes home.
    earlier: BTreeMap<(ImageKind, &'a str), (u32, &'a PlacedImage)>,
    /// Whether what is live elsewhere than at home counts for nothing.
    rehome: bool,
}

impl<'a> Places<'a> {
    pub(super) fn new(
        shards: &'a Shards,
        snapshot: &'a Snapshot,
        placed: &'a [PlacedImage],
        images: &[Wanted],
        rehome: bool,
    ) -> Result<Self, PlanError> {
        let mut earlier = BTreeMap::new();
        if !rehome {
            let numbers: BTreeMap<String, u32> =
                shards.numbers().map(|number| (shards.repository(number), number)).collect();
            let wanted: BTreeSet<(ImageKind, &str)> =
                images.iter().map(|image| (image.kind, image.key.as_str())).collect();
            for row in placed.iter().filter(|row| wanted.contains(&(row.kind, row.key.as_str()))) {
                let shard = *numbers.get(&row.repository).ok_or_else(|| PlanError::NoSuchShard {
                    kind: row.kind,
                    key: row.key.clone(),
                    repository: row.repository.clone(),
                })?;
                // Later rows replace earlier ones.
                earlier.insert((row.kind, row.key.as_str()), (shard, row));
            }
        }
        Ok(Self { shards, snapshot, earlier, rehome })
    }

    /// The places of all images, in their order.
    pub(super) fn assign(&self, images: &[Wanted]) -> Vec<Assigned> {
        let mut assigned: Vec<Assigned> = images.iter().map(|image| self.place(image)).collect();
        if self.shards.config().overflow == Overflow::Probe {
            self.probe(images, &mut assigned);
        }
        assigned
    }

    fn place(&self, image: &Wanted) -> Assigned {
        let (tag, home) = (image.tag(), self.home(image));
        let earlier = self.earlier.get(&(image.kind, image.key.as_str())).copied();
        let found: Vec<u32> = self
            .snapshot
            .places(&tag)
            .filter(|(shard, digest)| {
                *digest == Some(image.digest.as_str()) && (!self.rehome || *shard == home)
            })
            .map(|(shard, _)| shard)
            .collect();
        let before = earlier.map(|(shard, _)| shard);
        let kept = [before, Some(home), found.first().copied()].into_iter().flatten();
        if let Some(shard) = kept.into_iter().find(|shard| found.contains(shard)) {
            let reason = if before == Some(shard) { Reason::Accepted } else { Reason::Adopted };
            let duplicates = found.into_iter().filter(|other| *other != shard).collect();
            return Assigned { shard, tag, action: Action::Skip, reason, duplicates };
        }
        let (shard, tag, reason) = match earlier {
            Some((shard, row)) => (shard, row.tag.clone(), Reason::Accepted),
            None => (home, tag, Reason::Home),
        };
        let action = match self.snapshot.live(shard, &tag, &image.digest) {
            // Under the name of another version of the rules.
            Live::ThatImage => Action::Skip,
            Live::Another if self.shards.config().overwrite => Action::Retag,
            Live::Another => Action::Conflict,
            Live::Nothing if earlier.is_some() => Action::Restore,
            Live::Nothing => Action::Copy,
        };
        Assigned { shard, tag, action, reason, duplicates: Vec::new() }
    }

    fn home(&self, image: &Wanted) -> u32 {
        let version = &self.shards.config().hash_version;
        let number = match self.shards.config().placement {
            Placement::Hash => number(image.kind, version, &image.key, None),
            // A group is called after its base.
            Placement::Group => number(ImageKind::Baseanchor, version, &image.group, None),
        };
        u32::try_from(number % u64::from(self.shards.config().shards))
            .expect("a remainder is below the divisor")
    }

    /// Moves new images out of shards that are full, each to the first shard of its own order that has room.
    fn probe(&self, images: &[Wanted], assigned: &mut [Assigned]) {
        let mut projected: Vec<u64> = self.shards.numbers().map(|shard| self.snapshot.count(shard)).collect();
        for place in assigned.iter().filter(|place| place.action == Action::Restore) {
            projected[place.shard as usize] += 1;
        }
        let mut order: Vec<usize> =
            (0..images.len()).filter(|at| assigned[*at].action == Action::Copy).collect();
        order.sort_by_cached_key(|at| {
            let image = &images[*at];
            (image.kind, ident::Digest::of(&image.key), &image.key)
        });
        for at in order {
            let (image, place) = (&images[at], &mut assigned[at]);
            let room = |shard: u32| projected[shard as usize] < self.shards.config().tag_limit;
            if !room(place.shard) {
                let mut shards: Vec<u32> = self.shards.numbers().collect();
                let version = &self.shards.config().hash_version;
                shards.sort_by_cached_key(|shard| {
                    (Reverse(number(image.kind, version, &image.key, Some(*shard))), *shard)
                });
                let nothing = |shard| self.snapshot.live(shard, &place.tag, &image.digest) == Live::Nothing;
                let free = |shard: &u32| room(*shard) && nothing(*shard);
                // Where every shard is full it stays at home, and the gate says so.
                if let Some(shard) = shards.into_iter().find(free) {
                    (place.shard, place.reason) = (shard, Reason::Probed);
                }
            }
            projected[place.shard as usize] += 1;
        }
    }
}
