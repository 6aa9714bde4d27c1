//! The engine itself: what is found out once, and the start of a sandbox.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use image::ImageConfig;
use kube::Config;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use record::Capability;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::chain;
use crate::guest::{self, Link};
use crate::kubernetes::api::{self, PATIENCE, Refusal, insist};
use crate::kubernetes::attach::{self, Attached};
use crate::kubernetes::config::KubernetesConfig;
use crate::kubernetes::lease::RunLease;
use crate::kubernetes::namespace::Namespace;
use crate::kubernetes::network;
use crate::kubernetes::objects::Pod;
use crate::kubernetes::pauses::Pauses;
use crate::kubernetes::pod::{self, NAME, OWNER, SANDBOX};
use crate::kubernetes::running::{Counted, OwnPod, Running, delete};
use crate::kubernetes::state::{self, State, Waiting};
use crate::kubernetes::watch::{Listener, Seen, Watch};
use crate::owner::{Life, Owner};
use crate::{Engine, EngineImage, Network, Sandbox, SandboxError, SandboxSpec};

/// Pods that are made and do not run yet: more of them fill the scheduler's queue and make nothing faster.
pub const MOST_PENDING: usize = 32;

/// Pauses while a quota is used up: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long the guest may take to come in and to say so.
const ARRIVAL: Duration = Duration::from_secs(60);

/// Tries to attach to a container that runs. A node may say so a moment before it can be attached to.
const ATTACHMENTS: usize = 5;

/// A cluster. Clones share the connection, the watch and what was found out.
#[derive(Clone)]
pub struct Kubernetes {
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shared { server, namespace, config, .. } = &*self.shared;
        f.debug_struct("Kubernetes")
            .field("server", server)
            .field("namespace", &namespace.name)
            .field("run", &config.run)
            .finish()
    }
}

pub(super) struct Shared {
    pub(super) namespace: Namespace,
    /// The API server as this program knows it, `host:port`.
    server: String,
    config: KubernetesConfig,
    owner: Owner,
    /// The program that becomes process 1 of every pod.
    guest: &'static [u8],
    pending: Semaphore,
    /// Sandboxes that run: they hold room that others wait for.
    running: Arc<AtomicUsize>,
    run: OnceCell<Run>,
    /// Whether the probe was done.
    probed: OnceCell<()>,
    /// Users of images that have one of their own, by reference.
    users: Mutex<BTreeMap<String, String>>,
}

/// What a run has once it started something.
struct Run {
    watch: Watch,
    lease: RunLease,
}

impl Kubernetes {
    /// Connects to a cluster and makes sure that it can be used. Nothing is created before the first sandbox.
    pub async fn connect(config: KubernetesConfig) -> Result<Self, SandboxError> {
        pod::check_run(&config.run)?;
        let guest = guest::program(NAME)?;
        let found = find(&config).await?;
        let namespace = config.cluster.namespace.clone().unwrap_or_else(|| found.default_namespace.clone());
        let host = found.cluster_url.host().unwrap_or_default().to_owned();
        let port = found.cluster_url.port_u16().unwrap_or(443);
        let namespace = Namespace::connect(namespace, Arc::new(found))?;
        api::answer(namespace.client.apiserver_version())
            .await
            .map_err(|refusal| refusal.unavailable(&format!("asking the API server at {host}:{port}")))?;
        let shared = Shared {
            namespace,
            server: format!("{host}:{port}"),
            config,
            owner: Owner::current(),
            guest,
            pending: Semaphore::new(MOST_PENDING),
            running: Arc::default(),
            run: OnceCell::new(),
            probed: OnceCell::new(),
            users: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The name of the run.
    pub fn run(&self) -> &str {
        &self.shared.config.run
    }

    /// The namespace that is used.
    pub fn namespace(&self) -> &str {
        &self.shared.namespace.name
    }
}

/// Finds the cluster. Connections of sandboxes are silent while their commands are, so none of them ends by time.
async fn find(config: &KubernetesConfig) -> Result<Config, SandboxError> {
    let options =
        KubeConfigOptions { context: config.cluster.context.clone(), ..KubeConfigOptions::default() };
    let mut found = match &config.kubeconfig {
        Some(path) => {
            let place = path.display();
            let kubeconfig = Kubeconfig::read_from(path)
                .map_err(|error| unavailable(format!("the kubeconfig {place}: {}", chain(&error))))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|error| unavailable(format!("the kubeconfig {place}: {}", chain(&error))))?
        }
        None if config.cluster.context.is_some() => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| unavailable(format!("the kubeconfig: {}", chain(&error))))?,
        None => Config::infer().await.map_err(|error| {
            unavailable(format!("no cluster is configured; set KUBECONFIG or name one: {}", chain(&error)))
        })?,
    };
    found.read_timeout = None;
    found.write_timeout = None;
    Ok(found)
}

fn unavailable(reason: String) -> SandboxError {
    SandboxError::Unavailable { engine: NAME, reason }
}

impl Shared {
    /// The run's watch, lease and policy, made with its first sandbox.
    async fn run(&self) -> Result<&Run, SandboxError> {
        self.run
            .get_or_try_init(async || {
                let run = &self.config.run;
                let lease = RunLease::take(&self.namespace, run, &self.owner).await?;
                network::forbid(&self.namespace, run, &lease.reference).await?;
                Ok(Run { watch: Watch::start(self.namespace.api(), run), lease })
            })
            .await
    }

    /// Creates the pod, and says by when it has to run. A quota that is used up is waited for, without a limit where others of the run
    /// use it up, and so is the end of a deserted pod of the same name.
    async fn create(
        &self,
        spec: &SandboxSpec,
        wanted: &Pod,
        own: &mut OwnPod,
    ) -> Result<Instant, SandboxError> {
        let mut end = Instant::now() + self.start_limit();
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let (pods, parameters) = (self.namespace.api::<Pod>(), PostParams::default());
            let refusal = match insist(PATIENCE, || pods.create(&parameters, wanted)).await {
                Ok(created) => {
                    own.uid = created.metadata.uid;
                    return Ok(end);
                }
                Err(refusal) => refusal,
            };
            let pause = pauses.pause();
            let in_time = Instant::now() + pause < end;
            if refusal.is_name_in_use() {
                if !self.take_over(spec, &own.name).await? {
                    own.deleted = true; // it is somebody else's
                    return Err(refusal.at_start(&spec.name));
                }
                if !in_time {
                    let reason = "an earlier pod of its name does not go away".to_owned();
                    return Err(SandboxError::Start { name: spec.name.clone(), reason });
                }
            } else if refusal.is_quota() && self.holds_room() {
                end = Instant::now() + pause + self.start_limit();
            } else if !(refusal.is_quota() && in_time) {
                return Err(refusal.at_start(&spec.name));
            }
            tracing::debug!(sandbox = spec.name, ?refusal, "waits to create its pod");
            sleep(pause).await;
        }
    }

    /// Deletes the pod of this name, or finds it gone, when a dead process, or this one, left it behind for the same sandbox.
    async fn take_over(&self, spec: &SandboxSpec, name: &str) -> Result<bool, SandboxError> {
        let pods = self.namespace.api::<Pod>();
        let found = match insist(PATIENCE, || pods.get(name)).await {
            Ok(found) => found,
            Err(refusal) if refusal.is_not_found() => return Ok(true),
            Err(refusal) => return Err(refusal.at_start(&spec.name)),
        };
        let annotations = found.metadata.annotations.unwrap_or_default();
        let owner = annotations.get(OWNER).and_then(|label| Owner::parse(label));
        let deserted = owner.is_some_and(|owner| owner == self.owner || owner.life() == Life::Dead);
        if annotations.get(SANDBOX) != Some(&spec.name) || !deserted {
            return Ok(false);
        }
        let uid = found.metadata.uid.as_deref();
        delete(&self.namespace, name, uid).await.map_err(|refusal| refusal.at_start(&spec.name))?;
        Ok(true)
    }

    /// How long a pod may take until it runs.
    fn start_limit(&self) -> Duration {
        Duration::from_secs(self.config.cluster.start_limit_sec)
    }

    /// Whether other sandboxes hold room that they will give back.
    fn holds_room(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Waits until the container of the pod with this identity runs; an earlier pod of the name may still be going. Room that others
    /// of the run hold is waited for without a limit.
    async fn wait(
        &self,
        spec: &SandboxSpec,
        listener: &mut Listener,
        uid: Option<&str>,
        mut end: Instant,
    ) -> Result<(), SandboxError> {
        let limit = self.start_limit();
        let failed = |reason| SandboxError::Start { name: spec.name.clone(), reason };
        let (mut known, mut for_room) = (None, false);
        loop {
            match listener.seen() {
                Seen::Nothing => {}
                Seen::Pod(pod) if pod.metadata.uid.as_deref() != uid => {}
                Seen::Gone(gone) if gone.as_deref() != uid => {}
                Seen::Gone(_) => return Err(SandboxError::Lost("its pod is gone before it ran".into())),
                Seen::Pod(pod) => match state::of(&pod) {
                    State::Running => return Ok(()),
                    State::Waiting(Waiting::Never(reason)) | State::TooMuchWritten(reason) => {
                        return Err(failed(reason));
                    }
                    State::Waiting(Waiting::Turn) if for_room => {
                        (for_room, end) = (false, Instant::now() + limit);
                    }
                    State::Waiting(Waiting::Turn) => {}
                    State::Waiting(Waiting::Room(reason)) => (known, for_room) = (Some(reason), true),
                    State::Waiting(Waiting::Retry(reason)) => (known, for_room) = (Some(reason), false),
                    State::Ended { code } => {
                        return Err(failed(format!(
                            "its process 1 ended with code {code} before anything was asked"
                        )));
                    }
                    State::OutOfMemory => {
                        return Err(failed("its memory limit is too small for its start".into()));
                    }
                    State::Lost(reason) => return Err(SandboxError::Lost(reason)),
                },
            }
            if timeout_at(end, listener.changed()).await.is_err() {
                if for_room && self.holds_room() {
                    end = Instant::now() + limit;
                    continue;
                }
                let reason = known.unwrap_or_else(|| "the cluster does not say why".into());
                return Err(failed(format!("it does not run after {} s: {reason}", limit.as_secs())));
            }
        }
    }

    /// Attaches to the container, sends the guest in, and waits until it says that it is there.
    async fn bring_up(&self, spec: &SandboxSpec, name: &str) -> Result<(Attached, Link), SandboxError> {
        let failed = |refusal: Refusal| refusal.at_start(&spec.name);
        let mut tries = 1;
        let (attached, mut input, output) = loop {
            match attach::attach(&self.namespace, name).await {
                Ok(attached) => break attached,
                Err(refusal) if tries == ATTACHMENTS => return Err(failed(refusal)),
                Err(refusal) => tracing::debug!(sandbox = spec.name, ?refusal, "attaches again"),
            }
            tries += 1;
            sleep(FIRST_PAUSE).await;
        };
        let start = |reason: String| SandboxError::Start { name: spec.name.clone(), reason };
        attach::send_guest(&mut input, self.guest)
            .await
            .map_err(|error| start(format!("sending the guest in: {error}")))?;
        match Link::open(input, output, ARRIVAL).await {
            Ok((link, architecture)) if architecture == std::env::consts::ARCH => Ok((attached, link)),
            Ok((_, architecture)) => Err(start(format!("its node is {architecture}"))),
            Err(error) => {
                let said = attached.complaint();
                let said = if said.is_empty() { String::new() } else { format!("; its shell said: {said}") };
                Err(start(format!("its process 1 did not come up: {error}{said}")))
            }
        }
    }

    /// What the image sets, without what the cluster adds; and where the cluster's own service is.
    async fn setting(link: &Link) -> Result<(ImageConfig, Option<String>), SandboxError> {
        let mut config = link
            .setting(|name| matches!(name, "PWD" | "OLDPWD" | "SHLVL" | "_" | "HOSTNAME" | "HOME"))
            .await?;
        let service =
            config.env.get("KUBERNETES_SERVICE_HOST").zip(config.env.get("KUBERNETES_SERVICE_PORT"));
        let service = service.map(|(host, port)| format!("{host}:{port}"));
        config.env.retain(|name, _| !name.starts_with("KUBERNETES_"));
        Ok((config, service))
    }

    /// The users of images that have one of their own.
    fn users(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a guest that is root may run commands as others.
    fn may_switch(&self) -> bool {
        [Capability::Setuid, Capability::Setgid]
            .iter()
            .all(|needed| self.config.cluster.capabilities.contains(needed))
    }

    /// Starts a pod: as its image's user, or as root where the user for commands is known.
    async fn start(
        &self,
        spec: &SandboxSpec,
        image: &EngineImage,
        user: Option<String>,
    ) -> Result<Box<Running>, SandboxError> {
        let run = self.run().await?;
        let turn = self.pending.acquire().await.map_err(|error| SandboxError::Lost(error.to_string()))?;
        let name = pod::name(spec, &self.config.run);
        let mut listener = run.watch.listen(&name);
        let mut own =
            OwnPod { namespace: self.namespace.clone(), name: name.clone(), uid: None, deleted: false };
        let (lease, as_root) = (Some(&run.lease.reference), user.is_some());
        let wanted = pod::pod(spec, image, &self.config, &self.owner, lease, self.guest.len(), as_root);
        let end = self.create(spec, &wanted, &mut own).await?;
        self.wait(spec, &mut listener, own.uid.as_deref(), end).await?;
        drop(turn);
        let (attached, link) = self.bring_up(spec, &name).await?;
        let (mut config, service) = Self::setting(&link).await?;
        config.user = user.or(config.user);
        self.check_network(spec, &link, service).await?;
        let link = Arc::new(link);
        let doors = link.open_doors(&spec.doors).await?;
        Ok(Box::new(Running {
            spec: spec.clone(),
            config,
            _doors: doors,
            link,
            _attached: attached,
            pod: own,
            listener,
            out_of_memory: AtomicBool::new(false),
            _counted: Counted::new(&self.running),
        }))
    }

    /// Makes sure once that sandboxes without network have none.
    async fn check_network(
        &self,
        spec: &SandboxSpec,
        link: &Link,
        service: Option<String>,
    ) -> Result<(), SandboxError> {
        if self.config.cluster.accept_open_network || spec.network != Network::None {
            return Ok(());
        }
        let checked = self.probed.get_or_try_init(async || {
            let places =
                self.config.cluster.probe.iter().cloned().chain([self.server.clone()]).chain(service);
            network::probe(link, &places.collect::<Vec<_>>()).await
        });
        checked.await.copied()
    }
}

#[async_trait]
impl Engine for Kubernetes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn queues(&self) -> bool {
        true
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Box<dyn Sandbox>, SandboxError> {
        let shared = &self.shared;
        let image = pod::refuse(spec)?;
        if spec.limits.pids.is_some() {
            tracing::debug!(sandbox = spec.name, "limits of processes are the node's on a cluster");
        }
        let known = shared.users().get(&image.reference).cloned();
        if let Some(user) = known {
            return Ok(shared.start(spec, image, Some(user)).await?);
        }
        let started = shared.start(spec, image, None).await?;
        let user = started.config.user.clone().unwrap_or_default();
        if user == "0" || user.starts_with("0:") || !shared.may_switch() {
            return Ok(started);
        }
        // The image has a user of its own. Other engines start as root and run commands as that user.
        shared.users().insert(image.reference.clone(), user.clone());
        started.destroy().await?;
        Ok(shared.start(spec, image, Some(user)).await?)
    }
}
