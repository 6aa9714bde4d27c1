//! What this machine offers to the native engine, as plain facts with a remedy each.

use std::path::Path;

use fs_err as fs;
use image::{ImageConfig, Layer, RootImage};

use crate::SandboxSpec;
use crate::native::cgroup::{Enforceable, Hierarchy};
use crate::native::{Native, NativeConfig};

/// One fact about the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as the engine needs it.
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// What to do when it is not as needed.
    pub remedy: Option<String>,
}

/// Oldest kernel with all that is used: overlays in user namespaces (5.11) and `mount_setattr` (5.12).
const OLDEST_KERNEL: (u32, u32) = (5, 12);

/// Looks at everything the engine depends on; the last probe starts a real sandbox with the given init program.
pub async fn probe(init: &Path) -> Vec<Probe> {
    let root = rustix::process::geteuid().is_root();
    let sysctl = |name: &str| fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut probes = vec![
        kernel(&release),
        user_namespaces(
            root,
            sysctl("user/max_user_namespaces").as_deref(),
            sysctl("kernel/unprivileged_userns_clone").as_deref(),
            sysctl("kernel/apparmor_restrict_unprivileged_userns").as_deref(),
        ),
        overlay(fs::read_to_string("/proc/filesystems").ok().as_deref()),
        seccomp(sysctl("kernel/seccomp/actions_avail").as_deref()),
        control_groups(Hierarchy::discover().enforceable()),
    ];
    probes.push(real_start(init).await);
    probes
}

fn fact(name: &'static str, ok: bool, detail: impl Into<String>, remedy: &str) -> Probe {
    Probe { name, ok, detail: detail.into(), remedy: (!ok).then(|| remedy.to_owned()) }
}

fn kernel(release: &str) -> Probe {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    let version = numbers.next().zip(numbers.next());
    let ok = version.is_some_and(|version| version >= OLDEST_KERNEL);
    let (major, minor) = OLDEST_KERNEL;
    let remedy = format!("use a kernel of version {major}.{minor} or later, or another engine");
    fact("kernel", ok, format!("Linux {release}"), &remedy)
}

fn user_namespaces(root: bool, most: Option<&str>, clone: Option<&str>, apparmor: Option<&str>) -> Probe {
    const NAME: &str = "user namespaces";
    let is = |value: Option<&str>, wanted: &str| value.is_some_and(|value| value.trim() == wanted);
    if most.is_none() {
        return fact(NAME, false, "the kernel has none", "use a kernel built with CONFIG_USER_NS");
    }
    if is(most, "0") {
        let remedy = "sysctl -w user.max_user_namespaces=10000";
        return fact(NAME, false, "user.max_user_namespaces is 0", remedy);
    }
    if !root && is(clone, "0") {
        let remedy = "sysctl -w kernel.unprivileged_userns_clone=1, or run as root";
        return fact(NAME, false, "kernel.unprivileged_userns_clone is 0", remedy);
    }
    if !root && is(apparmor, "1") {
        let detail = "kernel.apparmor_restrict_unprivileged_userns is 1";
        let remedy = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, an AppArmor profile with `userns,`, \
                      or run as root";
        return fact(NAME, false, detail, remedy);
    }
    fact(
        NAME,
        true,
        if root { "allowed, running as root" } else { "allowed, running as an ordinary user" },
        "",
    )
}

fn overlay(filesystems: Option<&str>) -> Probe {
    let known =
        filesystems.unwrap_or("").lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay");
    let detail = if known { "known to the kernel" } else { "not loaded" };
    fact("overlay", known, detail, "modprobe overlay")
}

fn seccomp(actions: Option<&str>) -> Probe {
    let ok = actions.is_some_and(|actions| actions.split_whitespace().any(|action| action == "errno"));
    let detail = if ok { "filters available" } else { "no filters" };
    fact("seccomp", ok, detail, "use a kernel built with CONFIG_SECCOMP_FILTER")
}

fn control_groups(enforceable: Enforceable) -> Probe {
    const REMEDY: &str = "run as root, or under `systemd-run --user --scope -p Delegate=yes`; \
                          without it sandboxes start, but these limits do not hold";
    let all = [("memory", enforceable.memory), ("pids", enforceable.pids), ("cpus", enforceable.cpus)];
    let pick = |wanted: bool| -> Vec<&str> {
        all.iter().filter(|(_, held)| *held == wanted).map(|(name, _)| *name).collect()
    };
    let (held, missing) = (pick(true), pick(false));
    let detail = match (enforceable.cgroup_version, missing.is_empty()) {
        (0, _) => "none usable".to_owned(),
        (version, true) => format!("version {version}: {}", held.join(", ")),
        (version, false) => format!("version {version}: {}; not {}", held.join(", "), missing.join(", ")),
    };
    fact("control groups", missing.is_empty(), detail, REMEDY)
}

/// Starts a sandbox without any program in it: the init brings all mounts about and reports the step that fails.
async fn real_start(init: &Path) -> Probe {
    const NAME: &str = "sandbox";
    const REMEDY: &str =
        "see the step that failed; inside a container, allow user namespaces and an unmasked /proc";
    match try_start(init).await {
        Ok(()) => fact(NAME, true, "one was started and removed", ""),
        Err(reason) => fact(NAME, false, reason, REMEDY),
    }
}

async fn try_start(init: &Path) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let temp = tempfile::tempdir().map_err(|error| text(&error))?;
    let layer = temp.path().join("layer");
    fs::create_dir(&layer).map_err(|error| text(&error))?;
    let root = RootImage {
        layers: vec![Layer::Directory(layer)],
        config: ImageConfig::default(),
        digest: String::new(),
    };
    let spec = SandboxSpec::new("probe", root.into(), temp.path());
    let engine = Native::new(NativeConfig { init: init.to_owned(), require_limits: false });
    let engine = engine.map_err(|error| text(&error))?;
    let sandbox = crate::Engine::start(&engine, &spec).await.map_err(|error| text(&error))?;
    sandbox.destroy().await.map_err(|error| text(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_by_number() {
        assert!(kernel("6.18.44-fc").ok && kernel("5.12.0").ok && kernel("10.0").ok);
        assert!(!kernel("5.4.0-generic").ok && !kernel("odd").ok);
        assert!(kernel("4.19").remedy.unwrap().contains("5.12"));
    }

    #[test]
    fn every_switch_against_user_namespaces_is_named_with_its_remedy() {
        let probe = |root, most, clone, apparmor| user_namespaces(root, most, clone, apparmor);
        assert!(probe(false, Some("100\n"), None, None).ok);
        assert!(probe(true, Some("100\n"), Some("0\n"), Some("1\n")).ok);
        for (refused, word) in [
            (probe(true, None, None, None), "CONFIG_USER_NS"),
            (probe(true, Some("0\n"), None, None), "max_user_namespaces"),
            (probe(false, Some("9\n"), Some("0\n"), None), "unprivileged_userns_clone"),
            (probe(false, Some("9\n"), Some("1\n"), Some("1\n")), "apparmor"),
        ] {
            assert!(!refused.ok && refused.remedy.unwrap().contains(word), "{word}");
        }
    }

    #[test]
    fn limits_that_do_not_hold_are_named() {
        let some = control_groups(Enforceable { cgroup_version: 2, memory: true, pids: true, cpus: false });
        assert_eq!(some.detail, "version 2: memory, pids; not cpus");
        assert!(!some.ok && some.remedy.is_some());
        assert_eq!(control_groups(Enforceable::default()).detail, "none usable");
        let all = Enforceable { cgroup_version: 1, memory: true, pids: true, cpus: true };
        assert_eq!(control_groups(all).detail, "version 1: memory, pids, cpus");
    }

    #[test]
    fn file_systems_and_filters_are_found_in_the_kernels_lists() {
        assert!(overlay(Some("nodev\tproc\nnodev\toverlay\n\text4\n")).ok);
        assert!(!overlay(Some("nodev\tproc\n")).ok && !overlay(None).ok);
        assert!(seccomp(Some("kill_process errno allow\n")).ok && !seccomp(None).ok);
    }
}
