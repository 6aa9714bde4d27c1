//! What an engine and the guest in a container say to each other, over one pipe in each direction.
//!
//! Both directions are sequences of frames. A frame belongs to a stream; the engine opens one stream a request, so
//! that requests run side by side. Within a stream flow the request and then the reply, both of which tell their own
//! end: nothing depends on closing half a connection. Numbers are little-endian.

use std::io::{self, Read, Write};

/// Largest payload of a frame.
pub(crate) const MAX_PAYLOAD: usize = 32 << 10;

/// Bytes in front of a frame's payload.
pub(crate) const HEADER: usize = 9;

/// Largest text or byte string of a request or reply.
const MAX_BYTES: u32 = 1 << 30;

/// Bytes that may be under way in each direction of a connection through a door.
pub(crate) const DOOR_WINDOW: usize = 256 << 10;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From the guest, once: it is there.
    Ready,
    /// From the engine: a request begins; the payload is its [`Operation`], and the port of one that is about a door.
    Open,
    /// More of a request or a reply.
    Data,
    /// From the engine: nobody waits for the reply any more.
    Cancel,
    /// From the guest: the reply is complete, or whoever worked on it was killed.
    End,
}

impl Kind {
    const ALL: [(u8, Self); 5] = [
        (b'r', Self::Ready),
        (b'o', Self::Open),
        (b'd', Self::Data),
        (b'c', Self::Cancel),
        (b'e', Self::End),
    ];
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Run a [`Command`]; the reply is an [`Outcome`].
    Exec,
    /// Unpack: a directory, then [`Entry`] values, each file's content behind its own.
    Unpack,
    /// Pack a path into a tar stream.
    Pack,
    /// Kill everything but the guest.
    KillAll,
    /// Tell [`Counters`].
    Usage,
    /// Listen on a port of the sandbox's loopback, for as long as the sandbox lives.
    Listen,
    /// Take one client of such a port; the reply is a status, then both sides send [`DoorMessage`] values.
    Accept,
    /// Tell the [`Setting`] of the image, as the guest found it.
    Setting,
    /// Connect to addresses, [`Texts`]; the reply is those that answered.
    Reach,
}

impl Operation {
    const ALL: [(u8, Self); 9] = [
        (b'x', Self::Exec),
        (b'u', Self::Unpack),
        (b'p', Self::Pack),
        (b'k', Self::KillAll),
        (b'c', Self::Usage),
        (b'l', Self::Listen),
        (b'a', Self::Accept),
        (b's', Self::Setting),
        (b'n', Self::Reach),
    ];

    pub(crate) fn code(self) -> u8 {
        Self::ALL.iter().find(|(_, operation)| *operation == self).map_or(0, |(code, _)| *code)
    }

    /// The operation behind a code.
    #[cfg_attr(not(test), allow(dead_code, reason = "only the guest is asked"))]
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == code).map(|(_, operation)| *operation)
    }
}

/// The front of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) stream: u32,
    pub(crate) kind: Kind,
    pub(crate) len: usize,
}

impl Header {
    /// A frame with its payload, which must not be larger than [`MAX_PAYLOAD`].
    pub(crate) fn frame(stream: u32, kind: Kind, payload: &[u8]) -> Vec<u8> {
        debug_assert!(payload.len() <= MAX_PAYLOAD);
        let code = Kind::ALL.iter().find(|(_, known)| *known == kind).map_or(0, |(code, _)| *code);
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(&stream.to_le_bytes());
        bytes.push(code);
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Reads the front of a frame.
    pub(crate) fn parse(bytes: [u8; HEADER]) -> io::Result<Self> {
        let mut bytes = bytes.as_slice();
        let (stream, code, len) = (u32::get(&mut bytes)?, u8::get(&mut bytes)?, u32::get(&mut bytes)?);
        let kind = Kind::ALL.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind);
        let (kind, len) = (kind.ok_or_else(|| broken("unknown kind of frame"))?, len as usize);
        if len > MAX_PAYLOAD {
            return Err(broken("frame too large"));
        }
        Ok(Self { stream, kind, len })
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not the guest's protocol: {what}"))
}

/// Values that are written to and read from a stream.
pub(crate) trait Wire: Sized {
    fn put(&self, to: &mut impl Write) -> io::Result<()>;
    fn get(from: &mut impl Read) -> io::Result<Self>;
}

impl Wire for u8 {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&[*self])
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0];
        from.read_exact(&mut bytes)?;
        Ok(bytes[0])
    }
}

impl Wire for bool {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        u8::from(*self).put(to)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        Ok(u8::get(from)? != 0)
    }
}

impl Wire for u32 {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.to_le_bytes())
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; 4];
        from.read_exact(&mut bytes)?;
        Ok(Self::from_le_bytes(bytes))
    }
}

impl Wire for u64 {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.to_le_bytes())
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes)?;
        Ok(Self::from_le_bytes(bytes))
    }
}

impl Wire for Vec<u8> {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        let len = u32::try_from(self.len()).ok().filter(|len| *len <= MAX_BYTES);
        len.ok_or_else(|| broken("value too large"))?.put(to)?;
        to.write_all(self)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        let len = u32::get(from)?;
        if len > MAX_BYTES {
            return Err(broken("value too large"));
        }
        // Room is made as bytes come, not as the length says.
        let mut bytes = Self::new();
        from.take(u64::from(len)).read_to_end(&mut bytes)?;
        if bytes.len() == len as usize { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Wire for String {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        self.as_bytes().to_vec().put(to)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        Self::from_utf8(Vec::get(from)?).map_err(|_| broken("text that is none"))
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        self.is_some().put(to)?;
        self.as_ref().map_or(Ok(()), |value| value.put(to))
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        bool::get(from)?.then(|| T::get(from)).transpose()
    }
}

/// A list of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl Wire for Texts {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        (self.0.len() as u32).put(to)?;
        self.0.iter().try_for_each(|text| text.put(to))
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        (0..u32::get(from)?).map(|_| String::get(from)).collect::<io::Result<_>>().map(Self)
    }
}

/// A command with everything filled in that image, sandbox and call say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) argv: Texts,
    /// Names and values by turns; the guest adds `HOME` when it is absent.
    pub(crate) env: Texts,
    pub(crate) workdir: String,
    /// `user[:group]`.
    pub(crate) user: String,
    pub(crate) stdin: Vec<u8>,
    pub(crate) merge: bool,
    /// Bytes kept of each stream.
    pub(crate) keep: u64,
    pub(crate) timeout_ms: Option<u64>,
    /// Most bytes of one file that the command writes.
    pub(crate) largest_file: Option<u64>,
}

impl Wire for Command {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        self.argv.put(to)?;
        self.env.put(to)?;
        self.workdir.put(to)?;
        self.user.put(to)?;
        self.stdin.put(to)?;
        self.merge.put(to)?;
        self.keep.put(to)?;
        self.timeout_ms.put(to)?;
        self.largest_file.put(to)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        Ok(Self {
            argv: Wire::get(from)?,
            env: Wire::get(from)?,
            workdir: Wire::get(from)?,
            user: Wire::get(from)?,
            stdin: Wire::get(from)?,
            merge: Wire::get(from)?,
            keep: Wire::get(from)?,
            timeout_ms: Wire::get(from)?,
            largest_file: Wire::get(from)?,
        })
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    /// The command exited with this code.
    Code(u32),
    /// A signal ended the command.
    Signal(u32),
    /// The command was stopped at its deadline.
    Timeout,
    /// The command could not be started.
    Spawn(String),
    /// Done.
    Done,
    /// The path does not exist.
    NoSuchPath,
    /// The request failed.
    Failed(String),
}

impl Wire for Status {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        let (code, number, text) = match self {
            Self::Code(code) => (b'c', *code, ""),
            Self::Signal(signal) => (b's', *signal, ""),
            Self::Timeout => (b't', 0, ""),
            Self::Spawn(reason) => (b'n', 0, reason.as_str()),
            Self::Done => (b'd', 0, ""),
            Self::NoSuchPath => (b'm', 0, ""),
            Self::Failed(reason) => (b'f', 0, reason.as_str()),
        };
        code.put(to)?;
        number.put(to)?;
        text.to_owned().put(to)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        let (code, number, text) = (u8::get(from)?, u32::get(from)?, String::get(from)?);
        Ok(match code {
            b'c' => Self::Code(number),
            b's' => Self::Signal(number),
            b't' => Self::Timeout,
            b'n' => Self::Spawn(text),
            b'd' => Self::Done,
            b'm' => Self::NoSuchPath,
            b'f' => Self::Failed(text),
            _ => return Err(broken("unknown status")),
        })
    }
}

/// What an image sets for every process, as its process 1 has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Names and values by turns.
    pub(crate) env: Texts,
    pub(crate) workdir: String,
    /// `uid`, or `uid:gid` where the group is not that of the account.
    pub(crate) user: String,
}

impl Wire for Setting {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        self.env.put(to)?;
        self.workdir.put(to)?;
        self.user.put(to)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        Ok(Self { env: Wire::get(from)?, workdir: Wire::get(from)?, user: Wire::get(from)? })
    }
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// How many bytes were written, and those that were kept.
    pub(crate) stdout: (u64, Vec<u8>),
    pub(crate) stderr: (u64, Vec<u8>),
}

impl Wire for Outcome {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        self.status.put(to)?;
        for (total, kept) in [&self.stdout, &self.stderr] {
            total.put(to)?;
            kept.put(to)?;
        }
        Ok(())
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        let status = Status::get(from)?;
        let stdout = (u64::get(from)?, Vec::get(from)?);
        Ok(Self { status, stdout, stderr: (u64::get(from)?, Vec::get(from)?) })
    }
}

/// What an entry of an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Directory,
    Symlink,
    HardLink,
    Fifo,
    /// No entry: the archive is complete.
    Last,
}

/// One entry of an archive to unpack. The content of a file follows it, `size` bytes long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) mtime: u64,
    pub(crate) size: u64,
}

impl Entry {
    /// What stands behind all entries.
    pub(crate) fn last() -> Self {
        Self { kind: EntryKind::Last, name: Vec::new(), link: Vec::new(), mode: 0, mtime: 0, size: 0 }
    }
}

const ENTRY_KINDS: [(u8, EntryKind); 6] = [
    (b'f', EntryKind::File),
    (b'd', EntryKind::Directory),
    (b's', EntryKind::Symlink),
    (b'h', EntryKind::HardLink),
    (b'p', EntryKind::Fifo),
    (b'.', EntryKind::Last),
];

impl Wire for Entry {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        let code = ENTRY_KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or(0, |(code, _)| *code);
        code.put(to)?;
        self.name.put(to)?;
        self.link.put(to)?;
        self.mode.put(to)?;
        self.mtime.put(to)?;
        self.size.put(to)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        let code = u8::get(from)?;
        let kind = ENTRY_KINDS.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind);
        Ok(Self {
            kind: kind.ok_or_else(|| broken("unknown kind of entry"))?,
            name: Wire::get(from)?,
            link: Wire::get(from)?,
            mode: Wire::get(from)?,
            mtime: Wire::get(from)?,
            size: Wire::get(from)?,
        })
    }
}

/// What the kernel counted for the container, as far as it tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) peak_memory: Option<u64>,
    pub(crate) oom_kills: Option<u64>,
    pub(crate) cpu_micros: Option<u64>,
}

impl Wire for Counters {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        self.peak_memory.put(to)?;
        self.oom_kills.put(to)?;
        self.cpu_micros.put(to)
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        Ok(Self { peak_memory: Wire::get(from)?, oom_kills: Wire::get(from)?, cpu_micros: Wire::get(from)? })
    }
}

/// What the two ends of a connection through a door tell each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DoorMessage {
    /// Bytes for the other end.
    Bytes(Vec<u8>),
    /// So many of the other's bytes have reached their place.
    Taken(u32),
    /// No bytes follow in this direction.
    Last,
}

impl Wire for DoorMessage {
    fn put(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => {
                b'b'.put(to)?;
                bytes.put(to)
            }
            Self::Taken(count) => {
                b't'.put(to)?;
                count.put(to)
            }
            Self::Last => b'l'.put(to),
        }
    }

    fn get(from: &mut impl Read) -> io::Result<Self> {
        match u8::get(from)? {
            b'b' => Vec::get(from).map(Self::Bytes),
            b't' => u32::get(from).map(Self::Taken),
            b'l' => Ok(Self::Last),
            _ => Err(broken("unknown message of a door")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn back<T: Wire + PartialEq + std::fmt::Debug>(value: &T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes).unwrap();
        assert_eq!(&T::get(&mut bytes.as_slice()).unwrap(), value);
        // Whatever is cut off is missed.
        assert!(T::get(&mut &bytes[..bytes.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn requests_and_replies_come_back(
            argv in proptest::collection::vec(".*", 0..4),
            stdin: Vec<u8>,
            user in ".*",
            numbers: (u64, Option<u64>, Option<u64>, bool),
        ) {
            back(&Command {
                env: Texts(argv.clone()),
                argv: Texts(argv),
                workdir: user.clone(),
                user: user.clone(),
                stdin: stdin.clone(),
                merge: numbers.3,
                keep: numbers.0,
                timeout_ms: numbers.1,
                largest_file: numbers.2,
            });
            back(&Outcome { status: Status::Spawn(user.clone()), stdout: (numbers.0, stdin.clone()), stderr: (0, stdin.clone()) });
            back(&Setting { env: Texts(vec![user.clone()]), workdir: user.clone(), user: user.clone() });
            back(&DoorMessage::Bytes(stdin.clone()));
            back(&DoorMessage::Taken(7));
            back(&DoorMessage::Last);
            back(&Counters { peak_memory: numbers.1, oom_kills: numbers.2, cpu_micros: None });
            for (_, kind) in ENTRY_KINDS {
                back(&Entry { kind, name: stdin.clone(), link: Vec::new(), mode: 7, mtime: 8, size: numbers.0 });
            }
        }

        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>) {
            let _ = Command::get(&mut bytes.as_slice());
            let _ = Outcome::get(&mut bytes.as_slice());
            let _ = Entry::get(&mut bytes.as_slice());
            if let Some(front) = bytes.first_chunk::<HEADER>() {
                let _ = Header::parse(*front);
            }
        }
    }

    #[test]
    fn frames_have_a_front_and_a_bound() {
        let frame = Header::frame(7, Kind::Data, b"abc");
        let front = *frame.first_chunk::<HEADER>().unwrap();
        assert_eq!(Header::parse(front).unwrap(), Header { stream: 7, kind: Kind::Data, len: 3 });
        assert!(Header::parse([0, 0, 0, 0, b'd', 0xff, 0xff, 0xff, 0]).is_err());
        assert!(Header::parse([0, 0, 0, 0, b'?', 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn operations_have_codes() {
        for (code, operation) in Operation::ALL {
            assert_eq!((operation.code(), Operation::from_code(code)), (code, Some(operation)));
        }
        assert_eq!(Operation::from_code(0), None);
    }
}
