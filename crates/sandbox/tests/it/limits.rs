//! What the native engine finds out about this machine, and its control groups.

use sandbox::native::{Native, NativeConfig};
use sandbox::{Engine, Limits, SandboxError};

use crate::host::{Bench, engine, init, sh, start};

/// Whether a limit can be held here; says so when it cannot.
fn held(name: &str, held: bool) -> bool {
    if !held {
        eprintln!("skipped: this machine does not let us hold {name} limits");
    }
    held
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
