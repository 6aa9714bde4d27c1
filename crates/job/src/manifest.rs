//! `artifacts/manifest.json`: what was brought out of a sandbox, and what was not.

use serde::{Deserialize, Serialize};

use crate::text::to_python_text;

/// One declared artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactEntry {
    /// Where it lies in the sandbox.
    pub source: String,
    /// Where it lies in the trial's directory; begins with `artifacts/`.
    pub destination: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ArtifactKind,
    /// Whether it was brought out.
    pub status: ArtifactStatus,
    /// The service of a compose file that it comes from; `None` for the main one.
    pub service: Option<String>,
    /// Patterns that were left out.
    pub exclude: Option<Vec<String>>,
}

/// What an artifact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// One file.
    File,
    /// A directory and everything in it.
    Directory,
}

/// Whether an artifact was brought out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactStatus {
    /// It was.
    Ok,
    /// It is there and could not be brought out, or it is not there.
    Failed,
    /// There is nothing in it.
    Empty,
    /// It was left out on purpose.
    Skipped,
}

/// The text of a manifest as Harbor's Python writes it.
pub fn manifest_text(entries: &[ArtifactEntry]) -> Result<String, serde_json::Error> {
    to_python_text(&entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_looks_like_pythons() {
        let entry = ArtifactEntry {
            source: "/logs/é\u{7f}😀\n".into(),
            destination: "artifacts/logs".into(),
            kind: ArtifactKind::Directory,
            status: ArtifactStatus::Ok,
            service: None,
            exclude: Some(Vec::new()),
        };
        let text = "[\n  {\n    \"source\": \"/logs/\\u00e9\\u007f\\ud83d\\ude00\\n\",\n    \"destination\": \"artifacts/logs\",\n    \
                    \"type\": \"directory\",\n    \"status\": \"ok\",\n    \"service\": null,\n    \"exclude\": []\n  }\n]";
        assert_eq!(manifest_text(&[entry]).unwrap(), text);
        assert_eq!(manifest_text(&[]).unwrap(), "[]");
    }
}
