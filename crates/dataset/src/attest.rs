//! The attestation: who made a frozen set from what, as an in-toto statement that can be signed.
//!
//! It lies beside the set as `<set>.attestation.json`: an in-toto Statement v1 with a SLSA provenance predicate v1. Its subjects
//! are the set's `SHA256SUMS`, which names every other file, and its `manifest.json`. The signature beside it,
//! `<set>.attestation.json.sig`, is one of OpenSSH over the bytes of that file, in the namespace `seatrial`.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use artifact::ArtifactError;
use fs_err as fs;
use ident::{Digest, to_canonical_json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey, PublicKey, SshSig};

use crate::sums::SUMS;
use crate::{DatasetError, Manifest, Problem};

/// The namespace of signatures; `ssh-keygen -Y verify` takes it as `-n`.
pub const NAMESPACE: &str = "seatrial";

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// What kind of build it is, and the version of the predicate's parameters.
const BUILD_TYPE: &str = "seatrial:freeze/1";
const BUILDER: &str = "seatrial:command-line";
/// The ending of an attestation's name, after that of the set.
const ATTESTATION: &str = ".attestation.json";
/// What follows on that in its signature's name.
const SIGNATURE: &str = ".sig";
const MANIFEST: &str = "manifest.json";
/// No attestation, key or signature comes near this size.
const LIMIT: u64 = 16 << 20;

/// What an attestation tells that the set does not: times and places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Making {
    /// Version of the program.
    pub program: String,
    /// When freezing began and ended, RFC 3339 in UTC.
    pub started: String,
    /// See `started`.
    pub finished: String,
    /// The machine, as pairs of a name and a text.
    pub host: Vec<(String, String)>,
    /// Trials behind the set.
    pub trials: u64,
    /// Their wall-clock times together, in seconds.
    pub trial_seconds: u64,
}

/// A file or tree that is named by its digest.
#[derive(Debug, Deserialize, Serialize)]
struct Subject {
    name: String,
    digest: Sha256,
}

#[derive(Debug, Deserialize, Serialize)]
struct Sha256 {
    sha256: String,
}

/// As much of a statement as is checked; the predicate is for other tools to read.
#[derive(Debug, Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
}

/// Where the attestation of a set lies.
pub fn attestation_path(set: &Path) -> PathBuf {
    beside(set, ATTESTATION)
}

/// Where the signature of that lies.
pub fn signature_path(set: &Path) -> PathBuf {
    signature_of(&attestation_path(set))
}

/// Where the report of a set lies.
pub fn report_path(set: &Path) -> PathBuf {
    beside(set, ".report.html")
}

/// Whether a file of this name is an attestation, or a signature of one, that travels beside a package.
pub(crate) fn is_attestation(name: &Path) -> bool {
    let name = name.as_os_str().as_encoded_bytes();
    let name = name.strip_suffix(SIGNATURE.as_bytes()).unwrap_or(name);
    name.ends_with(ATTESTATION.as_bytes()) && !name.contains(&b'/')
}

fn beside(set: &Path, ending: &str) -> PathBuf {
    let mut name = set.file_name().map(OsString::from).unwrap_or_default();
    name.push(ending);
    set.with_file_name(name)
}

/// Writes the attestation of a set that was frozen.
pub fn attest(set: &Path, manifest: &Manifest, making: &Making) -> Result<(), DatasetError> {
    let statement = json!({
        "_type": STATEMENT,
        "subject": [subject(set, SUMS)?, subject(set, MANIFEST)?],
        "predicateType": PREDICATE,
        "predicate": predicate(manifest, making),
    });
    let mut text = to_canonical_json(&statement).map_err(ArtifactError::from)?;
    text.push('\n');
    Ok(artifact::write_atomic(&attestation_path(set), text.as_bytes())?)
}

/// A file that stands for the whole set.
fn subject(set: &Path, file: &str) -> Result<Subject, DatasetError> {
    let path = set.join(file);
    let digest = fs::File::open(&path).and_then(Digest::of_reader).map_err(DatasetError::io(&path))?;
    let name = set.file_name().unwrap_or_default().to_string_lossy();
    Ok(Subject { name: format!("{name}/{file}"), digest: Sha256 { sha256: digest.hex() } })
}

fn predicate(manifest: &Manifest, making: &Making) -> Value {
    let named = |name: &str, digest: &Digest| json!({"name": name, "digest": {"sha256": digest.hex()}});
    let mut dependencies: Vec<Value> =
        manifest.inputs.iter().map(|(name, digest)| named(name, digest)).collect();
    for (source, input) in &manifest.sources {
        for (file, digest) in &input.sha256 {
            let mut dependency = named(&format!("{source}/{file}"), digest);
            if let Some(revision) = &input.revision {
                dependency["annotations"] = json!({"revision": revision});
            }
            dependencies.push(dependency);
        }
    }
    let mut images: Vec<&str> =
        manifest.tasks.iter().filter_map(|task| task.image.reference.as_deref()).collect();
    images.sort_unstable();
    images.dedup();
    for reference in images {
        let mut dependency = json!({"uri": format!("docker://{reference}")});
        if let Some((_, digest)) = reference.split_once("@sha256:") {
            dependency["digest"] = json!({"sha256": digest});
        }
        dependencies.push(dependency);
    }
    let host: Map<String, Value> =
        making.host.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str()))).collect();
    json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"name": manifest.name, "version": manifest.version},
            "internalParameters": {
                "rules": manifest.rules,
                "proof_rule": manifest.proof_rule,
                "counts": manifest.counts,
                "semantic_digest": manifest.semantic_digest,
            },
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": {"id": BUILDER, "version": {"seatrial": making.program}},
            "metadata": {"startedOn": making.started, "finishedOn": making.finished},
        },
        "seatrial_host": host,
        "seatrial_proofs": {"trials": making.trials, "wall_seconds": making.trial_seconds},
    })
}

/// An Ed25519 key of OpenSSH that has no passphrase and that nobody else may read.
pub struct Signer {
    path: PathBuf,
    key: PrivateKey,
}

impl Signer {
    /// Reads the key, so that one that cannot sign is refused before anything is written.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        let refused = |detail: String| DatasetError::Key { path: path.to_owned(), detail };
        let mode = fs::metadata(path).map_err(DatasetError::io(path))?.mode();
        if mode & 0o077 != 0 {
            return Err(refused(format!("can be read by others (mode {:04o}); make it 0600", mode & 0o7777)));
        }
        let key = PrivateKey::from_openssh(artifact::read_bounded(path, LIMIT)?)
            .map_err(|error| refused(format!("is no Ed25519 private key of OpenSSH: {error}")))?;
        if key.is_encrypted() {
            return Err(refused("has a passphrase; use a key of its own without one".into()));
        }
        if key.algorithm() != Algorithm::Ed25519 {
            return Err(refused(format!("is of type {}; ssh-ed25519 is wanted", key.algorithm())));
        }
        Ok(Self { path: path.to_owned(), key })
    }

    /// The key's fingerprint, as `ssh-keygen -l` shows it.
    pub fn fingerprint(&self) -> String {
        self.key.fingerprint(HashAlg::Sha256).to_string()
    }

    /// Signs the attestation of a set.
    pub fn sign(&self, set: &Path) -> Result<(), DatasetError> {
        let message = artifact::read_bounded(&attestation_path(set), LIMIT)?;
        let text = self
            .key
            .sign(NAMESPACE, HashAlg::Sha512, &message)
            .and_then(|signature| signature.to_pem(LineEnding::LF))
            .map_err(|error| DatasetError::Key {
                path: self.path.clone(),
                detail: format!("does not sign: {error}"),
            })?;
        Ok(artifact::write_atomic(&signature_path(set), text.as_bytes())?)
    }
}

/// Reads a public key: a line as in `id_ed25519.pub`.
fn public_key(path: &Path) -> Result<PublicKey, DatasetError> {
    let refused = |detail: String| DatasetError::Key { path: path.to_owned(), detail };
    let text = String::from_utf8(artifact::read_bounded(path, LIMIT)?)
        .map_err(|_| refused("is not UTF-8".into()))?;
    let key = PublicKey::from_openssh(text.trim())
        .map_err(|error| refused(format!("is no Ed25519 public key of OpenSSH: {error}")))?;
    if key.algorithm() == Algorithm::Ed25519 {
        Ok(key)
    } else {
        Err(refused(format!("is of type {}; ssh-ed25519 is wanted", key.algorithm())))
    }
}

/// What is wrong with the attestation of a set. Without a key one that is not there is fine, and its signature is not looked at;
/// with one the set has to have both.
pub fn verify_attestation(set: &Path, key: Option<&Path>) -> Result<Vec<Problem>, DatasetError> {
    verify_attestation_at(&attestation_path(set), set, key)
}

/// The same where the attestation came another way than the set; its signature is `<attestation>.sig`.
pub(crate) fn verify_attestation_at(
    attestation: &Path,
    set: &Path,
    key: Option<&Path>,
) -> Result<Vec<Problem>, DatasetError> {
    let key = key.map(public_key).transpose()?;
    let signature = signature_of(attestation);
    let problem = |path: &Path, message: String| {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Problem { file, message }
    };
    let Some(text) = read_if_there(attestation)? else {
        let missing = key.map(|_| problem(attestation, "is missing".into()));
        return Ok(missing.into_iter().collect());
    };
    let mut problems = Vec::new();
    match serde_json::from_slice::<Statement>(&text) {
        Err(error) => problems.push(problem(attestation, format!("is no in-toto statement: {error}"))),
        Ok(statement) if statement.kind != STATEMENT => {
            problems
                .push(problem(attestation, format!("is a statement of another type, `{}`", statement.kind)));
        }
        Ok(statement) => {
            for file in [SUMS, MANIFEST] {
                let same = |subject: &&Subject| subject.name.rsplit('/').next() == Some(file);
                let said = statement.subject.iter().find(same).map(|subject| &subject.digest.sha256);
                // Of a file that cannot be read the statement can only speak of another one.
                let found = subject(set, file).ok().map(|subject| subject.digest.sha256);
                if said.is_none() {
                    problems.push(problem(attestation, format!("does not speak of {file}")));
                } else if said != found.as_ref() {
                    problems.push(problem(attestation, format!("speaks of another {file}")));
                }
            }
        }
    }
    let Some(key) = key else { return Ok(problems) };
    match read_if_there(&signature)? {
        None => problems.push(problem(&signature, "is missing".into())),
        Some(bytes) => match SshSig::from_pem(&bytes) {
            Err(error) => problems.push(problem(&signature, format!("is no signature of OpenSSH: {error}"))),
            Ok(parsed) => {
                if key.verify(NAMESPACE, &text, &parsed).is_err() {
                    let message = "is not a signature of this key over the attestation".into();
                    problems.push(problem(&signature, message));
                }
            }
        },
    }
    Ok(problems)
}

/// Copies an attestation that is there, and its signature, to where the set `to` has its own; one of other content is replaced.
pub(crate) fn carry_attestation(from: &Path, to: &Path) -> Result<(), DatasetError> {
    for (from, to) in [(from.to_owned(), attestation_path(to)), (signature_of(from), signature_path(to))] {
        let Some(text) = read_if_there(&from)? else { continue };
        if read_if_there(&to)?.is_none_or(|old| old != text) {
            artifact::write_atomic(&to, &text)?;
        }
    }
    Ok(())
}

fn signature_of(attestation: &Path) -> PathBuf {
    let mut name = attestation.as_os_str().to_owned();
    name.push(SIGNATURE);
    name.into()
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, DatasetError> {
    match artifact::read_bounded(path, LIMIT) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ArtifactError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
