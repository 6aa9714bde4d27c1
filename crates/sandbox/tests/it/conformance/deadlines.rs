//! Deadlines, cancelled calls, and the end of everything.

use std::time::Duration;

use sandbox::{ExecSpec, ExitStatus, Limits, Sandbox};

use super::ground::Ground;
use crate::host::{sh, text};

/// Starts a daemon the hard way: forked twice, in a session of its own, streams closed, signals ignored.
const DAEMON: &str = "python3 -c '
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for s in range(1, 32):
            try: signal.signal(s, signal.SIG_IGN)
            except OSError: pass
        os.closerange(0, 3)
        open(\"/tmp/daemon\", \"w\").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
os.wait()
while not os.path.exists(\"/tmp/daemon\") or not open(\"/tmp/daemon\").read(): time.sleep(0.01)
'";

/// Process ids in the sandbox, without the init, the supervisor and the shell that looks.
async fn others(sandbox: &dyn Sandbox) -> Vec<String> {
    let outcome = sandbox
        .exec(&sh("for p in /proc/[0-9]*; do echo ${p#/proc/}; done; echo me $$ $PPID"))
        .await
        .unwrap();
    let text = text(&outcome);
    let own: Vec<&str> = text.lines().last().unwrap().split(' ').skip(1).collect();
    text.lines()
        .filter(|line| !line.starts_with("me") && *line != "1" && !own.contains(line))
        .map(String::from)
        .collect()
}

pub async fn a_deadline_ends_the_whole_tree_and_nothing_else(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("deadline")).await;
    sandbox.exec(&sh("sleep 1000 > /dev/null 2>&1 & echo $! > /tmp/before")).await.unwrap();
    let before = text(&sandbox.exec(&sh("cat /tmp/before")).await.unwrap()).trim().to_owned();
    let mut command =
        sh(&format!("{DAEMON}; trap '' TERM INT; sleep 1000 & echo started; while :; do sleep 1; done"));
    // A loaded machine may need more than one try to get that far within the limit.
    for seconds in [1, 3, 9, 27] {
        sandbox.exec(&sh("rm -f /tmp/daemon")).await.unwrap();
        command.timeout = Some(Duration::from_secs(seconds));
        let outcome = sandbox.exec(&command).await.unwrap();
        assert_eq!(outcome.status, ExitStatus::Timeout);
        assert!(outcome.wall >= Duration::from_secs(seconds));
        if text(&outcome) == "started\n" {
            break;
        }
        assert!(seconds < 27, "{}", text(&outcome));
    }
    assert_eq!(others(&*sandbox).await, [before]);
    sandbox.destroy().await.unwrap();
}

pub async fn a_fork_bomb_meets_its_deadline(ground: &Ground) {
    let mut spec = ground.spec("bomb");
    spec.limits = Limits { pids: Some(64), ..Limits::default() };
    let sandbox = ground.start(&spec).await;
    let bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass";
    let mut command =
        ExecSpec { argv: ["python3", "-c", bomb].map(String::from).to_vec(), ..ExecSpec::default() };
    command.timeout = Some(Duration::from_millis(500));
    assert_eq!(sandbox.exec(&command).await.unwrap().status, ExitStatus::Timeout);
    assert_eq!(others(&*sandbox).await, [""; 0]);
    sandbox.destroy().await.unwrap();
}

/// A thousand processes on half a processor do not keep the deadline from being held.
pub async fn a_crowd_meets_its_deadline(ground: &Ground) {
    let mut spec = ground.spec("crowd");
    spec.limits = Limits { pids: Some(1000), cpus: Some(0.5), ..Limits::default() };
    let sandbox = ground.start(&spec).await;
    let bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass";
    let mut command =
        ExecSpec { argv: ["python3", "-c", bomb].map(String::from).to_vec(), ..ExecSpec::default() };
    command.timeout = Some(Duration::from_secs(3));
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!(outcome.status, ExitStatus::Timeout);
    assert_eq!(others(&*sandbox).await, [""; 0]);
    sandbox.destroy().await.unwrap();
}

pub async fn a_call_nobody_waits_for_ends_its_command(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("cancel")).await;
    let command = sh("touch /tmp/running; sleep 1000");
    tokio::select! {
        _ = sandbox.exec(&command) => panic!("it cannot end"),
        () = async {
            while !sandbox.exec(&sh("test -e /tmp/running")).await.unwrap().success() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        } => {}
    }
    nothing_runs_soon(&*sandbox).await;
    sandbox.destroy().await.unwrap();
}

pub async fn kill_all_leaves_only_the_init(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("kill")).await;
    let running = sh("touch /tmp/running; sleep 1000");
    let outcome = tokio::join!(sandbox.exec(&running), async {
        while !sandbox.exec(&sh("test -e /tmp/running")).await.unwrap().success() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(sandbox.exec(&sh(DAEMON)).await.unwrap().success());
        assert!(!others(&*sandbox).await.is_empty());
        sandbox.kill_all().await.unwrap();
    })
    .0;
    assert_eq!(outcome.unwrap().status, ExitStatus::Signal(9));
    assert_eq!(others(&*sandbox).await, [""; 0]);
    // The sandbox is as good as before.
    assert!(sandbox.exec(&sh("true")).await.unwrap().success());
    sandbox.destroy().await.unwrap();
}

pub async fn a_command_cannot_shake_its_supervisor_off(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("mutiny")).await;
    let mut command =
        sh("kill -KILL 1; kill -TERM 1; kill -KILL $PPID; sleep 0.2; while :; do sleep 1; done");
    command.timeout = Some(Duration::from_secs(20));
    assert_eq!(sandbox.exec(&command).await.unwrap().status, ExitStatus::Signal(9));
    nothing_runs_soon(&*sandbox).await;
    sandbox.destroy().await.unwrap();
}

/// Waits for what was killed and is not quite gone on a busy machine.
async fn nothing_runs_soon(sandbox: &dyn Sandbox) {
    let mut left = others(sandbox).await;
    for _ in 0..200 {
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        left = others(sandbox).await;
    }
    assert_eq!(left, [""; 0]);
}
