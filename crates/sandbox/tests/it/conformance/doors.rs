//! Single services of the host inside a sandbox that has no network.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use sandbox::{Door, ExecSpec, HostService, SandboxError};

use super::ground::Ground;
use crate::host::{sh, text};

fn python(script: &str) -> ExecSpec {
    ExecSpec { argv: ["python3", "-c", script].map(String::from).to_vec(), ..ExecSpec::default() }
}

/// Answers every connection, once its client has said all, with how much that was and with the same again.
fn echo<S: Read + Write + Send + 'static>(accept: impl Fn() -> Option<S> + Send + 'static, close: fn(&S)) {
    std::thread::spawn(move || {
        while let Some(mut stream) = accept() {
            std::thread::spawn(move || {
                let mut all = Vec::new();
                if stream.read_to_end(&mut all).is_ok() {
                    let _ = write!(stream, "{} ", all.len()).and_then(|()| stream.write_all(&all));
                }
                close(&stream);
            });
        }
    });
}

pub async fn a_door_leads_to_a_service_of_the_host(ground: &Ground) {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("service.sock");
    let unix = UnixListener::bind(&socket).unwrap();
    echo(move || unix.accept().ok().map(|(stream, _)| stream), |_| {});
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    echo(move || tcp.accept().ok().map(|(stream, _)| stream), |_| {});
    let mut spec = ground.spec("doors");
    spec.doors = vec![
        Door { port: 8000, to: HostService::Unix(socket) },
        Door { port: 8001, to: HostService::Loopback(port) },
    ];
    // The process limit is for commands: doors do not eat it.
    spec.limits.pids = Some(64);
    let sandbox = ground.start(&spec).await;
    let script = r"
import socket, threading
def talk(port, data):
    s = socket.create_connection(('127.0.0.1', port), 60)
    s.sendall(data); s.shutdown(socket.SHUT_WR)
    got = b''
    while True:
        b = s.recv(65536)
        if not b: break
        got += b
    assert got == b'%d ' % len(data) + data, (port, len(data), got[:50])
for port in (8000, 8001):
    talk(port, b'hello')
    talk(port, b'')
    talk(port, bytes(range(256)) * 12288)
threads = [threading.Thread(target=talk, args=(8000 + n % 2, b'x' * (n * 10000))) for n in range(20)]
for t in threads: t.start()
for t in threads: t.join()
print('talked')
try: socket.create_connection(('127.0.0.1', 8002), 5)
except OSError as e: print('closed')
";
    let outcome = sandbox.exec(&python(script)).await.unwrap();
    assert_eq!(text(&outcome), "talked\nclosed\n", "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    // Ordinary users reach it, and it is open again after everything was killed.
    sandbox.kill_all().await.unwrap();
    let mut again = python(&script.replace("range(20)", "range(3)"));
    again.user = Some("app".into());
    let outcome = sandbox.exec(&again).await.unwrap();
    assert_eq!(text(&outcome), "talked\nclosed\n", "{}", String::from_utf8_lossy(&outcome.stderr.bytes));
    sandbox.destroy().await.unwrap();
}

pub async fn a_door_closes_with_its_service_and_its_sandbox(ground: &Ground) {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("service.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut spec = ground.spec("shut");
    spec.doors = vec![
        Door { port: 8000, to: HostService::Unix(socket.clone()) },
        Door { port: 8001, to: HostService::Unix(temp.path().join("nobody")) },
    ];
    let sandbox = ground.start(&spec).await;
    // A service that is not there: the connection ends, and says nothing.
    let ask = |port: u16| {
        python(&format!(
            "import socket\ns = socket.create_connection(('127.0.0.1', {port}), 60)\n\
             try: print(s.recv(10))\nexcept ConnectionError: print(b'')"
        ))
    };
    assert_eq!(text(&sandbox.exec(&ask(8001)).await.unwrap()), "b''\n");
    // One that goes away in the middle.
    let service = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"so long").unwrap();
        drop(stream);
        // The next one is held until the other side ends it.
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_end(&mut Vec::new())
    });
    assert_eq!(text(&sandbox.exec(&ask(8000)).await.unwrap()), "b'so long'\n");
    let holding = "import socket, time\ns = socket.create_connection(('127.0.0.1', 8000), 60)\nprint(1, flush=True)\ntime.sleep(1000)";
    sandbox.exec(&sh(&format!("nohup python3 -c \"{holding}\" > /tmp/held 2>&1 &"))).await.unwrap();
    let wait = sh("for i in $(seq 500); do [ -s /tmp/held ] && exit 0; sleep 0.02; done; exit 1");
    assert!(sandbox.exec(&wait).await.unwrap().success());
    sandbox.destroy().await.unwrap();
    let ended = tokio::task::spawn_blocking(move || service.join()).await.unwrap();
    // However it ended, the service heard of it.
    let _ = ended.unwrap();
    let mut twice = ground.spec("twice");
    let door = Door { port: 1, to: HostService::Loopback(1) };
    twice.doors = vec![door.clone(), door];
    assert!(matches!(ground.engine.start(&twice).await.err(), Some(SandboxError::Unsupported { .. })));
}
