//! What is registered.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;

use super::{REGISTRATION, Registration, Registry};
use crate::{DatasetError, Manifest, RegisterError};

/// A directory of a registry that cannot be read as a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegistryFault {
    /// The directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl Registry {
    /// All registrations by name and version, and what is none. A registry that does not exist yet is empty.
    pub fn list(&self) -> Result<(Vec<Registration>, Vec<RegistryFault>), RegisterError> {
        let (mut registrations, mut faults) = (Vec::new(), Vec::new());
        for name in directories(&self.root)? {
            for place in directories(&name)? {
                match artifact::load::<Registration>(&place.join(REGISTRATION)) {
                    Ok((found, _)) if self.place(&found.name, &found.version) == place => {
                        registrations.push(found);
                    }
                    Ok((found, _)) => {
                        let problem = format!("says that it is {} {}", found.name, found.version);
                        faults.push(RegistryFault { path: place, problem });
                    }
                    Err(error) => faults.push(RegistryFault { path: place, problem: error.to_string() }),
                }
            }
        }
        registrations.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok((registrations, faults))
    }

    /// The registration that `name` or `name@version` means.
    pub fn find(&self, wanted: &str) -> Result<Registration, RegisterError> {
        let (registrations, _) = self.list()?;
        let (name, version) = match wanted.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (wanted, None),
        };
        let is_meant = |found: &&Registration| {
            found.name == name && version.is_none_or(|version| found.version == version)
        };
        let meant: Vec<_> = registrations.iter().filter(is_meant).collect();
        let called = |found: &Registration| format!("{}@{}", found.name, found.version);
        match meant.as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(RegisterError::Unknown {
                wanted: wanted.to_owned(),
                root: self.root.clone(),
                sets: registrations.iter().map(called).collect(),
            }),
            several => Err(RegisterError::Ambiguous {
                name: name.to_owned(),
                versions: several.iter().map(|found| called(found)).collect(),
            }),
        }
    }

    /// The manifest of a registered set.
    pub fn manifest(&self, registration: &Registration) -> Result<Manifest, RegisterError> {
        Ok(artifact::load(&self.set(registration).join("manifest.json"))?.0)
    }
}

/// The directories in a directory, sorted, without what belongs to the registry itself; none where it does not exist.
fn directories(root: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(DatasetError::io(root)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(DatasetError::io(root))?;
        let kind = entry.file_type().map_err(DatasetError::io(&entry.path()))?;
        // Names of sets and versions begin with a letter or a digit.
        if kind.is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
