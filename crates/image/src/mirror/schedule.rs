//! What to do next: which blob to bring, where to mount it, which image to finish. Pure.
//!
//! A blob is brought to one repository, once; from there it is mounted into the others. Images that have everything are finished
//! first, so that what is complete is there early; then blobs are mounted; then the largest blob that nobody has is brought, so that no
//! long one is left for the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An image that is to be put into a repository.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// Number of its repository.
    pub(super) repository: usize,
    /// Sizes of its blobs by digest.
    pub(super) blobs: BTreeMap<String, u64>,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Job {
    /// See to it that a blob is in a repository.
    Bring { blob: usize, into: usize },
    /// Put a blob into a repository which another one has by now.
    Mount { blob: usize, into: usize, from: usize },
    /// Write the manifests of an image, which has all its blobs.
    Finish { image: usize },
}

/// What a job that failed fails for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The content is not to be had: all images that still want it fail.
    Source,
    /// One repository does not take it.
    Repository,
}

/// A blob that images want.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) digest: String,
    pub(super) size: u64,
    /// Images that want it, by repository.
    wanted: BTreeMap<usize, Vec<usize>>,
    placed: BTreeSet<usize>,
}

/// All that is left to do.
#[derive(Debug)]
pub(super) struct Schedule {
    blobs: Vec<Blob>,
    /// Numbers of blobs to bring, the next one last.
    bring: Vec<usize>,
    mounts: VecDeque<Job>,
    finish: VecDeque<usize>,
    /// How many blobs an image lacks; nothing once it has failed.
    lacks: Vec<Option<usize>>,
}

impl Schedule {
    /// Orders by image.
    pub(super) fn new(orders: &[Order]) -> Self {
        let mut by_digest: BTreeMap<&str, Blob> = BTreeMap::new();
        for (image, order) in orders.iter().enumerate() {
            for (digest, size) in &order.blobs {
                let blob = by_digest.entry(digest).or_insert_with(|| Blob {
                    digest: digest.clone(),
                    size: *size,
                    wanted: BTreeMap::new(),
                    placed: BTreeSet::new(),
                });
                blob.wanted.entry(order.repository).or_default().push(image);
            }
        }
        let mut blobs: Vec<Blob> = by_digest.into_values().collect();
        // Stable: blobs of one size stay in order of their digests. The largest one stands last and is taken first.
        blobs.sort_by_key(|blob| blob.size);
        Self {
            bring: (0..blobs.len()).collect(),
            blobs,
            mounts: VecDeque::new(),
            finish: (0..orders.len()).filter(|image| orders[*image].blobs.is_empty()).collect(),
            lacks: orders.iter().map(|order| Some(order.blobs.len())).collect(),
        }
    }

    /// All blobs.
    pub(super) fn blobs(&self) -> &[Blob] {
        &self.blobs
    }

    /// The images that want a blob.
    pub(super) fn users(&self, blob: usize) -> impl Iterator<Item = usize> {
        self.blobs[blob].wanted.values().flatten().copied()
    }

    /// The next job; `None` when there is none now. There may be more once a running one is done. `near` tells whether a repository
    /// is a good place to bring a blob to, because it probably is there.
    pub(super) fn next(&mut self, near: impl Fn(&Blob, usize) -> bool) -> Option<Job> {
        while let Some(image) = self.finish.pop_front() {
            if self.lacks[image].is_some() {
                return Some(Job::Finish { image });
            }
        }
        while let Some(job) = self.mounts.pop_front() {
            if let Job::Mount { blob, into, .. } = job
                && self.is_wanted(blob, into)
            {
                return Some(job);
            }
        }
        while let Some(blob) = self.bring.pop() {
            let found = &self.blobs[blob];
            let places = || found.wanted.keys().copied().filter(|into| self.is_wanted(blob, *into));
            if let Some(into) = places().find(|into| near(found, *into)).or_else(|| places().next()) {
                return Some(Job::Bring { blob, into });
            }
        }
        None
    }

    fn is_wanted(&self, blob: usize, into: usize) -> bool {
        let images = self.blobs[blob].wanted.get(&into);
        images.into_iter().flatten().any(|image| self.lacks[*image].is_some())
    }

    /// Takes note of a job that was done.
    pub(super) fn done(&mut self, job: Job) {
        let (blob, into) = match job {
            Job::Finish { .. } => return,
            Job::Bring { blob, into } | Job::Mount { blob, into, .. } => (blob, into),
        };
        let found = &mut self.blobs[blob];
        found.placed.insert(into);
        for image in found.wanted.get(&into).into_iter().flatten() {
            if let Some(lacks) = &mut self.lacks[*image] {
                *lacks -= 1;
                if *lacks == 0 {
                    self.finish.push_back(*image);
                }
            }
        }
        if matches!(job, Job::Bring { .. }) {
            let others = found.wanted.keys().filter(|other| !found.placed.contains(other));
            self.mounts.extend(others.map(|other| Job::Mount { blob, into: *other, from: into }));
        }
    }

    /// Takes note of a job that failed; returns the images that fail with it.
    pub(super) fn failed(&mut self, job: Job, fault: Fault) -> Vec<usize> {
        let (blob, into) = match job {
            Job::Finish { image } => return self.give_up([image]),
            Job::Bring { blob, into } | Job::Mount { blob, into, .. } => (blob, into),
        };
        let found = &self.blobs[blob];
        let everywhere = fault == Fault::Source && matches!(job, Job::Bring { .. });
        let images: Vec<usize> = found
            .wanted
            .iter()
            .filter(
                |(repository, _)| {
                    if everywhere { !found.placed.contains(repository) } else { **repository == into }
                },
            )
            .flat_map(|(_, images)| images.iter().copied())
            .collect();
        let given_up = self.give_up(images);
        if !everywhere && matches!(job, Job::Bring { .. }) {
            // Another repository may take it.
            self.bring.push(blob);
        }
        given_up
    }

    /// Gives up images; returns those that were not given up before.
    pub(super) fn give_up(&mut self, images: impl IntoIterator<Item = usize>) -> Vec<usize> {
        images.into_iter().filter(|image| self.lacks[*image].take().is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(repository: usize, blobs: &[(&str, u64)]) -> Order {
        let blobs = blobs.iter().map(|(digest, size)| ((*digest).to_owned(), *size)).collect();
        Order { repository, blobs }
    }

    fn nowhere(_: &Blob, _: usize) -> bool {
        false
    }

    #[test]
    fn a_shared_blob_is_brought_once_and_mounted() {
        let orders = [order(0, &[("base", 10), ("a", 1)]), order(1, &[("base", 10), ("b", 2)])];
        let mut schedule = Schedule::new(&orders);
        let base = schedule.next(nowhere).unwrap();
        assert_eq!(base, Job::Bring { blob: 2, into: 0 });
        // The largest first; small ones meanwhile.
        let b = schedule.next(nowhere).unwrap();
        assert_eq!(b, Job::Bring { blob: 1, into: 1 });
        schedule.done(base);
        let mount = schedule.next(nowhere).unwrap();
        assert_eq!(mount, Job::Mount { blob: 2, into: 1, from: 0 });
        let a = schedule.next(nowhere).unwrap();
        schedule.done(a);
        assert_eq!(schedule.next(nowhere), Some(Job::Finish { image: 0 }));
        schedule.done(b);
        assert_eq!(schedule.next(nowhere), None, "the mount still runs");
        schedule.done(mount);
        assert_eq!(schedule.next(nowhere), Some(Job::Finish { image: 1 }));
        assert_eq!(schedule.next(nowhere), None);
    }

    #[test]
    fn failures_cost_the_images_that_they_touch() {
        let orders = [order(0, &[("x", 1)]), order(1, &[("x", 1)]), order(1, &[("y", 2)])];
        let mut schedule = Schedule::new(&orders);
        let y = schedule.next(nowhere).unwrap();
        assert_eq!(schedule.failed(y, Fault::Source), [2]);
        let x = schedule.next(nowhere).unwrap();
        assert_eq!(x, Job::Bring { blob: 0, into: 0 });
        assert_eq!(schedule.failed(x, Fault::Repository), [0]);
        assert_eq!(schedule.next(nowhere), Some(Job::Bring { blob: 0, into: 1 }));

        let mut schedule = Schedule::new(&orders[..2]);
        let x = schedule.next(nowhere).unwrap();
        assert_eq!(schedule.failed(x, Fault::Source), [0, 1]);
        assert_eq!(schedule.next(nowhere), None);
    }

    #[test]
    fn a_blob_goes_where_it_probably_is() {
        let mut schedule = Schedule::new(&[order(0, &[("x", 1)]), order(1, &[("x", 1)])]);
        assert_eq!(schedule.next(|_, into| into == 1), Some(Job::Bring { blob: 0, into: 1 }));
    }

    proptest! {
        /// However jobs interleave and fail, every image ends once, and no blob is brought twice to a place that took it.
        #[test]
        fn every_image_ends(
            images in prop::collection::vec((0_usize..3, prop::collection::btree_map(0_u8..6, 1_u64..4, 0..5)), 0..8),
            choices in prop::collection::vec((0_usize..4, 0_u8..10), 200),
        ) {
            let orders: Vec<Order> = images
                .iter()
                .map(|(repository, blobs)| Order {
                    repository: *repository,
                    // One size for each digest.
                    blobs: blobs.keys().map(|name| (name.to_string(), u64::from(*name))).collect(),
                })
                .collect();
            let mut schedule = Schedule::new(&orders);
            let (mut running, mut ended): (Vec<Job>, Vec<usize>) = (Vec::new(), Vec::new());
            let mut brought = BTreeSet::new();
            for (which, luck) in choices {
                while running.len() < 3 {
                    let Some(job) = schedule.next(nowhere) else { break };
                    running.push(job);
                }
                if running.is_empty() {
                    break;
                }
                let job = running.swap_remove(which % running.len());
                match luck {
                    0 => ended.extend(schedule.failed(job, Fault::Source)),
                    1 => ended.extend(schedule.failed(job, Fault::Repository)),
                    _ => {
                        match job {
                            Job::Bring { blob, .. } => prop_assert!(brought.insert(blob)),
                            Job::Mount { blob, .. } => prop_assert!(brought.contains(&blob)),
                            Job::Finish { image } => ended.push(image),
                        }
                        schedule.done(job);
                    }
                }
            }
            prop_assert!(running.is_empty() && schedule.next(nowhere).is_none());
            ended.sort_unstable();
            prop_assert_eq!(ended, (0..orders.len()).collect::<Vec<_>>());
        }
    }
}
