//! Requests side by side over one stream in each direction.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::SandboxError;
use crate::shared::wire::{HEADER, Header, Kind, MAX_PAYLOAD, Operation};

/// Frames that wait for the connection, and frames of one reply that wait for whoever reads it.
const WAITING: usize = 16;

/// A connection to a guest. Dropping it closes the connection, at which the guest ends and everything with it.
#[derive(Debug)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug)]
struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    last: u32,
    open: BTreeMap<u32, mpsc::Sender<Vec<u8>>>,
    /// Why the connection ended.
    lost: Option<String>,
}

impl Shared {
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all requests.
    fn lose(&self, reason: String) {
        let mut streams = self.streams();
        streams.lost.get_or_insert(reason);
        streams.open.clear();
    }

    fn lost(&self) -> SandboxError {
        SandboxError::Lost(self.streams().lost.clone().unwrap_or_else(|| "the connection to it ended".into()))
    }
}

impl Link {
    /// Takes a connection, waits until the guest says that it is there, and returns its architecture.
    pub(crate) async fn open(
        input: impl AsyncWrite + Send + 'static,
        output: impl AsyncRead + Send + 'static,
        patience: Duration,
    ) -> Result<(Self, String), SandboxError> {
        let (outgoing, frames) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared { outgoing, streams: Mutex::default() });
        let (ready, there) = oneshot::channel();
        let tasks = [
            tokio::spawn(write(Arc::clone(&shared), Box::pin(input), frames)),
            tokio::spawn(read(Arc::clone(&shared), Box::pin(output), ready)),
        ];
        let link = Self { shared, tasks };
        match tokio::time::timeout(patience, there).await {
            Ok(Ok(architecture)) => Ok((link, architecture)),
            Ok(Err(_)) => Err(link.shared.lost()),
            Err(_) => {
                Err(SandboxError::Lost(format!("its process 1 said nothing for {} s", patience.as_secs())))
            }
        }
    }

    /// Begins a request.
    pub(crate) async fn request(&self, operation: Operation) -> Result<Exchange, SandboxError> {
        self.caller().request(&[operation.code()]).await
    }

    /// Someone who makes requests and does not keep the connection open.
    pub(super) fn caller(&self) -> Caller {
        Caller(Arc::clone(&self.shared))
    }
}

/// Makes requests for as long as the link lives.
#[derive(Debug, Clone)]
pub(super) struct Caller(Arc<Shared>);

impl Caller {
    /// Begins a request: the operation's code, and more where the operation needs it.
    pub(super) async fn request(&self, opening: &[u8]) -> Result<Exchange, SandboxError> {
        let Self(shared) = self;
        let (sender, replies) = mpsc::channel(WAITING);
        let stream = {
            let mut streams = shared.streams();
            if streams.lost.is_some() {
                drop(streams);
                return Err(shared.lost());
            }
            streams.last = streams.last.wrapping_add(1).max(1);
            let stream = streams.last;
            streams.open.insert(stream, sender);
            stream
        };
        let outgoing = Outgoing { stream, shared: Arc::clone(shared) };
        let exchange = Exchange { outgoing, replies, rest: Vec::new(), ended: false };
        exchange.outgoing.frame(Kind::Open, opening).await?;
        Ok(exchange)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.shared.lose("it was destroyed".into());
    }
}

/// One request and its reply. Dropping it before the reply is complete tells the guest that nobody waits any more.
#[derive(Debug)]
pub(crate) struct Exchange {
    outgoing: Outgoing,
    replies: mpsc::Receiver<Vec<u8>>,
    /// What was received and not taken yet.
    rest: Vec<u8>,
    ended: bool,
}

/// The way of a request to the guest.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    stream: u32,
    shared: Arc<Shared>,
}

impl Outgoing {
    /// Sends more of the request.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), SandboxError> {
        for chunk in bytes.chunks(MAX_PAYLOAD) {
            self.frame(Kind::Data, chunk).await?;
        }
        Ok(())
    }

    async fn frame(&self, kind: Kind, payload: &[u8]) -> Result<(), SandboxError> {
        let frame = Header::frame(self.stream, kind, payload);
        self.shared.outgoing.send(frame).await.map_err(|_| self.shared.lost())
    }
}

impl Exchange {
    /// Sends more of the request.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), SandboxError> {
        self.outgoing.send(bytes).await
    }

    /// The way to the guest, for whoever sends and receives side by side.
    pub(super) fn outgoing(&self) -> Outgoing {
        self.outgoing.clone()
    }

    /// The next bytes of the reply; `None` at its end. Dropping the call and calling again loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, SandboxError> {
        if !self.rest.is_empty() {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        let bytes = self.replies.recv().await;
        if bytes.is_none() {
            self.ended = true;
            if self.outgoing.shared.streams().lost.is_some() {
                return Err(self.outgoing.shared.lost());
            }
        }
        Ok(bytes)
    }

    /// Exactly so many bytes of the reply; `None` when it ended before.
    pub(crate) async fn take<const N: usize>(&mut self) -> Result<Option<[u8; N]>, SandboxError> {
        let mut taken = Vec::with_capacity(N);
        while taken.len() < N {
            let Some(mut bytes) = self.next().await? else { return Ok(None) };
            let missing = (N - taken.len()).min(bytes.len());
            self.rest = bytes.split_off(missing);
            taken.extend_from_slice(&bytes);
        }
        Ok(taken.first_chunk().copied())
    }

    /// At most so many bytes of the reply, one at least; `None` at its end.
    pub(crate) async fn take_up_to(&mut self, most: usize) -> Result<Option<Vec<u8>>, SandboxError> {
        let Some(mut bytes) = self.next().await? else { return Ok(None) };
        self.rest = bytes.split_off(most.min(bytes.len()));
        Ok(Some(bytes))
    }

    /// Adds the rest of the reply to `all`, which must not grow above `most` bytes. Dropping the call and calling
    /// again loses nothing.
    pub(crate) async fn collect(&mut self, all: &mut Vec<u8>, most: usize) -> Result<(), SandboxError> {
        while let Some(bytes) = self.next().await? {
            if all.len() + bytes.len() > most {
                return Err(SandboxError::Lost("its process 1 gave an answer that is too long".into()));
            }
            all.extend_from_slice(&bytes);
        }
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Outgoing { stream, shared } = &self.outgoing;
        shared.streams().open.remove(stream);
        if self.ended {
            return;
        }
        let frame = Header::frame(*stream, Kind::Cancel, &[]);
        if let Err(mpsc::error::TrySendError::Full(frame)) = shared.outgoing.try_send(frame)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let outgoing = shared.outgoing.clone();
            runtime.spawn(async move { outgoing.send(frame).await });
        }
    }
}

async fn write(
    shared: Arc<Shared>,
    mut input: std::pin::Pin<Box<impl AsyncWrite + Send>>,
    mut frames: mpsc::Receiver<Vec<u8>>,
) {
    while let Some(frame) = frames.recv().await {
        let written = async {
            input.write_all(&frame).await?;
            // What waits goes along; only then is it worth to push.
            while let Ok(frame) = frames.try_recv() {
                input.write_all(&frame).await?;
            }
            input.flush().await
        };
        if let Err(error) = written.await {
            return shared.lose(format!("the connection to it broke: {error}"));
        }
    }
}

async fn read(
    shared: Arc<Shared>,
    mut output: std::pin::Pin<Box<impl AsyncRead + Send>>,
    ready: oneshot::Sender<String>,
) {
    let mut ready = Some(ready);
    let reason = loop {
        match frame(&mut output).await {
            Ok((header, payload)) => match header.kind {
                Kind::Ready => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(String::from_utf8_lossy(&payload).into_owned());
                    }
                }
                Kind::Data => {
                    let receiver = shared.streams().open.get(&header.stream).cloned();
                    if let Some(receiver) = receiver {
                        // Nobody waits any more: the bytes are thrown away.
                        let _ = receiver.send(payload).await;
                    }
                }
                Kind::End => {
                    shared.streams().open.remove(&header.stream);
                }
                Kind::Open | Kind::Cancel => break "its process 1 sent a frame that is none".to_owned(),
            },
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                break "its process 1 ended".to_owned();
            }
            Err(error) => break format!("the connection to it broke: {error}"),
        }
    };
    shared.lose(reason);
}

async fn frame(output: &mut (impl AsyncRead + Unpin)) -> io::Result<(Header, Vec<u8>)> {
    let mut front = [0; HEADER];
    output.read_exact(&mut front).await?;
    let header = Header::parse(front)?;
    let mut payload = vec![0; header.len];
    output.read_exact(&mut payload).await?;
    Ok((header, payload))
}
