//! The images that a registry should have.

use record::ImageKind;

use super::names::{anchor_tag, task_tag};

/// One image that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// What it is for.
    pub kind: ImageKind,
    /// The task's id, or the base's full reference.
    pub key: String,
    /// Where it comes from.
    pub source: String,
    /// Digest of its manifest, `sha256:...`.
    pub digest: String,
    /// Media type of its manifest.
    pub media_type: String,
    /// What shares a shard with it under [`Placement::Group`](record::Placement::Group): the key of its base.
    pub group: String,
}

impl Wanted {
    /// The tag that it gets.
    pub fn tag(&self) -> String {
        match self.kind {
            ImageKind::Task => task_tag(&self.key),
            ImageKind::Baseanchor => anchor_tag(&self.key),
        }
    }
}

/// Wanted images in order of kind and key, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Desired(Vec<Wanted>);

/// Why a list of images is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DesiredError {
    /// One key with two contents.
    #[error("the {kind} image `{key}` is wanted with two contents: {} from {} and {} from {}", .first.0, .first.1, .second.0, .second.1)]
    Contradiction {
        /// The kind.
        kind: ImageKind,
        /// The key.
        key: String,
        /// Digest and source.
        first: (String, String),
        /// Digest and source.
        second: (String, String),
    },
}

impl Desired {
    /// Sorts a list. The same image twice is one; one key with two digests is refused.
    pub fn new(images: impl IntoIterator<Item = Wanted>) -> Result<Self, DesiredError> {
        let mut images: Vec<Wanted> = images.into_iter().collect();
        images.sort();
        images.dedup_by(|later, first| {
            (later.kind, &later.key, &later.digest) == (first.kind, &first.key, &first.digest)
        });
        for pair in images.windows(2) {
            let [first, second] = pair else { continue };
            if (first.kind, &first.key) == (second.kind, &second.key) {
                let content = |image: &Wanted| (image.digest.clone(), image.source.clone());
                return Err(DesiredError::Contradiction {
                    kind: first.kind,
                    key: first.key.clone(),
                    first: content(first),
                    second: content(second),
                });
            }
        }
        Ok(Self(images))
    }

    /// The images in order.
    pub fn images(&self) -> &[Wanted] {
        &self.0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A digest that no image has.
    pub(crate) fn digest(text: &str) -> String {
        ident::Digest::of(text).prefixed()
    }

    pub(crate) fn task(key: &str) -> Wanted {
        Wanted {
            kind: ImageKind::Task,
            key: key.into(),
            source: format!("oci:{key}"),
            digest: digest(key),
            media_type: "application/vnd.oci.image.manifest.v1+json".into(),
            group: "base".into(),
        }
    }

    #[test]
    fn an_image_is_wanted_once() {
        let again = Wanted { source: "oci:elsewhere".into(), ..task("a") };
        let desired = Desired::new([task("b"), task("a"), again]).unwrap();
        let keys: Vec<&str> = desired.images().iter().map(|image| image.key.as_str()).collect();
        assert_eq!(keys, ["a", "b"]);
        let other = Wanted { digest: digest("x"), ..task("a") };
        let refused = Desired::new([task("b"), task("a"), other]).unwrap_err().to_string();
        assert!(refused.contains("`a`") && refused.contains(&digest("x")), "{refused}");
    }
}
