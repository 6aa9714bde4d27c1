//! Places on this machine that have bases: layouts, archives of such, and the store of the container daemon.

use std::path::PathBuf;

use image::pack::{LayoutWriter, Packed};
use image::shards::{Missing, Wanted};
use image::{ImageError, ImageRef, Layout, RemoteRef};
use record::{ImageKind, ImageSource, ShardConfig};
use sandbox::SandboxError;
use sandbox::docker::{Docker, DockerConfig};
use tempfile::NamedTempFile;

use super::LAYOUT;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::Output;
use crate::project::Project;

/// Where images of the daemon are kept in a form that has digests, in the directory of derived files.
const DAEMON_LAYOUT: &str = "daemon-images";

/// The layouts from which images are sent: what was packed here, what a daemon gave, and those that the recipe names.
pub fn layouts(project: &Project, config: &ShardConfig) -> Result<Vec<Layout>> {
    let mut layouts = Vec::new();
    for own in [LAYOUT, DAEMON_LAYOUT] {
        let directory = project.state("")?.join(own);
        if directory.join("index.json").exists() {
            layouts.push(Layout::open(&directory).or_exit(Exit::Failed)?);
        }
    }
    for source in &config.sources {
        layouts.extend(open(project, source)?);
    }
    Ok(layouts)
}

/// The layout that a source is; none of the daemon.
fn open(project: &Project, source: &ImageSource) -> Result<Option<Layout>> {
    let opened = match source {
        ImageSource::Daemon => return Ok(None),
        ImageSource::Layout(path) => Layout::open(&project.path(path)),
        ImageSource::LayoutArchive(path) => Layout::open_archive(&project.path(path)),
    };
    opened.map(Some).map_err(|error| {
        Failure::new(Exit::Usage, format!("`{source}` cannot be used: {error}"))
            .hint("`sources` of [images] names it")
    })
}

/// The sources of a recipe, opened in its order.
pub struct Sources {
    opened: Vec<(ImageSource, Opened)>,
}

enum Opened {
    Layout(Layout),
    Daemon(Box<Daemon>),
}

/// A container daemon, and the layout that its images are brought to.
struct Daemon {
    docker: Docker,
    layout: LayoutWriter,
    packed: Vec<Packed>,
    scratch: PathBuf,
}

/// What a source says of a base: its image, or why what it has is of no use.
type Answer = std::result::Result<Wanted, Missing>;

impl Sources {
    /// Opens all of them. The daemon has to be there where it is named.
    pub async fn open(project: &Project, config: &ShardConfig) -> Result<Self> {
        let mut opened = Vec::new();
        for source in &config.sources {
            let found = match open(project, source)? {
                Some(layout) => Opened::Layout(layout),
                None => Opened::Daemon(Box::new(Daemon::connect(project).await?)),
            };
            opened.push((source.clone(), found));
        }
        Ok(Self { opened })
    }

    /// The first source that has a base.
    pub async fn look_up(
        &mut self,
        output: Output,
        base: &RemoteRef,
        platform: Option<&str>,
    ) -> Result<Option<Answer>> {
        let reference = ImageRef::Remote(base.clone());
        for (source, opened) in &mut self.opened {
            let found = match opened {
                Opened::Layout(layout) => in_layout(layout, &reference, base.digest(), platform),
                Opened::Daemon(daemon) => daemon.look_up(output, &reference, base.digest(), platform).await?,
            };
            let key = base.to_string();
            let place = source.name(&reference.familiar());
            match found {
                Ok(None) => {}
                Ok(Some((digest, media_type))) => {
                    let (kind, group) = (ImageKind::Baseanchor, key.clone());
                    return Ok(Some(Ok(Wanted { kind, key, source: place, digest, media_type, group })));
                }
                Err(error) if error.is_disk_full() => return Err(error).or_exit(Exit::Budget),
                Err(error) => {
                    let reason = error.to_string();
                    let kind = ImageKind::Baseanchor;
                    return Ok(Some(Err(Missing { kind, key, source: place, reason })));
                }
            }
        }
        Ok(None)
    }

    /// Keeps what the daemon gave, and nothing else that it gave before.
    pub fn finish(self) -> Result {
        for (_, opened) in self.opened {
            if let Opened::Daemon(daemon) = opened {
                daemon.layout.finish(&daemon.packed).or_exit(Exit::Failed)?;
            }
        }
        Ok(())
    }
}

/// Digest and media type of what a layout has under a name. A reference with a digest means that content and no other.
fn in_layout(
    layout: &Layout,
    reference: &ImageRef,
    digest: Option<&str>,
    platform: Option<&str>,
) -> std::result::Result<Option<(String, String)>, ImageError> {
    let Some(name) = layout.name_of(reference) else { return Ok(None) };
    if let Some(digest) = digest
        && layout.look_up(&name, None)?.is_none_or(|found| found.digest != digest)
    {
        return Ok(None);
    }
    Ok(layout.look_up(&name, platform)?.map(|found| (found.digest, found.media_type)))
}

impl Daemon {
    async fn connect(project: &Project) -> Result<Self> {
        let docker = Docker::connect(&DockerConfig::default()).await.map_err(|error| unanswered(&error))?;
        let layout = LayoutWriter::open(&project.state("")?.join(DAEMON_LAYOUT)).or_exit(Exit::Failed)?;
        Ok(Self { docker, layout, packed: Vec::new(), scratch: project.state("")? })
    }

    /// Digest and media type of what the daemon has under a name. It keeps no manifests, so one is made, which is the same for the
    /// same image; a reference with a digest means another one.
    async fn look_up(
        &mut self,
        output: Output,
        reference: &ImageRef,
        digest: Option<&str>,
        platform: Option<&str>,
    ) -> Result<std::result::Result<Option<(String, String)>, ImageError>> {
        if digest.is_some() {
            return Ok(Ok(None));
        }
        let name = reference.familiar();
        let Some(found) = self.docker.find(&name).await.map_err(|error| unanswered(&error))? else {
            return Ok(Ok(None));
        };
        let origin = match platform {
            Some(platform) => format!("{} for {platform}", found.digest),
            None => found.digest.clone(),
        };
        let packed = match self.layout.saved_before(&name, &origin) {
            Some(packed) => packed,
            None => {
                output.stage("images", format_args!("{name} is taken from the container daemon"));
                let file = NamedTempFile::new_in(&self.scratch).or_exit(Exit::Failed)?;
                let mut into = tokio::fs::File::from_std(file.reopen().or_exit(Exit::Failed)?);
                self.docker.save(&found, &mut into).await.map_err(|error| unanswered(&error))?;
                match self.layout.add_saved(&name, file.path(), &origin, platform) {
                    Ok(packed) => packed,
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        let image = (packed.digest.clone(), packed.media_type.to_owned());
        self.packed.push(packed);
        Ok(Ok(Some(image)))
    }
}

fn unanswered(error: &SandboxError) -> Failure {
    Failure::from_error(Exit::Unknown, error)
        .hint("nothing was changed; `sources` of [images] names the container daemon")
}
