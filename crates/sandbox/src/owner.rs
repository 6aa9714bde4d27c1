//! Who made a container or a pod: the process, so that nobody else's is ever taken for deserted.

use std::path::Path;

use fs_err as fs;

/// A process on a machine, for as long as that machine is up.
///
/// Process ids are used again, also after a reboot and on every other machine that shares a daemon; the boot and the
/// process's own start make them unique, and the namespace tells whether an id means something here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    boot: String,
    namespace: String,
    pid: u32,
    start: u64,
}

/// What is known about an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    Dead,
    /// It is, or was, on another machine, or cannot be seen from here.
    Unknown,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> Self {
        let pid = std::process::id();
        Self {
            boot: boot().unwrap_or_default(),
            namespace: namespace().unwrap_or_default(),
            pid,
            start: start_of(pid).unwrap_or_default(),
        }
    }

    /// As one word.
    pub(crate) fn label(&self) -> String {
        let Self { boot, namespace, pid, start } = self;
        format!("{boot}/{namespace}/{pid}/{start}")
    }

    /// Reads the word.
    pub(crate) fn parse(label: &str) -> Option<Self> {
        let mut parts = label.split('/');
        let (boot, namespace, pid, start) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let owner = Self {
            boot: boot.to_owned(),
            namespace: namespace.to_owned(),
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        };
        (parts.next().is_none() && !boot.is_empty()).then_some(owner)
    }

    /// Whether the process still runs, as far as this one can tell.
    pub(crate) fn life(&self) -> Life {
        let own = Self::current();
        if self.boot != own.boot || self.namespace != own.namespace {
            return Life::Unknown;
        }
        if start_of(self.pid) == Some(self.start) { Life::Alive } else { Life::Dead }
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The number of this process's namespace of process ids.
fn namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_str()?.chars().filter(char::is_ascii_digit).collect())
}

/// When a process started, in ticks since the boot.
fn start_of(pid: u32) -> Option<u64> {
    start_in_stat(&fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?)
}

/// The start in `/proc/<pid>/stat`. The program name before it stands in parentheses and may hold anything.
fn start_in_stat(stat: &[u8]) -> Option<u64> {
    const FIELDS_BETWEEN: usize = 19;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_whitespace().nth(FIELDS_BETWEEN)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_back_from_their_label() {
        let own = Owner::current();
        assert_eq!(Owner::parse(&own.label()).unwrap(), own);
        assert_eq!(own.life(), Life::Alive);
        for broken in ["", "a/b", "a/b/c/d", "/1/2/3", "a/1/2/3/4"] {
            assert_eq!(Owner::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_number_that_was_used_again_is_another_process() {
        let own = Owner::current();
        assert_eq!(Owner { start: own.start + 1, ..own.clone() }.life(), Life::Dead);
        assert_eq!(Owner { pid: u32::MAX, ..own.clone() }.life(), Life::Dead);
        assert_eq!(Owner { boot: "other".into(), ..own.clone() }.life(), Life::Unknown);
        assert_eq!(Owner { namespace: "1".into(), ..own }.life(), Life::Unknown);
    }

    #[test]
    fn the_start_is_found_behind_any_program_name() {
        let stat = b"12 (a) S 1 (x) R 9 12 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        assert_eq!(start_in_stat(stat), Some(777));
        assert_eq!(start_in_stat(b"nonsense"), None);
    }
}
