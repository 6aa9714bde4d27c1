//! A running sandbox, seen from the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use image::ImageConfig;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::timeout;

use crate::door::Doors;
use crate::guest::Link;
use crate::kubernetes::api::{self, PATIENCE, Refusal};
use crate::kubernetes::attach::Attached;
use crate::kubernetes::namespace::Namespace;
use crate::kubernetes::objects::Pod;
use crate::kubernetes::state::{self, State};
use crate::kubernetes::watch::{Listener, Seen};
use crate::{Archive, ExecOutcome, ExecSpec, ExitStatus, Output, Sandbox, SandboxError, SandboxSpec, Usage};

/// How long the cluster may take to say why a connection ended.
const NEWS: Duration = Duration::from_secs(5);

/// A pod of ours. Dropping it deletes it.
pub(super) struct OwnPod {
    pub(super) namespace: Namespace,
    pub(super) name: String,
    /// Known once it was created; nothing else under the name is touched then.
    pub(super) uid: Option<String>,
    pub(super) deleted: bool,
}

impl OwnPod {
    pub(super) async fn delete(&mut self) -> Result<(), Refusal> {
        delete(&self.namespace, &self.name, self.uid.as_deref()).await?;
        self.deleted = true;
        Ok(())
    }
}

impl Drop for OwnPod {
    fn drop(&mut self) {
        if self.deleted {
            return;
        }
        let (name, uid) = (std::mem::take(&mut self.name), self.uid.take());
        self.namespace.aside(format!("the pod {name} of a dropped sandbox"), async move |namespace| {
            delete(&namespace, &name, uid.as_deref()).await
        });
    }
}

/// Deletes a pod; one that is gone, or is another by now, is no error.
pub(super) async fn delete(namespace: &Namespace, name: &str, uid: Option<&str>) -> Result<(), Refusal> {
    let pods = namespace.api::<Pod>();
    let preconditions =
        uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() });
    let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
    match api::delete(PATIENCE, &pods, name, &parameters).await {
        Err(Refusal::Status { code: 409, .. }) => Ok(()),
        other => other,
    }
}

/// One of those that run, for as long as it lives.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(super) fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One running sandbox of the Kubernetes engine.
pub(super) struct Running {
    pub(super) spec: SandboxSpec,
    pub(super) config: ImageConfig,
    /// Closed before the connection is, which they use.
    pub(super) _doors: Doors,
    pub(super) link: Arc<Link>,
    pub(super) _attached: Attached,
    pub(super) pod: OwnPod,
    pub(super) listener: Listener,
    /// The kernel ended the whole container because of its memory limit.
    pub(super) out_of_memory: AtomicBool,
    pub(super) _counted: Counted,
}

impl Running {
    /// Ends with the reason as soon as the cluster says that the sandbox is gone.
    async fn gone(&self) -> State {
        let mut news = self.listener.receiver();
        loop {
            let seen = news.borrow_and_update().clone();
            match seen {
                Seen::Gone(uid) if uid != self.pod.uid => {}
                Seen::Pod(pod) if pod.metadata.uid != self.pod.uid => {
                    return State::Lost("another pod has its pod's name".into());
                }
                Seen::Gone(_) => {
                    return State::Lost("its pod is gone, and it was not deleted from here".into());
                }
                Seen::Pod(pod) => match state::of(&pod) {
                    State::Waiting(_) | State::Running => {}
                    other => return other,
                },
                Seen::Nothing => {}
            }
            if news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// An error with what the cluster knows about its cause.
    async fn explain(&self, error: SandboxError) -> SandboxError {
        match error {
            SandboxError::Lost(reason) => match timeout(NEWS, self.gone()).await {
                Ok(state) => self.as_error(state),
                Err(_) => SandboxError::Lost(reason),
            },
            other => other,
        }
    }

    fn as_error(&self, state: State) -> SandboxError {
        match state {
            State::OutOfMemory => {
                self.out_of_memory.store(true, Ordering::Relaxed);
                SandboxError::Lost("the kernel ended it because of its memory limit".into())
            }
            State::TooMuchWritten(_) => SandboxError::TooLarge {
                what: "what was written to the sandbox's root file system".into(),
                limit: self.spec.limits.storage.unwrap_or_default(),
            },
            State::Lost(reason) => SandboxError::Lost(reason),
            State::Ended { code } => SandboxError::Lost(format!("its process 1 ended with code {code}")),
            State::Waiting(_) | State::Running => SandboxError::Lost("the connection to it ended".into()),
        }
    }

    /// Does something for as long as the cluster keeps the sandbox.
    async fn while_there<T>(
        &self,
        work: impl Future<Output = Result<T, SandboxError>>,
    ) -> Result<T, SandboxError> {
        tokio::select! {
            biased;
            done = work => match done {
                Err(error) => Err(self.explain(error).await),
                done => done,
            },
            state = self.gone() => Err(self.as_error(state)),
        }
    }
}

#[async_trait]
impl Sandbox for Running {
    async fn exec(&self, command: &ExecSpec) -> Result<ExecOutcome, SandboxError> {
        let started = Instant::now();
        match self.while_there(self.link.exec(&self.config, &self.spec, command)).await {
            // The command's memory was the whole sandbox's, and so was its end.
            Err(SandboxError::Lost(_)) if self.out_of_memory.load(Ordering::Relaxed) => Ok(ExecOutcome {
                status: ExitStatus::Signal(libc::SIGKILL),
                stdout: Output::default(),
                stderr: Output::default(),
                wall: started.elapsed(),
            }),
            other => other,
        }
    }

    async fn upload(&self, archive: &Archive, directory: &str) -> Result<(), SandboxError> {
        self.while_there(self.link.upload(archive, directory)).await
    }

    async fn download(&self, path: &str, limit: u64) -> Result<Archive, SandboxError> {
        self.while_there(self.link.download(path, limit)).await
    }

    async fn kill_all(&self) -> Result<(), SandboxError> {
        self.while_there(self.link.kill_all()).await
    }

    async fn usage(&self) -> Result<Usage, SandboxError> {
        match self.while_there(self.link.usage()).await {
            Err(SandboxError::Lost(_)) if self.out_of_memory.load(Ordering::Relaxed) => {
                Ok(Usage { oom_kills: 1, ..Usage::default() })
            }
            other => other,
        }
    }

    async fn destroy(self: Box<Self>) -> Result<(), SandboxError> {
        let Self { spec, link, _doors: doors, _attached: attached, mut pod, .. } = *self;
        // The guest ends with its connection, so that the node finds nothing that it has to wait for.
        drop((doors, link, attached));
        let doing = format!("deleting the pod of sandbox {}", spec.name);
        pod.delete().await.map_err(|refusal| refusal.doing(&doing))
    }
}
