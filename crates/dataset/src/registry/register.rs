//! Registering: a package is checked in every way and then appears with one rename.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use artifact::Document;
use fs_err as fs;
use ident::{AliasTable, Digest};
use task::printable;

use super::{CLAIM, REGISTRATION, Registration, Registry, SET};
use crate::attest::{attestation_path, carry_attestation, verify_attestation_at};
use crate::copy::set_mode;
use crate::package::{SUFFIX, SUM_SUFFIX, UnpackLimits, unpack};
use crate::sums::{self, SUMS};
use crate::{DatasetError, Manifest, Problem, RegisterError, verify};

/// A bound for the file with the sum of a package.
const SUM_LIMIT: u64 = 64 << 10;
/// A bound for `SHA256SUMS`.
const SUMS_LIMIT: u64 = 1 << 30;

/// What became of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// What is registered now.
    pub registration: Registration,
    /// The directory of the frozen set.
    pub path: PathBuf,
    /// Whether it was there before.
    pub existed: bool,
}

/// Where the attestation of a set would lie, its signature beside it as `<attestation>.sig`, and the public key that it must be signed
/// with. Without a key it may be missing or unsigned; one that is there must be about the set all the same.
#[derive(Debug, Clone)]
pub struct Attested<'a> {
    /// The file.
    pub attestation: PathBuf,
    /// A public key of OpenSSH.
    pub key: Option<&'a Path>,
}

/// Held while a registry is written to; others wait.
struct Claim {
    _file: File,
}

impl Registry {
    /// Registers a package.
    ///
    /// Its SHA-256 is `expected`, or what the file `<package>.sha256` beside it says. The set in it must be what its own manifest and
    /// sums say, to the last byte. The same set again changes nothing; another one under the same name and version is refused. A
    /// program that is killed leaves either nothing or the registered set, and what it had begun is removed by the next one.
    ///
    /// The attestation beside the package, `<set>.attestation.json`, comes along; with a `key` it must be there and signed by it.
    pub fn register(
        &self,
        package: &Path,
        expected: Option<Digest>,
        key: Option<&Path>,
    ) -> Result<Registered, RegisterError> {
        let failed = || DatasetError::io(package);
        let mut file = File::open(package).map_err(failed())?;
        let metadata = file.metadata().map_err(failed())?;
        if !metadata.is_file() {
            let problem = "is not a regular file".to_owned();
            return Err(RegisterError::Package { package: package.to_owned(), problem });
        }
        let (expected, said_by) = match expected {
            Some(digest) => (digest, "--sha256".to_owned()),
            None => sum_beside(package)?,
        };
        // Hashed before anything of it is looked at, and through the same open file as it is unpacked from.
        let found = Digest::of_reader(BufReader::with_capacity(1 << 20, &file)).map_err(failed())?;
        if found != expected {
            return Err(RegisterError::Digest { package: package.to_owned(), found, expected, said_by });
        }
        file.rewind().map_err(failed())?;
        let origin = name_of(package);
        let attested = Attested { attestation: attestation_path(&without_suffix(package)), key };
        self.adopt(&origin, Some(found), &attested, |into| {
            let mut hashed = ident::Sha256Writer::new(std::io::sink());
            let tee = Tee { inner: file, hash: &mut hashed };
            let set = unpack(tee, into, UnpackLimits::of(metadata.len()))
                .map_err(|fault| RegisterError::of_fault(package.to_owned(), fault))?;
            let found = hashed.finish().0;
            if found != expected {
                return Err(RegisterError::Digest { package: package.to_owned(), found, expected, said_by });
            }
            Ok(set)
        })
    }

    /// Registers what `fill` puts into an empty directory, under the same conditions as a package; it returns how the set calls itself.
    pub fn adopt<E: From<RegisterError>>(
        &self,
        origin: &str,
        package_digest: Option<Digest>,
        attested: &Attested<'_>,
        fill: impl FnOnce(&Path) -> Result<String, E>,
    ) -> Result<Registered, E> {
        let begin = || -> Result<_, DatasetError> {
            let claim = self.claim()?;
            let temporary =
                artifact::unfinished().tempdir_in(&self.root).map_err(DatasetError::io(&self.root))?;
            let set = temporary.path().join(SET);
            fs::create_dir(&set).map_err(DatasetError::io(&set))?;
            set_mode(&set, 0o755)?;
            Ok((claim, temporary, set))
        };
        let (_claim, temporary, set) = begin().map_err(RegisterError::from)?;
        let called = fill(&set)?;
        Ok(self.settle(origin, package_digest, attested, temporary, &called)?)
    }

    /// Checks a set in a temporary directory and gives it its place.
    fn settle(
        &self,
        origin: &str,
        package_digest: Option<Digest>,
        attested: &Attested<'_>,
        temporary: tempfile::TempDir,
        called: &str,
    ) -> Result<Registered, RegisterError> {
        let set = temporary.path().join(SET);
        let manifest = checked(origin, &set, called)?;
        let problems = verify_attestation_at(&attested.attestation, &set, attested.key)?;
        if !problems.is_empty() {
            return Err(RegisterError::Unsound { origin: origin.to_owned(), problems });
        }
        let sums = artifact::read_bounded(&set.join(SUMS), SUMS_LIMIT)?;
        let registration = Registration {
            schema: Registration::SCHEMA.to_owned(),
            name: manifest.name,
            version: manifest.version,
            tasks: manifest.counts.tasks,
            semantic_digest: manifest.semantic_digest,
            sums_digest: Digest::of(&sums),
            origin: origin.to_owned(),
            package_digest,
        };
        artifact::store(&temporary.path().join(REGISTRATION), &registration)?;
        set_mode(temporary.path(), 0o755)?;

        let path = self.place(&registration.name, &registration.version);
        if std::fs::symlink_metadata(&path).is_ok() {
            let registered = self.existing(&registration, &sums)?;
            carry_attestation(&attested.attestation, &registered.path)?;
            return Ok(registered);
        }
        carry_attestation(&attested.attestation, &set)?;
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(DatasetError::io(parent))?;
        sync(&self.root)?;
        fs::rename(temporary.path(), &path).map_err(DatasetError::io(&path))?;
        // What was the temporary directory has another name now, so nothing is left to remove.
        let _ = temporary.keep();
        sync(parent)?;
        Ok(Registered { path: self.set(&registration), registration, existed: false })
    }

    /// Compares what is registered with what is new.
    fn existing(&self, new: &Registration, sums: &[u8]) -> Result<Registered, RegisterError> {
        let path = self.place(&new.name, &new.version);
        let set = path.join(SET);
        let old_sums = artifact::read_bounded(&set.join(SUMS), SUMS_LIMIT).unwrap_or_default();
        if old_sums != sums {
            let (old, new_sums) = (sums::parse(&old_sums).0, sums::parse(sums).0);
            let differing = crate::place::differences(&old, &new_sums).map(|file| printable(file)).collect();
            let (name, version) = (new.name.clone(), new.version.clone());
            return Err(RegisterError::Conflict { name, version, path, differing });
        }
        let problems = verify(&set, &AliasTable::default())?.problems;
        if !problems.is_empty() {
            return Err(RegisterError::Damaged { path, problems });
        }
        let (registration, _) = artifact::load(&path.join(REGISTRATION))?;
        Ok(Registered { registration, path: set, existed: true })
    }

    /// Waits until nobody else writes here, and removes what killed programs left.
    fn claim(&self) -> Result<Claim, DatasetError> {
        fs::create_dir_all(&self.root).map_err(DatasetError::io(&self.root))?;
        let path = self.root.join(CLAIM);
        let failed = || DatasetError::io(&path);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path).map_err(failed())?;
        file.lock().map_err(failed())?;
        for entry in fs::read_dir(&self.root).map_err(DatasetError::io(&self.root))? {
            let entry = entry.map_err(DatasetError::io(&self.root))?;
            if artifact::is_unfinished(&entry.file_name()) {
                fs::remove_dir_all(entry.path()).map_err(DatasetError::io(&entry.path()))?;
            }
        }
        Ok(Claim { _file: file })
    }
}

/// The manifest of a set that is what it says in every way.
fn checked(origin: &str, set: &Path, called: &str) -> Result<Manifest, RegisterError> {
    let verified = verify(set, &AliasTable::default())?;
    let mut problems = verified.problems;
    let mut problem = |file: &str, message: String| problems.push(Problem { file: file.into(), message });
    if let Some(manifest) = &verified.manifest {
        for text in [&manifest.name, &manifest.version] {
            if !crate::freeze::is_plain(text) {
                problem("manifest.json", format!("says `{text}`, which cannot name a directory"));
            }
        }
        if manifest.directory() != called {
            problem(
                called,
                format!("is what the set is called, and its manifest says {}", manifest.directory()),
            );
        }
    }
    match verified.manifest {
        Some(manifest) if problems.is_empty() => Ok(manifest),
        _ => Err(RegisterError::Unsound { origin: origin.to_owned(), problems }),
    }
}

/// What the file beside a package says its SHA-256 is, and the name of that file.
fn sum_beside(package: &Path) -> Result<(Digest, String), RegisterError> {
    let name = name_of(package);
    let path = package.with_file_name(format!("{name}{SUM_SUFFIX}"));
    let text = match artifact::read_bounded(&path, SUM_LIMIT) {
        Ok(text) => text,
        Err(artifact::ArtifactError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(RegisterError::NoSum { package: package.to_owned(), sums: path });
        }
        Err(error) => return Err(error.into()),
    };
    let (sums, faults) = sums::parse(&text);
    match sums.get(name.as_bytes()) {
        Some(digest) if faults.is_empty() => Ok((*digest, name_of(&path))),
        _ => Err(RegisterError::BadSum { path, package: name }),
    }
}

/// The path of a package without the ending of its name.
fn without_suffix(package: &Path) -> PathBuf {
    let name = name_of(package);
    package.with_file_name(name.strip_suffix(SUFFIX).unwrap_or(&name))
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Brings the file system of a directory to the disk, so that a rename never shows what a loss of power could undo.
fn sync(directory: &Path) -> Result<(), DatasetError> {
    let file = File::open(directory).map_err(DatasetError::io(directory))?;
    rustix::fs::syncfs(&file).map_err(|error| DatasetError::io(directory)(error.into()))
}

/// Hashes a file while it is read.
struct Tee<'h> {
    inner: File,
    hash: &'h mut ident::Sha256Writer<std::io::Sink>,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        std::io::Write::write_all(self.hash, &buffer[..count])?;
        Ok(count)
    }
}
