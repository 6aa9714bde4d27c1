//! One connection through a door: between a client in the sandbox and the engine, which has the service.
//!
//! Either side may hold back. So that one connection never stands in the way of the others, which share the guest's
//! streams, each direction has a window: bytes that were sent and not yet taken are at most that many.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::sys;
use crate::wire::{DOOR_WINDOW, DoorMessage, MAX_PAYLOAD, Status, Wire};

/// How long a client may leave bytes unread when the connection is about to end.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits for one client and serves it.
pub(crate) fn run(socket: &UnixStream, listener: &TcpListener) -> io::Result<()> {
    let Some(client) = accept(socket, listener)? else { return Ok(()) };
    // Others wait for clients meanwhile; this one is served, and its end is the end of the process.
    Status::Done.put(&mut &*socket)?;
    let window = Window::default();
    let (queue, taken) = mpsc::channel::<Option<Vec<u8>>>();
    let sending = Mutex::new(());
    let send = |message: &DoorMessage| {
        let mut bytes = Vec::new();
        message.put(&mut bytes)?;
        let _turn = sending.lock().unwrap_or_else(PoisonError::into_inner);
        (&mut &*socket).write_all(&bytes)
    };
    // A client that does not read any more ends its connection.
    sys::bound_sending(&client, PATIENCE)?;
    std::thread::scope(|scope| {
        let (client, send) = (&client, &send);
        scope.spawn(|| from_client(client, &window, send));
        let to_client = scope.spawn(move || to_client(client, &taken, send));
        let mut reader = io::BufReader::new(socket);
        // Until the engine has no more, or is gone.
        while let Ok(message) = DoorMessage::get(&mut reader) {
            match message {
                DoorMessage::Bytes(bytes) => {
                    let _ = queue.send(Some(bytes));
                }
                DoorMessage::Taken(count) => window.open(count),
                DoorMessage::Last => {
                    let _ = queue.send(None);
                }
            }
        }
        // The client still gets what has arrived; what it still says has nobody to hear it.
        drop(queue);
        let _ = to_client.join();
        std::process::exit(0)
    })
}

fn accept(socket: &UnixStream, listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    loop {
        let ready = sys::readable(&[socket.as_raw_fd(), listener.as_raw_fd()], None)?;
        if ready[0] {
            // Nobody waits any more.
            return Ok(None);
        }
        match listener.accept() {
            Ok((client, _)) => return Ok(Some(client)),
            // Another helper was faster, or the client changed its mind.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

type Send<'a> = dyn Fn(&DoorMessage) -> io::Result<()> + Sync + 'a;

fn from_client(mut client: &TcpStream, window: &Window, send: &Send<'_>) {
    let mut buffer = vec![0; MAX_PAYLOAD / 2];
    loop {
        let room = window.wait().min(buffer.len());
        let message = match client.read(&mut buffer[..room]) {
            Ok(count) if count > 0 => {
                window.close(count);
                DoorMessage::Bytes(buffer[..count].to_vec())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            _ => DoorMessage::Last,
        };
        if send(&message).is_err() || message == DoorMessage::Last {
            return;
        }
    }
}

fn to_client(mut client: &TcpStream, taken: &mpsc::Receiver<Option<Vec<u8>>>, send: &Send<'_>) {
    while let Ok(bytes) = taken.recv() {
        let Some(bytes) = bytes else {
            let _ = client.shutdown(Shutdown::Write);
            return;
        };
        if client.write_all(&bytes).is_err() {
            // The client is gone; the engine notices by the end of the process.
            std::process::exit(0);
        }
        // An engine that is gone needs no word.
        let _ = send(&DoorMessage::Taken(bytes.len() as u32));
    }
}

/// How much may still be sent.
struct Window {
    room: Mutex<usize>,
    more: Condvar,
}

impl Default for Window {
    fn default() -> Self {
        Self { room: Mutex::new(DOOR_WINDOW), more: Condvar::new() }
    }
}

impl Window {
    fn wait(&self) -> usize {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        *self.more.wait_while(room, |room| *room == 0).unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, count: usize) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        *room = room.saturating_sub(count);
    }

    fn open(&self, count: u32) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        *room = room.saturating_add(count as usize).min(DOOR_WINDOW);
        self.more.notify_all();
    }
}
