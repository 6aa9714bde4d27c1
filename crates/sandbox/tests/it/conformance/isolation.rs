//! What a command must not reach.

use std::io::{Read, Write};

use sandbox::{ExecSpec, Network, SandboxError};

use super::ground::Ground;
use crate::host::{sh, text};

pub async fn ordinary_users_are_just_that(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("user")).await;
    let mut command = sh(
        "echo x > /usr/x; echo x > /etc/x; cat /root/x; touch /tmp/mine && stat -c %U /tmp/mine; grep CapEff /proc/self/status; su root -c id",
    );
    sandbox.exec(&sh("echo secret > /root/x; chmod 700 /root; chmod 600 /root/x")).await.unwrap();
    command.user = Some("app".into());
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!(text(&outcome), "app\nCapEff:\t0000000000000000\n");
    assert!(!outcome.success());
    sandbox.destroy().await.unwrap();
}

pub async fn root_owns_its_files_and_no_more(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("root")).await;
    let script = "touch /tmp/f && chown app:extra /tmp/f && chmod 4755 /tmp/f && stat -c '%U %G %a' /tmp/f; \
                  mount -t tmpfs none /mnt 2>/dev/null || mount -t tmpfs none /tmp 2>/dev/null || echo no mounts; \
                  mknod /tmp/d b 254 0 2>/dev/null || echo no devices; \
                  hostname other 2>/dev/null || echo no host name; grep NoNewPrivs /proc/self/status; ulimit -c";
    let outcome = sandbox.exec(&sh(script)).await.unwrap();
    let expected = "app extra 4755\nno mounts\nno devices\nno host name\nNoNewPrivs:\t1\n0\n";
    assert_eq!(text(&outcome), expected, "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    sandbox.destroy().await.unwrap();
}

/// Root inside must not get at the program that works for the engine: neither process 1 nor the one behind a command.
pub async fn the_init_is_out_of_reach(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("init")).await;
    let script = r"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in (1, os.getppid()):
    for name in ('exe', 'mem', 'environ', 'root/etc/passwd', 'fd/0', 'fd/1', 'fd/3'):
        try:
            open('/proc/%d/%s' % (pid, name), 'rb').read(1)
            raise AssertionError((pid, name))
        except OSError as error:
            assert error.errno in (errno.EACCES, errno.EPERM, errno.EIO), (pid, name, error)
    ATTACH = 16
    assert libc.ptrace(ATTACH, pid, None, None) == -1 and ctypes.get_errno() == errno.EPERM, pid
os.kill(1, 9)
os.kill(1, 15)
# Not one file of the engine is to be seen; an empty directory may be what one was mounted on.
def is_there(name):
    return not os.path.isdir('/' + name) or os.listdir('/' + name)
print(sorted(name for name in os.listdir('/') if ('seatrial' in name or 'guest' in name) and is_there(name)))
";
    let argv = ["python3", "-c", script].map(String::from).to_vec();
    let outcome = sandbox.exec(&ExecSpec { argv, ..ExecSpec::default() }).await.unwrap();
    assert_eq!(text(&outcome), "[]\n", "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    // The sandbox works without a single file of its image.
    let outcome = sandbox.exec(&sh("rm -rf --one-file-system /* 2>/dev/null; echo gone")).await.unwrap();
    assert_eq!(text(&outcome), "gone\n");
    assert!(matches!(sandbox.exec(&sh("true")).await, Err(SandboxError::Spawn { .. })));
    sandbox.kill_all().await.unwrap();
    sandbox.destroy().await.unwrap();
}

pub async fn there_is_no_network_unless_asked_for(ground: &Ground) {
    if ground.engine.name() == "kubernetes" {
        return; // pods have an interface all the same; `kubernetes.rs` tests what they reach
    }
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"hello").unwrap();
            let _ = stream.read(&mut [0; 1]);
        }
    });
    // The host is behind loopback, or behind the gateway of whatever network there is.
    let script = format!(
        "
import socket
hosts = ['127.0.0.1']
for line in open('/proc/net/route').read().splitlines()[1:]:
    gateway = line.split()[2]
    if gateway != '00000000': hosts.append('.'.join(str(int(gateway[i:i + 2], 16)) for i in (6, 4, 2, 0)))
def reach(host):
    try: return socket.create_connection((host, {port}), 5).recv(5) == b'hello'
    except OSError: return False
print(any(reach(host) for host in hosts), sorted(n for _, n in socket.if_nameindex() if n != 'lo' and n.startswith('e')))
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname()); l.accept()[0].sendall(b'hi'); print(c.recv(2).decode())
"
    );
    let argv = ["python3", "-c", &script].map(String::from).to_vec();
    let command = ExecSpec { argv, ..ExecSpec::default() };
    let sandbox = ground.start(&ground.spec("offline")).await;
    let outcome = sandbox.exec(&command).await.unwrap();
    assert_eq!(text(&outcome), "False []\nhi\n", "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    sandbox.destroy().await.unwrap();
    let mut spec = ground.spec("online");
    spec.network = Network::Public;
    let sandbox = ground.start(&spec).await;
    let outcome = sandbox.exec(&command).await.unwrap();
    assert!(text(&outcome).starts_with("True "), "{}", text(&outcome));
    sandbox.destroy().await.unwrap();
}

pub async fn an_allow_list_is_refused_by_name(ground: &Ground) {
    let mut spec = ground.spec("allow");
    spec.network = Network::Allowlist(vec!["models.invalid".into()]);
    match ground.engine.start(&spec).await.err() {
        Some(SandboxError::Unsupported { what, .. }) => assert!(what.contains("allow-list"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ground.leftovers().await, [""; 0]);
}
