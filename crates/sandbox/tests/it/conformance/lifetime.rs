//! Sandboxes side by side, and nothing that outlives them.

use super::ground::Ground;
use crate::host::{sh, text};
use crate::lifetime::{processes_with, wait_until};

pub async fn a_dropped_sandbox_ends(ground: &Ground) {
    let marker = format!("dropped-{}", std::process::id());
    let sandbox = ground.start(&ground.spec("dropped")).await;
    sandbox.exec(&sh(&format!("sh -c 'sleep 1000; : {marker}' > /dev/null 2>&1 &"))).await.unwrap();
    wait_until("the daemon", || !processes_with(&format!(": {marker}")).is_empty());
    drop(sandbox);
    wait_until("the end of the daemon", || processes_with(&format!(": {marker}")).is_empty());
    ground.settle().await;
}

pub async fn many_start_side_by_side(ground: &Ground) {
    // A daemon takes some hundred times as long as the native engine for each.
    let many = if ground.daemon().is_some() { 12 } else { 50 };
    let tasks: Vec<_> = (0..many)
        .map(|number| {
            let (engine, spec) =
                (std::sync::Arc::clone(&ground.engine), ground.spec(&format!("many-{number}")));
            tokio::spawn(async move {
                let sandbox = engine.start(&spec).await.unwrap();
                let script = format!("echo {number}; echo $(cat /etc/hostname)");
                let outcome = sandbox.exec(&sh(&script)).await.unwrap();
                sandbox.destroy().await.unwrap();
                (number, spec.name, outcome)
            })
        })
        .collect();
    for task in tasks {
        let (number, name, outcome) = task.await.unwrap();
        assert_eq!(text(&outcome), format!("{number}\n{name}\n"));
    }
    assert_eq!(ground.leftovers().await, [""; 0]);
}

pub async fn names_that_look_alike_stay_apart(ground: &Ground) {
    let mut sandboxes = Vec::new();
    for name in ["Task", "task", "ta/sk", "../task", "task\u{202e}", "-", &"long".repeat(100)] {
        let sandbox = ground.start(&ground.spec(name)).await;
        let outcome = sandbox.exec(&sh("touch /tmp/only-one && ls /tmp")).await.unwrap();
        assert_eq!(text(&outcome), "only-one\n", "{name}");
        sandboxes.push(sandbox);
    }
    for sandbox in sandboxes {
        sandbox.destroy().await.unwrap();
    }
    assert_eq!(ground.leftovers().await, [""; 0]);
}

pub async fn what_is_destroyed_takes_no_more_commands(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("gone")).await;
    let running = sh("echo begun; sleep 1000");
    // The call that is under way when its sandbox goes is dropped with it; the name is free again.
    tokio::select! {
        _ = sandbox.exec(&running) => panic!("it cannot end"),
        () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
    }
    sandbox.destroy().await.unwrap();
    assert_eq!(ground.leftovers().await, [""; 0]);
    let again = ground.start(&ground.spec("gone")).await;
    assert!(again.exec(&sh("true")).await.unwrap().success());
    again.destroy().await.unwrap();
}

pub async fn hostile_trees_are_removed(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("hostile")).await;
    let script = "mkdir -p /a/b && touch /a/b/c && chmod 0 /a/b /a && rm -rf /srv && ln -s / /loop && mkfifo /pipe && chmod 0 / && \
                  python3 -c \"
import os
os.chdir('/tmp')
for _ in range(2000): os.mkdir('d'); os.chdir('d')
for n in range(200): open('f%d' % n, 'w')
\"";
    let outcome = sandbox.exec(&sh(script)).await.unwrap();
    assert!(outcome.success(), "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    sandbox.destroy().await.unwrap();
    assert_eq!(ground.leftovers().await, [""; 0]);
}
