//! The registry: frozen sets that came as packages, checked and kept where trainers read them.
//!
//! `<registry>/<name>/<version>/` holds `registration.json`, the set in `set/`, and its attestation where one came along. It appears with one rename, so a set is there whole or
//! not at all; there is no list that could say something else than the directories.

mod error;
mod list;
mod register;
mod registration;

use std::path::{Path, PathBuf};

pub use error::RegisterError;
pub use list::RegistryFault;
pub use register::{Attested, Registered};
pub use registration::Registration;

/// The directory of a set inside its registration.
const SET: &str = "set";
/// What says where a set came from.
const REGISTRATION: &str = "registration.json";
/// Held while somebody writes to the registry.
const CLAIM: &str = ".claim";
/// What has come of sets that are on their way.
const DOWNLOADS: &str = ".downloads";

/// A directory of registered sets. It is made when the first one is registered.
#[derive(Debug, Clone)]
pub struct Registry {
    root: PathBuf,
}

impl Registry {
    /// The registry in `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where sets that come over a network leave what has come of them, so that the next attempt goes on.
    pub fn downloads(&self) -> PathBuf {
        self.root.join(DOWNLOADS)
    }

    /// The directory of one version of a set.
    fn place(&self, name: &str, version: &str) -> PathBuf {
        self.root.join(name).join(version)
    }

    /// The frozen set of a registration: `manifest.json`, `tasks/`.
    pub fn set(&self, registration: &Registration) -> PathBuf {
        self.place(&registration.name, &registration.version).join(SET)
    }
}
