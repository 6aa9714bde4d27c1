//! The limit on what a sandbox writes to its root file system.
//!
//! As with the native engine it is soft: the daemon is asked again and again, and a sandbox that wrote too much loses
//! its processes and takes no further command. A single file is held at the limit by the kernel. Daemons offer a hard
//! limit on few file systems only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bollard::query_parameters::InspectContainerOptionsBuilder;
use tokio::task::JoinHandle;

use crate::SandboxError;
use crate::docker::connect::{LONG, Refusal, answer};
use crate::guest::Link;

/// Shortest time between two measurements.
const PERIOD: Duration = Duration::from_millis(500);

/// Measuring takes at most one part in this many of the time.
const SHARE: u32 = 20;

/// Measures a sandbox as long as it lives.
#[derive(Debug)]
pub(super) struct StorageWatch {
    limit: u64,
    exceeded: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl StorageWatch {
    /// Starts to watch a container. What the daemon counts before any command has run is not the sandbox's.
    pub(super) async fn start(
        client: bollard::Docker,
        id: String,
        limit: u64,
        link: Arc<Link>,
    ) -> Result<Self, SandboxError> {
        let exceeded = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&exceeded);
        let before = written(&client, &id).await.map_err(|refusal| refusal.doing("measuring a container"))?;
        let task = tokio::spawn(async move {
            let mut pause = PERIOD;
            loop {
                tokio::time::sleep(pause).await;
                let started = Instant::now();
                // A daemon that does not answer now may do so later; one that is gone takes the sandbox along.
                let Ok(now) = written(&client, &id).await else { continue };
                pause = PERIOD.max(started.elapsed() * SHARE);
                if now.saturating_sub(before) > limit {
                    flag.store(true, Ordering::Relaxed);
                    // A guest that is gone has nothing left to kill.
                    let _ = link.kill_all().await;
                }
            }
        });
        Ok(Self { limit, exceeded, task })
    }

    /// An error once too much was written.
    pub(super) fn check(&self) -> Result<(), SandboxError> {
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

/// Bytes in the container's writable layer.
async fn written(client: &bollard::Docker, id: &str) -> Result<u64, Refusal> {
    let options = InspectContainerOptionsBuilder::new().size(true).build();
    let inspected = answer(LONG, client.inspect_container(id, Some(options))).await?;
    Ok(inspected.size_rw.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0))
}
