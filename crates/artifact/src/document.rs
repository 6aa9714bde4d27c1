//! Documents that name their schema and the inputs they were made from.

use std::collections::BTreeMap;
use std::path::Path;

use ident::{Digest, to_canonical_json};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ArtifactError, read_bounded, write_atomic};

/// Digests of the files and settings that a document was made from, by name.
pub type Inputs = BTreeMap<String, Digest>;

/// No document of this program comes near this size.
const DOCUMENT_LIMIT: u64 = 1 << 30;

/// A stage document: a value with a `schema` field of a known name and version.
pub trait Document: Serialize + DeserializeOwned {
    /// Name and version, such as `seatrial.plan/1`; the value's `schema` field holds the same text.
    const SCHEMA: &'static str;
    /// The command that writes the document, for messages.
    const STAGE: &'static str;
}

/// The part of every document that is read first.
#[derive(serde::Deserialize)]
struct Head {
    schema: String,
}

/// Writes a document in canonical form with a final newline and returns the digest of the file.
pub fn store<D: Document>(path: &Path, document: &D) -> Result<Digest, ArtifactError> {
    let mut text = to_canonical_json(document)?;
    text.push('\n');
    write_atomic(path, text.as_bytes())?;
    Ok(Digest::of(text))
}

/// Reads a document and the digest of its file.
pub fn load<D: Document>(path: &Path) -> Result<(D, Digest), ArtifactError> {
    load_optional(path)?.ok_or_else(|| ArtifactError::Missing { path: path.to_owned(), stage: D::STAGE })
}

/// Like [`load`], with `None` for a file that is not there.
pub fn load_optional<D: Document>(path: &Path) -> Result<Option<(D, Digest)>, ArtifactError> {
    let bytes = match read_bounded(path, DOCUMENT_LIMIT) {
        Ok(bytes) => bytes,
        Err(ArtifactError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let invalid = |detail: String| ArtifactError::Invalid {
        path: path.to_owned(),
        schema: D::SCHEMA,
        detail,
        stage: D::STAGE,
    };
    let head: Head = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    if head.schema != D::SCHEMA {
        return Err(invalid(format!("it says `{}`", head.schema)));
    }
    let document = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    Ok(Some((document, Digest::of(&bytes))))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        schema: String,
        b: u32,
        a: Vec<u32>,
    }

    impl Document for Sample {
        const SCHEMA: &'static str = "seatrial.sample/1";
        const STAGE: &'static str = "sample";
    }

    #[test]
    fn a_document_comes_back_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sample.json");
        let sample = Sample { schema: Sample::SCHEMA.into(), b: 2, a: vec![1] };
        let digest = store(&path, &sample).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"a\":[1],\"b\":2,\"schema\":\"seatrial.sample/1\"}\n"
        );
        assert_eq!(load::<Sample>(&path).unwrap(), (sample, digest));
    }

    #[test]
    fn another_schema_and_a_missing_file_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sample.json");
        assert!(load_optional::<Sample>(&path).unwrap().is_none());
        assert!(load::<Sample>(&path).unwrap_err().to_string().contains("run `seatrial sample` first"));
        write_atomic(&path, b"{\"schema\":\"seatrial.sample/2\"}").unwrap();
        assert!(load::<Sample>(&path).unwrap_err().to_string().contains("seatrial.sample/2"));
    }
}
