//! Files in and out by way of the guest.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tar::EntryType;

use crate::guest::Link;
use crate::guest::exec::{bytes, io_error, unexpected};
use crate::guest::link::Exchange;
use crate::shared::wire::{Entry, EntryKind, Operation, Status, Wire};
use crate::{Archive, ArchiveWriter, SandboxError};

/// Bytes read of an archive at a time.
const CHUNK: usize = 256 << 10;

/// Most bytes of a reply that is only a status.
const STATUS: usize = 64 << 10;

/// An entry and where its content is.
struct Planned {
    entry: Entry,
    content: Content,
}

enum Content {
    /// In the archive, from this byte on.
    At(u64),
    /// Put together from the pieces that a sparse file is stored in.
    Whole(Archive),
}

impl Link {
    /// Unpacks an archive below `directory`.
    pub(crate) async fn upload(&self, archive: &Archive, directory: &str) -> Result<(), SandboxError> {
        let what = format!("unpacking files into {directory}");
        let planned = plan(archive).map_err(io_error(what.clone()))?;
        let mut exchange = self.request(Operation::Unpack).await?;
        send(&mut exchange, archive, directory, &planned).await?.map_err(io_error(what.clone()))?;
        let mut reply = Vec::new();
        exchange.collect(&mut reply, STATUS).await?;
        match status(&reply) {
            Status::Done => Ok(()),
            other => Err(unexpected(&what, other)),
        }
    }

    /// Packs `path` into an archive of at most `limit` bytes.
    pub(crate) async fn download(&self, path: &str, limit: u64) -> Result<Archive, SandboxError> {
        let what = format!("packing {path}");
        let mut exchange = self.request(Operation::Pack).await?;
        exchange.send(&bytes(&path.to_owned()).map_err(io_error(what.clone()))?).await?;
        let mut writer = ArchiveWriter::default();
        let cut = || unexpected(&what, Status::Failed("the helper was killed".into()));
        loop {
            let length = exchange.take::<4>().await?.ok_or_else(cut)?;
            let mut missing = u32::from_le_bytes(length) as usize;
            if missing == 0 {
                break;
            }
            if writer.len() + missing as u64 > limit {
                return Err(SandboxError::TooLarge {
                    what: format!("{path} in the sandbox, packed,"),
                    limit,
                });
            }
            while missing > 0 {
                let bytes = exchange.take_up_to(missing).await?.ok_or_else(cut)?;
                writer.write_all(&bytes).map_err(io_error(what.clone()))?;
                missing -= bytes.len();
            }
        }
        let mut reply = Vec::new();
        exchange.collect(&mut reply, STATUS).await?;
        match status(&reply) {
            Status::Done => Ok(writer.finish()),
            Status::NoSuchPath => Err(SandboxError::NoSuchPath(path.to_owned())),
            other => Err(unexpected(&what, other)),
        }
    }
}

fn status(reply: &[u8]) -> Status {
    Status::get(&mut &*reply).unwrap_or_else(|_| Status::Failed("the helper was killed".into()))
}

/// Reads the heads of all entries. The archive may be anything, so this is where a broken one is found.
fn plan(archive: &Archive) -> io::Result<Vec<Planned>> {
    let mut planned = Vec::new();
    for entry in archive.as_tar().entries_with_seek()? {
        let mut tarred = entry?;
        let header = tarred.header();
        let kind = match header.entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => EntryKind::File,
            EntryType::Directory => EntryKind::Directory,
            EntryType::Symlink => EntryKind::Symlink,
            EntryType::Link => EntryKind::HardLink,
            EntryType::Fifo => EntryKind::Fifo,
            EntryType::XGlobalHeader => continue,
            other => {
                let name = tarred.path()?.display().to_string();
                return Err(io::Error::other(format!(
                    "entry {name}: entries of type {other:?} are not unpacked"
                )));
            }
        };
        let link = match kind {
            EntryKind::Symlink | EntryKind::HardLink => {
                let link = tarred.link_name()?.ok_or_else(|| io::Error::other("a link without target"))?;
                raw(&link)
            }
            _ => Vec::new(),
        };
        let sparse = header.entry_type() == EntryType::GNUSparse;
        let entry = Entry {
            kind,
            name: raw(&tarred.path()?),
            link,
            mode: header.mode()?,
            mtime: header.mtime()?,
            size: if kind == EntryKind::File { tarred.size() } else { 0 },
        };
        let start = tarred.raw_file_position();
        let content = if sparse {
            let mut writer = ArchiveWriter::default();
            let size = io::copy(&mut tarred, &mut writer)?;
            planned
                .push(Planned { entry: Entry { size, ..entry }, content: Content::Whole(writer.finish()) });
            continue;
        } else {
            Content::At(start)
        };
        // Content is stored in whole blocks.
        if entry.size.div_ceil(512).saturating_mul(512) > archive.len().saturating_sub(start) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        planned.push(Planned { entry, content });
    }
    Ok(planned)
}

fn raw(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Sends the request. The guest reads it to its end even when it cannot place something.
async fn send(
    exchange: &mut Exchange,
    archive: &Archive,
    directory: &str,
    planned: &[Planned],
) -> Result<io::Result<()>, SandboxError> {
    let mut heads = match bytes(&directory.to_owned()) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    let mut chunk = vec![0; CHUNK];
    for Planned { entry, content } in planned {
        if let Err(error) = entry.put(&mut heads) {
            return Ok(Err(error));
        }
        let (mut from, source) = match content {
            Content::At(start) => (*start, archive),
            Content::Whole(whole) => (0, whole),
        };
        let mut missing = entry.size;
        while missing > 0 {
            let most = usize::try_from(missing).unwrap_or(CHUNK).min(CHUNK);
            let count = match source.read_at(from, &mut chunk[..most]) {
                Ok(0) => return Ok(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => count,
                Err(error) => return Ok(Err(error)),
            };
            heads.extend_from_slice(&chunk[..count]);
            from += count as u64;
            missing -= count as u64;
            if heads.len() >= CHUNK {
                exchange.send(&heads).await?;
                heads.clear();
            }
        }
    }
    if let Err(error) = Entry::last().put(&mut heads) {
        return Ok(Err(error));
    }
    exchange.send(&heads).await?;
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_planned_by_place() {
        let archive = Archive::pack(|builder| {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o640);
            header.set_size(3);
            builder.append_data(&mut header, "a", &b"abc"[..])?;
            header.set_size(0);
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, "d".repeat(200), "target")
        });
        let archive = archive.unwrap();
        let planned = plan(&archive).unwrap();
        assert_eq!(planned.len(), 2);
        let Content::At(start) = planned[0].content else { panic!() };
        let mut content = [0; 3];
        archive.read_at(start, &mut content).unwrap();
        assert_eq!(&content, b"abc");
        assert_eq!((planned[1].entry.name.len(), planned[1].entry.link.as_slice()), (200, &b"target"[..]));
    }

    #[test]
    fn broken_archives_are_found_before_anything_is_sent() {
        let mut header = tar::Header::new_gnu();
        header.set_size(1 << 20);
        header.set_path("big").unwrap();
        header.set_cksum();
        let mut cut = header.as_bytes().to_vec();
        cut.extend_from_slice(&[0; 100]);
        assert!(plan(&cut.into()).is_err());
        assert!(plan(&vec![7_u8; 4096].into()).is_err());
        assert!(plan(&Vec::new().into()).unwrap().is_empty());
    }
}
