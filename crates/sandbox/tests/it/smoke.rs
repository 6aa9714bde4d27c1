use sandbox::ExitStatus;

use crate::host::{Bench, sh, start, text};

#[tokio::test]
async fn a_sandbox_starts_runs_and_goes() {
    let bench = Bench::new();
    let sandbox = start(&bench.spec("smoke")).await;
    let outcome = sandbox
        .exec(&sh(
            "id -u; echo $$; ls -la / /dev; cat /proc/self/mountinfo; cat /proc/self/status; ls /proc; df",
        ))
        .await
        .unwrap();
    println!("{}\n{}", text(&outcome), String::from_utf8_lossy(&outcome.stderr.bytes));
    assert_eq!(outcome.status, ExitStatus::Code(0));
    sandbox.destroy().await.unwrap();
    assert!(bench.leftovers().is_empty());
}
