//! `seatrial register`: a package, checked in every way, put where trainers read it.

use std::path::{Path, PathBuf};

use dataset::{RegisterError, Registered, Registry};
use serde_json::json;

use crate::cli;
use crate::failure::{Exit, Failure, Result};
use crate::hub;
use crate::output::{Output, count};
use crate::stage::freeze;

/// Names the directory of registered sets.
const VARIABLE: &str = "SEATRIAL_DATASETS";

/// The command.
pub fn run(output: Output, directory: &Path, arguments: &cli::Register) -> Result {
    let registry = registry(directory, &arguments.place)?;
    let key = arguments.pubkey.as_ref().map(|path| directory.join(path));
    let of_hub = arguments.package.to_str().filter(|text| text.starts_with("hf:"));
    let registered = match of_hub {
        Some(text) => {
            let place = text.parse().map_err(|error: String| Failure::new(Exit::Usage, error))?;
            hub::register(output, &registry, &place, key.as_deref())?
        }
        None => registry.register(&directory.join(&arguments.package), arguments.sha256, key.as_deref())?,
    };
    tell(output, &registered)
}

/// Says what became of a set.
pub fn tell(output: Output, registered: &Registered) -> Result {
    let Registered { registration, path, existed } = registered;
    let how = if *existed { "as before" } else { "new" };
    let tasks = count(usize::try_from(registration.tasks).unwrap_or(usize::MAX), "task");
    output.print(format_args!(
        "{}@{}: {tasks}, {how}: {}",
        registration.name,
        registration.version,
        path.display()
    ))?;
    output.json(&json!({
        "name": registration.name,
        "version": registration.version,
        "tasks": registration.tasks,
        "semantic_digest": registration.semantic_digest,
        "origin": registration.origin,
        "package_digest": registration.package_digest,
        "path": path.display().to_string(),
        "attestation": attestation(path),
        "existed": existed,
    }))
}

/// Where the attestation of a registered set lies, if one came along.
pub fn attestation(set: &Path) -> Option<String> {
    let path = dataset::attestation_path(set);
    path.exists().then(|| path.display().to_string())
}

/// The registry that a command means.
pub fn registry(directory: &Path, place: &cli::RegistryPlace) -> Result<Registry> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = || of("XDG_DATA_HOME").or_else(|| of("HOME").map(|home| home.join(".local/share")));
    let root = place.registry.as_ref().map(|root| directory.join(root)).or_else(|| of(VARIABLE));
    let root = root.or_else(|| data().map(|data| data.join("seatrial/datasets")));
    root.map(Registry::new).ok_or_else(|| {
        Failure::new(Exit::Usage, "no place for registered sets is known")
            .hint(format!("give one with --registry DIR or {VARIABLE}"))
    })
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        let exit = match &error {
            RegisterError::Dataset(error) => return freeze::failure(error),
            RegisterError::NoSum { .. } | RegisterError::Unknown { .. } | RegisterError::Ambiguous { .. } => {
                Exit::Usage
            }
            _ => Exit::Conflict,
        };
        Self::from_error(exit, &error)
    }
}
