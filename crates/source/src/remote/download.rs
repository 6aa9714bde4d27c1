//! One file: resumed where it was cut, and verified before anybody sees it.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;
use ident::Digest;
use reqwest::StatusCode;
use reqwest::header::CONTENT_RANGE;

use super::Remote;
use super::answer::{bare_tag, text};
use super::error::RemoteError;
use super::http::{Ask, Failure, passing};
use super::identity::{ContentId, Measured, RepoFile, measure};
use super::transfers::FileCount;
use crate::index::redacted;

/// The largest file in bytes.
const FILE_LIMIT: u64 = 1 << 40;

/// What was fetched, or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// Where it lies.
    pub path: PathBuf,
    /// Its digest.
    pub sha256: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// What is known of a file before it is fetched.
pub(super) struct Expected<'e> {
    /// The file.
    pub file: &'e RepoFile,
    /// Who says so: `repository` or `lock`.
    pub by: &'static str,
    /// The commit that the server must name, where it names one.
    pub commit: &'e str,
}

/// How far a file has come.
#[derive(Default)]
struct Progress {
    /// Whether the last answer went on with what was here before.
    resumed: bool,
    /// The most bytes that were ever here.
    longest: u64,
}

impl Progress {
    /// Whether so many bytes are more than ever before. A server that begins anew and stops at the same place every
    /// time brings nothing.
    fn reaches(&mut self, bytes: u64) -> bool {
        let more = bytes > self.longest;
        self.longest = self.longest.max(bytes);
        more
    }
}

impl Remote {
    /// Fetches a file into the cache, or takes it from there.
    pub(super) async fn download(
        &self,
        ask: Ask<'_>,
        expected: Expected<'_>,
    ) -> Result<Fetched, RemoteError> {
        let file = expected.file;
        if file.size > FILE_LIMIT {
            return Err(wrong(
                &ask,
                &expected,
                "size",
                format!("at most {FILE_LIMIT}"),
                file.size.to_string(),
            ));
        }
        if let Some((path, sha256)) = self.store.find(&file.id).await? {
            tracing::debug!(what = ask.what, "is in the cache");
            return Ok(Fetched { path, sha256, size: file.size });
        }
        self.online(|| ask.what.to_owned())?;
        tracing::debug!(what = ask.what, size = file.size, "downloads");
        let part = self.store.part(&format!("{} {} {}", redacted(ask.url), file.id.text(), file.size))?;
        let longest = length(&part)?;
        let mut progress = Progress { resumed: longest > 0, longest };
        let mut count = self.transfers.begin(file.size);
        loop {
            self.client()?
                .retrying(ask, async || self.attempt(ask, &expected, &part, &mut progress, &mut count).await)
                .await?;
            let measured = measure_part(ask.what, &part).await?;
            match compare(&ask, &expected, &measured) {
                Ok(()) => {
                    let path = self.store.keep(&part, measured.sha256, &measured.git)?;
                    return Ok(Fetched { path, sha256: measured.sha256, size: measured.size });
                }
                Err(error) => {
                    remove(&part)?;
                    if !progress.resumed {
                        return Err(error);
                    }
                    // Parts of two transfers may not fit together; the file alone, from its first byte, decides.
                    tracing::debug!(what = ask.what, "the resumed transfer does not fit, it begins anew");
                    progress = Progress::default();
                }
            }
        }
    }

    /// Brings what is missing of the part, or some of it.
    async fn attempt(
        &self,
        ask: Ask<'_>,
        expected: &Expected<'_>,
        part: &Path,
        progress: &mut Progress,
        count: &mut FileCount<'_>,
    ) -> Result<(), Failure> {
        let failed = |source| RemoteError::Io { path: part.to_owned(), source };
        let size = expected.file.size;
        let mut output =
            fs::OpenOptions::new().create(true).truncate(false).write(true).open(part).map_err(failed)?;
        let mut have = output.metadata().map_err(failed)?.len();
        if have > size {
            have = 0;
        }
        if have == size && size > 0 {
            count.is_at(have);
            return Ok(());
        }
        let mut answered =
            self.client()?.send(Ask { from: Some(have), ..ask }).await.or_else(|failure| match failure {
                // A range that the server does not have: the part is of no use.
                Failure::Lasting(RemoteError::Refused { status: 416, .. }) if have > 0 => {
                    output.set_len(0).map_err(failed)?;
                    let detail = "it has no more bytes after those that came".to_owned();
                    Err(Failure::Passing { detail, asked: None, gained: false })
                }
                failure => Err(failure),
            })?;
        announced(&ask, expected, &answered.first)?;
        let partial = answered.response.status() == StatusCode::PARTIAL_CONTENT;
        if have > 0 && !(partial && begins_at(answered.response.headers(), have)) {
            have = 0;
        }
        if partial && !begins_at(answered.response.headers(), have) {
            let detail = "it sends another part of the file than was asked for".to_owned();
            output.set_len(0).map_err(failed)?;
            return Err(Failure::Passing { detail, asked: None, gained: false });
        }
        progress.resumed = have > 0;
        output.set_len(have).map_err(failed)?;
        output.seek(SeekFrom::Start(have)).map_err(failed)?;
        count.is_at(have);
        loop {
            match answered.response.chunk().await {
                Ok(Some(chunk)) => {
                    have += chunk.len() as u64;
                    if have > size {
                        drop(output);
                        remove(part)?;
                        let found = format!("more than {size} bytes");
                        return Err(wrong(&ask, expected, "size", format!("{size} bytes"), found).into());
                    }
                    output.write_all(&chunk).map_err(failed)?;
                    count.is_at(have);
                }
                Ok(None) if have == size => return Ok(()),
                Ok(None) => {
                    let detail = format!("the answer broke off after {have} of {size} bytes");
                    return Err(Failure::Passing { detail, asked: None, gained: progress.reaches(have) });
                }
                Err(error) => return Err(passing(&error, progress.reaches(have))),
            }
        }
    }
}

/// Holds what the server says beforehand against what is expected, so that a wrong file costs nothing.
fn announced(
    ask: &Ask<'_>,
    expected: &Expected<'_>,
    first: &reqwest::header::HeaderMap,
) -> Result<(), RemoteError> {
    if let Some(commit) = text(first, "x-repo-commit")
        && commit != expected.commit
    {
        return Err(wrong(ask, expected, "commit", expected.commit.to_owned(), shortened(commit)));
    }
    if let Some(size) = text(first, "x-linked-size")
        && size != expected.file.size.to_string()
    {
        return Err(wrong(ask, expected, "size", expected.file.size.to_string(), shortened(size)));
    }
    let Some(tag) = text(first, "x-linked-etag") else { return Ok(()) };
    match (ContentId::parse(bare_tag(tag)), &expected.file.id) {
        (Some(found @ ContentId::Sha256(_)), wanted @ ContentId::Sha256(_)) if found != *wanted => {
            Err(wrong(ask, expected, wanted.kind(), wanted.text(), found.text()))
        }
        _ => Ok(()),
    }
}

fn compare(ask: &Ask<'_>, expected: &Expected<'_>, measured: &Measured) -> Result<(), RemoteError> {
    let file = expected.file;
    if measured.size != file.size {
        return Err(wrong(ask, expected, "size", file.size.to_string(), measured.size.to_string()));
    }
    let found = match &file.id {
        ContentId::Sha256(_) => measured.sha256.hex(),
        ContentId::Git(_) => measured.git.clone(),
    };
    if found == file.id.text() {
        return Ok(());
    }
    Err(wrong(ask, expected, file.id.kind(), file.id.text(), found))
}

fn wrong(
    ask: &Ask<'_>,
    expected: &Expected<'_>,
    kind: &'static str,
    wanted: String,
    found: String,
) -> RemoteError {
    RemoteError::WrongContent { what: ask.what.to_owned(), kind, by: expected.by, wanted, found }
}

/// Whether a part begins at a byte: `bytes 5-9/10`.
fn begins_at(headers: &reqwest::header::HeaderMap, byte: u64) -> bool {
    let range = text(headers, CONTENT_RANGE.as_str()).and_then(|range| range.strip_prefix("bytes "));
    range.and_then(|range| range.split('-').next()?.trim().parse().ok()) == Some(byte)
}

fn length(part: &Path) -> Result<u64, RemoteError> {
    match fs::symlink_metadata(part) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(RemoteError::Io { path: part.to_owned(), source }),
    }
}

fn remove(part: &Path) -> Result<(), RemoteError> {
    fs::remove_file(part).map_err(|source| RemoteError::Io { path: part.to_owned(), source })
}

async fn measure_part(what: &str, part: &Path) -> Result<Measured, RemoteError> {
    let path = part.to_owned();
    let measured = tokio::task::spawn_blocking(move || measure(&path)).await;
    let stopped = |error: tokio::task::JoinError| RemoteError::Worker {
        what: what.to_owned(),
        detail: error.to_string(),
    };
    measured.map_err(stopped)?.map_err(|source| RemoteError::Io { path: part.to_owned(), source })
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}
