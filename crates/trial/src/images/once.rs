//! Makes every root file system once, however many ask for it at a time.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OnceCell, Semaphore};

use crate::images::NoRoot;

/// Builds and downloads at a time; they are bound by the disk.
const AT_ONCE: usize = 2;

type Cell<T> = Arc<OnceCell<Result<T, NoRoot>>>;

/// Values that take long to make, by key: the first who asks makes one, the others wait for it.
pub(crate) struct Once<T> {
    cells: Mutex<BTreeMap<String, Cell<T>>>,
    making: Semaphore,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self { cells: Mutex::default(), making: Semaphore::new(AT_ONCE) }
    }
}

impl<T: Clone> Once<T> {
    /// The value of `key`. A failure that will not pass is kept like a value; one that may pass is told to those who waited for
    /// it, and the next who asks tries again.
    pub(crate) async fn get_or_make(
        &self,
        key: String,
        make: impl Future<Output = Result<T, NoRoot>>,
    ) -> Result<T, NoRoot> {
        let cell = {
            let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(key).or_default())
        };
        let make = async {
            let _slot = self.making.acquire().await;
            match make.await {
                Err((reason, detail)) if job::rule(reason).retryable => Err((reason, detail)),
                lasting => Ok(lasting),
            }
        };
        cell.get_or_try_init(|| make).await?.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use record::Reason;

    use super::*;

    async fn ask(once: &Once<u32>, made: &AtomicU32, outcome: Result<u32, Reason>) -> Result<u32, Reason> {
        let make = async {
            made.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            outcome.map_err(|reason| (reason, String::new()))
        };
        once.get_or_make("key".into(), make).await.map_err(|(reason, _)| reason)
    }

    #[tokio::test]
    async fn what_many_ask_for_is_made_once() {
        let (once, made) = (Once::default(), AtomicU32::new(0));
        let answers = futures_util::future::join_all((0..20).map(|_| ask(&once, &made, Ok(7)))).await;
        assert!(answers.iter().all(|answer| *answer == Ok(7)));
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn lasting_failures_are_kept_and_passing_ones_are_not() {
        for (reason, times) in [(Reason::EnvironmentBuildFailed, 1), (Reason::EngineLost, 2)] {
            let (once, made) = (Once::default(), AtomicU32::new(0));
            assert_eq!(ask(&once, &made, Err(reason)).await, Err(reason));
            let second = ask(&once, &made, Ok(1)).await;
            assert_eq!(made.load(Ordering::SeqCst), times);
            assert_eq!(second, if times == 1 { Err(reason) } else { Ok(1) });
        }
    }
}
