//! What is brought out after the agent: its logs, the artifacts, and the manifest of both.

use std::time::Duration;

use job::{ArtifactEntry, ArtifactKind, ArtifactStatus};
use record::Reason;
use sandbox::{Archive, Capture, ExecSpec};

use super::access::{Access, Fetched, disk};
use super::artifacts::{Excludes, PUBLISHED, absolute, for_crossing, is_taken};
use super::installed::{INSTRUCTION, OUTPUT, SPEC};
use super::round::Round;
use super::{Failure, Life};
use crate::Agent;
use crate::files::plain_name;

/// Taken out of one directory of a sandbox.
const COLLECT_LIMIT: u64 = 256 << 20;

/// Whether the trial itself writes a file of this name beside what is in `/logs/agent`. What a model did is told by the trial
/// alone: no file out of its sandbox may pass for a part of its trajectory.
fn is_ours(agent: Agent, name: &str) -> bool {
    let own = match agent {
        Agent::Shell => name.starts_with("trajectory.") || name.starts_with("wire/"),
        Agent::Installed(spec) => {
            matches!(name, OUTPUT | SPEC | INSTRUCTION)
                || name.starts_with("trajectory.") && spec.trajectory.as_deref() != Some(name)
        }
        Agent::Oracle | Agent::Nop | Agent::Cheat(_) => false,
    };
    own || matches!(name, "oracle.txt" | "exit-code.txt")
}

/// An artifact on its way into the verifier's own environment.
pub(super) struct Crossing {
    /// The directory that it is unpacked into.
    pub(super) directory: String,
    pub(super) archive: Archive,
}

/// One artifact, declared or not.
struct Wanted {
    source: String,
    path: String,
    destination: String,
    exclude: Vec<String>,
}

impl Life<'_> {
    /// Runs the task's own commands between agent and collection. What the agent left running is still there for them; their
    /// failures show in the log and in what is then missing.
    pub(super) async fn hooks(&self, access: &Access<'_>, round: &Round<'_>) -> Result<(), Failure> {
        for hook in round.hooks {
            let command = ExecSpec {
                user: hook.user.clone(),
                timeout: Duration::try_from_secs_f64(hook.timeout_sec).ok().or(Some(Duration::from_secs(60))),
                capture: Capture { limit: 4 << 10, merge: true },
                ..ExecSpec::default()
            };
            match access.shell(&hook.command, command, Reason::TaskInvalid).await {
                Ok(ran) if ran.success() => {}
                Ok(ran) => {
                    let said = String::from_utf8_lossy(&ran.stdout.bytes);
                    self.files.log(&format!(
                        "collect: {:?} of `{}`: {}",
                        ran.status,
                        hook.command,
                        said.trim()
                    ));
                }
                Err((Reason::TaskInvalid, detail)) => self.files.log(&format!("collect: {detail}")),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Brings out the agent's logs and all artifacts. When they are to enter another sandbox they are returned too.
    pub(super) async fn collect(
        &self,
        access: &Access<'_>,
        round: &Round<'_>,
        workdir: &str,
    ) -> Result<Vec<Crossing>, Failure> {
        match access.download("/logs/agent", COLLECT_LIMIT).await? {
            Fetched::Archive(archive) => {
                let place =
                    |name: &str| (!is_ours(self.agent, name)).then(|| round.place(&format!("agent/{name}")));
                self.files.unpack(&archive, place).map_err(disk)?;
            }
            Fetched::Missing => {}
            Fetched::Refused(why) => self.files.log(&format!("left out: {why}")),
        }
        let mut entries = Vec::new();
        let mut crossings = Vec::new();
        let mut taken = Vec::new();
        for wanted in wanted(round, workdir) {
            let mut entry = ArtifactEntry {
                kind: if wanted.path == PUBLISHED || !last(&wanted.path).contains('.') {
                    ArtifactKind::Directory
                } else {
                    ArtifactKind::File
                },
                source: wanted.source.clone(),
                destination: wanted.destination.clone(),
                status: ArtifactStatus::Skipped,
                service: None,
                exclude: Some(wanted.exclude.clone()),
            };
            if is_taken(&taken, &wanted.destination) {
                self.files.log(&format!("skipped: {} is in {} already", wanted.source, wanted.destination));
            } else {
                let crossing = self.bring(access, round, &wanted, &mut entry).await?;
                crossings.extend(crossing.filter(|_| round.separate));
                taken.push(wanted.destination);
            }
            entries.push(entry);
        }
        let manifest = job::manifest_text(&entries)
            .map_err(|error| (Reason::EngineLost, format!("the manifest has no JSON form: {error}")))?;
        self.files.write(&round.place("artifacts/manifest.json"), manifest.as_bytes()).map_err(disk)?;
        Ok(crossings)
    }

    /// Brings one artifact out and says in its entry how that went.
    async fn bring(
        &self,
        access: &Access<'_>,
        round: &Round<'_>,
        wanted: &Wanted,
        entry: &mut ArtifactEntry,
    ) -> Result<Option<Crossing>, Failure> {
        let archive = match access.download(&wanted.path, COLLECT_LIMIT).await? {
            Fetched::Archive(archive) => archive,
            missing => {
                let why = match missing {
                    Fetched::Refused(why) => why,
                    _ => "there is no such path".to_owned(),
                };
                self.files.log(&format!("artifact {}: {why}", wanted.source));
                entry.status = ArtifactStatus::Failed;
                return Ok(None);
            }
        };
        let unreadable = |error| (Reason::EngineLost, format!("{} cannot be read: {error}", wanted.source));
        let excludes = Excludes::new(&wanted.exclude);
        let is_file = is_single_file(&archive, last(&wanted.path)).map_err(unreadable)?;
        let place = round.place(&wanted.destination);
        let kept = if is_file {
            entry.kind = ArtifactKind::File;
            self.files.unpack(&archive, |_| Some(place.clone())).map_err(disk)?
        } else {
            entry.kind = ArtifactKind::Directory;
            self.files.create_directory(&place).map_err(disk)?;
            let below = |name: &str| (!excludes.cover(name)).then(|| format!("{place}/{name}"));
            self.files.unpack(&archive, below).map_err(disk)?
        };
        // The directory that everybody has counts as brought out also when nothing is in it.
        entry.status = match kept {
            0 if wanted.path != PUBLISHED => ArtifactStatus::Empty,
            _ => ArtifactStatus::Ok,
        };
        if !round.separate {
            return Ok(None);
        }
        let directory = if is_file { parent(&wanted.path) } else { wanted.path.clone() };
        let archive = for_crossing(&archive, &excludes).map_err(unreadable)?;
        Ok(Some(Crossing { directory, archive }))
    }
}

/// Everything that is to be brought out, the published directory first.
fn wanted(round: &Round<'_>, workdir: &str) -> Vec<Wanted> {
    let published = Wanted {
        source: PUBLISHED.into(),
        path: PUBLISHED.into(),
        destination: format!("artifacts{PUBLISHED}"),
        exclude: Vec::new(),
    };
    let declared = round.artifacts.iter().map(|artifact| {
        let path = absolute(&artifact.source, workdir);
        let named = artifact.destination.as_deref().and_then(|name| plain_name(name.as_ref()));
        let below = named.unwrap_or_else(|| path.trim_start_matches('/').to_owned());
        Wanted {
            source: artifact.source.clone(),
            destination: format!("artifacts/{below}"),
            path,
            exclude: artifact.exclude.clone(),
        }
    });
    std::iter::once(published).chain(declared).collect()
}

/// Whether an archive is that of one file and not of a directory: one regular entry with the path's own last name. A directory
/// that holds nothing but one file of its own name looks the same, and is kept as that file.
fn is_single_file(archive: &Archive, name: &str) -> std::io::Result<bool> {
    let mut tar = archive.as_tar();
    let mut entries = tar.entries()?;
    let Some(first) = entries.next().transpose()? else { return Ok(false) };
    let same = first.header().entry_type().is_file() && first.path()?.to_str() == Some(name);
    Ok(same && entries.next().transpose()?.is_none())
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/".to_owned(),
        Some((parent, _)) => parent.to_owned(),
    }
}
