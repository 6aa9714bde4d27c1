//! What an image consists of: manifests, children before parents, and the blobs that they name.

use std::collections::{BTreeMap, BTreeSet};

use crate::ImageError;
use crate::manifest::{
    Descriptor, Document, MAX_MANIFEST, Manifest, Written, broken, is_foreign, parse, verify,
};

/// Deepest nesting of indexes.
const MAX_NESTING: usize = 4;
/// Most manifests of one image, all platforms and attestations included.
const MAX_MANIFESTS: usize = 1000;
/// Most blobs of one manifest.
const MAX_BLOBS: usize = 1000;

/// A manifest or an index, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) digest: String,
    pub(super) media_type: String,
    pub(super) bytes: Vec<u8>,
}

/// An image with everything that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Graph {
    /// Children before parents; the last one is what the image's reference names.
    pub(super) nodes: Vec<Node>,
    /// Sizes of configurations and layers by digest.
    pub(super) blobs: BTreeMap<String, u64>,
}

/// What a manifest leads to.
struct Links {
    media_type: Option<String>,
    manifests: Vec<Descriptor>,
    blobs: Vec<Descriptor>,
}

enum Step {
    Enter { descriptor: Descriptor, depth: usize, top: bool },
    Leave(Node),
}

/// Follows an image from its digest down. `fetch` gets the bytes of a manifest by digest.
///
/// Layers of any kind are taken, attestations and artifacts included, but none that is kept outside registries.
pub(super) async fn walk(
    place: &str,
    digest: &str,
    media_type: &str,
    fetch: impl AsyncFn(&str) -> Result<Vec<u8>, ImageError>,
) -> Result<Graph, ImageError> {
    let mut graph = Graph::default();
    let mut seen = BTreeSet::new();
    let top = Descriptor {
        media_type: media_type.to_owned(),
        digest: digest.to_owned(),
        size: 0,
        urls: Vec::new(),
        annotations: None,
        platform: None,
    };
    let mut steps = vec![Step::Enter { descriptor: top, depth: 0, top: true }];
    while let Some(step) = steps.pop() {
        let (descriptor, depth, top) = match step {
            Step::Leave(node) => {
                graph.nodes.push(node);
                continue;
            }
            Step::Enter { descriptor, depth, top } => (descriptor, depth, top),
        };
        descriptor.hex(place)?;
        if !seen.insert(descriptor.digest.clone()) {
            continue;
        }
        if depth > MAX_NESTING || seen.len() > MAX_MANIFESTS {
            let what =
                format!("has indexes more than {MAX_NESTING} deep, or more than {MAX_MANIFESTS} manifests");
            return Err(broken(place, what));
        }
        let bytes = fetch(&descriptor.digest).await?;
        // The size of the first one is known only now.
        let size = if top { bytes.len() as u64 } else { descriptor.size };
        let place = format!("{place}@{}", descriptor.digest);
        verify(&place, &bytes, &Descriptor { size, ..descriptor.clone() })?;
        let links = read(&place, &bytes)?;
        for blob in &links.blobs {
            let known = graph.blobs.insert(blob.digest.clone(), blob.size);
            if known.is_some_and(|size| size != blob.size) {
                return Err(broken(&place, format!("names two sizes of the blob {}", blob.digest)));
            }
        }
        let media_type = links.media_type.unwrap_or(descriptor.media_type);
        steps.push(Step::Leave(Node { digest: descriptor.digest, media_type, bytes }));
        // Taken from the end, so pushed in reverse.
        steps.extend(links.manifests.into_iter().rev().map(|descriptor| Step::Enter {
            descriptor,
            depth: depth + 1,
            top: false,
        }));
    }
    Ok(graph)
}

fn read(place: &str, bytes: &[u8]) -> Result<Links, ImageError> {
    if bytes.len() as u64 > MAX_MANIFEST {
        return Err(broken(place, format!("has more than {MAX_MANIFEST} bytes")));
    }
    let Written { media_type, document } = parse(place, bytes)?;
    let (manifests, blobs) = match document {
        Document::Index(manifests) => (manifests, Vec::new()),
        Document::Manifest(Manifest { config, layers }) => {
            (Vec::new(), std::iter::once(config).chain(layers).collect())
        }
    };
    if manifests.len() > MAX_MANIFESTS || blobs.len() > MAX_BLOBS {
        let what = format!("names more than {MAX_MANIFESTS} manifests or {MAX_BLOBS} blobs");
        return Err(broken(place, what));
    }
    for descriptor in manifests.iter().chain(&blobs) {
        descriptor.hex(place)?;
        if is_foreign(descriptor) {
            let what = format!(
                "{} ({}) is foreign, kept outside registries; such content is not mirrored",
                descriptor.digest, descriptor.media_type
            );
            return Err(broken(place, what));
        }
    }
    Ok(Links { media_type, manifests, blobs })
}

#[cfg(test)]
mod tests {
    use ident::Digest;
    use serde_json::{Value, json};

    use super::*;

    const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";

    #[derive(Default)]
    struct Shelf(BTreeMap<String, Vec<u8>>);

    impl Shelf {
        fn put(&mut self, value: &Value) -> Value {
            let bytes = value.to_string().into_bytes();
            let digest = Digest::of(&bytes).prefixed();
            let descriptor = json!({"mediaType": value["mediaType"], "digest": digest, "size": bytes.len()});
            self.0.insert(digest, bytes);
            descriptor
        }

        fn walk(&self, digest: &str) -> Result<Graph, ImageError> {
            let fetch = async |digest: &str| Ok(self.0[digest].clone());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(walk("place", digest, MANIFEST, fetch))
        }
    }

    fn blob(content: &str, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": Digest::of(content).prefixed(), "size": content.len()})
    }

    fn manifest(layers: &[Value]) -> Value {
        json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers,
            "config": blob("config", "application/vnd.oci.image.config.v1+json")})
    }

    #[test]
    fn children_stand_before_their_parents_however_they_are_shared() {
        let mut shelf = Shelf::default();
        let layer = blob("layer", "application/vnd.oci.image.layer.v1.tar+zstd");
        let image = shelf.put(&manifest(std::slice::from_ref(&layer)));
        let mut attestation = shelf.put(&manifest(&[blob("statement", "application/vnd.in-toto+json")]));
        attestation["platform"] = json!({"architecture": "unknown", "os": "unknown"});
        let inner = shelf.put(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [image]}));
        let top = shelf.put(
            &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [image, inner, attestation, image]}),
        );
        let graph = shelf.walk(top["digest"].as_str().unwrap()).unwrap();
        let order: Vec<&str> = graph.nodes.iter().map(|node| node.digest.as_str()).collect();
        let digests = [&image, &inner, &attestation, &top].map(|found| found["digest"].as_str().unwrap());
        assert_eq!(order, digests);
        assert_eq!(graph.nodes[3].media_type, INDEX);
        assert_eq!(graph.blobs.len(), 3);
        assert_eq!(graph.blobs[&Digest::of("layer").prefixed()], 5);
    }

    #[test]
    fn what_cannot_be_mirrored_is_named() {
        let mut shelf = Shelf::default();
        let mut refused = |value: &Value| {
            let digest = shelf.put(value)["digest"].as_str().unwrap().to_owned();
            shelf.walk(&digest).unwrap_err().to_string()
        };
        let foreign = blob("x", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip");
        assert!(refused(&manifest(&[foreign])).contains("foreign"));
        let mut elsewhere = blob("x", "application/vnd.oci.image.layer.v1.tar");
        elsewhere["urls"] = json!(["https://other.invalid/x"]);
        assert!(refused(&manifest(&[elsewhere])).contains("foreign"));
        let mut other = blob("x", "t");
        other["size"] = json!(7);
        assert!(refused(&manifest(&[blob("x", "t"), other])).contains("two sizes"));
        assert!(refused(&json!({"schemaVersion": 1})).contains("schema 1"));
        assert!(refused(&json!({"schemaVersion": 2, "layers": []})).contains("neither"));
        assert!(refused(&json!({"schemaVersion": 2, "mediaType": "text/plain"})).contains("text/plain"));
        let mut wrong = blob("x", "t");
        wrong["digest"] = json!("sha512:00");
        assert!(refused(&manifest(&[wrong])).contains("sha512"));
    }

    #[test]
    fn indexes_end_somewhere() {
        let mut shelf = Shelf::default();
        let mut inner = shelf.put(&manifest(&[]));
        for _ in 0..=MAX_NESTING {
            inner = shelf.put(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [inner]}));
        }
        assert!(shelf.walk(inner["digest"].as_str().unwrap()).unwrap_err().to_string().contains("deep"));
    }
}
