//! An engine to stand on, with an image of the same system for each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use record::Capability;
use sandbox::docker::{Docker, DockerConfig, Sweep};
use sandbox::kubernetes::{Kubernetes, KubernetesConfig};
use sandbox::{Engine, EngineImage, Limits, Root, Sandbox, SandboxSpec};

use crate::host::{Bench, engine};

/// Names the daemon for tests, as `DOCKER_HOST` would.
const DAEMON: &str = "SEATRIAL_TEST_DOCKER";

/// Names the kubeconfig of the cluster for tests, as `scripts/kubernetes-cluster start` prints it.
const CLUSTER: &str = "SEATRIAL_TEST_KUBERNETES";

/// The image that the daemon for tests holds.
const BASE: &str = "seatrial.test/base:1";

/// An engine and what a test needs with it.
pub struct Ground {
    pub engine: Arc<dyn Engine>,
    bench: Bench,
    kind: Kind,
}

enum Kind {
    Native,
    Docker { docker: Docker, base: EngineImage },
    Kubernetes { cluster: Cluster, kubernetes: Kubernetes },
}

/// The cluster for tests.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Where it lies on this machine.
    pub place: PathBuf,
    /// The base image on its nodes.
    pub base: EngineImage,
}

impl Cluster {
    /// The cluster for tests; says so when there is none.
    pub fn find() -> Option<Self> {
        let Some(kubeconfig) = std::env::var_os(CLUSTER).filter(|path| !path.is_empty()) else {
            eprintln!("skipped: tests of the Kubernetes engine: {CLUSTER} names no kubeconfig");
            return None;
        };
        let place = PathBuf::from(kubeconfig).parent().unwrap().to_owned();
        let reference = fs_err::read_to_string(place.join("base.reference")).unwrap();
        Some(Self { place, base: Self::image(reference.trim()) })
    }

    fn image(reference: &str) -> EngineImage {
        let (_, digest) = reference.split_once('@').unwrap();
        EngineImage { reference: reference.to_owned(), digest: digest.to_owned() }
    }

    /// Settings for a run with the rights of `docs/kubernetes.md` and no others. Its network plugin enforces no policy.
    pub fn config(&self, run: &str) -> KubernetesConfig {
        let mut config = KubernetesConfig::new(format!("it-{}-{run}", std::process::id()));
        config.kubeconfig = Some(self.place.join("runner.kubeconfig"));
        config.cluster.accept_open_network = true;
        config.cluster.capabilities = Capability::USUAL.to_vec();
        config
    }

    /// Runs the script that made the cluster.
    pub fn script(&self, command: &str, arguments: &[&str]) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/kubernetes-cluster");
        let output = std::process::Command::new(script)
            .arg(command)
            .arg(&self.place)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Ground {
    pub fn native() -> Self {
        Self { engine: Arc::new(engine()), bench: Bench::new(), kind: Kind::Native }
    }

    /// The daemon for tests; says so when there is none.
    pub async fn docker() -> Option<Self> {
        let Some(host) = std::env::var(DAEMON).ok().filter(|host| !host.is_empty()) else {
            eprintln!("skipped: tests of the Docker engine: {DAEMON} names no daemon");
            return None;
        };
        let docker =
            Docker::connect(&DockerConfig { host: Some(host), require_limits: false }).await.unwrap();
        let base = docker.find(BASE).await.unwrap().expect("the daemon for tests holds the base image");
        let engine = Arc::new(docker.clone());
        Some(Self { engine, bench: Bench::new(), kind: Kind::Docker { docker, base } })
    }

    /// The cluster for tests.
    pub async fn kubernetes() -> Option<Self> {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let cluster = Cluster::find()?;
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let kubernetes = Kubernetes::connect(cluster.config(&format!("c{number}"))).await.unwrap();
        let engine = Arc::new(kubernetes.clone());
        Some(Self { engine, bench: Bench::new(), kind: Kind::Kubernetes { cluster, kubernetes } })
    }

    /// The Docker engine itself.
    pub fn daemon(&self) -> Option<&Docker> {
        match &self.kind {
            Kind::Docker { docker, .. } => Some(docker),
            Kind::Native | Kind::Kubernetes { .. } => None,
        }
    }

    /// A name that no test running at the same time has.
    pub fn name(name: &str) -> String {
        format!("it-{}-{name}", std::process::id())
    }

    pub fn spec(&self, name: &str) -> SandboxSpec {
        let root = match &self.kind {
            Kind::Native => self.bench.image(&[]).into(),
            Kind::Docker { base, .. } => Root::Image(base.clone()),
            Kind::Kubernetes { cluster, .. } => Root::Image(cluster.base.clone()),
        };
        SandboxSpec::new(Self::name(name), root, self.bench.scratch())
    }

    /// The same image with settings of its own.
    pub async fn image_with(&self, env: BTreeMap<String, String>, workdir: &str, user: &str) -> Root {
        match &self.kind {
            Kind::Native => {
                let mut root = self.bench.image(&[]);
                root.config = image::ImageConfig {
                    env,
                    workdir: Some(workdir.into()),
                    user: Some(user.into()),
                    ..image::ImageConfig::default()
                };
                root.into()
            }
            Kind::Docker { docker, .. } => {
                let context = tempfile::tempdir().unwrap();
                let mut lines = vec![format!("FROM {BASE}")];
                lines.extend(env.iter().map(|(name, value)| format!("ENV {name}={value}")));
                lines.extend([format!("WORKDIR {workdir}"), format!("USER {user}\n")]);
                let text = lines.join("\n");
                let dockerfile = context.path().join("Dockerfile");
                fs_err::write(&dockerfile, text).unwrap();
                let spec = sandbox::docker::BuildSpec::new(context.path(), dockerfile);
                Root::Image(docker.build(&spec).await.unwrap())
            }
            Kind::Kubernetes { cluster, .. } => {
                let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let settings =
                    serde_json::json!({"Env": env, "WorkingDir": workdir, "User": user}).to_string();
                let settings = settings.trim_matches(['{', '}']);
                Root::Image(Cluster::image(
                    &cluster.script("image", &[&format!("it-{}", std::process::id()), settings]),
                ))
            }
        }
    }

    pub async fn start(&self, spec: &SandboxSpec) -> Box<dyn Sandbox> {
        self.engine.start(spec).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether a limit can be held here; says so when it cannot.
    pub fn holds(&self, name: &str) -> bool {
        let limits = Limits { cpus: Some(1.0), memory: Some(1 << 30), pids: Some(100), storage: None };
        let missing = match &self.kind {
            Kind::Native => engine().enforceable().missing(&limits),
            Kind::Docker { docker, .. } => docker.cannot_hold().to_vec(),
            // Nodes limit the processes of a pod, pods do not.
            Kind::Kubernetes { .. } => vec!["pids"],
        };
        if missing.contains(&name) {
            eprintln!("skipped: the {} engine cannot hold {name} limits here", self.engine.name());
        }
        !missing.contains(&name)
    }

    /// What is left of this test program's sandboxes.
    pub async fn leftovers(&self) -> Vec<String> {
        match &self.kind {
            Kind::Native => self.bench.leftovers().iter().map(|path| path.display().to_string()).collect(),
            Kind::Docker { docker, .. } => {
                let (_, kept) = docker.sweep(&Sweep::Orphans).await.unwrap();
                let own = Self::name("");
                kept.into_iter().map(|kept| kept.sandbox).filter(|name| name.starts_with(&own)).collect()
            }
            Kind::Kubernetes { kubernetes, .. } => kubernetes
                .look(Some(kubernetes.run()))
                .await
                .unwrap()
                .into_iter()
                .flat_map(|found| found.pods)
                .collect(),
        }
    }

    /// Gives the engine up, and waits until what it had for its run is removed.
    pub fn leave(self) {
        drop(self);
        assert!(sandbox::native::settle(std::time::Duration::from_secs(30)), "it is not removed");
    }

    /// Waits until nothing is left.
    pub async fn settle(&self) {
        for _ in 0..1000 {
            if self.leftovers().await.is_empty() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{:?}", self.leftovers().await);
    }
}
