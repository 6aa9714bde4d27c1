//! Resource limits and accounting through control groups, version 2 where it has controllers, else version 1.
//!
//! Groups are made below the group this process runs in, so that a limit on Seatrial as a whole holds for its
//! sandboxes too. What the machine does not let us control is not an error here: [`Hierarchy::enforceable`] tells,
//! and the engine decides.

mod place;
mod v1;
mod v2;

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

pub(crate) use place::Places;

use crate::{Limits, Usage};

/// Which limits can be held on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enforceable {
    /// Control group version in use, 0 when there is none.
    pub cgroup_version: u8,
    /// Memory, swap included.
    pub memory: bool,
    /// Processes and threads.
    pub pids: bool,
    /// Processor share.
    pub cpus: bool,
}

impl Enforceable {
    /// Names of the limits asked for that cannot be held.
    pub fn missing(&self, limits: &Limits) -> Vec<&'static str> {
        let asked = [
            (limits.memory.is_some() && !self.memory, "memory"),
            (limits.pids.is_some() && !self.pids, "pids"),
            (limits.cpus.is_some() && !self.cpus, "cpus"),
        ];
        asked.into_iter().filter(|(missing, _)| *missing).map(|(_, name)| name).collect()
    }
}

/// The place where groups are made, found once.
#[derive(Debug)]
pub(crate) enum Hierarchy {
    /// No usable control groups.
    None,
    /// One directory per controller.
    V1(v1::Parents),
    /// The unified hierarchy.
    V2(v2::Parent),
}

impl Hierarchy {
    /// Finds out what this process may use. May move this process into a leaf group of its own, which version 2
    /// demands before groups beside it can have controllers.
    pub(crate) fn discover() -> Self {
        let Ok(places) = Places::read() else { return Self::None };
        if let Some(parent) = v2::Parent::prepare(&places) {
            return Self::V2(parent);
        }
        v1::Parents::find(&places).map_or(Self::None, Self::V1)
    }

    pub(crate) fn enforceable(&self) -> Enforceable {
        match self {
            Self::None => Enforceable::default(),
            Self::V1(parents) => parents.enforceable(),
            Self::V2(parent) => parent.enforceable(),
        }
    }

    /// Removes groups that processes of this program left behind when they were killed; returns them in order.
    pub(crate) fn sweep(&self) -> Vec<PathBuf> {
        let mut removed: Vec<PathBuf> = match self {
            Self::None => Vec::new(),
            Self::V1(parents) => parents.directories().flat_map(sweep).collect(),
            Self::V2(parent) => sweep(parent.directory()),
        };
        removed.sort();
        removed
    }

    /// Makes a group with the limits that can be held.
    pub(crate) fn create(&self, name: &str, limits: &Limits) -> io::Result<Group> {
        match self {
            Self::None => Ok(Group { kind: Kind::None, directories: Vec::new() }),
            Self::V1(parents) => parents.create(name, limits),
            Self::V2(parent) => parent.create(name, limits),
        }
    }
}

/// Processes that belong to the engine, not to the commands, and count against a limit all the same: the init, and
/// for each of a few commands at a time its supervisor.
const OWN_PROCESSES: u64 = 4;

/// Period of the processor quota in microseconds, the kernel's default.
const CPU_PERIOD: u64 = 100_000;

/// More processors than any machine has; the kernel refuses quotas far above that.
const MOST_CPUS: f64 = 65_536.0;

/// The quota per period for a number of processors; the kernel takes no less than 1 ms.
fn cpu_quota(cpus: f64) -> u64 {
    let quota = cpus.clamp(0.0, MOST_CPUS) * CPU_PERIOD as f64;
    (quota as u64).max(1000)
}

/// The control group of one sandbox. Dropping it tries to remove it.
#[derive(Debug)]
pub(crate) struct Group {
    kind: Kind,
    directories: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    V1,
    V2,
}

impl Group {
    fn new(kind: Kind) -> Self {
        Self { kind, directories: Vec::new() }
    }

    /// Makes one directory of the group.
    fn make(&mut self, directory: PathBuf) -> io::Result<()> {
        fs::create_dir(&directory)?;
        self.directories.push(directory);
        Ok(())
    }

    /// Moves a process in; what it starts from then on is in as well.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        self.directories.iter().try_for_each(|directory| put(directory, "cgroup.procs", &pid.to_string()))
    }

    /// Lifts the quota of `cpus` processors while the value lives: thousands of killed processes would take minutes to end on
    /// a small share.
    pub(crate) fn unthrottled(&self, cpus: f64) -> Option<Unthrottled<'_>> {
        self.set_cpus(None).ok().map(|()| Unthrottled { group: self, cpus })
    }

    /// Sets the processor quota, or lifts it. A group that has none is left alone.
    fn set_cpus(&self, cpus: Option<f64>) -> io::Result<()> {
        let set = match self.kind {
            Kind::None => return Ok(()),
            Kind::V1 => v1::set_cpus,
            Kind::V2 => v2::set_cpus,
        };
        self.directories.iter().try_for_each(|directory| set(directory, cpus))
    }

    /// What the group used so far. Peak memory includes the page cache that the group filled.
    pub(crate) fn usage(&self) -> Usage {
        match self.kind {
            Kind::None => Usage::default(),
            Kind::V1 => v1::usage(&self.directories),
            Kind::V2 => v2::usage(&self.directories),
        }
    }

    /// Removes the group. The kernel may take a moment to let the last process go.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        const PATIENCE: u32 = 400;
        for _ in 0..PATIENCE {
            self.directories.retain(|directory| {
                rustix::fs::rmdir(directory).is_err_and(|error| error != rustix::io::Errno::NOENT)
            });
            if self.directories.is_empty() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Err(io::Error::other(format!("the control group {} stays busy", self.directories[0].display())))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            // One try: whoever wants certainty calls `remove`; the next start of the program sweeps the rest.
            let _ = rustix::fs::rmdir(directory);
        }
    }
}

/// A group whose processor quota is lifted.
pub(crate) struct Unthrottled<'a> {
    group: &'a Group,
    cpus: f64,
}

impl Drop for Unthrottled<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.group.set_cpus(Some(self.cpus)) {
            tracing::warn!(%error, "the processor quota of a sandbox could not be set again");
        }
    }
}

/// Writes a control file in one go, as the kernel wants it.
fn put(directory: &Path, file: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(directory.join(file))
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number behind a key in a file of `key number` lines.
fn read_keyed(path: &Path, key: &str) -> Option<u64> {
    keyed(&fs::read_to_string(path).ok()?, key)
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == key)?.1.trim().parse().ok())
}

/// The name of the group for the `number`th sandbox of this process.
pub(crate) fn group_name(number: u64) -> String {
    format!("{PREFIX}{}-{number}", std::process::id())
}

const PREFIX: &str = "seatrial-";

fn sweep(parent: &Path) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(owner_of) else { continue };
        // Only empty groups can be removed, so this cannot hurt one that is in use after all.
        if !Path::new(&format!("/proc/{owner}")).exists() && rustix::fs::rmdir(entry.path()).is_ok() {
            removed.push(entry.path());
        }
    }
    removed
}

/// The process that made a group, from the group's name.
fn owner_of(name: &str) -> Option<u32> {
    let (owner, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u64>().ok()?;
    owner.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_limits_are_named() {
        let limits = Limits { cpus: Some(1.0), memory: Some(1), pids: None, storage: None };
        let none = Enforceable::default();
        assert_eq!(none.missing(&limits), ["memory", "cpus"]);
        let all = Enforceable { cgroup_version: 2, memory: true, pids: true, cpus: true };
        assert!(all.missing(&limits).is_empty());
        assert!(none.missing(&Limits::default()).is_empty());
    }

    #[test]
    fn quotas_follow_fractions_and_have_a_floor() {
        assert_eq!(cpu_quota(1.5), 150_000);
        assert_eq!(cpu_quota(0.000_1), 1000);
        assert_eq!(cpu_quota(-3.0), 1000);
        assert_eq!(cpu_quota(f64::NAN), 1000);
        assert_eq!(cpu_quota(1e308), 6_553_600_000);
    }

    #[test]
    fn group_names_tell_their_owner() {
        assert_eq!(owner_of(&group_name(7)), Some(std::process::id()));
        assert_eq!(owner_of("seatrial-12-x"), None);
        assert_eq!(owner_of("other-12-1"), None);
    }

    #[test]
    fn keyed_files_are_read_by_whole_key() {
        let text = "low 0\noom 3\noom_kill 2\n";
        assert_eq!(keyed(text, "oom_kill"), Some(2));
        assert_eq!(keyed(text, "kill"), None);
    }
}
