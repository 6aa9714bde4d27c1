//! Doors: single services of the host inside a sandbox, seen from the host.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::{Door, HostService, SandboxError};

/// Connections through one door at a time; more wait until one ends.
pub(crate) const MOST_CONNECTIONS: usize = 64;

/// Most doors of one sandbox.
const MOST_DOORS: usize = 8;

/// A connection to a service.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to a service of the host.
pub(crate) async fn connect(to: &HostService) -> io::Result<Box<dyn Stream>> {
    Ok(match to {
        HostService::Unix(path) => Box::new(UnixStream::connect(path).await?),
        HostService::Loopback(port) => Box::new(TcpStream::connect(("127.0.0.1", *port)).await?),
    })
}

/// What keeps doors open; they close when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Doors(Vec<JoinHandle<()>>);

impl Doors {
    pub(crate) fn new(tasks: Vec<JoinHandle<()>>) -> Self {
        Self(tasks)
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Takes the clients of listeners that are inside a sandbox, one for each door.
pub(crate) fn serve(listeners: Vec<OwnedFd>, doors: &[Door]) -> io::Result<Doors> {
    let serve = |(listener, door): (OwnedFd, &Door)| {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(tokio::spawn(take_clients(TcpListener::from_std(listener)?, door.to.clone())))
    };
    if listeners.len() != doors.len() {
        return Err(io::Error::other("the sandbox opened other doors than it was told to"));
    }
    listeners.into_iter().zip(doors).map(serve).collect::<io::Result<_>>().map(Doors)
}

async fn take_clients(listener: TcpListener, to: HostService) {
    /// After an error that will not go away by itself at once, such as too many open files.
    const PAUSE: Duration = Duration::from_millis(50);
    let most = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // The connections end with the door.
    let mut connections = JoinSet::new();
    while let Ok(place) = Arc::clone(&most).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let Ok((mut client, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let to = to.clone();
        connections.spawn(async move {
            match connect(&to).await {
                // Either side may break off: that ends the connection and nothing else.
                Ok(mut service) => drop(tokio::io::copy_bidirectional(&mut client, &mut service).await),
                Err(error) => tracing::warn!(%error, ?to, "a door leads nowhere"),
            }
            drop(place);
        });
    }
}

/// Refuses doors that cannot be meant.
pub(crate) fn check(engine: &'static str, doors: &[Door]) -> Result<(), SandboxError> {
    let refuse = |what: String| Err(SandboxError::Unsupported { engine, what });
    if doors.len() > MOST_DOORS {
        return refuse(format!("more than {MOST_DOORS} doors"));
    }
    for (at, door) in doors.iter().enumerate() {
        if door.port == 0 {
            return refuse("a door at port 0".into());
        }
        if doors[..at].iter().any(|other| other.port == door.port) {
            return refuse(format!("two doors at port {}", door.port));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_have_ports_of_their_own() {
        let door = |port| Door { port, to: HostService::Loopback(1) };
        assert!(check("native", &[door(1), door(2)]).is_ok());
        assert!(
            check("native", &[door(1), door(1)]).unwrap_err().to_string().contains("two doors at port 1")
        );
        assert!(check("native", &[door(0)]).is_err());
        assert!(check("native", &(1..=9).map(door).collect::<Vec<_>>()).is_err());
    }
}
