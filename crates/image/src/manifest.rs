//! Manifests, indexes and configurations of images, in the OCI and the Docker spelling.
//!
//! Sources: OCI image specification 1.1 (`manifest.md`, `image-index.md`, `config.md`) and Docker image manifest
//! version 2, schema 2. Bytes are hashed as they came and never written again.

use std::collections::BTreeMap;

use ident::Digest;
use serde::Deserialize;

use crate::digest::{hex_of, is_hex64};
use crate::store::LayerKey;
use crate::{ImageConfig, ImageError};

/// Largest manifest or index that is read, in bytes; registries refuse larger ones too.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// Largest image configuration that is read, in bytes.
pub(crate) const MAX_CONFIG: u64 = 8 << 20;
/// Most layers of one image; overlayfs stacks 500.
pub(crate) const MAX_LAYERS: usize = 400;

/// Manifest and index types that can be read, for an `Accept` header.
pub(crate) const ACCEPTED: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// The machine's architecture as image configurations spell it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// A pointer to content.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) urls: Vec<String>,
    #[serde(default)]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
}

/// For which machine a manifest is.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Platform {
    pub(crate) architecture: String,
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) variant: Option<String>,
}

impl Descriptor {
    /// The digest as a value; only SHA-256 is read.
    pub(crate) fn sha256(&self, place: &str) -> Result<Digest, ImageError> {
        Digest::parse(self.hex(place)?).map_err(|e| broken(place, e.to_string()))
    }

    /// The digits of the digest; only SHA-256 is read.
    pub(crate) fn hex(&self, place: &str) -> Result<&str, ImageError> {
        self.digest.strip_prefix("sha256:").filter(|hex| is_hex64(hex)).ok_or_else(|| {
            broken(place, format!("digest `{}` is not sha256 with 64 hexadecimal digits", self.digest))
        })
    }

    /// Whether the manifest is for this machine. One that names no platform may be.
    fn fits(&self) -> bool {
        self.platform.as_ref().is_none_or(|p| p.os == "linux" && p.architecture == architecture())
    }
}

/// What the bytes at a reference turned out to be.
#[derive(Debug)]
pub(crate) enum Document {
    /// Several manifests to choose from.
    Index(Vec<Descriptor>),
    /// One image.
    Manifest(Manifest),
}

/// One image: where its configuration and its layers are.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

impl Manifest {
    /// Everything that the image consists of.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.config).chain(&self.layers)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
}

/// A manifest or an index as it is written, whatever kinds of content it names.
pub(crate) struct Written {
    /// The type that it gives itself.
    pub(crate) media_type: Option<String>,
    pub(crate) document: Document,
}

impl Written {
    /// Its media type: what it says itself, else what led to it says, else what its kind is called.
    pub(crate) fn kind(self, said: &str) -> String {
        let called = match self.document {
            Document::Index(_) => ACCEPTED[0],
            Document::Manifest(_) => ACCEPTED[2],
        };
        let said = ACCEPTED.contains(&said).then(|| said.to_owned());
        self.media_type.or(said).unwrap_or_else(|| called.to_owned())
    }
}

/// Reads a manifest or an index, told by what it holds.
pub(crate) fn parse(place: &str, bytes: &[u8]) -> Result<Written, ImageError> {
    let raw: Raw =
        serde_json::from_slice(bytes).map_err(|e| broken(place, format!("is no manifest: {e}")))?;
    if raw.schema_version == 1 {
        return Err(broken(place, "is a schema 1 manifest, which registries gave up; push the image again"));
    }
    let media_type = raw.media_type.filter(|kind| !kind.is_empty());
    if let Some(kind) = &media_type
        && !ACCEPTED.contains(&kind.as_str())
    {
        return Err(broken(place, format!("has the type {kind}, which is no image")));
    }
    let document = match (raw.manifests, raw.config, raw.layers) {
        (Some(manifests), None, None) => Document::Index(manifests),
        (None, Some(config), Some(layers)) => Document::Manifest(Manifest { config, layers }),
        _ => return Err(broken(place, "is neither an index (manifests) nor a manifest (config and layers)")),
    };
    Ok(Written { media_type, document })
}

/// Reads an index, or a manifest of an image that can be unpacked.
pub(crate) fn read(place: &str, bytes: &[u8]) -> Result<Document, ImageError> {
    let document = parse(place, bytes)?.document;
    if let Document::Manifest(Manifest { layers, .. }) = &document {
        if layers.len() > MAX_LAYERS {
            return Err(broken(
                place,
                format!("has {} layers; at most {MAX_LAYERS} can be stacked", layers.len()),
            ));
        }
        for layer in layers {
            check_layer(place, layer)?;
        }
    }
    Ok(document)
}

fn check_layer(place: &str, layer: &Descriptor) -> Result<(), ImageError> {
    layer.hex(place)?;
    let kind = layer.media_type.as_str();
    if is_foreign(layer) {
        return Err(broken(
            place,
            format!(
                "layer {} ({kind}) is a foreign layer, kept outside the registry; these are not fetched",
                layer.digest
            ),
        ));
    }
    let known = [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
        "application/vnd.docker.container.image.rootfs.diff+x-gtar",
    ];
    if known.contains(&kind) {
        Ok(())
    } else {
        Err(broken(
            place,
            format!("layer {} has the type {kind}, which is no file system layer", layer.digest),
        ))
    }
}

/// Whether content is kept outside registries.
pub(crate) fn is_foreign(descriptor: &Descriptor) -> bool {
    let kind = descriptor.media_type.as_str();
    !descriptor.urls.is_empty() || kind.contains(".foreign.") || kind.contains("nondistributable")
}

/// Chooses from an index the manifest for this machine.
pub(crate) fn choose<'d>(place: &str, manifests: &'d [Descriptor]) -> Result<&'d Descriptor, ImageError> {
    // A manifest that names this platform is preferred to one that names none.
    let named = manifests.iter().find(|m| m.platform.is_some() && m.fits());
    named.or_else(|| manifests.iter().find(|m| m.fits())).ok_or_else(|| {
        broken(place, format!("offers {}, and not linux/{}", offered(manifests), architecture()))
    })
}

/// The platforms of an index, for people.
fn offered(manifests: &[Descriptor]) -> String {
    let mut offered: Vec<String> = manifests
        .iter()
        .filter_map(|m| m.platform.as_ref().map(|p| format!("{}/{}", p.os, p.architecture)))
        .filter(|platform| platform != "unknown/unknown")
        .collect();
    offered.sort();
    offered.dedup();
    if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") }
}

/// Chooses from an index the manifest for one platform, `OS/ARCHITECTURE` or `OS/ARCHITECTURE/VARIANT`.
pub(crate) fn choose_platform<'d>(
    place: &str,
    manifests: &'d [Descriptor],
    platform: &str,
) -> Result<&'d Descriptor, ImageError> {
    let mut wanted = platform.splitn(3, '/');
    let (os, architecture, variant) = (wanted.next(), wanted.next(), wanted.next());
    let fits = |found: &Platform| {
        Some(found.os.as_str()) == os
            && Some(found.architecture.as_str()) == architecture
            && (variant.is_none() || found.variant.as_deref() == variant)
    };
    let found = manifests.iter().find(|manifest| manifest.platform.as_ref().is_some_and(fits));
    found.ok_or_else(|| broken(place, format!("offers {}, and not {platform}", offered(manifests))))
}

#[derive(Deserialize)]
struct RawImage {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<RawConfig>,
    rootfs: RawRootfs,
}

#[derive(Deserialize)]
struct RawRootfs {
    #[serde(default)]
    diff_ids: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct RawConfig {
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    shell: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

/// An image configuration: how commands run, and the digests of the layers' archives without compression.
#[derive(Debug, Clone)]
pub(crate) struct ImageFile {
    pub(crate) config: ImageConfig,
    /// Digits of SHA-256, lowest layer first.
    pub(crate) diff_ids: Vec<LayerKey>,
}

/// Reads an image configuration for an image of `layers` layers.
pub(crate) fn read_config(place: &str, bytes: &[u8], layers: usize) -> Result<ImageFile, ImageError> {
    let raw: RawImage = serde_json::from_slice(bytes)
        .map_err(|e| broken(place, format!("is no image configuration: {e}")))?;
    if !(raw.os.is_empty() || raw.os == "linux")
        || !(raw.architecture.is_empty() || raw.architecture == architecture())
    {
        let what = format!("is for {}/{}, and this is linux/{}", raw.os, raw.architecture, architecture());
        return Err(broken(place, what));
    }
    let mut diff_ids = Vec::new();
    for id in raw.rootfs.diff_ids.unwrap_or_default() {
        let key = id.starts_with("sha256:").then(|| LayerKey::parse(&id)).flatten();
        diff_ids.push(
            key.ok_or_else(|| broken(place, format!("has the layer digest `{id}`, which is not sha256")))?,
        );
    }
    if diff_ids.len() != layers {
        let what = format!("names {} layers where the manifest has {layers}", diff_ids.len());
        return Err(broken(place, what));
    }
    let raw = raw.config.unwrap_or_default();
    let mut env = BTreeMap::new();
    for pair in raw.env.unwrap_or_default() {
        let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
        if !name.is_empty() {
            env.insert(name.to_owned(), value.to_owned());
        }
    }
    let config = ImageConfig {
        env,
        // Relative ones occur and mean the root.
        workdir: raw
            .working_dir
            .filter(|dir| !dir.is_empty())
            .map(|dir| if dir.starts_with('/') { dir } else { format!("/{dir}") }),
        user: raw.user.filter(|user| !user.is_empty()),
        entrypoint: raw.entrypoint.unwrap_or_default(),
        cmd: raw.cmd.unwrap_or_default(),
        shell: raw.shell.unwrap_or_default(),
        labels: raw.labels.unwrap_or_default(),
    };
    Ok(ImageFile { config, diff_ids })
}

/// Checks bytes against the descriptor that led to them.
pub(crate) fn verify(place: &str, bytes: &[u8], descriptor: &Descriptor) -> Result<(), ImageError> {
    let expected = descriptor.hex(place)?;
    let found = hex_of(bytes);
    if found == expected && bytes.len() as u64 == descriptor.size {
        return Ok(());
    }
    Err(ImageError::Digest {
        place: place.to_owned(),
        expected: format!("{} ({} bytes)", descriptor.digest, descriptor.size),
        found: format!("sha256:{found} ({} bytes)", bytes.len()),
    })
}

/// An error about a manifest, with its place.
pub(crate) fn broken(place: &str, what: impl Into<String>) -> ImageError {
    ImageError::Manifest { place: place.to_owned(), what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn manifest(layer: &str) -> String {
        format!(
            "{{\"schemaVersion\":2,\"config\":{{\"mediaType\":\"x\",\"digest\":\"sha256:{HEX}\",\"size\":1}},\
             \"layers\":[{layer}]}}"
        )
    }

    #[test]
    fn foreign_and_unknown_layers_are_refused_by_name() {
        let layer = |kind: &str, more: &str| {
            manifest(&format!("{{\"mediaType\":\"{kind}\",\"digest\":\"sha256:{HEX}\",\"size\":1{more}}}"))
        };
        let good = "application/vnd.oci.image.layer.v1.tar+zstd";
        assert!(read("x", layer(good, "").as_bytes()).is_ok());
        let refused = |text: String| read("place", text.as_bytes()).unwrap_err().to_string();
        let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
        assert!(refused(layer(foreign, "")).contains("foreign layer"));
        assert!(refused(layer(good, ",\"urls\":[\"https://index.invalid/x\"]")).contains("foreign layer"));
        assert!(refused(layer("text/plain", "")).contains("text/plain"));
        assert!(refused("{\"schemaVersion\":1}".to_owned()).contains("schema 1"));
        assert!(refused("{\"schemaVersion\":2}".to_owned()).contains("neither"));
        assert!(refused("[".to_owned()).starts_with("place: is no manifest"));
    }

    #[test]
    fn configurations_must_fit_machine_and_manifest() {
        let text = format!(
            "{{\"os\":\"linux\",\"architecture\":\"{}\",\"rootfs\":{{\"diff_ids\":[\"sha256:{HEX}\"]}},\
             \"config\":{{\"Env\":[\"A=1=2\",\"B\"],\"Cmd\":null,\"Entrypoint\":[\"e\"],\"WorkingDir\":\"\",\"User\":\"u\"}}}}",
            architecture()
        );
        let image = read_config("x", text.as_bytes(), 1).unwrap();
        assert_eq!(
            image.config.env,
            BTreeMap::from([("A".into(), "1=2".into()), ("B".into(), String::new())])
        );
        assert_eq!((image.config.workdir, image.config.user), (None, Some("u".to_owned())));
        assert!(read_config("x", text.as_bytes(), 2).unwrap_err().to_string().contains("1 layers"));
        let other = text.replace(architecture(), "mips");
        assert!(read_config("x", other.as_bytes(), 1).unwrap_err().to_string().contains("linux/mips"));
    }

    #[test]
    fn the_platform_of_this_machine_is_chosen() {
        let descriptor = |architecture: Option<&str>, size| Descriptor {
            media_type: String::new(),
            digest: format!("sha256:{HEX}"),
            size,
            urls: vec![],
            annotations: None,
            platform: architecture.map(|a| Platform {
                architecture: a.to_owned(),
                os: "linux".to_owned(),
                variant: None,
            }),
        };
        let list = [descriptor(Some("mips"), 1), descriptor(None, 2), descriptor(Some(architecture()), 3)];
        assert_eq!(choose("x", &list).unwrap().size, 3);
        assert_eq!(choose("x", &list[..2]).unwrap().size, 2);
        assert!(choose("x", &list[..1]).unwrap_err().to_string().contains("offers linux/mips"));
    }

    #[test]
    fn another_platform_is_chosen_by_its_name() {
        let descriptor = |architecture: &str, variant: Option<&str>, size| Descriptor {
            media_type: String::new(),
            digest: format!("sha256:{HEX}"),
            size,
            urls: vec![],
            annotations: None,
            platform: Some(Platform {
                architecture: architecture.to_owned(),
                os: "linux".to_owned(),
                variant: variant.map(str::to_owned),
            }),
        };
        let list = [
            descriptor("amd64", None, 1),
            descriptor("arm", Some("v6"), 2),
            descriptor("arm", Some("v7"), 3),
        ];
        let chosen = |platform| choose_platform("x", &list, platform).map(|found| found.size);
        assert_eq!(chosen("linux/amd64").unwrap(), 1);
        assert_eq!(chosen("linux/arm").unwrap(), 2);
        assert_eq!(chosen("linux/arm/v7").unwrap(), 3);
        assert!(chosen("linux/amd64/v3").is_err());
        assert!(chosen("windows/amd64").unwrap_err().to_string().contains("offers linux/amd64, linux/arm"));
    }
}
