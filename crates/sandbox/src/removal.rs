//! Removals that go on after their sandbox was dropped, and how a program waits for them before it ends.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One removal under way; dropping it says that it ended.
struct Removal;

impl Drop for Removal {
    fn drop(&mut self) {
        *running() -= 1;
        ENDED.notify_all();
    }
}

/// Runs a removal beside the caller, who may be on a thread that must not wait.
pub(crate) fn beside(remove: impl FnOnce() + Send + 'static) {
    *running() += 1;
    let removal = Removal;
    std::thread::spawn(move || {
        remove();
        drop(removal);
    });
}

/// Runs a removal that waits for others, on a runtime of its own: that of the caller may be about to end. What it begins there must
/// need nothing of the caller's.
pub(crate) fn aside<F: Future<Output = ()>>(remove: impl FnOnce() -> F + Send + 'static) {
    beside(move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async { remove().await }),
        Err(error) => tracing::warn!(%error, "what was left of a sandbox could not be removed"),
    });
}

/// Waits until all dropped sandboxes are gone, but no longer than `limit`; says whether they are.
///
/// Processes and mounts of a sandbox end with the program in any case. Its control group and its files do not: what is
/// still there after the limit is left for the next start of the program.
pub fn settle(limit: Duration) -> bool {
    let (left, _) = ENDED
        .wait_timeout_while(running(), limit, |running| *running > 0)
        .unwrap_or_else(PoisonError::into_inner);
    *left == 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_runs_beside_is_waited_for() {
        static DONE: AtomicBool = AtomicBool::new(false);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        beside(move || {
            let _ = wait.recv();
            DONE.store(true, Ordering::SeqCst);
        });
        assert!(!settle(Duration::from_millis(1)));
        go.send(()).unwrap();
        assert!(settle(Duration::from_secs(60)));
        assert!(DONE.load(Ordering::SeqCst));
    }
}
