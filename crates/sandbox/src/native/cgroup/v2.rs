//! Version 2: one directory, controllers handed down by the parent.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::{
    CPU_PERIOD, Enforceable, Group, Kind, OWN_PROCESSES, Places, cpu_quota, put, read_keyed, read_number,
};
use crate::{Limits, Usage};

/// The controllers used here.
const CONTROLLERS: &[&str] = &["memory", "pids", "cpu"];

/// The file that holds the processor quota.
const QUOTA: &str = "cpu.max";

/// The leaf this process moves to when its own group has to hand controllers down.
const LEAF: &str = "seatrial-main";

/// A group that hands controllers to the groups made below it.
#[derive(Debug)]
pub(crate) struct Parent {
    directory: PathBuf,
    handed_down: Vec<&'static str>,
}

impl Parent {
    /// Finds or prepares a parent: our own group when it may hand controllers down, after moving ourselves out of
    /// its way when we are alone in it, else the group above where that is ours to use.
    pub(super) fn prepare(places: &Places) -> Option<Self> {
        let (mount, own) = places.unified.as_ref()?;
        // Our own group may be the leaf that this process, or its parent, moved to before.
        let own = if own.ends_with(LEAF) { own.parent()? } else { own };
        if !may_write(own) && own == mount {
            return None;
        }
        if may_write(own) {
            if let Some(parent) = Self::hand_down(own) {
                return Some(parent);
            }
            let moved = is_alone(own) && move_to_leaf(own).is_ok();
            if let Some(parent) = moved.then(|| Self::hand_down(own)).flatten() {
                return Some(parent);
            }
        }
        let above =
            own.parent().filter(|above| own != mount && above.starts_with(mount) && may_write(above))?;
        Self::hand_down(above)
    }

    /// Asks a group to hand down what it has; `None` when it hands down nothing we need.
    fn hand_down(directory: &Path) -> Option<Self> {
        let listed = |file: &str| {
            let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
            move |name: &str| text.split_whitespace().any(|word| word == name)
        };
        let available = listed("cgroup.controllers");
        for controller in CONTROLLERS.iter().filter(|controller| available(controller)) {
            // Refused while processes sit in the group itself; what counts is what is listed afterwards.
            let _ = put(directory, "cgroup.subtree_control", &format!("+{controller}"));
        }
        let enabled = listed("cgroup.subtree_control");
        let handed_down: Vec<_> =
            CONTROLLERS.iter().copied().filter(|controller| enabled(controller)).collect();
        (!handed_down.is_empty()).then(|| Self { directory: directory.to_owned(), handed_down })
    }

    pub(super) fn enforceable(&self) -> Enforceable {
        let has = |controller| self.handed_down.contains(&controller);
        Enforceable { cgroup_version: 2, memory: has("memory"), pids: has("pids"), cpus: has("cpu") }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn create(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let mut group = Group::new(Kind::V2);
        let directory = self.directory.join(name);
        group.make(directory.clone())?;
        let has = |controller: &str| self.handed_down.contains(&controller);
        if let Some(bytes) = limits.memory.filter(|_| has("memory")) {
            put(&directory, "memory.max", &bytes.to_string())?;
            // The limit counts swap in: none may be used beside it. Kernels without swap have no such file.
            let _ = put(&directory, "memory.swap.max", "0");
        }
        if let Some(count) = limits.pids.filter(|_| has("pids")) {
            put(&directory, "pids.max", &count.saturating_add(OWN_PROCESSES).to_string())?;
        }
        if let Some(cpus) = limits.cpus.filter(|_| has("cpu")) {
            set_cpus(&directory, Some(cpus))?;
        }
        Ok(group)
    }
}

/// Sets the quota of a directory that has one.
pub(super) fn set_cpus(directory: &Path, cpus: Option<f64>) -> io::Result<()> {
    if !directory.join(QUOTA).exists() {
        return Ok(());
    }
    let quota = cpus.map_or_else(|| "max".into(), |cpus| cpu_quota(cpus).to_string());
    put(directory, QUOTA, &format!("{quota} {CPU_PERIOD}"))
}

fn may_write(directory: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    rustix::fs::access(directory, access).is_ok()
        && rustix::fs::access(directory.join("cgroup.procs"), access).is_ok()
}

/// Whether this process is the only one directly in the group.
fn is_alone(directory: &Path) -> bool {
    fs::read_to_string(directory.join("cgroup.procs"))
        .is_ok_and(|members| members.lines().all(|pid| pid == std::process::id().to_string()))
}

fn move_to_leaf(directory: &Path) -> io::Result<()> {
    let leaf = directory.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    put(&leaf, "cgroup.procs", &std::process::id().to_string())
}

pub(super) fn usage(directories: &[PathBuf]) -> Usage {
    let Some(directory) = directories.first() else { return Usage::default() };
    Usage {
        // Since Linux 5.19.
        peak_memory: read_number(&directory.join("memory.peak")),
        oom_kills: read_keyed(&directory.join("memory.events"), "oom_kill").unwrap_or(0),
        cpu_time: read_keyed(&directory.join("cpu.stat"), "usage_usec").map(Duration::from_micros),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like a group with these controllers.
    fn group(controllers: &str, handed_down: &str) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(temp.path().join("cgroup.subtree_control"), handed_down).unwrap();
        fs::write(temp.path().join("cgroup.procs"), "1\n2\n").unwrap();
        temp
    }

    #[test]
    fn a_group_that_hands_nothing_down_is_no_parent() {
        assert!(Parent::hand_down(group("", "").path()).is_none());
        assert!(Parent::hand_down(group("io\n", "io\n").path()).is_none());
        let parent = Parent::hand_down(group("io\n", "io memory pids\n").path()).unwrap();
        assert_eq!(
            parent.enforceable(),
            Enforceable { cgroup_version: 2, memory: true, pids: true, cpus: false }
        );
    }

    #[test]
    fn statistics_come_from_the_unified_files() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("memory.peak"), "4096\n").unwrap();
        fs::write(temp.path().join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        fs::write(temp.path().join("cpu.stat"), "usage_usec 1500\nuser_usec 1000\n").unwrap();
        let usage = usage(&[temp.path().to_owned()]);
        assert_eq!(usage.peak_memory, Some(4096));
        assert_eq!(usage.oom_kills, 1);
        assert_eq!(usage.cpu_time, Some(Duration::from_micros(1500)));
        assert!(!is_alone(group("", "").path()));
    }
}
