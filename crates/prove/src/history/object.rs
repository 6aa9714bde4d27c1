//! Objects of git: their names, the loose ones, and what they lead to.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, Read};

use flate2::bufread::ZlibDecoder;
use sha1::{Digest as _, Sha1};

/// Largest object that is looked at, in bytes.
const MAX_OBJECT: u64 = 512 << 20;
/// Most bytes that are inflated for one environment.
const MAX_INFLATED: u64 = 8 << 30;
/// Most objects, and most entries of trees, of one environment.
const MAX_LINKS: usize = 40_000_000;

/// The name of an object: the SHA-1 of its kind, length and content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectId(pub(super) [u8; 20]);

impl ObjectId {
    /// Reads 40 hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut id = [0; 20];
        let text = text.as_bytes();
        if text.len() != 40 {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(text.as_chunks::<2>().0) {
            let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(id))
    }

    fn of(kind: Kind, content: &[u8]) -> Self {
        let head = format!("{} {}\0", kind.name(), content.len());
        Self(Sha1::new().chain_update(head).chain_update(content).finalize().into())
    }

    /// Whether it names nothing, as reflogs say.
    pub(super) fn is_null(self) -> bool {
        self.0 == [0; 20]
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The four kinds of objects, commits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Commit,
    Tag,
    Tree,
    Blob,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tag => "tag",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }
}

/// What an object leads to.
pub(super) enum Links {
    Commit {
        tree: ObjectId,
        parents: Vec<ObjectId>,
    },
    Tag(ObjectId),
    /// Entries by name; those of submodules lead to another repository and are left out.
    Tree(Vec<(Box<[u8]>, ObjectId)>),
    Blob,
}

impl Links {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Commit { .. } => Kind::Commit,
            Self::Tag(_) => Kind::Tag,
            Self::Tree(_) => Kind::Tree,
            Self::Blob => Kind::Blob,
        }
    }
}

/// The objects of one repository, by their names.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) all: HashMap<ObjectId, Links>,
    links: usize,
}

/// Why an object or a pack could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// Its bytes are not what they should be.
    Damaged,
    /// A bound was met.
    TooLarge,
    /// It differs from an object that is not there.
    NoBase,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "it is damaged",
            Self::TooLarge => "it is larger than what is walked",
            Self::NoBase => "it holds differences to objects that are not in it",
        })
    }
}

/// How much may still be inflated.
pub(super) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Self(MAX_INFLATED)
    }
}

impl Budget {
    /// Takes so many bytes from what is left.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Unread> {
        if bytes > MAX_OBJECT {
            return Err(Unread::TooLarge);
        }
        self.0 = self.0.checked_sub(bytes).ok_or(Unread::TooLarge)?;
        Ok(())
    }

    /// Inflates a stream of exactly `size` bytes and gives what follows it.
    pub(super) fn inflate<'b>(&mut self, bytes: &'b [u8], size: u64) -> Result<(Vec<u8>, &'b [u8]), Unread> {
        self.take(size)?;
        let mut decoder = ZlibDecoder::new(bytes);
        let mut content = Vec::new();
        // One byte more than stated, so that a longer stream is noticed and a shorter one as well.
        (&mut decoder).take(size + 1).read_to_end(&mut content).map_err(|_| Unread::Damaged)?;
        if content.len() as u64 != size {
            return Err(Unread::Damaged);
        }
        Ok((content, decoder.into_inner()))
    }
}

impl Objects {
    /// Adds an object and gives its name.
    pub(super) fn add(&mut self, kind: Kind, content: &[u8]) -> Result<ObjectId, Unread> {
        let id = ObjectId::of(kind, content);
        let links = match kind {
            Kind::Blob => Links::Blob,
            Kind::Commit => commit(content).ok_or(Unread::Damaged)?,
            Kind::Tag => {
                Links::Tag(headers(content).find_map(|line| named(line, "object ")).ok_or(Unread::Damaged)?)
            }
            Kind::Tree => Links::Tree(entries(content).ok_or(Unread::Damaged)?),
        };
        self.links += match &links {
            Links::Tree(entries) => 1 + entries.len(),
            Links::Commit { parents, .. } => 1 + parents.len(),
            Links::Tag(_) | Links::Blob => 1,
        };
        if self.links > MAX_LINKS {
            return Err(Unread::TooLarge);
        }
        self.all.insert(id, links);
        Ok(id)
    }

    /// Adds the object of a file `objects/xx/...`, which must have the name that the file says.
    pub(super) fn add_loose(
        &mut self,
        name: ObjectId,
        bytes: &[u8],
        budget: &mut Budget,
    ) -> Result<(), Unread> {
        let mut reader = std::io::BufReader::new(ZlibDecoder::new(bytes));
        let mut head = Vec::new();
        (&mut reader).take(64).read_until(0, &mut head).map_err(|_| Unread::Damaged)?;
        let head = head.strip_suffix(&[0]).and_then(|head| str::from_utf8(head).ok());
        let (kind, size) = head.and_then(|head| head.split_once(' ')).ok_or(Unread::Damaged)?;
        let kinds = [Kind::Commit, Kind::Tag, Kind::Tree, Kind::Blob];
        let kind = kinds.into_iter().find(|known| known.name() == kind).ok_or(Unread::Damaged)?;
        let size: u64 = size.parse().map_err(|_| Unread::Damaged)?;
        budget.take(size)?;
        let mut content = Vec::new();
        reader.take(size + 1).read_to_end(&mut content).map_err(|_| Unread::Damaged)?;
        if content.len() as u64 != size || self.add(kind, &content)? != name {
            return Err(Unread::Damaged);
        }
        Ok(())
    }
}

/// The header lines of a commit or tag.
fn headers(content: &[u8]) -> impl Iterator<Item = &str> {
    let lines = content.split(|&byte| byte == b'\n').take_while(|line| !line.is_empty());
    lines.filter_map(|line| str::from_utf8(line).ok())
}

fn named(line: &str, key: &str) -> Option<ObjectId> {
    line.strip_prefix(key).and_then(ObjectId::parse)
}

fn commit(content: &[u8]) -> Option<Links> {
    let tree = headers(content).find_map(|line| named(line, "tree "))?;
    let parents = headers(content).filter_map(|line| named(line, "parent ")).collect();
    Some(Links::Commit { tree, parents })
}

fn entries(mut content: &[u8]) -> Option<Vec<(Box<[u8]>, ObjectId)>> {
    const SUBMODULE: &[u8] = b"160000";
    let mut entries = Vec::new();
    while !content.is_empty() {
        let end = content.iter().position(|&byte| byte == 0)?;
        let (head, rest) = content.split_at(end);
        let (id, rest) = rest[1..].split_first_chunk()?;
        let space = head.iter().position(|&byte| byte == b' ')?;
        if &head[..space] != SUBMODULE {
            entries.push((head[space + 1..].into(), ObjectId(*id)));
        }
        content = rest;
    }
    Some(entries)
}
