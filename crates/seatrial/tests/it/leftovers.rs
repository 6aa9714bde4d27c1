//! What killed programs may leave: processes, control groups, mounts.

use std::path::Path;
use std::time::{Duration, Instant};

use walkdir::WalkDir;

use crate::project::children;

/// Processes that work in `directory` or see a file system from there.
fn processes_in(directory: &Path) -> Vec<String> {
    let marker = directory.to_str().unwrap();
    children(Path::new("/proc"))
        .into_iter()
        .filter(|path| path.file_name().unwrap().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|path| path.file_name().unwrap().to_string_lossy() != std::process::id().to_string())
        .filter_map(|path| {
            let text = |name: &str| std::fs::read(path.join(name)).unwrap_or_default();
            let command = String::from_utf8_lossy(&text("cmdline")).replace('\0', " ");
            let mounts = String::from_utf8_lossy(&text("mountinfo")).into_owned();
            (command.contains(marker) || mounts.contains(marker))
                .then(|| format!("{}: {command}", path.display()))
        })
        .collect()
}

/// Control groups of a process that made sandboxes.
pub fn groups_of(process: u32) -> Vec<String> {
    let marker = format!("seatrial-{process}-");
    WalkDir::new("/sys/fs/cgroup")
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&marker))
        .map(|entry| entry.path().display().to_string())
        .collect()
}

/// Waits for the end of everything that a process started; the system ends it, but not within the call.
#[track_caller]
pub fn nothing_is_left(root: &Path, process: u32, groups_too: bool) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let groups = if groups_too { groups_of(process) } else { Vec::new() };
        let left = [processes_in(root), groups].concat();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "{left:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(root.to_str().unwrap()), "{mounts}");
}
