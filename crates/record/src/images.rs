//! Where images are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ident::Digest;
use serde::{Deserialize, Serialize};

/// The shards of a registry, and how images are spread over them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardConfig {
    /// Host and port of the registry.
    pub registry: String,
    /// What stands before the names of all shards; may be empty.
    #[serde(default)]
    pub namespace: String,
    /// Name of a shard; `{}` stands for its number, `{:02}` for at least two digits of it.
    #[serde(default = "template")]
    pub shard_template: String,
    /// How many shards there are.
    pub shards: u32,
    /// Most tags in one shard, those of others included.
    pub tag_limit: u64,
    /// Where an image belongs.
    #[serde(default)]
    pub placement: Placement,
    /// What happens when it does not fit there.
    #[serde(default)]
    pub overflow: Overflow,
    /// Whether a shard that the registry does not know counts as empty.
    #[serde(default)]
    pub create_repositories: bool,
    /// Whether a tag that names another image is moved.
    #[serde(default)]
    pub overwrite: bool,
    /// Part of every hash; another version spreads images anew.
    #[serde(default = "hash_version")]
    pub hash_version: String,
    /// The one platform of an image that is wanted, `OS/ARCHITECTURE` or `OS/ARCHITECTURE/VARIANT`; every one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Where bases are looked for on this machine, in this order, before their own registries are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ImageSource>,
}

/// A place on this machine that has images. Its text is a transport and a path, as other tools for images write it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ImageSource {
    /// `oci:PATH`: a directory in OCI image layout.
    Layout(String),
    /// `oci-archive:PATH`: a tar archive of such a directory.
    LayoutArchive(String),
    /// `docker-daemon:`: the store of the container daemon.
    Daemon,
}

/// A text that names no source of images.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no source of images; write `oci:DIRECTORY`, `oci-archive:FILE.tar` or `docker-daemon:`")]
pub struct ImageSourceError(String);

impl ImageSource {
    /// Whether a text that names where an image comes from begins like one of these.
    pub fn is_prefix_of(text: &str) -> bool {
        [LAYOUT, LAYOUT_ARCHIVE, DAEMON].iter().any(|transport| text.starts_with(transport))
    }

    /// The name of an image in this source: the source's own text and the image's name, with a colon between them.
    pub fn name(&self, image: &str) -> String {
        match self {
            Self::Daemon => format!("{self}{image}"),
            Self::Layout(_) | Self::LayoutArchive(_) => format!("{self}:{image}"),
        }
    }
}

const LAYOUT: &str = "oci:";
const LAYOUT_ARCHIVE: &str = "oci-archive:";
const DAEMON: &str = "docker-daemon:";

impl FromStr for ImageSource {
    type Err = ImageSourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = |transport: &str| text.strip_prefix(transport).filter(|path| !path.is_empty());
        if text == DAEMON {
            Ok(Self::Daemon)
        } else if let Some(path) = path(LAYOUT_ARCHIVE) {
            Ok(Self::LayoutArchive(path.to_owned()))
        } else if let Some(path) = path(LAYOUT) {
            Ok(Self::Layout(path.to_owned()))
        } else {
            Err(ImageSourceError(text.to_owned()))
        }
    }
}

impl TryFrom<String> for ImageSource {
    type Error = ImageSourceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ImageSource> for String {
    fn from(source: ImageSource) -> Self {
        source.to_string()
    }
}

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(path) => write!(f, "{LAYOUT}{path}"),
            Self::LayoutArchive(path) => write!(f, "{LAYOUT_ARCHIVE}{path}"),
            Self::Daemon => f.write_str(DAEMON),
        }
    }
}

/// Where an image belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each image by its own key.
    #[default]
    Hash,
    /// A base and everything that is built on it in one shard.
    Group,
}

/// What happens to an image whose shard is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The plan is refused.
    #[default]
    Fail,
    /// It goes to the next shard of its own order that has room.
    Probe,
}

fn template() -> String {
    "task-{:02}".into()
}

fn hash_version() -> String {
    "v1".into()
}

/// What an image in a registry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageKind {
    /// The base of tasks. Its tag keeps the layers alive that tasks in other shards share.
    Baseanchor,
    /// The image of one task.
    Task,
}

impl ImageKind {
    /// The name in documents, hashes and the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseanchor => "baseanchor",
            Self::Task => "task",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Baseanchor, Self::Task].into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where an image was put and seen: a tag of a registry that had this content when it was verified.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlacedImage {
    /// What the image is for.
    pub kind: ImageKind,
    /// The task's id, or the base's full reference.
    pub key: String,
    /// The shard's repository, with registry and namespace.
    pub repository: String,
    /// The tag there.
    pub tag: String,
    /// Digest of the manifest, `sha256:...`.
    pub digest: String,
}

/// `image-builds.json`: the images of tasks that were built and packed on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageBuilds {
    /// `seatrial.image-builds/1`.
    pub schema: String,
    /// Digests of what the images were made from.
    pub inputs: BTreeMap<String, Digest>,
    /// Images in the layout, in order of kind and key.
    pub images: Vec<BuiltImage>,
    /// Images that there are none of, in the same order.
    pub skipped: Vec<UnbuiltImage>,
}

/// One image in the layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltImage {
    /// What the image is for.
    pub kind: ImageKind,
    /// The task's id, or the full reference of a base that this project builds; its name in the layout.
    pub key: String,
    /// Full reference of what it starts from; a base that this project builds starts from itself.
    pub base: String,
    /// Digest of its manifest, `sha256:...`.
    pub digest: String,
    /// Type of its manifest.
    pub media_type: String,
}

/// An image that could not be built or packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnbuiltImage {
    /// What the image would be for.
    pub kind: ImageKind,
    /// Its key.
    pub key: String,
    /// Why there is none.
    pub reason: String,
    /// Whether that is how it is meant to be: what runs on the host's own system has no image.
    pub intended: bool,
}

/// `rewrite.json`: what stands in the place of base images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewriteDocument {
    /// `seatrial.rewrite/1`.
    pub schema: String,
    /// By full reference of a base the copy that a registry was seen to have, with its digest.
    pub bases: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_images_are_written_as_they_are_read() {
        for text in ["oci:mirror/hub", "oci-archive:a b.tar", "docker-daemon:"] {
            assert_eq!(text.parse::<ImageSource>().unwrap().to_string(), text);
        }
        for text in ["", "oci:", "oci-archive:", "docker-daemon:x", "docker://x", "dir:x"] {
            assert!(text.parse::<ImageSource>().unwrap_err().to_string().contains("oci-archive:"), "{text}");
        }
        let name = |source: &str| source.parse::<ImageSource>().unwrap().name("a:1");
        assert_eq!([name("oci:x"), name("docker-daemon:")], ["oci:x:a:1", "docker-daemon:a:1"]);
        assert!(
            ImageSource::is_prefix_of("oci:add") && !ImageSource::is_prefix_of("docker.io/library/oci:1")
        );
    }
}
