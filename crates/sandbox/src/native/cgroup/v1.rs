//! Version 1: one directory per controller.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    CPU_PERIOD, Enforceable, Group, Kind, OWN_PROCESSES, Places, cpu_quota, put, read_keyed, read_number,
};
use crate::{Limits, Usage};

/// The file that holds the processor quota.
const QUOTA: &str = "cpu.cfs_quota_us";

/// The controllers used here.
const CONTROLLERS: &[&str] = &["memory", "pids", "cpu", "cpuacct"];

/// Our own group per controller, where a group may be made below it.
#[derive(Debug)]
pub(crate) struct Parents(BTreeMap<&'static str, PathBuf>);

impl Parents {
    pub(super) fn find(places: &Places) -> Option<Self> {
        let usable = |controller: &&'static str| {
            let directory = places.controllers.get(*controller)?;
            let access = rustix::fs::Access::WRITE_OK;
            rustix::fs::access(directory, access).ok().map(|()| (*controller, directory.clone()))
        };
        let parents: BTreeMap<_, _> = CONTROLLERS.iter().filter_map(usable).collect();
        (!parents.is_empty()).then_some(Self(parents))
    }

    pub(super) fn enforceable(&self) -> Enforceable {
        let has = |controller| self.0.contains_key(controller);
        Enforceable { cgroup_version: 1, memory: has("memory"), pids: has("pids"), cpus: has("cpu") }
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.values().map(PathBuf::as_path)
    }

    pub(super) fn create(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        let mut group = Group::new(Kind::V1);
        for (controller, parent) in &self.0 {
            let needed = match *controller {
                "pids" => limits.pids.is_some(),
                _ => true,
            };
            let directory = parent.join(name);
            // Controllers mounted together share one directory.
            if !needed || group.directories.contains(&directory) {
                continue;
            }
            group.make(directory)?;
        }
        let at = |controller: &str| self.0.get(controller).map(|parent| parent.join(name));
        if let (Some(bytes), Some(directory)) = (limits.memory, at("memory")) {
            put(&directory, "memory.limit_in_bytes", &bytes.to_string())?;
            // Without swap accounting the next best is not to swap.
            if put(&directory, "memory.memsw.limit_in_bytes", &bytes.to_string()).is_err() {
                put(&directory, "memory.swappiness", "0")?;
            }
        }
        if let (Some(count), Some(directory)) = (limits.pids, at("pids")) {
            put(&directory, "pids.max", &count.saturating_add(OWN_PROCESSES).to_string())?;
        }
        if let (Some(cpus), Some(directory)) = (limits.cpus, at("cpu")) {
            put(&directory, "cpu.cfs_period_us", &CPU_PERIOD.to_string())?;
            set_cpus(&directory, Some(cpus))?;
        }
        Ok(group)
    }
}

/// Sets the quota of a directory that has one; -1 is none.
pub(super) fn set_cpus(directory: &Path, cpus: Option<f64>) -> io::Result<()> {
    if !directory.join(QUOTA).exists() {
        return Ok(());
    }
    put(directory, QUOTA, &cpus.map_or_else(|| "-1".into(), |cpus| cpu_quota(cpus).to_string()))
}

pub(super) fn usage(directories: &[PathBuf]) -> Usage {
    let find =
        |file: &str| directories.iter().map(|directory| directory.join(file)).find(|path| path.exists());
    Usage {
        peak_memory: find("memory.max_usage_in_bytes").and_then(|path| read_number(&path)),
        oom_kills: find("memory.oom_control").and_then(|path| read_keyed(&path, "oom_kill")).unwrap_or(0),
        cpu_time: find("cpuacct.usage").and_then(|path| read_number(&path)).map(Duration::from_nanos),
    }
}
