//! What the cluster is told to make: one pod, decided from the sandbox's specification and the settings alone.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use record::{ClusterConfig, Toleration};
use serde_json::{Value, json};

use crate::kubernetes::config::KubernetesConfig;
use crate::kubernetes::objects::{NetworkPolicy, Pod};
use crate::naming::{container_name, hostname};
use crate::owner::Owner;
use crate::{EngineImage, Limits, Network, Root, SandboxError, SandboxSpec};

/// The engine's name.
pub(super) const NAME: &str = "kubernetes";

/// The pod's only container.
pub(super) const CONTAINER: &str = "sandbox";

/// Labels: the run, and whether a pod is cut off from the network.
pub(super) const RUN: &str = "dev.seatrial/run";
pub(super) const OFFLINE: &str = "dev.seatrial/offline";

/// Annotations: the sandbox's name as it is, and the process that made it.
pub(super) const SANDBOX: &str = "dev.seatrial/sandbox";
pub(super) const OWNER: &str = "dev.seatrial/owner";

/// In front of every label and annotation of ours.
const PREFIX: &str = "dev.seatrial/";

/// Where the guest comes in, on a volume of its own that any user may write to.
const GUEST_DIRECTORY: &str = "/.seatrial";

/// Longest value of a label.
const MAX_LABEL: usize = 63;

/// A pod ends by itself after this time, whatever became of this program and of the connection.
const LAST_END_SEC: i64 = 48 * 60 * 60;

/// How long a pod's processes have after they were told to end. The guest needs none: its connection is closed before.
const GRACE_SEC: i64 = 1;

/// Refuses by name what the engine cannot give.
pub(super) fn refuse(spec: &SandboxSpec) -> Result<&EngineImage, SandboxError> {
    let unsupported = |what: &str| SandboxError::Unsupported { engine: NAME, what: what.to_owned() };
    crate::door::check(NAME, &spec.doors)?;
    if let Network::Allowlist(_) = spec.network {
        return Err(unsupported("a network allow-list"));
    }
    match &spec.root {
        Root::Image(image) if image.reference.contains("@sha256:") => Ok(image),
        Root::Image(image) => Err(unsupported(&format!(
            "the image {}: nodes pull by digest only; name it as repository@sha256:...",
            image.reference
        ))),
        Root::Layers(_) => Err(unsupported(
            "layers on this machine as a root; it needs an image in a registry that nodes reach",
        )),
    }
}

/// A sandbox's pod, by name.
pub(super) fn name(spec: &SandboxSpec, run: &str) -> String {
    container_name(&format!("{run}/{}", spec.name))
}

/// The pod of a sandbox. Its guest starts as the image's user, or `as_root` whoever that is.
pub(super) fn pod(
    spec: &SandboxSpec,
    image: &EngineImage,
    config: &KubernetesConfig,
    owner: &Owner,
    lease: Option<&OwnerReference>,
    guest_len: usize,
    as_root: bool,
) -> Pod {
    let settings = &config.cluster;
    let mut annotations = settings.annotations.clone();
    annotations.extend(spec.labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.clone())));
    annotations.insert(SANDBOX.to_owned(), spec.name.clone());
    annotations.insert(OWNER.to_owned(), owner.label());
    // The guest is as long as this program says; what follows it on the same stream is the guest's.
    let guest = format!("{GUEST_DIRECTORY}/guest");
    let receive = format!(
        "head -c {guest_len} > {guest}.part && chmod 500 {guest}.part && mv {guest}.part {guest} && exec {guest}"
    );
    let root = as_root.then_some(0);
    let metadata = ObjectMeta {
        name: Some(name(spec, &config.run)),
        labels: Some(labels(spec, &config.run)),
        annotations: Some(annotations),
        owner_references: lease.map(|lease| vec![lease.clone()]),
        ..ObjectMeta::default()
    };
    let spec = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SEC,
        "activeDeadlineSeconds": LAST_END_SEC,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "hostname": hostname(&spec.name),
        "nodeSelector": settings.node_selector,
        "tolerations": tolerations(settings),
        "runtimeClassName": settings.runtime_class,
        "priorityClassName": settings.priority_class,
        "imagePullSecrets": settings.image_pull_secrets.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "guest", "emptyDir": {"sizeLimit": (guest_len * 2 + (1 << 20)).to_string()}}],
        "containers": [{
            "name": CONTAINER,
            "image": image.reference,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh", "-c", receive],
            // The guest ends when its standard input does, and that is when the engine is gone.
            "stdin": true,
            "stdinOnce": true,
            "volumeMounts": [{"name": "guest", "mountPath": GUEST_DIRECTORY}],
            "resources": resources(&spec.limits),
            "terminationMessagePolicy": "File",
            "securityContext": {
                "privileged": false,
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"], "add": settings.capabilities},
                "runAsUser": root,
                "runAsGroup": root,
            },
        }],
    });
    Pod::new(metadata, spec)
}

/// Taints of lost nodes are tolerated for a moment only: a sandbox does not outlive its connection anyway.
fn tolerations(settings: &ClusterConfig) -> Vec<Value> {
    let given = settings.tolerations.iter().map(|Toleration { key, value, effect }| {
        let operator = if value.is_some() { "Equal" } else { "Exists" };
        json!({"key": key, "value": value, "effect": effect, "operator": operator})
    });
    let lost = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}));
    given.chain(lost).collect()
}

/// What the scheduler reserves is what the node holds the sandbox to. The number of processes is the node's to limit.
fn resources(limits: &Limits) -> Value {
    let Limits { cpus, memory, storage, pids: _ } = limits;
    let mut amounts = BTreeMap::new();
    if let Some(cpus) = cpus {
        amounts.insert("cpu", format!("{}m", (cpus.clamp(0.001, 65_536.0) * 1000.0).round() as u64));
    }
    if let Some(memory) = memory {
        amounts.insert("memory", memory.to_string());
    }
    if let Some(storage) = storage {
        amounts.insert("ephemeral-storage", storage.to_string());
    }
    json!({"requests": amounts, "limits": amounts})
}

/// The labels of a sandbox's pod, by which it is listed and selected.
fn labels(spec: &SandboxSpec, run: &str) -> BTreeMap<String, String> {
    let offline = matches!(spec.network, Network::None);
    let given = spec.labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), label_value(value)));
    given.chain([(RUN.to_owned(), run.to_owned()), (OFFLINE.to_owned(), offline.to_string())]).collect()
}

/// A text as the value of a label: bounded, of few characters, and different for different texts.
pub(super) fn label_value(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric();
    let plain = text.len() <= MAX_LABEL
        && text.starts_with(fits)
        && text.ends_with(fits)
        && text.chars().all(|c| fits(c) || matches!(c, '-' | '_' | '.'));
    if plain { text.to_owned() } else { container_name(text).chars().take(MAX_LABEL).collect() }
}

/// The policy that cuts a run's offline pods off.
pub(super) fn policy(run: &str, lease: Option<&OwnerReference>) -> NetworkPolicy {
    let spec = json!({
        "podSelector": {"matchLabels": {RUN: run, OFFLINE: "true"}},
        "policyTypes": ["Ingress", "Egress"],
    });
    NetworkPolicy::new(metadata_of_run(run, lease), spec)
}

/// The metadata of what a run has once.
pub(super) fn metadata_of_run(run: &str, lease: Option<&OwnerReference>) -> ObjectMeta {
    ObjectMeta {
        name: Some(of_run(run)),
        labels: Some([(RUN.to_owned(), run.to_owned())].into()),
        owner_references: lease.map(|lease| vec![lease.clone()]),
        ..ObjectMeta::default()
    }
}

/// The name of what a run has once: its lease and its policy.
pub(super) fn of_run(run: &str) -> String {
    format!("seatrial-{run}")
}

/// Whether a run's name can be a label and part of a name.
pub(super) fn check_run(run: &str) -> Result<(), SandboxError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let valid = (1..=40).contains(&run.len())
        && run.starts_with(fits)
        && run.ends_with(fits)
        && run.chars().all(|c| fits(c) || c == '-');
    if valid {
        return Ok(());
    }
    let reason = format!(
        "`{run}` cannot name a run: small letters, digits and `-`, 40 at most, a letter or digit at both ends"
    );
    Err(SandboxError::Unavailable { engine: NAME, reason })
}

#[cfg(test)]
mod tests {
    use record::Capability;

    use super::*;

    const IMAGE: &str = "registry.invalid/tasks/one@sha256:ab";

    fn spec() -> SandboxSpec {
        let image = EngineImage { reference: IMAGE.into(), digest: "sha256:ab".into() };
        let mut spec = SandboxSpec::new("Task/1", Root::Image(image), "/tmp");
        spec.labels.insert("job".into(), "j 1".into());
        spec
    }

    fn made(spec: &SandboxSpec, config: &KubernetesConfig) -> Value {
        let image = refuse(spec).unwrap();
        serde_json::to_value(pod(spec, image, config, &Owner::current(), None, 100, false)).unwrap()
    }

    #[test]
    fn pods_are_plain_and_unprivileged() {
        let made = made(&spec(), &KubernetesConfig::new("r1"));
        let container = &made["spec"]["containers"][0];
        assert_eq!(container["image"], IMAGE);
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(container["securityContext"]["capabilities"]["add"], json!([]));
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], json!(false));
        assert_eq!(made["spec"]["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(made["spec"]["automountServiceAccountToken"], json!(false));
        assert_eq!(made["spec"]["restartPolicy"], "Never");
        assert!(made["spec"]["hostNetwork"].is_null() && made["spec"]["hostPID"].is_null());
        assert_eq!(made["metadata"]["labels"][RUN], "r1");
        assert_eq!(made["metadata"]["labels"][OFFLINE], "true");
        assert_eq!(made["metadata"]["annotations"]["dev.seatrial/job"], "j 1");
        assert_eq!(made["metadata"]["annotations"][SANDBOX], "Task/1");
    }

    #[test]
    fn limits_are_reserved_and_held() {
        let mut spec = spec();
        spec.limits = Limits { cpus: Some(1.5), memory: Some(64 << 20), pids: Some(10), storage: Some(1000) };
        spec.network = Network::Public;
        let made = made(&spec, &KubernetesConfig::new("r1"));
        let amounts = json!({"cpu": "1500m", "memory": "67108864", "ephemeral-storage": "1000"});
        let resources = &made["spec"]["containers"][0]["resources"];
        assert_eq!((&resources["limits"], &resources["requests"]), (&amounts, &amounts));
        assert_eq!(made["metadata"]["labels"][OFFLINE], "false");
    }

    #[test]
    fn settings_reach_every_pod() {
        let mut config = KubernetesConfig::new("r1");
        config.cluster = ClusterConfig {
            node_selector: [("pool".to_owned(), "trials".to_owned())].into(),
            tolerations: vec![Toleration {
                key: Some("only".into()),
                value: Some("trials".into()),
                effect: None,
            }],
            runtime_class: Some("kata".into()),
            priority_class: Some("low".into()),
            annotations: [("team".to_owned(), "us".to_owned())].into(),
            image_pull_secrets: vec!["mirror".into()],
            capabilities: vec![Capability::DacOverride],
            ..ClusterConfig::default()
        };
        let made = made(&spec(), &config);
        assert_eq!(made["spec"]["nodeSelector"]["pool"], "trials");
        assert_eq!(made["spec"]["tolerations"][0]["operator"], "Equal");
        assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 3);
        assert_eq!(made["spec"]["runtimeClassName"], "kata");
        assert_eq!(made["spec"]["priorityClassName"], "low");
        assert_eq!(made["metadata"]["annotations"]["team"], "us");
        assert_eq!(made["spec"]["imagePullSecrets"][0]["name"], "mirror");
        assert_eq!(
            made["spec"]["containers"][0]["securityContext"]["capabilities"]["add"],
            json!(["DAC_OVERRIDE"])
        );
    }

    #[test]
    fn what_nodes_cannot_have_is_refused_by_name() {
        let mut spec = spec();
        let floating =
            EngineImage { reference: "registry.invalid/one:latest".into(), digest: "sha256:ab".into() };
        spec.root = Root::Image(floating);
        assert!(refuse(&spec).unwrap_err().to_string().contains("one:latest"));
        spec.network = Network::Allowlist(vec!["host.invalid".into()]);
        assert!(refuse(&spec).unwrap_err().to_string().contains("allow-list"));
    }

    #[test]
    fn labels_are_valid_and_stay_apart() {
        assert_eq!(label_value("job-1.x_y"), "job-1.x_y");
        let hostile = ["", "-", "a/b", "a b", "a-", &"x".repeat(64), &"x".repeat(65), "\u{202e}"];
        let values: std::collections::BTreeSet<String> =
            hostile.iter().map(|text| label_value(text)).collect();
        assert_eq!(values.len(), hostile.len());
        assert!(values.iter().all(|value| value.len() <= MAX_LABEL && value.starts_with("seatrial-")));
        for (job, salt) in [("My job / 2", "salt"), (&*"x".repeat(90), ""), ("", "")] {
            assert!(check_run(&KubernetesConfig::run_name(job, salt)).is_ok());
        }
        assert!(check_run("-").is_err() && check_run("A").is_err() && check_run("").is_err());
    }
}
