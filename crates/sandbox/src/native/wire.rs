//! What the engine and the init of a sandbox say to each other.
//!
//! The control socket is a pair of `SOCK_SEQPACKET` sockets. A request is one byte, the operation, with
//! descriptors attached: a memory file that holds the request's body as JSON, a stream socket for the answers to
//! this one request, then the data streams. As every request brings its own answer socket, requests run side by
//! side, and an answer socket that closes says that nobody waits any more.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most descriptors that travel with one request.
const MAX_FDS: usize = 5;

/// Most listeners that travel with the message that a sandbox is complete.
const MAX_DOORS: usize = 16;

/// Largest request body; the kernel's own bound on arguments and environment is far below.
const MAX_BODY: u64 = 64 << 20;

/// What a control message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The first message: the [`Setup`].
    Setup,
    /// Run a command: [`CommandRequest`]; streams are stdin, stdout, stderr.
    Exec,
    /// Unpack the tar stream that comes through the one data stream: [`TransferRequest`].
    Upload,
    /// Pack a path into the one data stream: [`TransferRequest`].
    Download,
    /// Kill everything except the init.
    KillAll,
}

impl Operation {
    const ALL: [(u8, Self); 5] = [
        (b's', Self::Setup),
        (b'x', Self::Exec),
        (b'u', Self::Upload),
        (b'd', Self::Download),
        (b'k', Self::KillAll),
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().find(|(_, operation)| *operation == self).map_or(0, |(code, _)| *code)
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == code).map(|(_, operation)| *operation)
    }
}

/// Everything the init needs to build the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Host name inside.
    pub(crate) hostname: String,
    /// Identity map of all ids (running as root) instead of the one id of the caller.
    pub(crate) identity_map: bool,
    /// A network namespace of its own.
    pub(crate) isolate_network: bool,
    /// An empty host directory; the init mounts its private file system there.
    pub(crate) stage: PathBuf,
    /// The overlays to mount, the one for `/` first.
    pub(crate) overlays: Vec<Overlay>,
    /// Directories that must exist in the root for something to be mounted on them.
    pub(crate) mount_points: Vec<PathBuf>,
    /// Files the engine provides, by absolute path inside.
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// Most bytes of a single file that a command writes.
    pub(crate) largest_file: Option<u64>,
    /// Ports of the sandbox's loopback to listen on; the listeners go to the engine with [`StartReply::Ready`].
    pub(crate) doors: Vec<u16>,
}

/// One overlay mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overlay {
    /// Where it is mounted inside the sandbox, absolute.
    pub(crate) at: PathBuf,
    /// Read-only directories, the topmost first.
    pub(crate) lowers: Vec<PathBuf>,
    /// Host directory that takes the changes.
    pub(crate) upper: PathBuf,
    /// Host directory for the kernel's own use, on the same file system.
    pub(crate) work: PathBuf,
}

/// What the init says on the control socket while it starts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartReply {
    /// The init's process id as the engine sees it.
    Init(i32),
    /// The sandbox is complete.
    Ready,
    /// The step that failed and why.
    Failed(String),
}

/// One command with everything resolved that can be resolved outside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommandRequest {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    /// The complete environment, except `HOME`, which the init adds when absent.
    pub(crate) env: BTreeMap<String, String>,
    /// Working directory inside.
    pub(crate) workdir: String,
    /// `user[:group]`.
    pub(crate) user: String,
}

/// A path inside the sandbox for upload or download.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TransferRequest {
    /// Absolute path.
    pub(crate) path: String,
}

/// An answer on a request's own socket, one JSON line each.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The command exited with this code.
    Code(i32),
    /// A signal ended the command.
    Signal(i32),
    /// The command could not be started.
    Spawn(String),
    /// Done.
    Done,
    /// The path does not exist.
    NoSuchPath,
    /// The request failed.
    Failed(String),
}

/// A received control message.
pub(crate) struct Request {
    /// What to do.
    pub(crate) operation: Operation,
    /// The descriptors, in the order of [`Operation`]'s description: body, answers, streams.
    pub(crate) fds: Vec<OwnedFd>,
}

/// Sends a control message. Fails rather than wait when some hundred requests were left unread.
pub(crate) fn send_request(
    control: impl AsFd,
    operation: Operation,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let code = [operation.code()];
    rustix::net::sendmsg(
        control,
        &[IoSlice::new(&code)],
        &mut ancillary,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )?;
    Ok(())
}

/// Receives a control message; `None` when the engine is gone.
pub(crate) fn receive_request(control: impl AsFd) -> io::Result<Option<Request>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut code = [0_u8];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            &control,
            &mut [IoSliceMut::new(&mut code)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let fds = received_fds(&mut ancillary);
    let operation =
        Operation::from_code(code[0]).ok_or_else(|| io::Error::other("unknown control message"))?;
    Ok(Some(Request { operation, fds }))
}

/// Puts a request body into a sealed memory file, ready to be passed on.
pub(crate) fn body<T: Serialize>(value: &T) -> io::Result<OwnedFd> {
    sealed("seatrial-request", &serde_json::to_vec(value)?)
}

/// Puts bytes into a memory file that nobody can change any more, positioned at its start.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::SEAL | SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK,
    )?;
    Ok(file.into())
}

/// Reads a request body.
pub(crate) fn read_body<T: DeserializeOwned>(fd: OwnedFd) -> io::Result<T> {
    let mut bytes = Vec::new();
    File::from(fd).take(MAX_BODY).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}

/// Writes one answer line.
pub(crate) fn send_reply(socket: impl AsFd, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        let sent = rustix::io::retry_on_intr(|| rustix::net::send(&socket, rest, SendFlags::NOSIGNAL))?;
        rest = &rest[sent..];
    }
    Ok(())
}

/// Sends one message about the start, with descriptors.
pub(crate) fn send_start(control: impl AsFd, reply: &StartReply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let message = serde_json::to_vec(reply)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DOORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    rustix::net::sendmsg(control, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message about the start; `None` when the init is gone.
pub(crate) fn receive_start(control: impl AsFd) -> io::Result<Option<(StartReply, Vec<OwnedFd>)>> {
    let mut buffer = vec![0_u8; 64 << 10];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DOORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut into = [IoSliceMut::new(&mut buffer)];
        rustix::net::recvmsg(&control, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let fds = received_fds(&mut ancillary);
    serde_json::from_slice(&buffer[..received.bytes]).map(|reply| Some((reply, fds))).map_err(io::Error::from)
}

fn received_fds(ancillary: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    fds
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    use super::*;

    #[test]
    fn requests_carry_descriptors_and_bodies() {
        let (engine, init) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        let sent = TransferRequest { path: "/some\nwhere".into() };
        let body = body(&sent).unwrap();
        send_request(&engine, Operation::Upload, &[body.as_fd(), engine.as_fd()]).unwrap();
        let request = receive_request(&init).unwrap().unwrap();
        assert_eq!(request.operation, Operation::Upload);
        assert_eq!(request.fds.len(), 2);
        let got: TransferRequest = read_body(request.fds.into_iter().next().unwrap()).unwrap();
        assert_eq!(got.path, sent.path);
        drop(engine);
        assert!(receive_request(&init).unwrap().is_none());
    }

    #[test]
    fn sealed_files_refuse_writes() {
        let fd = sealed("test", b"abc").unwrap();
        let mut file = File::from(fd);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        assert!(file.write_all(b"x").is_err());
    }
}
