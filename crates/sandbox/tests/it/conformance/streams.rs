//! Input, output, and what becomes of too much of it.

use sandbox::{Capture, ExecSpec, ExitStatus};

use super::ground::Ground;
use crate::host::{sh, text};

pub async fn output_is_split_or_merged(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("split")).await;
    let mut command = sh("echo out; echo err >&2; echo out again");
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!(
        (text(&outcome).as_str(), outcome.stderr.bytes.as_slice()),
        ("out\nout again\n", &b"err\n"[..])
    );
    command.capture.merge = true;
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!((text(&outcome).as_str(), outcome.stderr.total), ("out\nerr\nout again\n", 0));
    sandbox.destroy().await.unwrap();
}

pub async fn input_arrives_and_is_closed_when_empty(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("input")).await;
    let mut command = sh("cat; readlink /proc/$$/fd/0 >&2");
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!((outcome.stdout.total, outcome.stderr.bytes.as_slice()), (0, &b"/dev/null\n"[..]));
    command.stdin = vec![b'z'; 3 << 20];
    command.argv = ["wc", "-c"].map(String::from).to_vec();
    assert_eq!(text(&sandbox.exec(&command).await.unwrap()).trim(), (3 << 20).to_string());
    // A command that does not read is no problem.
    command.argv = vec!["true".into()];
    assert!(sandbox.exec(&command).await.unwrap().success());
    sandbox.destroy().await.unwrap();
}

pub async fn a_gigabyte_of_output_is_counted_not_kept(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("flood")).await;
    let command = ExecSpec {
        argv: ["sh", "-c", "echo first; head -c 1073741824 /dev/zero; echo last"].map(String::from).to_vec(),
        capture: Capture { limit: 4096, merge: true },
        ..ExecSpec::default()
    };
    let before = peak_memory();
    let outcome = sandbox.exec(&command).await.unwrap();
    let grown = peak_memory() - before;
    assert_eq!(outcome.stdout.total, (1 << 30) + 11);
    assert!(outcome.stdout.bytes.len() <= 4096 && outcome.stdout.truncated());
    assert!(outcome.stdout.bytes.starts_with(b"first\n\0"));
    assert!(outcome.stdout.bytes.ends_with(b"\0last\n"));
    assert!(grown < 8 << 10, "memory grew by {grown} KiB");
    sandbox.destroy().await.unwrap();
}

/// Highest memory use of this process so far, in KiB.
fn peak_memory() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

pub async fn a_daemon_that_keeps_the_streams_open_does_not_hold_the_command(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("holder")).await;
    // It goes on writing after the command has ended, and must neither block nor break.
    let script = "(i=0; while [ $i -lt 40 ]; do echo noise; sleep 0.02; i=$((i+1)); done; touch /tmp/survived) & echo main done";
    let outcome = sandbox.exec(&sh(script)).await.unwrap();
    assert_eq!(outcome.status, ExitStatus::Code(0));
    assert!(text(&outcome).contains("main done\n"));
    let script = "for i in $(seq 500); do [ -e /tmp/survived ] && exit 0; sleep 0.02; done; exit 1";
    assert!(sandbox.exec(&sh(script)).await.unwrap().success());
    // All that the command itself wrote is there, however full the pipe was.
    let outcome = sandbox.exec(&sh("sleep 1000 & head -c 60000 /dev/zero")).await.unwrap();
    assert_eq!(outcome.stdout.total, 60_000);
    sandbox.destroy().await.unwrap();
}
