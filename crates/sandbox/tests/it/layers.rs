//! Stacks of layers, and what deletions become in them.

use std::path::Path;

use fs_err as fs;
use image::{ImageConfig, Layer, RootImage, RunCommand, RunFailure, RunStep};
use sandbox::Engine;
use sandbox::native::StepRunner;

use crate::host::{Bench, engine, sh, start, text};

fn step(script: &str) -> RunCommand {
    RunCommand {
        argv: ["/bin/sh", "-ec", script].map(String::from).to_vec(),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        workdir: "/".into(),
        user: None,
        stdin: Vec::new(),
    }
}

/// Runs a script over layers above the host and returns the directory that holds what changed.
fn build(bench: &Bench, above: &[&Path], name: &str, script: &str) -> std::path::PathBuf {
    let into = bench.temp.path().join(name);
    fs::create_dir(&into).unwrap();
    let runner = StepRunner::new(engine());
    runner.run(&bench.image(above), &step(script), &into).unwrap_or_else(|error| panic!("{error}"));
    into
}

async fn see(bench: &Bench, above: &[&Path], script: &str) -> String {
    let mut spec = bench.spec("see");
    spec.root = bench.image(above).into();
    let sandbox = start(&spec).await;
    let outcome = sandbox.exec(&sh(script)).await.unwrap();
    sandbox.destroy().await.unwrap();
    text(&outcome)
}

#[test]
fn deletions_and_replaced_directories_survive_two_generations() {
    let bench = Bench::new();
    let one = build(
        &bench,
        &[],
        "one",
        "mkdir -p /usr/seatrial/sub /data/old; echo 1 > /usr/seatrial/a; echo 1 > /usr/seatrial/sub/b; echo 1 > /data/old/x; \
         echo 1 > /data/keep; chmod 750 /data; echo new > /etc/new-file; rmdir /srv",
    );
    assert!(one.join("usr/seatrial/a").exists() && one.join("data/old/x").exists());
    let two = build(
        &bench,
        &[&one],
        "two",
        "test -e /usr/seatrial/a; ! test -e /srv; rm /usr/seatrial/a; rm -rf /usr/seatrial/sub; mkdir /usr/seatrial/sub; \
         echo 2 > /usr/seatrial/sub/c; rm -rf /data/old; mkdir /data/old; echo 2 > /data/old/y; rm /etc/new-file; ln -s /tmp /home/link",
    );
    let three = build(
        &bench,
        &[&one, &two],
        "three",
        "test $(ls /usr/seatrial/sub) = c; test $(ls /data/old) = y; mkdir /srv; echo 3 > /srv/only; rm /data/keep; rm /home/link",
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let script = "ls /usr/seatrial /usr/seatrial/sub /data /data/old /srv /home; test -e /etc/new-file || echo gone; stat -c %a /data /tmp /";
        let seen = see(&bench, &[&one, &two, &three], script).await;
        assert_eq!(
            seen,
            "/data:\nold\n\n/data/old:\ny\n\n/home:\n\n/srv:\nonly\n\n/usr/seatrial:\nsub\n\n/usr/seatrial/sub:\nc\ngone\n750\n1777\n755\n"
        );
        // The generations below still look as they did.
        let script = "cat /usr/seatrial/a /usr/seatrial/sub/b /data/old/x /data/keep; test -e /srv || echo gone";
        assert_eq!(see(&bench, &[&one], script).await, "1\n1\n1\n1\ngone\n");
    });
    assert!(bench.leftovers().is_empty());
}

#[test]
fn parts_of_the_host_can_be_removed_and_put_back() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may change directories that belong to the host's root");
        return;
    }
    let bench = Bench::new();
    let one = build(&bench, &[], "one", "rm -rf /usr/share/doc /usr/games");
    let two = build(
        &bench,
        &[&one],
        "two",
        "test ! -e /usr/share/doc; test ! -e /usr/games; ln -s /tmp /usr/games",
    );
    let three =
        build(&bench, &[&one, &two], "three", "mkdir -p /usr/share/doc; echo 3 > /usr/share/doc/only");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let script = "ls /usr/share/doc; readlink /usr/games";
        assert_eq!(see(&bench, &[&one, &two, &three], script).await, "only\n/tmp\n");
        assert_eq!(see(&bench, &[&one], "test -e /usr/share/doc || echo gone").await, "gone\n");
    });
    assert!(fs::metadata("/usr/share/doc").is_ok());
}

#[test]
fn a_step_leaves_nothing_of_the_engine_behind() {
    let bench = Bench::new();
    let into = build(&bench, &[], "empty", "true");
    let mut left = Vec::new();
    for entry in walkdir(&into) {
        left.push(entry.strip_prefix(&into).unwrap().display().to_string());
    }
    assert_eq!(left, [""; 0]);
    let into = build(&bench, &[], "one-file", "mkdir -p /a/b; echo x > /a/b/c; echo y > /usr/added");
    let mut left: Vec<String> = walkdir(&into)
        .into_iter()
        .map(|path| path.strip_prefix(&into).unwrap().display().to_string())
        .collect();
    left.sort();
    assert_eq!(left, ["a", "a/b", "a/b/c", "usr", "usr/added"]);
    let parent: Vec<_> =
        fs::read_dir(bench.temp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(parent.len(), 4, "{parent:?}");
}

fn walkdir(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(walkdir(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn a_failing_step_reports_its_code_and_last_words() {
    let bench = Bench::new();
    let into = bench.temp.path().join("failed");
    fs::create_dir(&into).unwrap();
    let runner = StepRunner::new(engine());
    let command = step("echo working; echo broken >&2; exit 7");
    match runner.run(&bench.image(&[]), &command, &into) {
        Err(RunFailure::Exit { code: 7, tail }) => assert!(tail.contains("working\nbroken"), "{tail}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::read_dir(&into).unwrap().count(), 0);
    let runner = StepRunner::new(engine()).with_timeout(std::time::Duration::from_millis(300));
    match runner.run(&bench.image(&[]), &step("sleep 1000"), &into) {
        Err(RunFailure::Timeout { .. }) => {}
        other => panic!("{other:?}"),
    }
    let mut missing = step("true");
    missing.argv[0] = "/no/such/shell".into();
    assert!(matches!(runner.run(&bench.image(&[]), &missing, &into), Err(RunFailure::Engine(_))));
}

#[tokio::test]
async fn a_stack_of_plain_directories_needs_no_host() {
    let bench = Bench::new();
    // The smallest image that runs: a shell with its libraries, without any of the directories the engine mounts on.
    let root = bench.temp.path().join("root");
    for program in ["/bin/sh", "/bin/ls", "/bin/cat"] {
        copy_with_libraries(Path::new(program), &root);
    }
    let upper = bench.temp.path().join("upper");
    fs::create_dir_all(&upper).unwrap();
    fs::write(upper.join("hello"), "from above\n").unwrap();
    let mut spec = bench.spec("plain");
    let layers = vec![Layer::Directory(root), Layer::Directory(upper)];
    spec.root = RootImage { layers, config: ImageConfig::default(), digest: "sha256:plain".into() }.into();
    let sandbox = engine().start(&spec).await.unwrap_or_else(|error| panic!("{error}"));
    let outcome =
        sandbox.exec(&sh("cat /hello; ls /; cat /etc/hostname; echo x > /dev/null; echo ok")).await.unwrap();
    let seen = text(&outcome);
    assert!(seen.starts_with("from above\n") && seen.ends_with("plain\nok\n"), "{seen}");
    assert!(!seen.contains("home") && !seen.contains("root\n"), "{seen}");
    sandbox.destroy().await.unwrap();
}

/// Copies a program and what `ldd` says it loads to the same places below `root`.
fn copy_with_libraries(program: &Path, root: &Path) {
    let listed = std::process::Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    for path in libraries.chain([program]) {
        let to = root.join(path.strip_prefix("/").unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
}

#[tokio::test]
async fn many_layers_fit() {
    let bench = Bench::new();
    let layers: Vec<_> = (0..300)
        .map(|number| {
            let path =
                bench.temp.path().join(format!("a-layer-with-a-rather-long-name-and-a-comma,colon:{number}"));
            fs::create_dir_all(path.join("usr/many")).unwrap();
            fs::write(path.join("usr/many").join(number.to_string()), "").unwrap();
            path
        })
        .collect();
    let above: Vec<&Path> = layers.iter().map(std::path::PathBuf::as_path).collect();
    assert_eq!(see(&bench, &above, "ls /usr/many | wc -l").await.trim(), "300");
}

#[tokio::test]
async fn what_cannot_be_mounted_is_a_start_error_without_leftovers() {
    let bench = Bench::new();
    let mut spec = bench.spec("missing");
    spec.root = bench.image(&[Path::new("/no/such/layer")]).into();
    let error = engine().start(&spec).await.err().unwrap().to_string();
    assert!(error.contains("sandbox missing did not start") && error.contains("/no/such/layer"), "{error}");
    assert!(bench.leftovers().is_empty());
    let gone = Bench::new();
    let mut spec = gone.spec("no-scratch");
    spec.scratch = "/no/such/scratch".into();
    assert!(engine().start(&spec).await.is_err());
}

/// Verifiers that share a sandbox with an agent tell by these times what the agent changed.
#[test]
fn times_tell_what_an_image_holds_from_what_is_changed_at_once() {
    let bench = Bench::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for number in 0..8 {
        let (unfinished, layer) =
            (bench.temp.path().join("unfinished"), bench.temp.path().join(number.to_string()));
        fs::create_dir(&unfinished).unwrap();
        fs::write(unfinished.join("held"), "").unwrap();
        fs::rename(&unfinished, &layer).unwrap();
        let script =
            ": > /changed; stat -c %.9Z /held /changed; cut -d' ' -f22 /proc/1/stat; getconf CLK_TCK";
        let seen = runtime.block_on(see(&bench, &[&layer], script));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let booted = now - (since_boot.tv_sec as f64 + since_boot.tv_nsec as f64 / 1e9);
        let numbers: Vec<f64> = seen.lines().map(|line| line.parse().unwrap()).collect();
        let [held, changed, ticks, ticks_per_sec] = numbers[..] else { panic!("{seen}") };
        let began = booted + ticks / ticks_per_sec;
        assert!(held < began && began < changed, "{held} {began} {changed}");
    }
    assert!(bench.leftovers().is_empty());
}
