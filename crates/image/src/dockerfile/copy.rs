//! `COPY` and `ADD`: decides what goes where, then writes it into a fresh layer.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::ignore::Ignore;
use super::pattern::{is_pattern, matches_name};
use crate::archive;
use crate::digest::{Fields, HashingReader};
use crate::layer_path::LayerPath;
use crate::stack::{Found, Stack, open_file};
use crate::unpack::{Rules, UnpackLimits, unpack_into};
use crate::writer::{Attributes, FIXED_TIME, LayerWriter};
use crate::{ImageError, Layer};

const MAX_ITEMS: usize = 2_000_000;

/// Where sources come from.
pub(super) struct Origin<'a> {
    /// The context or another image, as layers.
    pub(super) stack: Stack<'a>,
    /// What of it does not exist.
    pub(super) ignore: Option<&'a Ignore>,
    /// Whether files are hashed: a stage or image is already identified by its digest.
    pub(super) hash: bool,
    /// Whether archives are unpacked.
    pub(super) unpack: bool,
}

/// What to do with what is copied.
#[derive(Debug, Clone)]
pub(super) struct Treatment {
    pub(super) owner: Option<(u32, u32)>,
    pub(super) mode: Option<u32>,
}

/// One source after variables were expanded.
pub(super) enum Source {
    Path(String),
    Inline { name: String, content: Vec<u8> },
}

/// Everything that one instruction writes, in order.
pub(super) struct CopyPlan {
    items: Vec<Item>,
    treatment: Treatment,
}

struct Item {
    target: LayerPath,
    node: Node,
}

enum Node {
    Directory { mode: u32 },
    File { content: Content, mode: u32, digest: Option<String> },
    Link { target: PathBuf },
    Archive { path: PathBuf, digest: Option<String> },
}

enum Content {
    Host(PathBuf),
    Bytes(Vec<u8>),
}

/// A source that was found.
struct Selected {
    name: OsString,
    what: What,
}

enum What {
    Object(LayerPath, Found),
    Inline(Vec<u8>),
}

impl CopyPlan {
    /// Decides what goes where. `destination` is absolute; a slash at its end means a directory.
    pub(super) fn new(
        origin: &Origin<'_>,
        sources: Vec<Source>,
        destination: &str,
        below: &Stack<'_>,
        treatment: Treatment,
    ) -> Result<Self, String> {
        let mut selected = Vec::new();
        for source in sources {
            match source {
                Source::Inline { name, content } => {
                    selected.push(Selected { name: name.into(), what: What::Inline(content) });
                }
                Source::Path(word) => selected.extend(select(origin, &word)?),
            }
        }
        let path =
            LayerPath::of_absolute(Path::new(destination)).map_err(|rule| format!("destination {rule}"))?;
        let path = below.resolve(&path, true).map_err(text)?;
        let existing = below.find(&path).map_err(text)?;
        let is_directory =
            destination.ends_with('/') || path.is_root() || existing.as_ref().is_some_and(Found::is_dir);
        if selected.len() > 1 && !is_directory {
            return Err(format!(
                "copies several sources, so the destination {destination} must end with a slash"
            ));
        }
        let mut planner = Planner { origin, below, items: Vec::new() };
        for source in selected {
            planner.source(source, &path, is_directory)?;
        }
        Ok(Self { items: planner.items, treatment })
    }

    /// Adds what identifies the copied content to a layer key.
    pub(super) fn hash(&self, fields: &mut Fields) {
        let (uid, gid) = self.treatment.owner.unwrap_or_default();
        fields
            .number(u64::from(self.treatment.owner.is_some()))
            .number(u64::from(uid))
            .number(u64::from(gid));
        fields.number(self.treatment.mode.map_or(u64::MAX, u64::from));
        for item in &self.items {
            fields.add(item.target.relative().as_os_str().as_bytes());
            match &item.node {
                Node::Directory { mode } => fields.add(b"directory").number(u64::from(*mode)),
                Node::File { mode, digest, .. } => fields
                    .add(b"file")
                    .number(u64::from(*mode))
                    .add(digest.as_deref().unwrap_or_default().as_bytes()),
                Node::Link { target } => fields.add(b"link").add(target.as_os_str().as_bytes()),
                Node::Archive { digest, .. } => {
                    fields.add(b"archive").add(digest.as_deref().unwrap_or_default().as_bytes())
                }
            };
        }
    }

    /// Writes the layer.
    pub(super) fn write(&self, into: &Path, below: &Stack<'_>) -> Result<(), ImageError> {
        let (uid, gid) = self.treatment.owner.unwrap_or_default();
        let missing = |path: &LayerPath| match below.find(path) {
            Ok(Some(found)) if found.is_dir() => Some(found.attributes()),
            _ if path.is_root() => None,
            _ => Some(Attributes::new(0o755, uid, gid)),
        };
        let limits = UnpackLimits::default();
        let mut writer = LayerWriter::open(into, &missing)?;
        for item in &self.items {
            let attributes = |mode: u32| Attributes::new(self.treatment.mode.unwrap_or(mode), uid, gid);
            match &item.node {
                Node::Directory { mode } => {
                    // A directory that exists below keeps its permissions, as with every other builder.
                    let below =
                        below.find(&item.target)?.filter(Found::is_dir).map(|found| found.attributes());
                    if !writer.has_directory(&item.target) {
                        writer.directory(&item.target, below.unwrap_or_else(|| attributes(*mode)))?;
                    }
                }
                Node::File { content: Content::Bytes(bytes), mode, .. } => {
                    writer.file(&item.target, &mut bytes.as_slice(), limits.file, &attributes(*mode))?;
                }
                Node::File { content: Content::Host(path), mode, digest } => {
                    let mut reader = HashingReader::new(open_file(path)?);
                    writer.file(&item.target, &mut reader, limits.file, &attributes(*mode))?;
                    check_unchanged(path, digest.as_deref(), reader)?;
                }
                Node::Link { target } => {
                    writer.symlink(&item.target, target.as_os_str(), &attributes(0o777))?;
                }
                Node::Archive { path, digest } => {
                    let mut raw = HashingReader::new(open_file(path)?);
                    self.extract(path, &mut raw, &item.target, below, &mut writer, &limits)?;
                    check_unchanged(path, digest.as_deref(), raw)?;
                }
            }
        }
        writer.finish()
    }

    fn extract(
        &self,
        path: &Path,
        raw: &mut HashingReader<std::fs::File>,
        target: &LayerPath,
        below: &Stack<'_>,
        writer: &mut LayerWriter<'_>,
        limits: &UnpackLimits,
    ) -> Result<(), ImageError> {
        let name = path.display().to_string();
        let stream = archive::inflate(&name, Box::new(raw))?;
        let mut place = |entry: &LayerPath, is_dir: bool| {
            let full = target.join_all(entry);
            let Some((parent, last)) = full.split() else { return Ok(full) };
            let placed = below.resolve(&parent, true)?.join(last);
            if is_dir { directory_at(below, placed) } else { Ok(placed) }
        };
        let rules = Rules {
            whiteouts: false,
            owner: self.treatment.owner,
            time: Some(FIXED_TIME),
            place: &mut place,
        };
        unpack_into(&name, stream, writer, limits, rules)?;
        Ok(())
    }
}

/// Reads a file to its end and compares it with what was planned.
fn check_unchanged(
    path: &Path,
    expected: Option<&str>,
    reader: HashingReader<std::fs::File>,
) -> Result<(), ImageError> {
    let place = || path.display().to_string();
    let (found, _) =
        reader.finish(u64::MAX).map_err(|e| ImageError::io(format!("reading {}", place()), e))?;
    match expected {
        Some(expected) if expected != found => Err(ImageError::Digest {
            place: format!("{} changed while it was copied", place()),
            expected: expected.to_owned(),
            found,
        }),
        _ => Ok(()),
    }
}

fn text(error: ImageError) -> String {
    match error {
        ImageError::Entry { entry, rule } => format!("`{entry}` {rule}"),
        other => other.to_string(),
    }
}

/// Where a directory is written: through a link to a directory below, else at the path itself.
fn directory_at(below: &Stack<'_>, path: LayerPath) -> Result<LayerPath, ImageError> {
    if below.find(&path)?.is_some_and(|found| found.is_link())
        && let Some((resolved, found)) = below.open(&path)?
        && found.is_dir()
    {
        return Ok(resolved);
    }
    Ok(path)
}

/// Finds the sources that a word names, sorted.
fn select(origin: &Origin<'_>, word: &str) -> Result<Vec<Selected>, String> {
    let in_context = origin.ignore.is_some();
    if in_context && word.split('/').any(|part| part == "..") {
        return Err(format!("source `{word}` leads out of the build context with `..`"));
    }
    let parts: Vec<&str> = word.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let mut found = vec![LayerPath::root()];
    for part in &parts {
        let mut next = Vec::new();
        for directory in &found {
            if *part == ".." {
                next.push(directory.split().map_or_else(LayerPath::root, |(parent, _)| parent));
            } else if is_pattern(part) {
                let directory_at = origin.stack.resolve(directory, true).map_err(text)?;
                let names = origin.stack.list(&directory_at).map_err(text)?;
                let matching = names.into_keys().filter(|name| matches_name(part, name));
                next.extend(matching.map(|name| directory.join(&name)));
            } else {
                next.push(directory.join(OsStr::new(part)));
            }
        }
        found = next;
        if found.len() > MAX_ITEMS {
            return Err(format!("source `{word}` matches more than {MAX_ITEMS} files"));
        }
    }
    let mut selected = Vec::new();
    let mut ignored = false;
    for path in found {
        let excluded = origin.ignore.is_some_and(|ignore| ignore.excludes(&path));
        let Some((resolved, object)) = origin.stack.open(&path).map_err(text)? else { continue };
        if excluded && !(object.is_dir() && origin.ignore.is_some_and(Ignore::has_exceptions)) {
            ignored = true;
            continue;
        }
        let name = path.split().map_or_else(OsString::new, |(_, name)| name.to_owned());
        selected.push(Selected { name, what: What::Object(resolved, object) });
    }
    if selected.is_empty() {
        let place = if in_context { "the build context" } else { "the image it is copied from" };
        let why = if ignored { " (it is excluded by .dockerignore)" } else { "" };
        return Err(format!("source `{word}` is not in {place}{why}"));
    }
    Ok(selected)
}

struct Planner<'a> {
    origin: &'a Origin<'a>,
    below: &'a Stack<'a>,
    items: Vec<Item>,
}

impl Planner<'_> {
    fn source(
        &mut self,
        source: Selected,
        destination: &LayerPath,
        is_directory: bool,
    ) -> Result<(), String> {
        let into = |name: &OsStr| if is_directory { destination.join(name) } else { destination.clone() };
        match source.what {
            What::Inline(content) => {
                let target = into(&source.name);
                self.check_file(&target)?;
                let digest = Some(crate::digest::hex_of(&content));
                self.push(target, Node::File { content: Content::Bytes(content), mode: 0o644, digest })
            }
            What::Object(path, found) if found.is_dir() => {
                self.check_directory(destination)?;
                self.push(destination.clone(), Node::Directory { mode: 0o755 })?;
                self.contents(&path, destination)?;
                Ok(())
            }
            What::Object(_, found) if self.origin.unpack && found.metadata.is_file() => {
                let name = found.host_path.display().to_string();
                let file = open_file(&found.host_path).map_err(text)?;
                if !archive::is_archive(&name, file).map_err(text)? {
                    return self.object(&found, into(&source.name));
                }
                self.check_directory(destination)?;
                let digest = self.digest(&found)?;
                self.push(destination.clone(), Node::Directory { mode: 0o755 })?;
                self.push(destination.clone(), Node::Archive { path: found.host_path, digest })
            }
            What::Object(_, found) => self.object(&found, into(&source.name)),
        }
    }

    /// Plans the contents of a source directory; tells whether there were any.
    fn contents(&mut self, from: &LayerPath, to: &LayerPath) -> Result<bool, String> {
        let mut any = false;
        for (name, found) in self.origin.stack.list(from).map_err(text)? {
            let path = from.join(&name);
            let excluded = self.origin.ignore.is_some_and(|ignore| ignore.excludes(&path));
            let may_go_on = found.is_dir() && self.origin.ignore.is_some_and(Ignore::has_exceptions);
            if excluded && !may_go_on {
                continue;
            }
            if !found.is_dir() {
                self.object(&found, to.join(&name))?;
                any = true;
                continue;
            }
            let target = directory_at(self.below, to.join(&name)).map_err(text)?;
            self.check_directory(&target)?;
            let before = self.items.len();
            self.push(target.clone(), Node::Directory { mode: found.metadata.mode() & 0o7777 })?;
            let inner = self.contents(&path, &target)?;
            if excluded && !inner {
                // Entered only for exceptions, and there were none.
                self.items.truncate(before);
                continue;
            }
            any = true;
        }
        Ok(any)
    }

    /// Plans one file or link.
    fn object(&mut self, found: &Found, target: LayerPath) -> Result<(), String> {
        self.check_file(&target)?;
        if found.is_link() {
            let link = fs_err::read_link(&found.host_path).map_err(|e| e.to_string())?;
            return self.push(target, Node::Link { target: link });
        }
        if !found.metadata.is_file() {
            return Err(format!("source {} is neither file, directory nor link", found.host_path.display()));
        }
        let digest = self.digest(found)?;
        let content = Content::Host(found.host_path.clone());
        self.push(target, Node::File { content, mode: found.metadata.mode() & 0o7777, digest })
    }

    fn digest(&self, found: &Found) -> Result<Option<String>, String> {
        if !self.origin.hash {
            return Ok(None);
        }
        let digest = ident::Digest::of_reader(open_file(&found.host_path).map_err(text)?)
            .map_err(|e| format!("reading {}: {e}", found.host_path.display()))?;
        Ok(Some(digest.hex()))
    }

    fn check_file(&self, target: &LayerPath) -> Result<(), String> {
        match self.below.find(target).map_err(text)? {
            Some(found) if found.is_dir() => Err(format!(
                "{} is a directory in the image and a file in the source",
                target.absolute().display()
            )),
            _ => Ok(()),
        }
    }

    fn check_directory(&self, target: &LayerPath) -> Result<(), String> {
        match self.below.find(target).map_err(text)? {
            Some(found) if !found.is_dir() => Err(format!(
                "{} is a file in the image and a directory in the source",
                target.absolute().display()
            )),
            _ => Ok(()),
        }
    }

    fn push(&mut self, target: LayerPath, node: Node) -> Result<(), String> {
        if self.items.len() >= MAX_ITEMS {
            return Err(format!("copies more than {MAX_ITEMS} files"));
        }
        self.items.push(Item { target, node });
        Ok(())
    }
}

/// A directory of the host as the only layer of a stack.
pub(super) fn context_layers(context: &Path) -> [Layer; 1] {
    [Layer::Directory(context.to_path_buf())]
}
