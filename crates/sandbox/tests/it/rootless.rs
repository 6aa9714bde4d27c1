//! The same engine for an ordinary user.

use std::process::Command;

use sandbox::{ExecSpec, SandboxError};

use crate::host::{Bench, sh, start, text};

/// Set for the copy of this program that runs as an ordinary user.
const INNER: &str = "SEATRIAL_TEST_ROOTLESS";

#[test]
fn an_ordinary_user_gets_the_same_sandboxes() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: the other tests already ran as an ordinary user");
        return;
    }
    let tests = [
        "rootless::inner",
        "conformance::native::codes_and_signals_come_back",
        "isolation::the_kernel_refuses_what_reaches_beyond",
        "conformance::native::kill_all_leaves_only_the_init",
        "conformance::native::hostile_archives_stay_in_their_directory",
        "conformance::native::hostile_trees_are_removed",
        "layers::a_step_leaves_nothing_of_the_engine_behind",
        "layers::a_stack_of_plain_directories_needs_no_host",
        "layers::deletions_and_replaced_directories_survive_two_generations",
    ];
    let outcome = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .args(tests)
        .env(INNER, "1")
        .current_dir("/tmp")
        .output();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("skipped: cannot switch to an ordinary user: {error}");
            return;
        }
    };
    let (out, err) = (String::from_utf8_lossy(&outcome.stdout), String::from_utf8_lossy(&outcome.stderr));
    if err.contains("Permission denied") && out.is_empty() {
        eprintln!("skipped: an ordinary user cannot run the test program: {err}");
        return;
    }
    assert!(outcome.status.success(), "{out}\n{err}");
    assert!(out.contains(&format!("{} passed", tests.len())), "{out}\n{err}");
}

#[tokio::test]
async fn inner() {
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let bench = Bench::new();
    let sandbox = start(&bench.spec("rootless")).await;
    let script = "id -u; cat /proc/self/uid_map | tr -s ' '; echo x > /usr/added; stat -c %U:%G /usr/bin/env; touch /etc/mine; stat -c %U /etc/mine";
    let outcome = sandbox.exec(&sh(script)).await.unwrap();
    assert_eq!(
        text(&outcome),
        "0\n 0 65534 1\nnobody:nogroup\nroot\n",
        "{}",
        String::from_utf8_lossy(&outcome.stderr.bytes)
    );
    let other = ExecSpec { user: Some("app".into()), ..sh("true") };
    match sandbox.exec(&other).await {
        Err(SandboxError::Spawn { reason, .. }) => {
            assert!(reason.contains("does not exist in this sandbox"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    sandbox.destroy().await.unwrap();
    assert!(bench.leftovers().is_empty());
}
