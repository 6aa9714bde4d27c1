//! The engine itself: what is found out once, and the start of a sandbox.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    UploadToContainerOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt};
use image::ImageConfig;
use tokio_util::io::StreamReader;

use crate::docker::connect::{self, Connected, DockerConfig, LONG, Refusal, SHORT, answer};
use crate::docker::container::{self, OWNER, SANDBOX};
use crate::docker::raw;
use crate::docker::running::{Container, Running};
use crate::guest::{self, Link, PLACE};
use crate::naming::container_name;
use crate::owner::{Life, Owner};
use crate::{Engine, EngineImage, Limits, Root, Sandbox, SandboxError, SandboxSpec};

/// The engine's name.
pub(super) const NAME: &str = "docker";

/// What a daemon cannot hold that gives every build a network.
const OFFLINE_BUILDS: &str = "offline builds";

/// The statuses with which the daemon says that there is no such thing, and that something is in the way.
pub(super) const NOT_FOUND: u16 = 404;
pub(super) const CONFLICT: u16 = 409;

/// A daemon. Clones share the connection and what was found out about it.
#[derive(Debug, Clone)]
pub struct Docker {
    pub(super) client: bollard::Docker,
    pub(super) socket: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    owner: Owner,
    require_limits: bool,
    /// Limits that this daemon cannot hold, by name.
    cannot: Vec<&'static str>,
    /// Whether control groups are those of version 2.
    version_2: bool,
    /// The guest in a tar stream.
    guest: Vec<u8>,
    /// How commands start in an image, by what never changes: its id.
    configs: Mutex<BTreeMap<String, Arc<ImageConfig>>>,
}

impl Docker {
    /// Connects to a daemon and asks it what it can do.
    pub async fn connect(config: &DockerConfig) -> Result<Self, SandboxError> {
        let socket = config.socket()?;
        let Connected { client, podman } = connect::connect(&socket).await?;
        let info =
            answer(SHORT, client.info()).await.map_err(|refusal| refusal.doing("asking the daemon"))?;
        let missing = |held: Option<bool>, name| (held != Some(true)).then_some(name);
        let cannot = [
            missing(info.memory_limit, "memory"),
            missing(info.cpu_cfs_quota, "cpus"),
            missing(info.pids_limit, "pids"),
            // Its API takes the setting and does not follow it.
            podman.then_some(OFFLINE_BUILDS),
        ];
        let program = guest::program(NAME)?;
        let guest =
            pack(program).map_err(|source| SandboxError::Io { doing: "packing the guest".into(), source })?;
        let shared = Shared {
            owner: Owner::current(),
            require_limits: config.require_limits,
            cannot: cannot.into_iter().flatten().collect(),
            version_2: info.cgroup_version.is_some_and(|version| version.to_string() == "2"),
            guest,
            configs: Mutex::default(),
        };
        Ok(Self { client, socket, shared: Arc::new(shared) })
    }

    /// Limits that this daemon cannot hold, by name: `memory`, `cpus`, `pids`, `offline builds`.
    pub fn cannot_hold(&self) -> &[&'static str] {
        &self.shared.cannot
    }

    /// How commands start in an image; the daemon must hold it.
    pub(super) async fn image_config(&self, image: &EngineImage) -> Result<Arc<ImageConfig>, Refusal> {
        let known = || self.shared.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = known().get(&image.reference) {
            return Ok(Arc::clone(config));
        }
        let inspected = answer(SHORT, self.client.inspect_image(&image.reference)).await?;
        let config = inspected.config.unwrap_or_default();
        let env = config.env.unwrap_or_default();
        let pair =
            |line: &String| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let config = Arc::new(ImageConfig {
            env: env.iter().filter_map(pair).collect(),
            workdir: config.working_dir.filter(|workdir| !workdir.is_empty()),
            user: config.user.filter(|user| !user.is_empty()),
            ..ImageConfig::default()
        });
        // What is behind another name may change.
        if image.reference.contains("sha256:") {
            known().insert(image.reference.clone(), Arc::clone(&config));
        }
        Ok(config)
    }

    /// Says that a build without network may have one here, or refuses it where limits are required.
    pub(super) fn check_offline_build(&self) -> Result<(), SandboxError> {
        if !self.shared.cannot.contains(&OFFLINE_BUILDS) {
            return Ok(());
        }
        if self.shared.require_limits {
            let what = "builds without network: Podman's API gives them one".to_owned();
            return Err(SandboxError::Unsupported { engine: NAME, what });
        }
        tracing::warn!("this daemon gives a network to builds that should have none");
        Ok(())
    }

    fn check_limits(&self, spec: &SandboxSpec) -> Result<(), SandboxError> {
        let Limits { cpus, memory, pids, storage: _ } = &spec.limits;
        let asked = [("memory", memory.is_some()), ("cpus", cpus.is_some()), ("pids", pids.is_some())];
        let missing: Vec<&str> = asked
            .iter()
            .filter(|(name, asked)| *asked && self.shared.cannot.contains(name))
            .map(|(name, _)| *name)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        if self.shared.require_limits {
            let what = format!("{missing} limits: the daemon's machine has no control groups for them");
            return Err(SandboxError::Unsupported { engine: NAME, what });
        }
        tracing::warn!(sandbox = spec.name, missing, "limits are not held by this daemon");
        Ok(())
    }

    /// Creates the container. One of the same name is taken away when it is ours and deserted.
    async fn create(&self, spec: &SandboxSpec, image: &str) -> Result<Container, SandboxError> {
        let name = container_name(&spec.name);
        let body = container::body(spec, image, &self.shared.owner, self.shared.version_2);
        let options = || Some(CreateContainerOptionsBuilder::new().name(&name).build());
        let create = || answer(LONG, self.client.create_container(options(), body.clone()));
        let created = match create().await {
            Err(refusal) if refusal.is_name_in_use() => {
                if !self.take_over(spec, &name).await? {
                    return Err(refusal.at_start(&spec.name));
                }
                create().await
            }
            other => other,
        };
        let created = created.map_err(|refusal| refusal.at_start(&spec.name))?;
        for warning in &created.warnings {
            tracing::debug!(sandbox = spec.name, warning, "the daemon warns");
        }
        Ok(Container::new(self.client.clone(), created.id))
    }

    /// Removes the container of this name when a dead process, or this one, left it behind for the same sandbox.
    async fn take_over(&self, spec: &SandboxSpec, name: &str) -> Result<bool, SandboxError> {
        let found = match raw::get(&self.socket, &format!("/containers/{name}/json")).await {
            Ok(found) => found,
            Err(Refusal::Status(NOT_FOUND, _)) => return Ok(true),
            Err(refusal) => return Err(refusal.at_start(&spec.name)),
        };
        let labels: BTreeMap<String, String> =
            serde_json::from_value(found["Config"]["Labels"].clone()).unwrap_or_default();
        let owner = labels.get(OWNER).and_then(|label| Owner::parse(label));
        let deserted = owner.is_some_and(|owner| owner == self.shared.owner || owner.life() == Life::Dead);
        if labels.get(SANDBOX) != Some(&spec.name) || !deserted {
            return Ok(false);
        }
        remove(&self.client, found["Id"].as_str().unwrap_or(name))
            .await
            .map_err(|refusal| refusal.at_start(&spec.name))?;
        Ok(true)
    }

    /// Puts the guest in, connects to it, starts it, and waits until it says that it is there.
    async fn bring_up(&self, spec: &SandboxSpec, container: &Container) -> Result<Link, SandboxError> {
        let failed = |refusal: Refusal| refusal.at_start(&spec.name);
        let options = UploadToContainerOptionsBuilder::new().path("/").build();
        let guest = bollard::body_full(self.shared.guest.clone().into());
        answer(LONG, self.client.upload_to_container(container.id(), Some(options), guest))
            .await
            .map_err(failed)?;
        // Attached first: nothing the guest says is lost, and its input is open from the start.
        let options =
            AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true).build();
        let attached = answer(SHORT, self.client.attach_container(container.id(), Some(options))).await;
        let attached = attached.map_err(failed)?;
        answer(LONG, self.client.start_container(container.id(), None)).await.map_err(failed)?;
        // The guest itself has nothing to say on its error stream; a panic of it, or an error of whatever starts it.
        let output = attached.output.map_err(io::Error::other).try_filter_map(|chunk| async move {
            match chunk {
                bollard::container::LogOutput::StdOut { message } => Ok(Some(message)),
                other => {
                    tracing::debug!(output = %other, "a guest's error stream");
                    Ok(None)
                }
            }
        });
        let output = StreamReader::new(output.boxed());
        let (link, _) = Link::open(attached.input, output, LONG)
            .await
            .map_err(|error| SandboxError::Start { name: spec.name.clone(), reason: error.to_string() })?;
        Ok(link)
    }
}

#[async_trait]
impl Engine for Docker {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<Box<dyn Sandbox>, SandboxError> {
        container::refuse(spec)?;
        self.check_limits(spec)?;
        let Root::Image(image) = &spec.root else {
            return Err(SandboxError::Lost("a root that was refused".into()));
        };
        let config = self.image_config(image).await.map_err(|refusal| refusal.at_start(&spec.name))?;
        // A caller that stops waiting does not stop the daemon: the container is made, and then taken away again.
        let (docker, wanted, reference) = (self.clone(), spec.clone(), image.reference.clone());
        let created = tokio::spawn(async move { docker.create(&wanted, &reference).await }).await;
        let interrupted = |error| SandboxError::Lost(format!("the start was interrupted: {error}"));
        let mut container = created.map_err(interrupted)??;
        match self.bring_up(spec, &container).await {
            Ok(link) => Ok(Box::new(Running::new(spec.clone(), config, link, container).await?)),
            Err(error) => {
                if let Err(refusal) = container.remove().await {
                    tracing::warn!(
                        sandbox = spec.name,
                        ?refusal,
                        "what was started of a sandbox could not be removed"
                    );
                }
                Err(error)
            }
        }
    }
}

/// The guest as the daemon unpacks it into a container: one file that everybody may execute.
fn pack(guest: &[u8]) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o555);
    header.set_size(guest.len() as u64);
    let mut builder = tar::Builder::new(Vec::with_capacity(guest.len() + 2048));
    builder.append_data(&mut header, PLACE, guest)?;
    builder.into_inner()
}

/// Removes a container with everything that runs in it and its anonymous volumes, and waits until it is gone.
pub(super) async fn remove(client: &bollard::Docker, id: &str) -> Result<(), Refusal> {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
    let end = tokio::time::Instant::now() + LONG;
    loop {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        match answer(LONG, client.remove_container(id, Some(options))).await {
            Ok(()) | Err(Refusal::Status(NOT_FOUND, _)) => return Ok(()),
            // The daemon is removing it by itself, because it ended.
            Err(Refusal::Status(CONFLICT, _)) if tokio::time::Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(refusal) => return Err(refusal),
        }
    }
}
