//! Builds images with the daemon, from a directory and a Dockerfile.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::BuildInfo;
use bollard::query_parameters::BuildImageOptionsBuilder;
use fs_err as fs;
use futures_util::{StreamExt, stream};
use ident::Digest;

use crate::docker::connect::{Refusal, unavailable};
use crate::docker::container::PREFIX;
use crate::docker::engine::Docker;
use crate::{Archive, EngineImage, Network, SandboxError};

/// The label on every image that is built here.
pub(super) const BUILT: &str = "dev.seatrial.built";

/// The name of every image that is built here; the tag is the digest of what it was built from.
pub(super) const REPOSITORY: &str = "seatrial.local/env";

/// Hexadecimal digits of that digest.
const DIGITS: usize = 32;

/// The Dockerfile's name in the context that the daemon gets; a context's own file cannot have it.
const DOCKERFILE: &str = ".seatrial/Dockerfile";

/// How much of a step's output is kept for the message about its failure.
const TAIL: usize = 16 << 10;
const TAIL_LINES: usize = 40;

/// How long a build may take when nothing else is said.
const LIMIT: Duration = Duration::from_secs(3600);

/// Bytes of the context that are sent at a time.
const CHUNK: usize = 256 << 10;

/// What to build.
#[derive(Debug, Clone)]
pub struct BuildSpec {
    /// The directory that `COPY` takes from. Links in it are sent, never followed.
    pub context: PathBuf,
    /// The Dockerfile, inside the context or not.
    pub dockerfile: PathBuf,
    /// What `RUN` can reach; [`Network::None`] unless set.
    pub network: Network,
    /// What the image belongs to.
    pub labels: BTreeMap<String, String>,
    /// The longest that the build may take.
    pub timeout: Duration,
}

impl BuildSpec {
    /// A build without network, within an hour.
    pub fn new(context: impl Into<PathBuf>, dockerfile: impl Into<PathBuf>) -> Self {
        Self {
            context: context.into(),
            dockerfile: dockerfile.into(),
            network: Network::None,
            labels: BTreeMap::new(),
            timeout: LIMIT,
        }
    }

    fn networkmode(&self) -> Result<&'static str, SandboxError> {
        match self.network {
            Network::None => Ok("none"),
            Network::Public => Ok("default"),
            Network::Allowlist(_) => Err(SandboxError::Unsupported {
                engine: super::engine::NAME,
                what: "a network allow-list for builds".into(),
            }),
        }
    }
}

impl Docker {
    /// Builds an image, or finds the one that was built from the same files before.
    ///
    /// The name `seatrial.local/env:<digest>` says what an image was built from: every file with its name and mode, the
    /// Dockerfile, and whether there was a network. What the Dockerfile's `FROM` means is not in it, so that should
    /// name a digest.
    pub async fn build(&self, spec: &BuildSpec) -> Result<EngineImage, SandboxError> {
        let network = spec.networkmode()?;
        let (context, dockerfile) = (spec.context.clone(), spec.dockerfile.clone());
        let doing = format!("packing the build context {}", context.display());
        let packed = tokio::task::spawn_blocking(move || pack(&context, &dockerfile)).await;
        let packed =
            packed.map_err(|error| SandboxError::Lost(format!("{doing} was interrupted: {error}")))?;
        let archive = packed.map_err(|source| SandboxError::Io { doing, source })?;
        let digest = digest(&archive, network).map_err(|source| SandboxError::Io {
            doing: "reading the packed build context".into(),
            source,
        })?;
        let name = format!("{REPOSITORY}:{digest}");
        if let Some(found) = self.find(&name).await? {
            return Ok(found);
        }
        if spec.network == Network::None {
            self.check_offline_build()?;
        }
        let build = self.run_build(spec, &name, network, archive);
        let built = tokio::time::timeout(spec.timeout, build).await;
        built.unwrap_or_else(|_| {
            let reason = format!("it took longer than {} s", spec.timeout.as_secs());
            Err(SandboxError::Build { step: String::new(), reason, tail: String::new() })
        })?;
        let missing = || unavailable(format!("the daemon does not hold {name}, which it has built"));
        self.find(&name).await?.ok_or_else(missing)
    }

    async fn run_build(
        &self,
        spec: &BuildSpec,
        name: &str,
        network: &str,
        archive: Archive,
    ) -> Result<(), SandboxError> {
        let given = spec.labels.iter().map(|(label, value)| (format!("{PREFIX}{label}"), value.clone()));
        let labels: HashMap<String, String> = given.chain([(BUILT.to_owned(), "1".to_owned())]).collect();
        let options = BuildImageOptionsBuilder::new()
            .dockerfile(DOCKERFILE)
            .t(name)
            .networkmode(network)
            .labels(&labels)
            .rm(true)
            .forcerm(true)
            .build();
        let body = stream::try_unfold((archive, 0_u64), |(archive, at)| async move {
            let mut chunk = vec![0; CHUNK];
            let count = archive.read_at(at, &mut chunk)?;
            chunk.truncate(count);
            Ok::<_, io::Error>((count > 0).then(|| (chunk.into(), (archive, at + count as u64))))
        });
        let mut progress = self.client.build_image(options, None, Some(bollard::body_try_stream(body)));
        let mut log = Log::default();
        while let Some(message) = progress.next().await {
            match message {
                Ok(message) => {
                    if let Some(reason) = log.take(message) {
                        return Err(log.failure(reason));
                    }
                }
                Err(bollard::errors::Error::DockerStreamError { error }) => return Err(log.failure(error)),
                Err(error) => {
                    return Err(match Refusal::from(error) {
                        Refusal::Status(_, reason) => log.failure(reason),
                        silence @ Refusal::Silence(_) => silence.doing(&format!("building {name}")),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The end of what the current step says.
#[derive(Debug, Default)]
struct Log {
    step: String,
    tail: VecDeque<u8>,
}

impl Log {
    /// Takes a message; returns why the build failed when it did.
    fn take(&mut self, message: BuildInfo) -> Option<String> {
        if let Some(detail) = message.error_detail {
            return Some(detail.message.unwrap_or_else(|| "the daemon does not say why".into()));
        }
        let text = message.stream?;
        if let Some(step) = step_of(&text) {
            step.clone_into(&mut self.step);
            self.tail.clear();
            return None;
        }
        // The daemon's own words stand in messages of their own.
        if [" ---> ", "--> ", "Removing intermediate container"].iter().any(|words| text.starts_with(words)) {
            return None;
        }
        self.tail.extend(text.as_bytes());
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
        None
    }

    fn failure(&self, reason: String) -> SandboxError {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim().lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
        SandboxError::Build { step: self.step.clone(), reason, tail }
    }
}

/// The instruction in `Step 2/5 : RUN make`, or in Podman's `STEP 2/5: RUN make`.
fn step_of(text: &str) -> Option<&str> {
    let (number, instruction) =
        text.strip_prefix("Step ").or_else(|| text.strip_prefix("STEP "))?.split_once(':')?;
    let numbers = number.trim().split('/').all(|number| number.parse::<u32>().is_ok());
    numbers.then_some(instruction.trim())
}

/// Packs the context so that the same files give the same bytes: owners and times are left out.
fn pack(context: &Path, dockerfile: &Path) -> io::Result<Archive> {
    let files = image::dockerfile::context_files(context, dockerfile).map_err(io::Error::other)?;
    Archive::pack(|builder| {
        for file in files {
            // The place is ours.
            if file.starts_with(".seatrial") {
                continue;
            }
            append(builder, &context.join(&file), &file)?;
        }
        append(builder, dockerfile, Path::new(DOCKERFILE))
    })
}

fn append<W: io::Write>(builder: &mut tar::Builder<W>, path: &Path, name: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let mut header = tar::Header::new_gnu();
    header.set_mode(metadata.mode() & 0o7777);
    header.set_size(0);
    if metadata.is_dir() {
        header.set_entry_type(tar::EntryType::Directory);
        return builder.append_data(&mut header, name, io::empty());
    }
    if metadata.is_symlink() {
        header.set_entry_type(tar::EntryType::Symlink);
        return builder.append_link(&mut header, name, fs::read_link(path)?);
    }
    // The name may mean something else by now: no link is followed and nothing is waited for.
    let file = artifact::open_file(path);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let metadata = file.metadata()?;
    header.set_size(metadata.len());
    // One that shrinks meanwhile is filled up, one that grows is cut: the stream stays well-formed.
    builder.append_data(&mut header, name, file.chain(io::repeat(0)).take(metadata.len()))
}

/// The name of what is built: a digest over all that decides it.
fn digest(archive: &Archive, network: &str) -> io::Result<String> {
    let settings = format!("network {network}\n");
    let mut digits = Digest::of_reader(settings.as_bytes().chain(archive.reader()))?.hex();
    digits.truncate(DIGITS);
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(files: &[(&str, &str)]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::create_dir_all(temp.path().join(name).parent().unwrap()).unwrap();
            fs::write(temp.path().join(name), text).unwrap();
        }
        temp
    }

    fn digest_of(temp: &tempfile::TempDir, network: &str) -> String {
        digest(&pack(temp.path(), &temp.path().join("Dockerfile")).unwrap(), network).unwrap()
    }

    #[test]
    fn the_same_files_have_the_same_digest_wherever_they_are() {
        let files = [("Dockerfile", "FROM x\n"), ("a/b", "text"), ("c", "")];
        let one = context(&files);
        std::thread::sleep(Duration::from_millis(5));
        let other = context(&files);
        assert_eq!(digest_of(&one, "none"), digest_of(&other, "none"));
        assert_eq!(digest_of(&one, "none").len(), DIGITS);
        assert_ne!(digest_of(&one, "none"), digest_of(&one, "default"));
        fs::write(other.path().join("c"), "x").unwrap();
        assert_ne!(digest_of(&one, "none"), digest_of(&other, "none"));
    }

    #[test]
    fn failures_name_the_step_and_show_its_end() {
        let say = |text: &str| BuildInfo { stream: Some(text.into()), ..BuildInfo::default() };
        let mut log = Log::default();
        for text in
            ["Step 1/2 : FROM x\n", " ---> abc\n", "Step 2/2 : RUN make\n", " ---> Running in 1\n", "a\nb\n"]
        {
            assert_eq!(log.take(say(text)), None);
        }
        let error = log.failure("code 2".into());
        assert_eq!(error.to_string(), "the image was not built, at `RUN make`: code 2\na\nb");
    }

    #[test]
    fn steps_are_found_in_the_words_of_both_daemons() {
        assert_eq!(step_of("Step 2/5 : RUN make\n"), Some("RUN make"));
        assert_eq!(step_of("STEP 2/5: RUN a : b\n"), Some("RUN a : b"));
        assert_eq!(step_of("Step back: now\n"), None);
        assert_eq!(step_of("output\n"), None);
    }

    #[test]
    fn special_files_are_refused_by_name() {
        let temp = context(&[("Dockerfile", "FROM x\n")]);
        let pipe = temp.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let error = pack(temp.path(), &temp.path().join("Dockerfile")).unwrap_err();
        assert!(error.to_string().contains("pipe: it is not a regular file"), "{error}");
    }
}
