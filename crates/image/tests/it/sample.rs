//! A small image as blobs, to be put into layouts and registries.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::support::{archive, directory, file, link};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const GZIP_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub const ZSTD_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

pub fn digest(bytes: &[u8]) -> String {
    ident::Digest::of(bytes).prefixed()
}

pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Blobs by digest, and the manifests that lead to them.
pub struct Sample {
    pub blobs: BTreeMap<String, Vec<u8>>,
    pub manifest: Vec<u8>,
    pub index: Vec<u8>,
}

/// Two layers, one gzip and one zstd; the second deletes a file of the first.
pub fn sample() -> Sample {
    let lower = archive(&[
        directory("bin"),
        file("bin/tool", "tool"),
        file("bin/old", "old"),
        link("sh", "bin/tool"),
    ]);
    let upper = archive(&[file("bin/.wh.old", ""), file("new", "new")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&lower).unwrap();
    let layers =
        [(GZIP_LAYER, gzip.finish().unwrap()), (ZSTD_LAYER, zstd::encode_all(&upper[..], 1).unwrap())];
    let config = serde_json::json!({
        "os": "linux",
        "architecture": architecture(),
        "config": {"Env": ["PATH=/bin"], "Cmd": ["tool"], "WorkingDir": "/work", "User": "1000"},
        "rootfs": {"type": "layers", "diff_ids": [digest(&lower), digest(&upper)]},
    });
    let config = serde_json::to_vec(&config).unwrap();
    let describe = |kind: &str, bytes: &[u8]| serde_json::json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": describe("application/vnd.oci.image.config.v1+json", &config),
        "layers": layers.iter().map(|(kind, bytes)| describe(kind, bytes)).collect::<Vec<_>>(),
    });
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let mut here = describe(MANIFEST, &manifest);
    here["platform"] = serde_json::json!({"os": "linux", "architecture": architecture()});
    let index = serde_json::json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [here]});
    let mut blobs = BTreeMap::new();
    for bytes in layers.into_iter().map(|(_, bytes)| bytes).chain([config]) {
        blobs.insert(digest(&bytes), bytes);
    }
    Sample { blobs, manifest, index: serde_json::to_vec(&index).unwrap() }
}

/// Writes an OCI layout in which the sample stands, behind a nested index, under the name `sample:1`.
pub fn write_layout(root: &Path, sample: &Sample) {
    let blobs = root.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let all = sample.blobs.values().chain([&sample.manifest, &sample.index]);
    for bytes in all {
        fs::write(blobs.join(&digest(bytes)["sha256:".len()..]), bytes).unwrap();
    }
    let top = serde_json::json!({"schemaVersion": 2, "manifests": [{
        "mediaType": INDEX, "digest": digest(&sample.index), "size": sample.index.len(),
        "annotations": {"org.opencontainers.image.ref.name": "sample:1"},
    }]});
    fs::write(root.join("index.json"), serde_json::to_vec(&top).unwrap()).unwrap();
    fs::write(root.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
}
