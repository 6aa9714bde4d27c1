//! How commands start, end and see their surroundings.

use std::collections::BTreeMap;

use sandbox::{ExecSpec, ExitStatus, SandboxError};

use super::ground::Ground;
use crate::host::{sh, text};

pub async fn a_sandbox_starts_runs_and_goes(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("plain")).await;
    let outcome = sandbox.exec(&sh("true")).await.unwrap();
    assert!(outcome.success());
    sandbox.destroy().await.unwrap();
    assert_eq!(ground.leftovers().await, [""; 0]);
}

pub async fn codes_and_signals_come_back(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("codes")).await;
    for code in [0, 1, 42, 255] {
        let outcome = sandbox.exec(&sh(&format!("exit {code}"))).await.unwrap();
        assert_eq!(outcome.status, ExitStatus::Code(code));
    }
    assert_eq!(sandbox.exec(&sh("kill -TERM $$")).await.unwrap().status, ExitStatus::Signal(15));
    assert_eq!(sandbox.exec(&sh("kill -KILL $$")).await.unwrap().status, ExitStatus::Signal(9));
    sandbox.destroy().await.unwrap();
}

pub async fn what_cannot_start_says_why(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("spawn")).await;
    let run = |argv: &[&str]| ExecSpec {
        argv: argv.iter().map(ToString::to_string).collect(),
        ..ExecSpec::default()
    };
    sandbox
        .exec(&sh("echo x > /tmp/plain; printf '#!/no/such\\n' > /tmp/script; chmod +x /tmp/script"))
        .await
        .unwrap();
    let mut broken = sh("true");
    broken.workdir = Some("/no/such/place".into());
    let mut nobody = sh("true");
    nobody.user = Some("no-such-user".into());
    let cases = [
        (run(&["no-such-program"]), "not found on PATH"),
        (run(&["/no/such/file"]), "no such file"),
        (run(&["/tmp/plain"]), "permission denied"),
        (run(&["/tmp/script"]), "interpreter does not exist"),
        (run(&["/etc"]), "permission denied"),
        (run(&[]), "no program was named"),
        (run(&[""]), "no program was named"),
        (broken, "working directory /no/such/place: it does not exist"),
        (nobody, "no user `no-such-user`"),
        (run(&["echo", "a\0b"]), "zero byte"),
    ];
    for (command, expected) in cases {
        match sandbox.exec(&command).await {
            Err(SandboxError::Spawn { reason, .. }) => {
                assert!(reason.contains(expected), "{reason} / {expected}");
            }
            other => panic!("{command:?}: {other:?}"),
        }
    }
    sandbox.destroy().await.unwrap();
}

pub async fn settings_of_command_sandbox_and_image_are_layered(ground: &Ground) {
    let mut spec = ground.spec("settings");
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let env = map(&[("A", "image"), ("B", "image"), ("C", "image")]);
    spec.root = ground.image_with(env, "/usr", "app").await;
    spec.env = map(&[("B", "sandbox"), ("C", "sandbox")]);
    let sandbox = ground.start(&spec).await;
    let script = "echo $A $B $C $(pwd) $(id -un) $(id -Gn) $HOME $(umask)";
    let mut command = sh(script);
    command.env = map(&[("C", "command")]);
    assert_eq!(
        text(&sandbox.exec(&command).await.unwrap()),
        "image sandbox command /usr app app extra /home/app 0022\n"
    );
    command.workdir = Some("/tmp".into());
    command.user = Some("0:77".into());
    assert_eq!(
        text(&sandbox.exec(&command).await.unwrap()),
        "image sandbox command /tmp root extra /root 0022\n"
    );
    command.env = map(&[("HOME", "/here"), ("PATH", "/usr/bin:/bin")]);
    command.user = Some("4321".into());
    command.argv[2] = "echo $HOME $PATH $(id -u):$(id -g)".into();
    assert_eq!(text(&sandbox.exec(&command).await.unwrap()), "/here /usr/bin:/bin 4321:0\n");
    sandbox.destroy().await.unwrap();
}

pub async fn commands_start_clean(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("clean")).await;
    // Only the three streams are open, no signal is ignored that a program could know, the session is its own.
    let script = "ls /proc/$$/fd; grep -E '^Sig(Blk|Ign)' /proc/self/status; ps -o sid= -p $$ 2>/dev/null || cut -d' ' -f6 /proc/$$/stat; echo $$";
    let outcome = sandbox.exec(&sh(script)).await.unwrap();
    let lines: Vec<String> = text(&outcome).lines().map(|line| line.trim().to_owned()).collect();
    assert_eq!(&lines[..3], ["0", "1", "2"]);
    assert_eq!(lines[3], "SigBlk:\t0000000000000000");
    let ignored = u64::from_str_radix(lines[4].trim_start_matches("SigIgn:\t"), 16).unwrap();
    assert_eq!(ignored & 0x7fff_ffff, 0, "{lines:?}");
    assert_eq!(lines[5], lines[6], "{lines:?}");
    sandbox.destroy().await.unwrap();
}

pub async fn real_programs_work(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("python")).await;
    let script = "
import multiprocessing, os, socket, subprocess, tempfile, threading
with tempfile.NamedTemporaryFile() as f: f.write(b'x')
t = threading.Thread(target=lambda: None); t.start(); t.join()
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(['sh', '-c', 'exit 3']).returncode == 3
a, b = os.openpty(); os.close(a); os.close(b)
assert os.urandom(4)
print('all fine')
";
    let argv = ["python3", "-c", script].map(String::from).to_vec();
    let outcome = sandbox.exec(&ExecSpec { argv, ..ExecSpec::default() }).await.unwrap();
    assert_eq!(text(&outcome), "all fine\n", "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    let script = "cd /tmp && git init -q r && cd r && echo a > f && git add f && \
                  git -c user.name=a -c user.email=a@b commit -qm one && git log --format=%s && rm -rf .git && ls";
    assert_eq!(text(&sandbox.exec(&sh(script)).await.unwrap()), "one\nf\n");
    sandbox.destroy().await.unwrap();
}

pub async fn commands_run_side_by_side(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("parallel")).await;
    // Each waits for a file that the next one makes.
    let script = |own: u32, next: u32| {
        sh(&format!("touch /tmp/{own}; while ! [ -e /tmp/{next} ]; do sleep 0.01; done"))
    };
    let (a, b, c) = (script(1, 2), script(2, 3), script(3, 1));
    let (a, b, c) = tokio::join!(sandbox.exec(&a), sandbox.exec(&b), sandbox.exec(&c));
    assert!(a.unwrap().success() && b.unwrap().success() && c.unwrap().success());
    sandbox.destroy().await.unwrap();
}

pub async fn long_arguments_and_environments_pass(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("long")).await;
    let mut command = sh("echo ${#BIG} $# ${#1}");
    command.argv.push("name".into());
    command.argv.extend((0..10).map(|_| "y".repeat(100_000)));
    command.env.insert("BIG".into(), "x".repeat(120_000));
    assert_eq!(text(&sandbox.exec(&command).await.unwrap()), "120000 10 100000\n");
    command.argv.push("z".repeat(3 << 20));
    match sandbox.exec(&command).await {
        Err(SandboxError::Spawn { reason, .. }) => assert!(reason.contains("too long"), "{reason}"),
        other => panic!("{other:?}"),
    }
    sandbox.destroy().await.unwrap();
}
