//! Nothing outlives its sandbox, and no sandbox outlives the program.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;
use sandbox::Engine;

use crate::host::{Bench, engine, sh};

/// Names the directory in which the held sandbox works, and thereby turns `hold` on.
const HOLD: &str = "SEATRIAL_TEST_HOLD";

/// Command lines of all processes that contain a text.
pub fn processes_with(marker: &str) -> Vec<String> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|entry| entry.file_name().to_string_lossy() != std::process::id().to_string())
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(marker))
        .collect()
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Not a test of its own: the program that is killed below.
#[test]
fn hold() {
    let Ok(directory) = std::env::var(HOLD) else { return };
    let directory = std::path::PathBuf::from(directory);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let bench = Bench::within(&directory);
        let sandbox = engine().start(&bench.spec("held")).await.unwrap();
        let marker = directory.file_name().unwrap().to_string_lossy().into_owned();
        let script =
            format!("(setsid sh -c 'sleep 1000; : {marker}' > /dev/null 2>&1 &); sleep 1000; : {marker}");
        let _ = sandbox.exec(&sh(&script)).await;
    });
}

#[test]
fn a_killed_program_takes_its_sandboxes_along() {
    let temp = tempfile::tempdir().unwrap();
    let marker = temp.path().file_name().unwrap().to_string_lossy().into_owned();
    // Others mount and unmount on this machine too; what is ours has the marker in it.
    let mounted = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&marker);
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifetime::hold", "--nocapture"])
        .env(HOLD, temp.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the sandbox's processes", || processes_with(&format!(": {marker}")).len() >= 2);
    assert!(!mounted());
    program.kill().unwrap();
    program.wait().unwrap();
    wait_until("the end of the sandbox", || processes_with(&format!(": {marker}")).is_empty());
    // Nothing is mounted there: the directory can simply be removed.
    assert!(!mounted());
    temp.close().unwrap();
}
