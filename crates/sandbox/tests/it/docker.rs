//! What only a daemon can get wrong: names in its store, deserted containers, images, silence.

use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;
use sandbox::docker::{BuildSpec, Docker, DockerConfig, Sweep};
use sandbox::{EngineImage, Network, Root, Sandbox, SandboxError};

use crate::conformance::Ground;
use crate::host::{sh, text};
use crate::lifetime::{processes_with, wait_until};

/// Names the sandbox that is held, and thereby turns `hold` on.
const HOLD: &str = "SEATRIAL_TEST_HOLD_DOCKER";

/// Not a test of its own: the program that is killed below.
#[tokio::test]
async fn hold() {
    let Ok(marker) = std::env::var(HOLD) else { return };
    let Some(ground) = Ground::docker().await else { return };
    let mut spec = ground.spec(&marker);
    spec.labels.insert("job".into(), marker.clone());
    let sandbox = ground.start(&spec).await;
    let script =
        format!("(setsid sh -c 'sleep 1000; : {marker}' > /dev/null 2>&1 &); sleep 1000; : {marker}");
    let _ = sandbox.exec(&sh(&script)).await;
}

fn held(marker: &str) -> std::process::Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "docker::hold", "--nocapture"])
        .env(HOLD, marker)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let marker = format!(": {marker}");
    wait_until("the sandbox's processes", || processes_with(&marker).len() >= 2);
    child
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_program_takes_its_containers_along() {
    let Some(ground) = Ground::docker().await else { return };
    let docker = ground.daemon().unwrap();
    let marker = format!("killed-{}", std::process::id());
    let mut program = held(&marker);
    program.kill().unwrap();
    program.wait().unwrap();
    // Nobody sweeps: the connection's end is the sandbox's end, and the daemon removes what ended.
    wait_until("the end of the sandbox", || processes_with(&format!(": {marker}")).is_empty());
    let job = Sweep::Job(marker);
    let end = Instant::now() + Duration::from_secs(20);
    while !docker.look(&job).await.unwrap().is_empty() {
        assert!(Instant::now() < end, "the container stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_of_a_job_takes_its_containers_and_no_others() {
    let Some(ground) = Ground::docker().await else { return };
    let docker = ground.daemon().unwrap();
    let mut spec = ground.spec("swept");
    let job = format!("swept-{}", std::process::id());
    spec.labels.insert("job".into(), job.clone());
    let swept = ground.start(&spec).await;
    let mut other = ground.spec("other");
    other.labels.insert("job".into(), format!("{job}-other"));
    let other = ground.start(&other).await;
    // Both belong to this program, which is alive.
    let (removed, kept) = docker.sweep(&Sweep::Orphans).await.unwrap();
    assert!(removed.iter().all(|removed| !removed.sandbox.starts_with(&Ground::name(""))), "{removed:?}");
    let own = kept.iter().filter(|kept| kept.sandbox.starts_with(&Ground::name("")));
    assert_eq!(own.map(|kept| kept.reason).collect::<Vec<_>>(), ["its process is running"; 2]);
    let (removed, kept) = docker.sweep(&Sweep::Job(job.clone())).await.unwrap();
    assert_eq!(
        removed.iter().map(|removed| removed.sandbox.as_str()).collect::<Vec<_>>(),
        [spec.name.as_str()]
    );
    assert!(kept.is_empty());
    let (removed, _) = docker.sweep(&Sweep::Job(job)).await.unwrap();
    assert!(removed.is_empty());
    // The one that was taken away says so, and can still be put away; the other one works.
    assert!(matches!(swept.exec(&sh("true")).await, Err(SandboxError::Lost(_))));
    swept.destroy().await.unwrap();
    assert!(other.exec(&sh("true")).await.unwrap().success());
    other.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_in_use_is_taken_over_from_nobody_who_lives() {
    let Some(ground) = Ground::docker().await else { return };
    let marker = format!("taken-{}", std::process::id());
    let mut program = held(&marker);
    // A container that the other program made, and its name.
    let mut spec = ground.spec(&marker);
    spec.name = format!("it-{}-{marker}", program.id());
    match ground.engine.start(&spec).await.err() {
        Some(SandboxError::Start { reason, .. }) => assert!(reason.contains("in use"), "{reason}"),
        other => panic!("{other:?}"),
    }
    program.kill().unwrap();
    program.wait().unwrap();
    // Deserted, and perhaps still about to go: taken over.
    let sandbox = ground.start(&spec).await;
    assert!(sandbox.exec(&sh("true")).await.unwrap().success());
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roots_that_the_daemon_does_not_hold_are_refused() {
    let Some(ground) = Ground::docker().await else { return };
    let mut spec = ground.spec("rootless");
    let reference = format!("sha256:{}", "0".repeat(64));
    spec.root = Root::Image(EngineImage { digest: reference.clone(), reference });
    match ground.engine.start(&spec).await.err() {
        Some(SandboxError::Start { reason, .. }) => assert!(reason.contains("No such image"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let native = Ground::native();
    spec.root = native.spec("layers").root;
    assert!(matches!(ground.engine.start(&spec).await.err(), Some(SandboxError::Unsupported { .. })));
    let base = ground.spec("base").root;
    let mut spec = native.spec("other-way-round");
    spec.root = base;
    assert!(matches!(native.engine.start(&spec).await.err(), Some(SandboxError::Unsupported { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_without_any_program_works() {
    let Some(ground) = Ground::docker().await else { return };
    let docker = ground.daemon().unwrap();
    let context = tempfile::tempdir().unwrap();
    fs::write(context.path().join("Dockerfile"), "FROM scratch\nCOPY data /data\n").unwrap();
    fs::write(context.path().join("data"), "kept").unwrap();
    let image =
        docker.build(&BuildSpec::new(context.path(), context.path().join("Dockerfile"))).await.unwrap();
    let mut spec = ground.spec("scratch");
    spec.root = Root::Image(image);
    let sandbox = ground.start(&spec).await;
    match sandbox.exec(&sh("true")).await {
        Err(SandboxError::Spawn { reason, .. }) => assert!(reason.contains("not found on PATH"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let archive = sandbox.download("/data", 1 << 20).await.unwrap();
    assert_eq!(archive.as_tar().entries().unwrap().count(), 1);
    sandbox.kill_all().await.unwrap();
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_built_once_and_failures_show_their_step() {
    let Some(ground) = Ground::docker().await else { return };
    let docker = ground.daemon().unwrap();
    let context = tempfile::tempdir().unwrap();
    let dockerfile = context.path().join("Dockerfile");
    let unique = format!("built by {}", std::process::id());
    fs::write(
        &dockerfile,
        "FROM seatrial.test/base:1\nCOPY . /context\nRUN ls /context > /list && ls /sys/class/net > /net\n",
    )
    .unwrap();
    fs::write(context.path().join("kept"), &unique).unwrap();
    fs::write(context.path().join("secret"), "secret").unwrap();
    fs::write(context.path().join(".dockerignore"), "secret\nDockerfile\n").unwrap();
    fs::os::unix::fs::symlink("/etc/passwd", context.path().join("link")).unwrap();
    let spec = BuildSpec::new(context.path(), &dockerfile);
    let image = docker.build(&spec).await.unwrap();
    let again = docker.build(&spec).await.unwrap();
    assert_eq!(image, again);
    assert!(image.digest.starts_with("sha256:") && image.digest.len() == 71);
    // By its id it is there; nobody is asked.
    assert_eq!(docker.pull(&image.reference).await.unwrap(), image);
    let mut sandbox_spec = ground.spec("built");
    sandbox_spec.root = Root::Image(image);
    let sandbox = ground.start(&sandbox_spec).await;
    let outcome =
        sandbox.exec(&sh("cat /list /net; cat /context/kept; readlink /context/link")).await.unwrap();
    let seen = text(&outcome);
    assert!(seen.starts_with("kept\nlink\n") && seen.ends_with(&format!("{unique}/etc/passwd\n")), "{seen}");
    if !docker.cannot_hold().contains(&"offline builds") {
        assert_eq!(seen, format!("kept\nlink\nlo\n{unique}/etc/passwd\n"));
    }
    sandbox.destroy().await.unwrap();

    fs::write(&dockerfile, format!("FROM seatrial.test/base:1\nRUN echo fine\nRUN echo {unique}; exit 3\n"))
        .unwrap();
    match docker.build(&spec).await {
        Err(SandboxError::Build { step, reason, tail }) => {
            assert!(step.starts_with("RUN echo built by"), "{step}");
            assert!(reason.contains('3'), "{reason}");
            assert_eq!(tail, unique);
        }
        other => panic!("{other:?}"),
    }
    fs::write(&dockerfile, format!("FROM seatrial.test/base:1\nRUN : {unique} && sleep 1000\n")).unwrap();
    let short = BuildSpec { timeout: Duration::from_secs(2), ..spec.clone() };
    let error = docker.build(&short).await.unwrap_err();
    assert!(error.to_string().contains("longer than 2 s"), "{error}");
    let allow = BuildSpec { network: Network::Allowlist(Vec::new()), ..spec };
    assert!(matches!(docker.build(&allow).await, Err(SandboxError::Unsupported { .. })));
    fs::write(&dockerfile, "FROM no.such.registry.invalid/image:1\n").unwrap();
    let error = docker.build(&BuildSpec::new(context.path(), &dockerfile)).await.unwrap_err();
    assert!(matches!(error, SandboxError::Build { .. }), "{error}");
}

#[tokio::test]
async fn daemons_that_are_none_are_named() {
    let connect =
        async |host: String| Docker::connect(&DockerConfig { host: Some(host), ..Default::default() }).await;
    let temp = tempfile::tempdir().unwrap();
    let missing = temp.path().join("missing.sock");
    let error = connect(format!("unix://{}", missing.display())).await.unwrap_err().to_string();
    assert!(error.contains("missing.sock"), "{error}");
    let error = connect("tcp://127.0.0.1:1".into()).await.unwrap_err().to_string();
    assert!(error.contains("only unix:// addresses"), "{error}");
    // One that speaks something else.
    let socket = temp.path().join("other.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1000]);
            let body = r#"{"ApiVersion":"1.40","Os":"linux","Arch":"amd64"}"#;
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    let error = connect(format!("unix://{}", socket.display())).await.unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable { .. }));
    assert!(error.to_string().contains("offers API 1.40, and 1.41 is needed"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_and_labels_are_the_containers_own() {
    let Some(ground) = Ground::docker().await else { return };
    let docker = ground.daemon().unwrap();
    let mut spec = ground.spec("labels");
    let job = format!("labels-{}", std::process::id());
    spec.labels.extend([("job".to_owned(), job.clone()), ("trial".to_owned(), "t__1".to_owned())]);
    let sandbox: Box<dyn Sandbox> = ground.start(&spec).await;
    let found = docker.look(&Sweep::Job(job)).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].sandbox, spec.name);
    sandbox.exec(&sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).await.unwrap();
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.cpu_time.unwrap() > Duration::from_millis(20), "{usage:?}");
    assert!(usage.peak_memory.unwrap() > 1 << 19, "{usage:?}");
    assert_eq!(usage.oom_kills, 0);
    sandbox.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_nobody_waits_for_leaves_nothing() {
    let Some(ground) = Ground::docker().await else { return };
    // Wherever the start is when it is dropped.
    for millis in [0, 5, 20, 50, 100, 200, 400] {
        let spec = ground.spec(&format!("dropped-{millis}"));
        tokio::select! {
            started = ground.engine.start(&spec) => drop(started.unwrap()),
            () = tokio::time::sleep(Duration::from_millis(millis)) => {}
        }
    }
    // Creations that were under way end first.
    tokio::time::sleep(Duration::from_secs(1)).await;
    ground.settle().await;
}
