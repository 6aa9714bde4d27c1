//! A small HTTP server of the tests' own: one thread a connection, answers by a function.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the server says to one request.
pub enum Answer {
    /// Status, content type, body.
    Full(u16, &'static str, Vec<u8>),
    /// Another address.
    Redirect(String),
    /// A head that promises more bytes than follow.
    Cut(Vec<u8>),
    /// A head, some bytes, and then silence until the other side gives up.
    Stall(Vec<u8>),
}

pub struct Server {
    pub address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server; `answer` gets the path and how often that server has been asked before.
    pub fn start(answer: impl Fn(&str, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let answer = Arc::new(answer);
        let asked = Arc::new(AtomicUsize::new(0));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, asked, log) = (Arc::clone(&answer), Arc::clone(&asked), Arc::clone(&log));
                std::thread::spawn(move || {
                    if let Some(path) = read_request(&stream) {
                        log.lock().unwrap().push(path.clone());
                        let number = asked.fetch_add(1, Ordering::SeqCst);
                        write_answer(stream, answer(&path, number));
                    }
                });
            }
        });
        Self { address, requests }
    }

    /// The paths that were asked for, in order.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    while lines.next()?.ok()?.trim() != "" {}
    first.split(' ').nth(1).map(str::to_owned)
}

/// A client that has heard enough may hang up at any time, which is no fault of the server's.
fn write_answer(mut stream: TcpStream, answer: Answer) {
    let head = |status: u16, length: usize, rest: &str| {
        format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n{rest}\r\n")
            .into_bytes()
    };
    let (mut bytes, stall) = match answer {
        Answer::Full(status, kind, body) => {
            (with_body(head(status, body.len(), &format!("content-type: {kind}\r\n")), body), false)
        }
        Answer::Redirect(target) => (head(302, 0, &format!("location: {target}\r\n")), false),
        Answer::Cut(body) => (with_body(head(200, body.len() + 100, ""), body), false),
        Answer::Stall(body) => (with_body(head(200, body.len() + 100, ""), body), true),
    };
    bytes.shrink_to_fit();
    if stream.write_all(&bytes).is_ok() && stall {
        // Nothing more comes from the client; the read ends when it hangs up.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

fn with_body(mut head: Vec<u8>, body: Vec<u8>) -> Vec<u8> {
    head.extend(body);
    head
}
