//! What the daemon is told to make: one container, decided from the sandbox's specification alone.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
};

use crate::docker::engine::NAME;
use crate::guest::PLACE;
use crate::naming::hostname;
use crate::owner::Owner;
use crate::{Limits, Network, SandboxError, SandboxSpec};

/// In front of every label of ours.
pub(super) const PREFIX: &str = "dev.seatrial.";

/// The label that says which process a container belongs to.
pub(super) const OWNER: &str = "dev.seatrial.owner";

/// The label that holds the sandbox's name.
pub(super) const SANDBOX: &str = "dev.seatrial.sandbox";

/// The label that holds the job, from the specification's labels.
pub(super) const JOB: &str = "dev.seatrial.job";

/// What root keeps inside: the native engine's list, and the one that the guest keeps for itself alone.
const CAPABILITIES: [&str; 12] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
    "SYS_NICE",
];

/// Processes of the guest's own that count towards the limit, beside those of doors.
const OWN_PROCESSES: u64 = 4;

/// Length of a scheduling period in microseconds, and the shortest share of it.
const PERIOD: i64 = 100_000;
const SHORTEST: i64 = 1000;
/// More processors than any machine has; the kernel refuses shares far above that.
const MOST_CPUS: f64 = 65_536.0;

/// Refuses by name what the engine cannot give.
pub(super) fn refuse(spec: &SandboxSpec) -> Result<(), SandboxError> {
    let unsupported = |what: String| Err(SandboxError::Unsupported { engine: NAME, what });
    if let Network::Allowlist(_) = spec.network {
        return unsupported("a network allow-list".into());
    }
    if let crate::Root::Layers(_) = spec.root {
        return unsupported(
            "layers on this machine as a root; it needs an image that the daemon holds".into(),
        );
    }
    crate::door::check(NAME, &spec.doors)?;
    for label in spec.labels.keys() {
        if matches!(label.as_str(), "owner" | "sandbox") || label.is_empty() {
            return unsupported(format!("a label called `{label}`, which it uses itself"));
        }
    }
    Ok(())
}

/// The labels of a sandbox's container.
pub(super) fn labels(spec: &SandboxSpec, owner: &Owner) -> HashMap<String, String> {
    let given = spec.labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.clone()));
    given.chain([(OWNER.to_owned(), owner.label()), (SANDBOX.to_owned(), spec.name.clone())]).collect()
}

/// The container of a sandbox over an image.
pub(super) fn body(spec: &SandboxSpec, image: &str, owner: &Owner, version_2: bool) -> ContainerCreateBody {
    let none = || Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() });
    ContainerCreateBody {
        image: Some(image.to_owned()),
        hostname: Some(hostname(&spec.name)),
        user: Some("0:0".into()),
        working_dir: Some("/".into()),
        entrypoint: Some(vec![format!("/{PLACE}")]),
        cmd: Some(Vec::new()),
        // The guest ends when its standard input does, and that is when the engine is gone.
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        healthcheck: none(),
        stop_signal: Some("SIGKILL".into()),
        labels: Some(labels(spec, owner)),
        host_config: Some(host_config(spec, version_2)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(spec: &SandboxSpec, version_2: bool) -> HostConfig {
    let network = match spec.network {
        Network::Public => "bridge",
        Network::None | Network::Allowlist(_) => "none",
    };
    let bytes = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let Limits { cpus, memory, pids, storage: _ } = &spec.limits;
    HostConfig {
        auto_remove: Some(true),
        network_mode: Some(network.into()),
        cap_drop: Some(vec!["ALL".into()]),
        cap_add: Some(CAPABILITIES.map(String::from).to_vec()),
        security_opt: Some(vec!["no-new-privileges".into()]),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        memory: memory.map(bytes),
        memory_swap: memory.map(bytes),
        pids_limit: pids.map(|pids| bytes(pids.saturating_add(own_processes(spec)))),
        cpu_period: cpus.map(|_| PERIOD),
        cpu_quota: cpus.map(quota),
        // In version 2 a container sees its own control group only in a namespace of its own.
        cgroupns_mode: version_2.then_some(HostConfigCgroupnsModeEnum::PRIVATE),
        init: Some(false),
        ..HostConfig::default()
    }
}

fn own_processes(spec: &SandboxSpec) -> u64 {
    OWN_PROCESSES + spec.doors.len() as u64 * crate::guest::OWN_PROCESSES
}

fn quota(cpus: f64) -> i64 {
    let quota = (cpus.clamp(0.0, MOST_CPUS) * PERIOD as f64).round();
    (quota as i64).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineImage;

    fn spec() -> SandboxSpec {
        let image = EngineImage { reference: "sha256:ab".into(), digest: "sha256:ab".into() };
        SandboxSpec::new("Task/1", crate::Root::Image(image), "/tmp")
    }

    #[test]
    fn containers_carry_who_made_them_and_what_for() {
        let mut spec = spec();
        spec.labels.insert("job".into(), "j1".into());
        let owner = Owner::current();
        let labels = labels(&spec, &owner);
        assert_eq!(labels[JOB], "j1");
        assert_eq!(labels[OWNER], owner.label());
        assert_eq!(labels[SANDBOX], "Task/1");
        spec.labels.insert("owner".into(), "me".into());
        assert!(refuse(&spec).unwrap_err().to_string().contains("`owner`"));
    }

    #[test]
    fn limits_become_settings_of_the_container() {
        let mut spec = spec();
        spec.limits = Limits { cpus: Some(1.5), memory: Some(64 << 20), pids: Some(10), storage: Some(1) };
        let config = host_config(&spec, false);
        assert_eq!((config.memory, config.memory_swap), (Some(64 << 20), Some(64 << 20)));
        assert_eq!(
            (config.cpu_quota, config.cpu_period, config.pids_limit),
            (Some(150_000), Some(100_000), Some(14))
        );
        assert_eq!(config.network_mode.as_deref(), Some("none"));
        assert_eq!((quota(-3.0), quota(f64::NAN), quota(0.000_1)), (1000, 1000, 1000));
        assert_eq!(quota(1e308), 6_553_600_000);
        let unlimited = host_config(&super::tests::spec(), true);
        assert_eq!((unlimited.memory, unlimited.pids_limit, unlimited.cpu_quota), (None, None, None));
    }

    #[test]
    fn allow_lists_are_refused_by_name() {
        let mut spec = spec();
        spec.network = Network::Allowlist(vec!["host.invalid".into()]);
        assert!(refuse(&spec).unwrap_err().to_string().contains("allow-list"));
    }
}
