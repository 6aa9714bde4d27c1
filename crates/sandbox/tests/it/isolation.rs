//! What a command must not see, reach or change.

use std::net::TcpListener;

use fs_err as fs;
use sandbox::{ExecSpec, Network};

use crate::host::{Bench, sh, start, text};

fn python(script: &str) -> ExecSpec {
    ExecSpec { argv: ["python3", "-c", script].map(String::from).to_vec(), ..ExecSpec::default() }
}

/// A file on the host that goes away with the value.
struct Canary(std::path::PathBuf);

impl Canary {
    fn plant(directory: &std::path::Path) -> Option<Self> {
        let path = directory.join(format!("seatrial-canary-{}", std::process::id()));
        fs::write(&path, "canary").ok().map(|()| Self(path))
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn nothing_of_the_host_is_visible() {
    let bench = Bench::new();
    let places = [
        bench.temp.path(),
        "/root".as_ref(),
        "/home".as_ref(),
        "/run".as_ref(),
        "/tmp".as_ref(),
        "/etc".as_ref(),
    ];
    let canaries: Vec<Canary> = places.into_iter().filter_map(Canary::plant).collect();
    assert!(!canaries.is_empty());
    let sandbox = start(&bench.spec("canary")).await;
    let outcome = sandbox
        .exec(&sh("find / -xdev -name 'seatrial-canary*' 2>/dev/null; find /dev /proc/1 /proc/self /tmp /run -name 'seatrial-canary*' 2>/dev/null; \
                   cat /proc/*/environ /proc/*/mountinfo /proc/*/cgroup 2>/dev/null; ls -l /proc/*/exe /proc/*/root /proc/*/cwd /proc/*/fd 2>/dev/null"))
        .await
        .unwrap();
    let seen = text(&outcome);
    for hidden in ["seatrial-canary", bench.temp.path().to_str().unwrap(), "CARGO", "/target/"] {
        assert!(!seen.contains(hidden), "{hidden} is visible:\n{seen}");
    }
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn writes_stay_in_the_sandbox() {
    let bench = Bench::new();
    let sandbox = start(&bench.spec("writes")).await;
    let name = format!("seatrial-write-{}", std::process::id());
    let script = format!(
        "set -e; echo x > /usr/{name}; echo x > /opt/{name}; echo x > /{name}; echo x > /tmp/{name}; echo x > /etc/{name}; \
         rm /usr/bin/env; chmod 0 /usr/bin/git; mv /usr/bin/id /usr/bin/id2; rm -rf /usr/share/doc; echo > /usr/bin/true; ls /usr/{name}"
    );
    let outcome = sandbox.exec(&sh(&script)).await.unwrap();
    assert!(outcome.success(), "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    for place in ["/usr", "/opt", "/", "/tmp", "/etc"] {
        assert!(!std::path::Path::new(place).join(&name).exists(), "{place}");
    }
    assert!(fs::metadata("/usr/bin/env").is_ok() && fs::metadata("/usr/bin/id").is_ok());
    assert!(fs::metadata("/usr/bin/true").unwrap().len() > 100);
    // A second sandbox starts from the untouched system.
    let second = start(&bench.spec("writes-2")).await;
    assert!(
        second
            .exec(&sh(&format!("env true && ! test -e /usr/{name} && ! test -e /tmp/{name}")))
            .await
            .unwrap()
            .success()
    );
    second.destroy().await.unwrap();
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_kernel_refuses_what_reaches_beyond() {
    let bench = Bench::new();
    let sandbox = start(&bench.spec("refused")).await;
    let script = r"
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    return (libc.syscall(number, *args), ctypes.get_errno())
NEWUSER, NEWNS, NEWPID = 0x10000000, 0x00020000, 0x20000000
import platform
n = {'x86_64': dict(mount=165, umount2=166, pivot_root=155, unshare=272, setns=308, clone=56, bpf=321, keyctl=250, add_key=248,
                    perf=298, io_uring=425, kexec=246, init_module=175, open_by_handle=304, userfaultfd=323, reboot=169),
     'aarch64': dict(mount=40, umount2=39, pivot_root=41, unshare=97, setns=268, clone=220, bpf=280, keyctl=219, add_key=217,
                    perf=241, io_uring=425, kexec=104, init_module=105, open_by_handle=265, userfaultfd=282, reboot=142)}[platform.machine()]
for name in sorted(n):
    if name == 'clone':
        for flag in (NEWUSER, NEWNS, NEWPID):
            assert call(n[name], flag | 17, 0, 0, 0, 0) == (-1, errno.EPERM), (name, flag)
    elif name == 'unshare':
        for flag in (NEWUSER, NEWNS, NEWUSER | NEWNS):
            assert call(n[name], flag) == (-1, errno.EPERM), (name, flag)
    else:
        assert call(n[name], 0, 0, 0, 0, 0) == (-1, errno.EPERM), (name, call(n[name], 0, 0, 0, 0, 0))
for number in (435, 470, 511, 999, 0x40000000 + 165):
    assert call(number, 0, 0) == (-1, errno.ENOSYS), number
for family in (40, 38, 17, 16 + 15):
    try:
        socket.socket(family, socket.SOCK_DGRAM if family != 38 else socket.SOCK_SEQPACKET)
        raise AssertionError(family)
    except OSError as error:
        assert error.errno == errno.EAFNOSUPPORT, (family, error)
for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger', '/proc/sys/user/max_user_namespaces',
             '/proc/irq/default_smp_affinity'):
    if os.path.exists(path):
        try:
            open(path, 'w')
            raise AssertionError(path)
        except OSError as error:
            assert error.errno in (errno.EROFS, errno.EACCES, errno.EPERM), (path, error)
for path in ('/dev/null', '/dev/urandom'):
    try:
        os.chmod(path, 0o600)
        raise AssertionError(path)
    except OSError as error:
        assert error.errno == errno.EROFS, error
try:
    os.mknod('/tmp/disk', 0o60600, os.makedev(254, 0))
    raise AssertionError('mknod')
except OSError as error:
    assert error.errno == errno.EPERM, error
for path in ('/proc/1/root', '/proc/1/exe', '/proc/1/environ', '/proc/1/mem', '/proc/%d/exe' % os.getppid()):
    try:
        open(path, 'rb').read(1)
        raise AssertionError(path)
    except OSError as error:
        assert error.errno in (errno.EACCES, errno.EPERM, errno.EISDIR), (path, error)
for path in ('/proc/kcore', '/proc/keys', '/proc/timer_list'):
    assert not os.path.exists(path) or open(path, 'rb').read(1) == b'', path
open('/dev/null', 'w').write('x')
print('refused')
";
    let outcome = sandbox.exec(&python(script)).await.unwrap();
    assert_eq!(text(&outcome), "refused\n", "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn the_program_behind_a_command_is_out_of_reach() {
    let bench = Bench::new();
    let before = fs::read(crate::host::init()).unwrap();
    let sandbox = start(&bench.spec("exe")).await;
    // A script whose interpreter is the program that is about to become the command: the starting init itself.
    let script = "printf '#!/proc/self/exe\\n' > /tmp/trap && chmod +x /tmp/trap";
    assert!(sandbox.exec(&sh(script)).await.unwrap().success());
    let trap = ExecSpec { argv: vec!["/tmp/trap".into()], ..ExecSpec::default() };
    let outcome = sandbox.exec(&trap).await;
    // Whatever it does, it ends, and the program is what it was.
    println!("{outcome:?}");
    assert_eq!(fs::read(crate::host::init()).unwrap(), before);
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn there_is_no_network_unless_asked_for() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reach = python(&format!(
        "import socket\ns = socket.socket()\ns.settimeout(5)\ntry:\n  s.connect(('127.0.0.1', {port}))\n  print('reached')\nexcept OSError as e: print('refused')"
    ));
    let inside = python(
        "import socket, threading\nl = socket.create_server(('127.0.0.1', 0))\nthreading.Thread(target=lambda: l.accept()[0].sendall(b'hi')).start()\n\
         print(socket.create_connection(l.getsockname()).recv(2).decode())\nprint(sorted(n for _, n in socket.if_nameindex()))",
    );
    let sandbox = start(&bench.spec("offline")).await;
    assert_eq!(text(&sandbox.exec(&reach).await.unwrap()), "refused\n");
    let outcome = sandbox.exec(&inside).await.unwrap();
    assert!(
        text(&outcome).starts_with("hi\n['lo'"),
        "{}{}",
        text(&outcome),
        String::from_utf8_lossy(&outcome.stderr.bytes)
    );
    assert!(!text(&outcome).contains("eth"));
    sandbox.destroy().await.unwrap();

    let mut spec = bench.spec("online");
    spec.network = Network::Public;
    let sandbox = start(&spec).await;
    assert_eq!(text(&sandbox.exec(&reach).await.unwrap()), "reached\n");
    let resolver = text(&sandbox.exec(&sh("cat /etc/resolv.conf")).await.unwrap());
    assert_eq!(resolver, fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    sandbox.destroy().await.unwrap();
}

#[tokio::test]
async fn devices_in_layers_are_dead() {
    let bench = Bench::new();
    let layer = bench.temp.path().join("devices");
    fs::create_dir(&layer).unwrap();
    // The kernel's memory and the machine's `null`: even the harmless one cannot be opened from a layer.
    for (name, minor) in [("mem", 1), ("null", 3)] {
        let device = rustix::fs::makedev(1, minor);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        let kind = rustix::fs::FileType::CharacterDevice;
        if rustix::fs::mknodat(rustix::fs::CWD, layer.join(name), kind, mode, device).is_err() {
            eprintln!("skipped: only root can make device nodes");
            return;
        }
    }
    let mut spec = bench.spec("devices");
    spec.root = bench.image(&[&layer]).into();
    let sandbox = start(&spec).await;
    let outcome = sandbox.exec(&sh("ls /mem /null; cat /mem; cat /null && echo open")).await.unwrap();
    assert_eq!(text(&outcome), "/mem\n/null\n");
    sandbox.destroy().await.unwrap();
}
