//! Memory, processes, processors: held where the machine lets us, and said where it does not.

use sandbox::native::{Native, NativeConfig};
use sandbox::{Engine, ExecSpec, ExitStatus, Limits, SandboxError};

use crate::host::{Bench, engine, init, sh, start, text};

/// Whether a limit can be held here; says so when it cannot.
fn held(name: &str, held: bool) -> bool {
    if !held {
        eprintln!("skipped: this machine does not let us hold {name} limits");
    }
    held
}

#[tokio::test]
async fn the_memory_limit_holds_and_is_reported() {
    if !held("memory", engine().enforceable().memory) {
        return;
    }
    let bench = Bench::new();
    let mut spec = bench.spec("memory");
    spec.limits.memory = Some(64 << 20);
    let sandbox = start(&spec).await;
    let before = sandbox.usage().await.unwrap();
    assert_eq!(before.oom_kills, 0);
    let script = "x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096]); print('got it')";
    let command =
        ExecSpec { argv: ["python3", "-c", script].map(String::from).to_vec(), ..ExecSpec::default() };
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!(outcome.status, ExitStatus::Signal(9), "{}", text(&outcome));
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.oom_kills >= 1, "{usage:?}");
    assert!(usage.peak_memory.unwrap() <= 64 << 20, "{usage:?}");
    // The sandbox itself survives.
    assert!(sandbox.exec(&sh("true")).await.unwrap().success());
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_process_limit_holds() {
    if !held("process", engine().enforceable().pids) {
        return;
    }
    let bench = Bench::new();
    let mut spec = bench.spec("pids");
    spec.limits.pids = Some(10);
    let sandbox = start(&spec).await;
    let script = "
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError: pass
print(n)
os.kill(0, 9)
";
    let command =
        ExecSpec { argv: ["python3", "-c", script].map(String::from).to_vec(), ..ExecSpec::default() };
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!(outcome.status, ExitStatus::Signal(9));
    let mut command = command;
    command.argv[2] = script.replace("print(n)", "print(n, flush=True)");
    let count: u64 = text(&sandbox.exec(&command).await.unwrap()).trim().parse().unwrap();
    assert!((9..=14).contains(&count), "{count}");
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_processor_limit_holds() {
    if !held("processor", engine().enforceable().cpus) {
        return;
    }
    let bench = Bench::new();
    let mut spec = bench.spec("cpus");
    spec.limits.cpus = Some(0.25);
    let sandbox = start(&spec).await;
    let script = "import time; end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(time.process_time())";
    let command =
        ExecSpec { argv: ["python3", "-c", script].map(String::from).to_vec(), ..ExecSpec::default() };
    let used: f64 = text(&sandbox.exec(&command).await.unwrap()).trim().parse().unwrap();
    assert!(used < 1.0, "{used} s of processor time in 1.5 s at a quarter of a processor");
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.cpu_time.unwrap().as_secs_f64() > used / 2.0);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn writing_more_than_allowed_ends_the_sandbox() {
    let bench = Bench::new();
    let mut spec = bench.spec("storage");
    spec.limits.storage = Some(8 << 20);
    let sandbox = start(&spec).await;
    // One file: the kernel stops it at once.
    let outcome = sandbox
        .exec(&sh("trap '' XFSZ; head -c 9000000 /dev/zero > /big; stat -c %s /big; rm /big"))
        .await
        .unwrap();
    assert_eq!(text(&outcome), format!("{}\n", 8 << 20));
    // Many files in different trees: found by measuring.
    let script = "for i in $(seq 10); do head -c 1000000 /dev/zero > /usr/f$i; head -c 1000000 /dev/zero > /opt/f$i; done; sleep 1000";
    let limit = 8 << 20;
    match sandbox.exec(&sh(script)).await {
        Err(SandboxError::TooLarge { limit: named, .. }) => assert_eq!(named, limit),
        other => panic!("{other:?}"),
    }
    assert!(matches!(sandbox.exec(&sh("true")).await, Err(SandboxError::TooLarge { .. })));
    sandbox.destroy().await.unwrap();
    assert!(bench.leftovers().is_empty());
}

#[tokio::test]
async fn the_probe_finds_this_machine_able() {
    let probes = sandbox::native::probe(&init()).await;
    assert!(
        probes.iter().filter(|probe| probe.name != "control groups").all(|probe| probe.ok),
        "{probes:#?}"
    );
    let broken = sandbox::native::probe("/no/such/program".as_ref()).await;
    let last = broken.last().unwrap();
    assert!(!last.ok && last.detail.contains("no init program"), "{last:?}");
}

#[tokio::test]
async fn groups_go_with_their_sandbox() {
    let bench = Bench::new();
    let mut spec = bench.spec("groups");
    spec.limits = Limits { cpus: Some(1.0), memory: Some(256 << 20), pids: Some(50), storage: None };
    let sandbox = start(&spec).await;
    sandbox.exec(&sh("sleep 1000 &")).await.unwrap();
    let own = format!("seatrial-{}-", std::process::id());
    let groups =
        || walk("/sys/fs/cgroup".as_ref(), 4).into_iter().filter(|name| name.starts_with(&own)).count();
    let enforceable = engine().enforceable();
    if held("any", enforceable.memory || enforceable.pids || enforceable.cpus) {
        assert!(groups() > 0);
    }
    sandbox.destroy().await.unwrap();
    assert_eq!(groups(), 0);
}

fn walk(directory: &std::path::Path, depth: u32) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
            if depth > 0 {
                names.extend(walk(&entry.path(), depth - 1));
            }
        }
    }
    names
}

#[tokio::test]
async fn limits_that_cannot_be_held_are_refused_when_required() {
    let engine = Native::new(NativeConfig { init: init(), require_limits: true }).unwrap();
    let bench = Bench::new();
    let mut spec = bench.spec("required");
    spec.limits = Limits { cpus: Some(1.0), memory: Some(64 << 20), pids: Some(20), storage: None };
    let missing = engine.enforceable().missing(&spec.limits);
    match engine.start(&spec).await {
        Ok(sandbox) => {
            assert!(missing.is_empty());
            sandbox.destroy().await.unwrap();
        }
        Err(SandboxError::Unsupported { what, .. }) => {
            assert!(missing.iter().all(|name| what.contains(name)));
        }
        Err(other) => panic!("{other}"),
    }
    assert!(bench.leftovers().is_empty());
}
