//! Memory, processes, processors, storage: held where the machine lets us, and said where it does not.

use sandbox::{ExecSpec, ExitStatus, SandboxError};

use super::ground::Ground;
use crate::host::{sh, text};

pub async fn the_memory_limit_holds_and_is_reported(ground: &Ground) {
    if !ground.holds("memory") {
        return;
    }
    let mut spec = ground.spec("memory");
    spec.limits.memory = Some(64 << 20);
    let sandbox = ground.start(&spec).await;
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

pub async fn the_process_limit_holds(ground: &Ground) {
    if !ground.holds("pids") {
        return;
    }
    let mut spec = ground.spec("pids");
    spec.limits.pids = Some(10);
    let sandbox = ground.start(&spec).await;
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

pub async fn the_processor_limit_holds(ground: &Ground) {
    if !ground.holds("cpus") {
        return;
    }
    let mut spec = ground.spec("cpus");
    spec.limits.cpus = Some(0.25);
    let sandbox = ground.start(&spec).await;
    let script = "import time; end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(time.process_time())";
    let command =
        ExecSpec { argv: ["python3", "-c", script].map(String::from).to_vec(), ..ExecSpec::default() };
    let used: f64 = text(&sandbox.exec(&command).await.unwrap()).trim().parse().unwrap();
    assert!(used < 1.0, "{used} s of processor time in 1.5 s at a quarter of a processor");
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.cpu_time.unwrap().as_secs_f64() > used / 2.0);
    sandbox.destroy().await.unwrap();
}

pub async fn writing_more_than_allowed_ends_the_sandbox(ground: &Ground) {
    let mut spec = ground.spec("storage");
    spec.limits.storage = Some(8 << 20);
    let sandbox = ground.start(&spec).await;
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
    assert_eq!(ground.leftovers().await, [""; 0]);
}
