//! Attestations: what they say, what is found when they are touched, and that OpenSSH itself verifies them.

use std::path::{Path, PathBuf};
use std::process::Command;

use dataset::{
    DatasetError, Frozen, Making, NAMESPACE, Signer, attest, attestation_path, signature_path,
    verify_attestation,
};
use serde_json::Value;

use crate::project::{Project, set_mode};

fn making() -> Making {
    Making {
        program: "0.1.0".into(),
        started: "2026-01-02T03:04:05Z".into(),
        finished: "2026-01-02T03:05:05Z".into(),
        host: vec![("system".into(), "linux".into())],
        trials: 24,
        trial_seconds: 60,
    }
}

fn attested() -> (Project, Frozen) {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    attest(&frozen.path, &frozen.manifest, &making()).unwrap();
    (project, frozen)
}

/// A new key of OpenSSH in `directory`, or why there is none.
fn keygen(directory: &Path, name: &str, kind: &str, passphrase: &str) -> Option<PathBuf> {
    let path = directory.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-C", "a reviewer", "-N", passphrase, "-f"])
        .arg(&path)
        .output();
    match made {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            Some(path)
        }
        Err(error) => {
            eprintln!("skipped: ssh-keygen cannot be run: {error}");
            None
        }
    }
}

fn messages(set: &Path, key: Option<&Path>) -> Vec<String> {
    verify_attestation(set, key).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn the_statement_names_what_the_set_is_and_what_it_came_from() {
    let (_project, frozen) = attested();
    let text = std::fs::read(attestation_path(&frozen.path)).unwrap();
    let statement: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let sums = ident::Digest::of(std::fs::read(frozen.path.join("SHA256SUMS")).unwrap()).hex();
    assert_eq!(statement["subject"][0]["name"], "sample-4-v1/SHA256SUMS");
    assert_eq!(statement["subject"][0]["digest"]["sha256"], sums.as_str());
    let dependencies = statement["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    let named = |name: &str| dependencies.iter().find(|dependency| dependency["name"] == name).unwrap();
    assert_eq!(named("swesmith/data.parquet")["annotations"]["revision"], "0123");
    assert_eq!(
        named("seatrial.lock")["digest"]["sha256"],
        frozen.manifest.inputs["seatrial.lock"].hex().as_str()
    );
    assert!(dependencies.iter().any(|dependency| dependency["uri"] == "docker://registry.invalid/base:1"));
    assert_eq!(statement["predicate"]["runDetails"]["metadata"]["finishedOn"], "2026-01-02T03:05:05Z");
    // Nothing of it is part of the set.
    assert_eq!(dataset::verify(&frozen.path, &ident::AliasTable::default()).unwrap().problems, []);
    assert_eq!(messages(&frozen.path, None), Vec::<String>::new());
}

#[test]
fn openssh_verifies_what_is_signed_here() {
    let (project, frozen) = attested();
    let Some(key) = keygen(project.directory.path(), "key", "ed25519", "") else { return };
    Signer::open(&key).unwrap().sign(&frozen.path).unwrap();
    let public = key.with_extension("pub");
    assert_eq!(messages(&frozen.path, Some(&public)), Vec::<String>::new());

    let allowed = project.directory.path().join("allowed_signers");
    std::fs::write(&allowed, format!("reviewer@example.org {}", std::fs::read_to_string(&public).unwrap()))
        .unwrap();
    let verified = Command::new("ssh-keygen")
        .args(["-Y", "verify", "-I", "reviewer@example.org", "-n", NAMESPACE, "-f"])
        .arg(&allowed)
        .arg("-s")
        .arg(signature_path(&frozen.path))
        .stdin(std::fs::File::open(attestation_path(&frozen.path)).unwrap())
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");

    // And the other way about.
    std::fs::remove_file(signature_path(&frozen.path)).unwrap();
    let signed = Command::new("ssh-keygen")
        .args(["-Y", "sign", "-n", NAMESPACE, "-f"])
        .arg(&key)
        .arg(attestation_path(&frozen.path))
        .output()
        .unwrap();
    assert!(signed.status.success(), "{signed:?}");
    assert_eq!(messages(&frozen.path, Some(&public)), Vec::<String>::new());
}

#[test]
fn every_change_of_set_statement_or_signature_is_found() {
    let (project, frozen) = attested();
    let Some(key) = keygen(project.directory.path(), "key", "ed25519", "") else { return };
    let Some(other) = keygen(project.directory.path(), "other", "ed25519", "") else { return };
    let public = key.with_extension("pub");
    let found = messages(&frozen.path, Some(&public));
    assert_eq!(found, ["sample-4-v1.attestation.json.sig: is missing"]);
    Signer::open(&key).unwrap().sign(&frozen.path).unwrap();
    assert!(
        messages(&frozen.path, Some(&other.with_extension("pub")))[0].contains("not a signature of this key")
    );

    let statement = attestation_path(&frozen.path);
    let before = std::fs::read(&statement).unwrap();
    for at in (0..before.len()).step_by(97) {
        let mut after = before.clone();
        after[at] ^= 1;
        std::fs::write(&statement, after).unwrap();
        assert!(!messages(&frozen.path, Some(&public)).is_empty(), "byte {at}");
    }
    std::fs::write(&statement, &before).unwrap();
    std::fs::write(frozen.path.join("manifest.json"), "{}").unwrap();
    // Also where nobody has the key.
    assert!(messages(&frozen.path, None)[0].contains("speaks of another manifest.json"));

    std::fs::remove_file(&statement).unwrap();
    assert_eq!(messages(&frozen.path, None), Vec::<String>::new());
    assert!(messages(&frozen.path, Some(&public))[0].contains("is missing"));
}

#[test]
fn keys_that_would_be_a_mistake_are_refused() {
    let (project, frozen) = attested();
    let directory = project.directory.path();
    let Some(open) = keygen(directory, "open", "ed25519", "") else { return };
    let refused = |key: &Path| match Signer::open(key) {
        Err(DatasetError::Key { detail, .. }) => detail,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{} is taken", key.display()),
    };
    set_mode(&open, 0o644);
    assert!(refused(&open).contains("can be read by others (mode 0644)"));
    let locked = keygen(directory, "locked", "ed25519", "open sesame").unwrap();
    assert!(refused(&locked).contains("has a passphrase"));
    let other = keygen(directory, "other", "ecdsa", "").unwrap();
    assert!(refused(&other).contains("no Ed25519 private key"), "{}", refused(&other));
    set_mode(&open, 0o600);
    assert!(refused(&open.with_extension("pub")).contains("can be read by others"));
    std::fs::write(&open, "nothing").unwrap();
    assert!(refused(&open).contains("is no Ed25519 private key"));
    assert!(
        verify_attestation(&frozen.path, Some(&locked))
            .unwrap_err()
            .to_string()
            .contains("no Ed25519 public key")
    );
    assert!(!signature_path(&frozen.path).exists());
}

#[test]
fn an_attestation_goes_with_its_package_into_the_registry() {
    let (project, frozen) = attested();
    let Some(key) = keygen(project.directory.path(), "key", "ed25519", "") else { return };
    let Some(other) = keygen(project.directory.path(), "other", "ed25519", "") else { return };
    let [public, other] = [key, other].map(|key| key.with_extension("pub"));
    let export = || {
        dataset::export(&dataset::ExportInput {
            frozen: &frozen.path,
            exports: &project.directory.path().join("exports"),
            format: dataset::ExportFormat::Package,
            organisation: "acme",
            aliases: &ident::AliasTable::default(),
        })
        .unwrap()
    };
    let package = export().path.join("sample-4-v1.tar.zst");
    let register = |place: &str, key: Option<&Path>| {
        dataset::Registry::new(project.directory.path().join(place)).register(&package, None, key)
    };
    let error = register("signed", Some(&public)).unwrap_err().to_string();
    assert!(
        error.contains("sample-4-v1.attestation.json.sig: is missing; nothing was registered"),
        "{error}"
    );
    let registered = register("unsigned", None).unwrap();
    assert_eq!(messages(&registered.path, None), Vec::<String>::new());

    // Signed after it was exported: the package stays as it is, and the signature follows it.
    Signer::open(&public.with_extension("")).unwrap().sign(&frozen.path).unwrap();
    assert!(export().existed);
    let error = register("signed", Some(&other)).unwrap_err().to_string();
    assert!(error.contains("is not a signature of this key"), "{error}");
    assert!(!project.directory.path().join("signed/sample").exists());
    for place in ["signed", "unsigned"] {
        let registered = register(place, Some(&public)).unwrap();
        assert_eq!(messages(&registered.path, Some(&public)), Vec::<String>::new());
    }

    let beside = attestation_path(&package.with_file_name("sample-4-v1"));
    let said = std::fs::read_to_string(&beside).unwrap();
    let sums = ident::Digest::of(std::fs::read(frozen.path.join("SHA256SUMS")).unwrap()).hex();
    std::fs::write(&beside, said.replace(&sums, &"0".repeat(64))).unwrap();
    let error = register("third", None).unwrap_err().to_string();
    assert!(error.contains("sample-4-v1.attestation.json: speaks of another SHA256SUMS"), "{error}");
}
