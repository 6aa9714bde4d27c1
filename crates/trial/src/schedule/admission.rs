//! Admission of trials to the machine: first come, first served, within slots, memory and disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

/// What a trial without a memory limit is assumed to use, in bytes.
const ASSUMED_MEMORY: u64 = 512 << 20;
/// How often a full disk is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How much may run at a time.
#[derive(Debug, Clone)]
pub struct AdmissionLimits {
    /// Trials.
    pub slots: usize,
    /// Sandboxes that are starting: more of them only make each other slower.
    pub starts: usize,
    /// Bytes of memory that the limits of running trials may add up to; unlimited when absent. A trial that is larger than all
    /// of it runs alone.
    pub memory: Option<u64>,
    /// A directory on the disk that trials fill.
    pub disk: PathBuf,
    /// Bytes that must be free there for another trial to start.
    pub reserve: u64,
}

/// Lets trials in, in the order in which they ask.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    slots: Semaphore,
    starts: Semaphore,
    /// In MiB, since a semaphore counts in 32 bits.
    memory: Semaphore,
    memory_mib: u32,
    /// How many of those that hold a slot wait for room on the disk.
    waiting: AtomicUsize,
}

/// The right to run one trial; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    _slot: SemaphorePermit<'a>,
    _memory: SemaphorePermit<'a>,
}

/// Why a trial was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No more trials are to start.
    #[error("stopped before the trial began")]
    Stopped,
    /// The disk is full, and no running trial will free anything.
    #[error(
        "only {free} MiB are free at {path}, and a trial wants {reserve} MiB; free some and run the same command again"
    )]
    DiskFull {
        /// Free MiB.
        free: u64,
        /// MiB that must be free.
        reserve: u64,
        /// The directory that was looked at.
        path: String,
    },
}

impl Admission {
    /// Nothing runs yet.
    pub fn new(limits: AdmissionLimits) -> Self {
        let mib = limits.memory.map_or(u64::from(u32::MAX), |bytes| (bytes >> 20).max(1));
        let memory_mib = u32::try_from(mib).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32);
        Self {
            slots: Semaphore::new(limits.slots.max(1)),
            starts: Semaphore::new(limits.starts.max(1)),
            memory: Semaphore::new(memory_mib as usize),
            memory_mib,
            waiting: AtomicUsize::new(0),
            limits,
        }
    }

    /// How many trials run at a time at most.
    pub fn slots(&self) -> usize {
        self.limits.slots.max(1)
    }

    /// Waits until a trial with this memory limit may run, or until no more are to start.
    pub(crate) async fn admit(
        &self,
        memory: Option<u64>,
        stop: &CancellationToken,
    ) -> Result<Admitted<'_>, Refused> {
        let wanted = (memory.unwrap_or(ASSUMED_MEMORY) >> 20).clamp(1, u64::from(self.memory_mib)) as u32;
        let admitted = async {
            let slot = self.slots.acquire().await.expect("the semaphore is never closed");
            // Whoever waits here for much memory is not overtaken: the semaphore serves in order.
            let memory = self.memory.acquire_many(wanted).await.expect("the semaphore is never closed");
            self.wait_for_disk().await?;
            Ok(Admitted { _slot: slot, _memory: memory })
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Refused::Stopped),
            admitted = admitted => admitted,
        }
    }

    /// Waits until another sandbox may start; held while it does.
    pub(crate) async fn start(&self) -> SemaphorePermit<'_> {
        self.starts.acquire().await.expect("the semaphore is never closed")
    }

    async fn wait_for_disk(&self) -> Result<(), Refused> {
        let _waiting = Counted::new(&self.waiting);
        loop {
            let Some(free) = free_bytes(&self.limits.disk) else { return Ok(()) };
            if free >= self.limits.reserve {
                return Ok(());
            }
            // Those that wait hold slots as well, and free nothing.
            let waiting = self.waiting.load(Ordering::SeqCst);
            if self.slots.available_permits() + waiting >= self.slots() {
                return Err(Refused::DiskFull {
                    free: free >> 20,
                    reserve: self.limits.reserve >> 20,
                    path: self.limits.disk.display().to_string(),
                });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Counts one more for as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Bytes that an ordinary user may still write; unknown where the system does not say.
fn free_bytes(path: &std::path::Path) -> Option<u64> {
    rustix::fs::statvfs(path).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(slots: usize, mib: Option<u64>) -> AdmissionLimits {
        let memory = mib.map(|mib| mib << 20);
        AdmissionLimits { slots, starts: 2, memory, disk: std::env::temp_dir(), reserve: 0 }
    }

    /// Whether a trial with this limit gets in at once.
    async fn fits<'a>(admission: &'a Admission, mib: u64, stop: &CancellationToken) -> Option<Admitted<'a>> {
        let admitted = admission.admit(Some(mib << 20), stop);
        tokio::time::timeout(Duration::from_millis(20), admitted).await.ok().map(Result::unwrap)
    }

    #[tokio::test]
    async fn memory_bounds_what_slots_would_allow() {
        let (admission, stop) = (Admission::new(limits(8, Some(1000))), CancellationToken::new());
        let first = fits(&admission, 600, &stop).await;
        assert!(first.is_some());
        assert!(fits(&admission, 600, &stop).await.is_none());
        let second = fits(&admission, 400, &stop).await;
        assert!(second.is_some());
        drop((first, second));
        // One that is larger than everything runs alone.
        let huge = fits(&admission, 5000, &stop).await;
        assert!(huge.is_some());
        assert!(fits(&admission, 1, &stop).await.is_none());
    }

    #[tokio::test]
    async fn slots_are_counted_and_a_stop_ends_the_wait() {
        let (admission, stop) = (Admission::new(limits(1, None)), CancellationToken::new());
        let one = fits(&admission, 1, &stop).await;
        assert!(one.is_some());
        let waiting = admission.admit(None, &stop);
        stop.cancel();
        assert_eq!(waiting.await.unwrap_err(), Refused::Stopped);
        drop(one);
        assert_eq!(admission.admit(None, &stop).await.unwrap_err(), Refused::Stopped);
    }

    #[tokio::test]
    async fn a_full_disk_is_said_when_nobody_will_free_it() {
        let full = AdmissionLimits { reserve: u64::MAX, ..limits(2, None) };
        let (admission, stop) = (Admission::new(full), CancellationToken::new());
        let refused = admission.admit(None, &stop).await.unwrap_err();
        assert!(matches!(refused, Refused::DiskFull { .. }), "{refused}");
    }

    #[tokio::test]
    async fn trials_that_only_wait_for_each_other_are_all_refused() {
        let full = AdmissionLimits { reserve: u64::MAX, ..limits(3, None) };
        let (admission, stop) = (Admission::new(full), CancellationToken::new());
        // One runs and may free something: the others wait for it, and no longer.
        let running = admission.slots.acquire().await.unwrap();
        let waiters = futures_util::future::join_all((0..4).map(|_| admission.admit(None, &stop)));
        tokio::pin!(waiters);
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiters).await.is_err());
        drop(running);
        let refused = tokio::time::timeout(10 * LOOK_AGAIN, waiters).await.expect("nobody waits");
        assert!(
            refused.iter().all(|admitted| matches!(admitted, Err(Refused::DiskFull { .. }))),
            "{refused:?}"
        );
    }
}
