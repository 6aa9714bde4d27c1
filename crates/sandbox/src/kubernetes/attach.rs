//! The connection to a pod's guest: a WebSocket that carries numbered channels, in one stream of bytes for each direction.
//!
//! Both directions run side by side. Whoever waited with reading until something was sent, or the other way round, would stand
//! still as soon as both ends have much to say.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use kube::Resource;
use kube::api::{AttachParams, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::error::chain;
use crate::kubernetes::api::{Refusal, answer};
use crate::kubernetes::namespace::Namespace;
use crate::kubernetes::objects::Pod;
use crate::kubernetes::pod::CONTAINER;

/// Channels of the protocol, the first byte of every message.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

/// Bytes under way in each direction.
const ROOM: usize = 256 << 10;

/// Bytes of one message. Servers take far more.
const MESSAGE: usize = 32 << 10;

/// How often the other end is asked whether it is there, and how long it may be silent.
const PING: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(90);

/// An attached container. Dropping it closes the connection, and with it the container's standard input.
#[derive(Debug)]
pub(super) struct Attached {
    tasks: [JoinHandle<()>; 2],
    /// The beginning of what came on the error stream.
    complaint: Arc<Mutex<String>>,
}

/// Characters of a complaint that are kept.
const COMPLAINT: usize = 500;

/// Attaches to a pod's container; returns its standard input and output.
pub(super) async fn attach(
    namespace: &Namespace,
    pod: &str,
) -> Result<(Attached, DuplexStream, DuplexStream), Refusal> {
    let parameters =
        AttachParams::default().container(CONTAINER).stdin(true).stdout(true).stderr(true).tty(false);
    let request = Request::new(Pod::url_path(&(), Some(&namespace.name))).attach(pod, &parameters);
    let request = request.map_err(|error| Refusal::Silence(error.to_string()))?;
    let connection = answer(namespace.client.connect(request)).await?;
    let (mut send, mut receive) = connection.into_stream().split();
    let (input, mut to_send) = tokio::io::duplex(ROOM);
    let (mut received, output) = tokio::io::duplex(ROOM);
    let sending = tokio::spawn(async move {
        let mut message = vec![0; MESSAGE];
        let mut pings = interval_at(Instant::now() + PING, PING);
        loop {
            let sent = tokio::select! {
                count = to_send.read(&mut message[1..]) => match count {
                    Ok(0) | Err(_) => break,
                    Ok(count) => {
                        message[0] = STDIN;
                        send.send(Message::binary(message[..=count].to_vec())).await
                    }
                },
                _ = pings.tick() => send.send(Message::Ping(Vec::new().into())).await,
            };
            if let Err(error) = sent {
                tracing::debug!(error = chain(&error), "a pod takes no more input");
                break;
            }
        }
        let _ = send.close().await;
    });
    let complaint = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&complaint);
    let receiving = tokio::spawn(async move {
        loop {
            match timeout(SILENCE, receive.next()).await {
                Ok(Some(Ok(Message::Binary(bytes)))) => {
                    let written = match bytes.split_first() {
                        Some((&STDOUT, output)) => received.write_all(output).await,
                        Some((&(STDERR | STATUS), text)) if !text.is_empty() => {
                            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                            let room = COMPLAINT.saturating_sub(heard.len());
                            heard.extend(String::from_utf8_lossy(text).chars().take(room));
                            Ok(())
                        }
                        _ => Ok(()),
                    };
                    if written.is_err() {
                        return;
                    }
                }
                Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) | Err(_) => return,
                Ok(Some(Ok(_))) => {}
            }
        }
    });
    Ok((Attached { tasks: [sending, receiving], complaint }, input, output))
}

impl Attached {
    /// What was said on the error stream, and how the container ended as far as the connection tells.
    pub(super) fn complaint(&self) -> String {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Sends the guest to the shell that waits for it.
pub(super) async fn send_guest(input: &mut DuplexStream, guest: &[u8]) -> io::Result<()> {
    input.write_all(guest).await?;
    input.flush().await
}
