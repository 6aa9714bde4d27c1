//! The limit on what a sandbox writes to its root file system.
//!
//! The limit is soft: what was written is measured again and again, at least once a second while that is quick, and a
//! sandbox that wrote too much loses all its processes and takes no further command. A single file is held at the limit
//! by the kernel. Why an engine has no hard limit is said where it measures.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::SandboxError;

/// Shortest time between two measurements.
const PERIOD: Duration = Duration::from_millis(500);

/// Measuring takes at most one part in this many of the time.
const SHARE: u32 = 20;

/// What an engine can do about a sandbox that writes.
pub(crate) trait Measured: Send + Sync + 'static {
    /// Bytes that the sandbox has written; `None` when that cannot be told now.
    fn written(&self) -> impl Future<Output = Option<u64>> + Send;

    /// Kills all processes of the sandbox. One that is gone has nothing left to kill.
    fn kill_all(&self) -> impl Future<Output = ()> + Send;
}

/// Measures a sandbox as long as it lives.
#[derive(Debug)]
pub(crate) struct StorageWatch {
    limit: u64,
    exceeded: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl StorageWatch {
    /// Starts to watch. Must be called within a runtime.
    pub(crate) fn start(limit: u64, sandbox: impl Measured) -> Self {
        let exceeded = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&exceeded);
        let task = tokio::spawn(async move {
            let mut pause = PERIOD;
            loop {
                tokio::time::sleep(pause).await;
                let started = Instant::now();
                let Some(written) = sandbox.written().await else { continue };
                pause = PERIOD.max(started.elapsed() * SHARE);
                if written > limit {
                    flag.store(true, Ordering::Relaxed);
                    sandbox.kill_all().await;
                }
            }
        });
        Self { limit, exceeded, task }
    }

    /// An error once too much was written.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        if self.exceeded.load(Ordering::Relaxed) {
            let what = "what was written to the sandbox's root file system".to_owned();
            return Err(SandboxError::TooLarge { what, limit: self.limit });
        }
        Ok(())
    }
}

impl Drop for StorageWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
