//! The reward contract on the host's side: what the verifier left in `/logs/verifier`, read with bounds.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path};

use grade::{RewardError, VerifierReport};
use record::Reason;
use sandbox::Archive;

/// No reward file is larger than this.
const REWARD_LIMIT: u64 = 64 << 10;

/// What stands under the name of a reward file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Found {
    #[default]
    Nothing,
    File(Vec<u8>),
    /// A link, a directory, a special file, or one that is too large.
    Unsafe(&'static str),
}

/// The verifier's directory as it came out of the sandbox.
#[derive(Debug, Default)]
pub(crate) struct VerifierFiles {
    text: Found,
    json: Found,
    /// Regular files by their relative name, for the trial directory.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl VerifierFiles {
    /// Reads the tar stream of `/logs/verifier`. Links and special files are noted, never followed.
    pub(crate) fn from_archive(archive: &Archive) -> std::io::Result<Self> {
        let mut found = Self::default();
        for entry in archive.as_tar().entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let Some(name) = plain_name(&path) else { continue };
            let kind = entry.header().entry_type();
            let what = if kind.is_file() {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                let oversized = bytes.len() as u64 > REWARD_LIMIT;
                found.files.insert(name.clone(), bytes.clone());
                if oversized { Found::Unsafe("a file of more than 64 KiB") } else { Found::File(bytes) }
            } else if kind.is_dir() {
                Found::Unsafe("a directory")
            } else if kind.is_symlink() || kind.is_hard_link() {
                Found::Unsafe("a link")
            } else {
                Found::Unsafe("a special file")
            };
            match name.as_str() {
                "reward.txt" => found.text = what,
                "reward.json" => found.json = what,
                _ => {}
            }
        }
        Ok(found)
    }

    /// The rewards by the written rules of [`grade::reward`].
    pub(crate) fn rewards(&self) -> Result<BTreeMap<String, f64>, (Reason, String)> {
        let bytes = |name: &str, found: &Found| match found {
            Found::Nothing => Ok(None),
            Found::File(bytes) => Ok(Some(bytes.clone())),
            Found::Unsafe(what) => Err((Reason::RewardUnsafe, format!("{what} stands in place of {name}"))),
        };
        let text = bytes("reward.txt", &self.text)?;
        let json = bytes("reward.json", &self.json)?;
        match grade::read_reward(text.as_deref(), json.as_deref(), None) {
            Ok(reward) => {
                let mut rewards = reward.named;
                rewards.insert("reward".into(), reward.value);
                Ok(rewards)
            }
            Err(error) => {
                // The vendored verifier says why it gave none.
                let why = self
                    .report()
                    .and_then(|report| why(&report))
                    .filter(|_| text.is_none() && json.is_none());
                Err((reason_of(&error), why.unwrap_or_else(|| error.to_string())))
            }
        }
    }

    /// What the vendored verifier reports; other verifiers report nothing.
    fn report(&self) -> Option<VerifierReport> {
        self.files.get("report.json").and_then(|bytes| serde_json::from_slice(bytes).ok())
    }

    /// Status of every required test, from the report that the vendored verifier writes; empty for other verifiers.
    pub(crate) fn tests(&self) -> BTreeMap<String, String> {
        let Some(verdict) = self.report().and_then(|report| report.verdict) else { return BTreeMap::new() };
        let mut tests = BTreeMap::new();
        for tally in [&verdict.fail_to_pass, &verdict.pass_to_pass] {
            for (status, ids) in [
                ("passed", &tally.passed),
                ("failed", &tally.failed),
                ("error", &tally.error),
                ("skipped", &tally.skipped),
                ("xfail", &tally.xfail),
                ("xpass", &tally.xpass),
                ("missing", &tally.missing),
            ] {
                tests.extend(ids.iter().map(|id| (id.clone(), status.to_owned())));
            }
        }
        tests
    }
}

/// Why the vendored verifier gave no reward, in words.
fn why(report: &VerifierReport) -> Option<String> {
    if let Some(fault) = &report.fault {
        return Some(format!(
            "the verifier could not work: {fault} ({})",
            report.detail.as_deref().unwrap_or("-")
        ));
    }
    let verdict = report.verdict.as_ref()?;
    let reason = verdict.reason?.as_str();
    let near: Vec<_> =
        verdict.near_names.iter().take(3).map(|(id, near)| format!("`{id}` is shown as `{near}`")).collect();
    Some(match near.as_slice() {
        [] => format!("the verifier gave none: {reason}"),
        near => format!("the verifier gave none: {reason} ({})", near.join(", ")),
    })
}

/// A relative path of plain components as text; odd bytes are escaped, anything that points elsewhere is dropped.
pub(crate) fn plain_name(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

fn reason_of(error: &RewardError) -> Reason {
    match error {
        RewardError::Missing | RewardError::NoKey { .. } => Reason::RewardMissing,
        RewardError::Empty { .. } => Reason::RewardEmpty,
        RewardError::NonFinite { .. } => Reason::RewardNonFinite,
        RewardError::Conflict { .. } => Reason::RewardConflict,
        _ => Reason::RewardUnparsable,
    }
}
