//! A small HTTP server of the tests' own that can answer anything, well-formed or not.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path and query.
    pub target: String,
    /// Headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// After how many bytes of the body the connection ends, however many were promised.
    pub cut: Option<usize>,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), cut: None }
    }

    pub fn with(mut self, name: &str, value: impl Display) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn redirect(target: impl Display) -> Self {
        Self::new(302, "").with("location", target)
    }

    /// A file, or what is asked for of it.
    pub fn file(request: &Request, content: &[u8]) -> Self {
        let from = request
            .headers
            .get("range")
            .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        match from {
            None => Self::new(200, content),
            Some(from) if from >= content.len() => Self::new(416, ""),
            Some(from) => Self::new(206, &content[from..])
                .with("content-range", format!("bytes {from}-{}/{}", content.len() - 1, content.len())),
        }
    }

    pub fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }
}

type Answer = Box<dyn Fn(&Request, usize) -> Reply + Send + Sync>;

/// The server; it answers as long as the test runs.
pub struct Server {
    pub address: String,
    seen: Arc<Mutex<Vec<Request>>>,
    answer: Arc<Mutex<Answer>>,
}

impl Server {
    /// Starts a server; the answer is told the request and how many came before it with the same target.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(answer)));
        let (log, answering) = (Arc::clone(&seen), Arc::clone(&answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, answering) = (Arc::clone(&log), Arc::clone(&answering));
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    let mut log = log.lock().unwrap();
                    let before = log.iter().filter(|seen| seen.target == request.target).count();
                    log.push(request.clone());
                    drop(log);
                    let reply = (answering.lock().unwrap())(&request, before);
                    write(stream, &reply);
                });
            }
        });
        Self { address, seen, answer }
    }

    /// Answers otherwise from now on.
    pub fn answer(&self, answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
        self.seen.lock().unwrap().clear();
    }

    /// Every request since the last change of answers.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Path and query of every request.
    pub fn targets(&self) -> Vec<String> {
        self.seen().into_iter().map(|request| request.target).collect()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let target = first.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let line = lines.next()?.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Some(Request { target, headers })
}

/// A client that has heard enough may hang up at any time, which is no fault of the server's.
fn write(mut stream: TcpStream, reply: &Reply) {
    let mut bytes = format!(
        "HTTP/1.1 {} x\r\ncontent-length: {}\r\nconnection: close\r\n",
        reply.status,
        reply.body.len()
    )
    .into_bytes();
    for (name, value) in &reply.headers {
        bytes.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(&reply.body[..reply.cut.unwrap_or(reply.body.len())]);
    let _ = stream.write_all(&bytes);
}
