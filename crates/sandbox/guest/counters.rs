//! What the kernel counted for this container: files of its control group, which runtimes mount read-only.

use std::fs;

use crate::wire::Counters;

const PLACE: &str = "/sys/fs/cgroup";

/// Reads what is there, in either version of control groups.
pub(crate) fn read() -> Counters {
    let memory_kills = ["memory.events", "memory/memory.oom_control"];
    Counters {
        peak_memory: first(&["memory.peak", "memory/memory.max_usage_in_bytes"], |text| {
            text.trim().parse().ok()
        }),
        oom_kills: first(&memory_kills, |text| keyed(text, "oom_kill")),
        cpu_micros: first(&["cpu.stat"], |text| keyed(text, "usage_usec")).or_else(|| {
            let nanos = first(&["cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage"], |text| {
                text.trim().parse().ok()
            });
            nanos.map(|nanos: u64| nanos / 1000)
        }),
    }
}

fn first(files: &[&str], parse: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    files.iter().find_map(|file| parse(&fs::read_to_string(format!("{PLACE}/{file}")).ok()?))
}

/// The number behind a key in a file of `key number` lines.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == key)?.1.trim().parse().ok())
}
