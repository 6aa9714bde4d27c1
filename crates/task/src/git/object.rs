//! Objects of git: their names, the loose ones, and what they lead to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{BufRead, Read};

use flate2::bufread::ZlibDecoder;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use sha1::{Digest as _, Sha1};

/// Largest object that is looked at, in bytes.
const MAX_OBJECT: u64 = 512 << 20;
/// Room of this many bytes is made for an object at once, before it is known that it has that size.
const MAX_ROOM: u64 = 64 << 10;
/// Most objects, and most entries of trees, of one repository.
const MAX_LINKS: usize = 40_000_000;

thread_local! {
    /// What small objects are inflated with: making it anew takes longer than inflating one of them.
    static INFLATER: RefCell<Box<DecompressorOxide>> = RefCell::default();
}

/// A stream of zlib that goes into one piece of memory.
const WHOLE_STREAM: u32 = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;

/// The name of an object: the SHA-1 of its kind, length and content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub(crate) [u8; 20]);

impl ObjectId {
    /// Reads 40 hexadecimal digits; nothing where there is anything else.
    pub fn parse(text: &str) -> Option<Self> {
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

    /// The name of an object.
    pub fn of(kind: Kind, content: &[u8]) -> Self {
        let head = format!("{} {}\0", kind.name(), content.len());
        Self(Sha1::new().chain_update(head).chain_update(content).finalize().into())
    }

    /// Whether it names nothing, as reflogs say.
    pub fn is_null(self) -> bool {
        self.0 == [0; 20]
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).try_for_each(|c| f.write_char(c))
    }
}

/// The four kinds of objects, commits first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A state of the tree, with what it came from.
    Commit,
    /// A name with a text.
    Tag,
    /// A directory.
    Tree,
    /// The content of a file.
    Blob,
}

impl Kind {
    /// The number by which packs know it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Tree => 2,
            Self::Blob => 3,
            Self::Tag => 4,
        }
    }

    /// The kind of that number.
    pub(super) fn of_code(code: u8) -> Option<Self> {
        [Self::Commit, Self::Tag, Self::Tree, Self::Blob].into_iter().find(|kind| kind.code() == code)
    }

    /// The word that stands in the object's name and head.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tag => "tag",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }
}

/// What an object leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Links {
    /// A commit.
    Commit {
        /// Its tree.
        tree: ObjectId,
        /// What it came from.
        parents: Vec<ObjectId>,
    },
    /// A tag, with what it names.
    Tag(ObjectId),
    /// Entries by name; those of submodules lead to another repository and are left out.
    Tree(Vec<(Box<[u8]>, ObjectId)>),
    /// A file, which leads nowhere.
    Blob,
}

impl Links {
    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Commit { .. } => Kind::Commit,
            Self::Tag(_) => Kind::Tag,
            Self::Tree(_) => Kind::Tree,
            Self::Blob => Kind::Blob,
        }
    }
}

/// The objects of one repository, by their names.
#[derive(Debug, Default)]
pub struct Objects {
    /// What each leads to.
    pub all: HashMap<ObjectId, Links>,
    links: usize,
}

/// Why an object or a pack could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
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
#[derive(Debug)]
pub struct Budget(u64);

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Takes so many bytes from what is left.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), Unread> {
        if bytes > MAX_OBJECT {
            return Err(Unread::TooLarge);
        }
        self.0 = self.0.checked_sub(bytes).ok_or(Unread::TooLarge)?;
        Ok(())
    }

    /// Inflates a stream of exactly `size` bytes.
    pub(super) fn inflate(&mut self, bytes: &[u8], size: u64) -> Result<Vec<u8>, Unread> {
        self.take(size)?;
        // One byte more than stated, so that a longer stream is noticed and a shorter one as well.
        let room = size + 1;
        let mut content = Vec::new();
        if room <= MAX_ROOM {
            content.resize(room as usize, 0);
            let (status, _, written) = INFLATER.with_borrow_mut(|inflater| {
                inflater.init();
                decompress(inflater, bytes, &mut content, 0, WHOLE_STREAM)
            });
            if status != TINFLStatus::Done {
                return Err(Unread::Damaged);
            }
            content.truncate(written);
        } else {
            ZlibDecoder::new(bytes).take(room).read_to_end(&mut content).map_err(|_| Unread::Damaged)?;
        }
        if content.len() as u64 == size { Ok(content) } else { Err(Unread::Damaged) }
    }

    /// Passes over a stream of exactly `size` bytes, and gives what follows it.
    pub(super) fn pass<'b>(&mut self, bytes: &'b [u8], size: u64) -> Result<&'b [u8], Unread> {
        self.take(size)?;
        let mut decoder = ZlibDecoder::new(bytes);
        let passed = std::io::copy(&mut (&mut decoder).take(size + 1), &mut std::io::sink());
        if passed.is_ok_and(|passed| passed == size) {
            Ok(decoder.into_inner())
        } else {
            Err(Unread::Damaged)
        }
    }
}

impl Objects {
    /// Adds an object and gives its name.
    ///
    /// # Errors
    /// Contents that are no object of that kind, and more links than are kept.
    pub fn add(&mut self, kind: Kind, content: &[u8]) -> Result<ObjectId, Unread> {
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
    ///
    /// # Errors
    /// Bytes that are no object of that name, and bounds that were met.
    pub fn add_loose(&mut self, name: ObjectId, bytes: &[u8], budget: &mut Budget) -> Result<(), Unread> {
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
    Some(Links::Commit { tree, parents: parents(content) })
}

/// The parents that the head of a commit names.
pub(super) fn parents(content: &[u8]) -> Vec<ObjectId> {
    headers(content).filter_map(|line| named(line, "parent ")).collect()
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Small objects and large ones are inflated in different ways, which agree.
    #[test]
    fn an_object_has_exactly_the_size_that_is_stated() {
        for size in [0, 1, 1000, MAX_ROOM - 2, MAX_ROOM - 1, MAX_ROOM, 3 * MAX_ROOM] {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&content).unwrap();
            let deflated = encoder.finish().unwrap();
            let inflate = |bytes: &[u8], size: u64| Budget::new(1 << 30).inflate(bytes, size);
            assert_eq!(inflate(&[&deflated[..], b"what follows"].concat(), size).unwrap(), content, "{size}");
            assert_eq!(inflate(&deflated, size + 1), Err(Unread::Damaged), "{size}");
            let mut damaged = deflated.clone();
            *damaged.last_mut().unwrap() ^= 1;
            assert_eq!(inflate(&damaged, size), Err(Unread::Damaged), "{size}");
            // However a stream breaks off, it is as good or bad as it is to somebody who reads it piece by piece.
            for end in (0..deflated.len()).step_by(1 + deflated.len() / 50) {
                let mut pieces = Vec::new();
                let read = ZlibDecoder::new(&deflated[..end]).take(size + 1).read_to_end(&mut pieces);
                let whole = read.is_ok() && pieces.len() as u64 == size;
                assert_eq!(inflate(&deflated[..end], size).is_ok(), whole, "{size} {end}");
            }
            if size > 0 {
                assert_eq!(inflate(&deflated, size - 1), Err(Unread::Damaged), "{size}");
            }
        }
    }
}
