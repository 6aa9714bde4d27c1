//! Doors by way of the guest: it listens inside, the engine has the service, and each connection is a request.
//!
//! This needs no rights on the machine that the sandbox runs on, and no connection but the one that is there.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};

use crate::door::{self, Doors, MOST_CONNECTIONS, Stream};
use crate::guest::Link;
use crate::guest::exec::{bytes, unexpected};
use crate::guest::link::{Caller, Exchange};
use crate::shared::wire::{DOOR_WINDOW, DoorMessage, MAX_PAYLOAD, Operation, Status, Wire};
use crate::{Door, HostService, SandboxError};

/// Helpers of a door that wait for clients.
const WAITING: usize = 2;

/// Processes and threads that one door may need in the sandbox.
pub(crate) const OWN_PROCESSES: u64 = (4 * MOST_CONNECTIONS + WAITING) as u64;

/// Bytes of a status that was asked for, and of the front of a message.
const STATUS_FRONT: usize = 9;

impl Link {
    /// Opens doors; they close when the value is dropped.
    pub(crate) async fn open_doors(&self, doors: &[Door]) -> Result<Doors, SandboxError> {
        let caller = self.caller();
        let mut tasks = Vec::new();
        for door in doors {
            let mut exchange = caller.request(&opening(Operation::Listen, door.port)).await?;
            let mut reply = Vec::new();
            exchange.collect(&mut reply, MAX_PAYLOAD).await?;
            match Status::get(&mut reply.as_slice()) {
                Ok(Status::Done) => {}
                Ok(other) => return Err(unexpected(&format!("opening a door at port {}", door.port), other)),
                Err(_) => return Err(SandboxError::Lost("its process 1 gave no answer".into())),
            }
            tasks.push(tokio::spawn(keep(caller.clone(), door.clone())));
        }
        Ok(Doors::new(tasks))
    }
}

fn opening(operation: Operation, port: u16) -> [u8; 3] {
    let [low, high] = port.to_le_bytes();
    [operation.code(), low, high]
}

/// Keeps a door open: some helpers always wait for clients.
async fn keep(caller: Caller, door: Door) {
    let waiting = Arc::new(Semaphore::new(WAITING));
    let most = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (Ok(place), Ok(turn)) =
            (Arc::clone(&most).acquire_owned().await, Arc::clone(&waiting).acquire_owned().await)
        else {
            return;
        };
        while connections.try_join_next().is_some() {}
        let opened = caller.request(&opening(Operation::Accept, door.port)).await;
        let Ok(exchange) = opened else { return };
        let to = door.to.clone();
        connections.spawn(async move {
            // A helper that was killed with everything else is followed by the next.
            if let Err(error) = connection(exchange, &to, turn).await {
                tracing::debug!(%error, port = door.port, "a connection through a door ended");
            }
            drop(place);
        });
    }
}

async fn connection(
    mut exchange: Exchange,
    to: &HostService,
    turn: tokio::sync::OwnedSemaphorePermit,
) -> Result<(), SandboxError> {
    match exchange.take::<STATUS_FRONT>().await? {
        Some(front) if Status::get(&mut front.as_slice()).ok() == Some(Status::Done) => {}
        _ => return Ok(()),
    }
    drop(turn);
    // Without its service the connection is closed, as by a service that does not listen.
    let service = match door::connect(to).await {
        Ok(service) => service,
        Err(error) => {
            tracing::warn!(%error, ?to, "a door leads nowhere");
            return Ok(());
        }
    };
    pass(&mut exchange, service).await
}

/// Passes bytes in both directions until both have ended.
async fn pass(exchange: &mut Exchange, service: Box<dyn Stream>) -> Result<(), SandboxError> {
    let outgoing = exchange.outgoing();
    let send = async |message: DoorMessage| {
        let bytes = bytes(&message).map_err(|error| SandboxError::Lost(error.to_string()))?;
        outgoing.send(&bytes).await
    };
    let (mut from_service, mut to_service) = tokio::io::split(service);
    let room = Semaphore::new(DOOR_WINDOW);
    // Never fuller than the window, since the other side counts.
    let (queue, mut taken) = mpsc::unbounded_channel::<Option<Vec<u8>>>();
    let down = async {
        let mut buffer = vec![0; MAX_PAYLOAD / 2];
        loop {
            let Ok(first) = room.acquire().await else { return Ok(()) };
            first.forget();
            let more = room.available_permits().min(buffer.len() - 1);
            let most = 1 + more;
            let Ok(count @ 1..) = from_service.read(&mut buffer[..most]).await else {
                return send(DoorMessage::Last).await;
            };
            if let Ok(used) = room.try_acquire_many(count as u32 - 1) {
                used.forget();
            }
            send(DoorMessage::Bytes(buffer[..count].to_vec())).await?;
        }
    };
    let up = async {
        while let Some(Some(bytes)) = taken.recv().await {
            if to_service.write_all(&bytes).await.is_err() {
                // The service takes no more; nor will it answer.
                return Err(SandboxError::Lost("the service closed the connection".into()));
            }
            send(DoorMessage::Taken(bytes.len() as u32)).await?;
        }
        // A service that is gone needs no word.
        let _ = to_service.shutdown().await;
        Ok(())
    };
    let reading = async {
        loop {
            match message(exchange).await? {
                Some(DoorMessage::Bytes(bytes)) => {
                    let _ = queue.send(Some(bytes));
                }
                Some(DoorMessage::Taken(count)) => room.add_permits((count as usize).min(DOOR_WINDOW)),
                Some(DoorMessage::Last) => {
                    let _ = queue.send(None);
                }
                // The helper ends when the client is gone.
                None => return Err(SandboxError::Lost("the client closed the connection".into())),
            }
        }
    };
    tokio::select! {
        ended = async { tokio::try_join!(down, up) } => ended.map(|_| ()),
        lost = reading => lost,
    }
}

/// The next message; `None` when the helper has ended.
async fn message(exchange: &mut Exchange) -> Result<Option<DoorMessage>, SandboxError> {
    let Some([kind]) = exchange.take::<1>().await? else { return Ok(None) };
    let mut whole = vec![kind];
    if kind != b'l' {
        let Some(number) = exchange.take::<4>().await? else { return Ok(None) };
        whole.extend_from_slice(&number);
        let mut missing = if kind == b'b' { u32::from_le_bytes(number) as usize } else { 0 };
        if missing > MAX_PAYLOAD {
            return Err(SandboxError::Lost("its process 1 sent a message that is too long".into()));
        }
        while missing > 0 {
            let Some(bytes) = exchange.take_up_to(missing).await? else { return Ok(None) };
            missing -= bytes.len();
            whole.extend_from_slice(&bytes);
        }
    }
    let message = DoorMessage::get(&mut whole.as_slice());
    message.map(Some).map_err(|_| SandboxError::Lost("its process 1 sent a message that is none".into()))
}
