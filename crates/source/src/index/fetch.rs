//! From a pinned name to a verified file in the cache.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fs_err as fs;
use futures_util::StreamExt;
use ident::{Digest, Sha256Writer};
use record::Profile;
use tempfile::NamedTempFile;
use tokio::sync::{OnceCell, Semaphore};

use super::client::{Client, ClientSettings};
use super::error::IndexError;
use super::location::{Environment, IndexLocation, locate_index, redacted};
use super::names::{SdistName, normalize_package};
use super::page::{PageFile, parse_html_page, parse_json_page};

/// The largest index page in bytes.
const PAGE_LIMIT: u64 = 64 << 20;

/// The largest source distribution in bytes.
const FILE_LIMIT: u64 = 1 << 30;

/// How many files are fetched at once.
const CONCURRENCY: usize = 4;

const PAGE_FORMS: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// Where source distributions come from and where they are kept.
#[derive(Debug, Clone)]
pub struct IndexSettings {
    /// Address of the index; found in the environment when none is given.
    pub url: Option<String>,
    /// Directory of verified files, each named by its digest.
    pub downloads: PathBuf,
    /// Directory of source distributions that is looked into before the index; SEATRIAL_SDIST_DIR when none is given.
    pub sdist_dir: Option<PathBuf>,
    /// How the index is talked to; read from the environment when none is given.
    pub client: Option<ClientSettings>,
}

/// A source distribution to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistributionSpec {
    /// The normalised name of the package.
    pub package: String,
    /// The version.
    pub version: String,
    /// The file's name, where it is known.
    pub file: Option<String>,
    /// The pinned digest. Without one the index is believed once, and the lock pins what came.
    pub sha256: Option<Digest>,
}

/// A source distribution that is here and verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedDistribution {
    /// The normalised name of the package.
    pub package: String,
    /// The version.
    pub version: String,
    /// The file's name.
    pub file: String,
    /// Its digest.
    pub sha256: Digest,
    /// Where it lies: in the cache, under its digest.
    pub path: PathBuf,
    /// Where it came from.
    pub origin: FetchOrigin,
}

/// Where a file came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOrigin {
    /// It was here already.
    Cache,
    /// The directory of source distributions.
    Directory,
    /// The index.
    Index,
}

impl DistributionSpec {
    /// A distribution by file name; the package is read from it where none is given.
    pub fn of_file(file: &str, package: Option<&str>, sha256: Option<Digest>) -> Result<Self, IndexError> {
        let name = SdistName::parse(file, package).ok_or_else(|| IndexError::Spec {
            what: file.to_owned(),
            detail: match package {
                Some(package) => format!("the file name is none of a source distribution of `{package}`"),
                None => "the file name gives no package and version; expected name-version.tar.gz".to_owned(),
            },
        })?;
        Ok(Self { package: name.package, version: name.version, file: Some(file.to_owned()), sha256 })
    }

    /// The distribution that a profile names, if it names one.
    pub fn of_profile(profile: &Profile) -> Result<Option<Self>, IndexError> {
        let what = profile.sdist.as_ref().or(profile.package.as_ref()).unwrap_or(&profile.repo);
        let wrong = |detail: String| IndexError::Spec { what: what.clone(), detail };
        let sha256 = profile.sha256.as_deref().map(Digest::parse).transpose();
        let sha256 = sha256.map_err(|error| wrong(error.to_string()))?;
        match (&profile.sdist, &profile.package, &profile.version) {
            (Some(file), package, version) => {
                let spec = Self::of_file(file, package.as_deref(), sha256)?;
                match version {
                    Some(version) if *version != spec.version => Err(wrong(format!(
                        "the file name says version {}, the profile says {version}",
                        spec.version
                    ))),
                    _ => Ok(Some(spec)),
                }
            }
            (None, Some(package), Some(version)) => {
                let package = normalize_package(package)
                    .ok_or_else(|| wrong(format!("`{package}` is no package name")))?;
                Ok(Some(Self { package, version: version.clone(), file: None, sha256 }))
            }
            (None, Some(_), None) => Err(wrong("a package needs a version or the name of a file".into())),
            (None, None, _) => Ok(None),
        }
    }

    /// Whether `file` is the distribution that is meant.
    fn names(&self, file: &str) -> bool {
        match &self.file {
            Some(wanted) => wanted == file,
            None => {
                SdistName::parse(file, Some(&self.package)).is_some_and(|name| name.version == self.version)
            }
        }
    }

    fn shown(&self) -> String {
        self.file.clone().unwrap_or_else(|| format!("{}-{}", self.package, self.version))
    }
}

/// A package index, its cache, and a directory that may stand in for it.
#[derive(Debug)]
pub struct Index {
    settings: IndexSettings,
    environment: Environment,
    remote: OnceCell<(IndexLocation, Client)>,
    permits: Semaphore,
    flights: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    offline: bool,
}

impl Index {
    /// Prepares an index. Nothing is looked up before a file is missing, so that a full cache needs no network.
    pub fn new(settings: IndexSettings, environment: Environment) -> Self {
        let permits = Semaphore::new(CONCURRENCY);
        Self {
            settings,
            environment,
            remote: OnceCell::new(),
            permits,
            flights: Mutex::default(),
            offline: false,
        }
    }

    /// The same index that asks nobody: cache and directory must have everything.
    #[must_use]
    pub fn without_network(self) -> Self {
        Self { offline: true, ..self }
    }

    /// The index that files are fetched from.
    pub async fn location(&self) -> Result<&IndexLocation, IndexError> {
        Ok(&self.remote().await?.0)
    }

    /// Fetches several distributions, a few at a time; the results stand in the order of the wishes.
    pub async fn fetch_all(
        &self,
        specs: &[DistributionSpec],
    ) -> Vec<Result<FetchedDistribution, IndexError>> {
        futures_util::stream::iter(specs).map(|spec| self.fetch(spec)).buffered(CONCURRENCY).collect().await
    }

    /// Brings a distribution into the cache and verifies it. Two wishes for one file cause one download.
    pub async fn fetch(&self, spec: &DistributionSpec) -> Result<FetchedDistribution, IndexError> {
        let flight = {
            // A poisoned map is still a map: nothing is left half done in it.
            let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
            let key = spec.sha256.map_or_else(|| spec.shown(), |digest| digest.hex());
            flights.entry(key).or_default().clone()
        };
        let _alone = flight.lock().await;
        if let (Some(file), Some(sha256)) = (&spec.file, spec.sha256)
            && let Some(path) = self.cached(sha256).await?
        {
            return Ok(fetched(spec, file.clone(), sha256, path, FetchOrigin::Cache));
        }
        if let Some(found) = self.take_from_directory(spec).await? {
            return Ok(found);
        }
        // The index is asked under a permit, the cache and the directory are not: they cost nothing.
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        self.take_from_index(spec).await
    }

    /// The path of a cached file whose content has been verified again. A damaged file is removed.
    async fn cached(&self, sha256: Digest) -> Result<Option<PathBuf>, IndexError> {
        let path = self.settings.downloads.join(sha256.hex());
        match hash_in_background(path.clone()).await {
            Ok(found) if found == sha256 => Ok(Some(path)),
            Ok(_) => {
                tracing::warn!(path = %path.display(), "a damaged download was removed");
                fs::remove_file(&path).map_err(|source| io_error(&path, source))?;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error(&path, source)),
        }
    }

    /// Takes a distribution out of the local directory, if it lies there.
    async fn take_from_directory(
        &self,
        spec: &DistributionSpec,
    ) -> Result<Option<FetchedDistribution>, IndexError> {
        let variable = self.environment.variable("SEATRIAL_SDIST_DIR").map(PathBuf::from);
        let Some(directory) = self.settings.sdist_dir.clone().or(variable) else {
            return Ok(None);
        };
        let Some(file) = find_in(&directory, spec)? else {
            return Ok(None);
        };
        let source_path = directory.join(&file);
        let sha256 =
            hash_in_background(source_path.clone()).await.map_err(|source| io_error(&source_path, source))?;
        verify(spec, &file, &directory.display().to_string(), sha256)?;
        let path = self.settings.downloads.join(sha256.hex());
        if self.cached(sha256).await?.is_none() {
            let mut copy = self.new_file()?;
            let mut original =
                fs::File::open(&source_path).map_err(|source| io_error(&source_path, source))?;
            io::copy(&mut original, &mut copy).map_err(|source| io_error(&path, source))?;
            self.keep(copy, spec, &file, &directory.display().to_string(), Some(sha256))?;
        }
        Ok(Some(fetched(spec, file, sha256, path, FetchOrigin::Directory)))
    }

    async fn take_from_index(&self, spec: &DistributionSpec) -> Result<FetchedDistribution, IndexError> {
        if self.offline {
            return Err(IndexError::Offline { file: spec.shown() });
        }
        let (location, client) = self.remote().await?;
        let no_page = |detail: &str| IndexError::Spec { what: spec.shown(), detail: detail.to_owned() };
        let package =
            normalize_package(&spec.package).ok_or_else(|| no_page("the package has no proper name"))?;
        let page = location.page(&package).ok_or_else(|| no_page("the package has no page"))?;
        let Some((answer, body)) = client.fetch(&page, PAGE_FORMS, PAGE_LIMIT, || Ok(Vec::new())).await?
        else {
            return Err(IndexError::PackageMissing { package, url: redacted(&page) });
        };
        let files = if answer.content_type.contains("json") {
            parse_json_page(&answer.url, &body)
                .map_err(|detail| IndexError::Page { url: redacted(&page), detail })?
        } else {
            parse_html_page(&answer.url, &String::from_utf8_lossy(&body))
        };
        let found = choose(files, spec).ok_or_else(|| IndexError::FileMissing {
            package: package.clone(),
            file: spec.shown(),
            url: redacted(&page),
        })?;
        if found.yanked {
            tracing::warn!(
                file = found.file,
                "its publisher has taken this file back; it is used because it is pinned"
            );
        }
        // A pinned digest that the index contradicts is known before the first byte.
        if let Some(listed) = found.sha256 {
            verify(spec, &found.file, &redacted(&page), listed)?;
        }
        let wanted = spec.sha256.or(found.sha256);
        if let Some(sha256) = wanted
            && let Some(path) = self.cached(sha256).await?
        {
            return Ok(fetched(spec, found.file, sha256, path, FetchOrigin::Cache));
        }
        let answer = client.fetch(&found.url, "*/*", FILE_LIMIT, || self.new_file()).await?;
        let place = redacted(&found.url);
        let Some((_, file)) = answer else {
            return Err(IndexError::FileMissing { package, file: found.file, url: place });
        };
        let (sha256, path) = self.keep(file, spec, &found.file, &place, wanted)?;
        Ok(fetched(spec, found.file, sha256, path, FetchOrigin::Index))
    }

    async fn remote(&self) -> Result<&(IndexLocation, Client), IndexError> {
        self.remote
            .get_or_try_init(|| async {
                let location = locate_index(self.settings.url.as_deref(), &self.environment).await?;
                let settings = match &self.settings.client {
                    Some(settings) => settings.clone(),
                    None => ClientSettings::of_environment(&self.environment)?,
                };
                tracing::debug!(index = %location, "the package index was found");
                let client = Client::new(&settings, &location)?;
                Ok((location, client))
            })
            .await
    }

    /// A file in the cache's directory that nobody sees before it is whole.
    fn new_file(&self) -> Result<Sha256Writer<NamedTempFile>, IndexError> {
        let directory = &self.settings.downloads;
        fs::create_dir_all(directory).map_err(|source| io_error(directory, source))?;
        let file = artifact::unfinished().tempfile_in(directory);
        Ok(Sha256Writer::new(file.map_err(|source| io_error(directory, source))?))
    }

    /// Gives a whole file its name, once its digest is right.
    fn keep(
        &self,
        file: Sha256Writer<NamedTempFile>,
        spec: &DistributionSpec,
        name: &str,
        place: &str,
        wanted: Option<Digest>,
    ) -> Result<(Digest, PathBuf), IndexError> {
        let (sha256, mut file) = file.finish();
        if let Some(wanted) = spec.sha256.or(wanted).filter(|wanted| *wanted != sha256) {
            return Err(mismatch(name, place, wanted, sha256));
        }
        let path = self.settings.downloads.join(sha256.hex());
        let io = |source| io_error(&path, source);
        file.flush().map_err(io)?;
        file.as_file().sync_all().map_err(io)?;
        file.persist(&path).map_err(|error| io(error.error))?;
        Ok((sha256, path))
    }
}

/// The file that is meant; of several, a gzipped archive comes before a zip file.
fn choose(files: Vec<PageFile>, spec: &DistributionSpec) -> Option<PageFile> {
    let mut fitting: Vec<_> = files.into_iter().filter(|file| spec.names(&file.file)).collect();
    fitting.sort_by_key(|file| (!file.file.ends_with(".tar.gz"), file.yanked));
    fitting.into_iter().next()
}

/// The name of the distribution in a directory.
fn find_in(directory: &Path, spec: &DistributionSpec) -> Result<Option<String>, IndexError> {
    let entries = fs::read_dir(directory).map_err(|source| io_error(directory, source))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| io_error(directory, source))?;
        if let Ok(name) = entry.file_name().into_string()
            && spec.names(&name)
            && entry.path().is_file()
        {
            names.push(name);
        }
    }
    names.sort_by_key(|name| (!name.ends_with(".tar.gz"), name.clone()));
    Ok(names.into_iter().next())
}

/// Holds a digest against the pinned one, if there is one.
fn verify(spec: &DistributionSpec, file: &str, place: &str, found: Digest) -> Result<(), IndexError> {
    match spec.sha256 {
        Some(wanted) if wanted != found => Err(mismatch(file, place, wanted, found)),
        _ => Ok(()),
    }
}

async fn hash_in_background(path: PathBuf) -> io::Result<Digest> {
    let hash = move || Digest::of_reader(std::fs::File::open(path)?);
    tokio::task::spawn_blocking(hash).await.map_err(io::Error::other)?
}

fn fetched(
    spec: &DistributionSpec,
    file: String,
    sha256: Digest,
    path: PathBuf,
    origin: FetchOrigin,
) -> FetchedDistribution {
    let (package, version) = (spec.package.clone(), spec.version.clone());
    FetchedDistribution { package, version, file, sha256, path, origin }
}

fn mismatch(file: &str, place: &str, wanted: Digest, found: Digest) -> IndexError {
    IndexError::HashMismatch { file: file.to_owned(), place: place.to_owned(), wanted, found }
}

fn io_error(path: &Path, source: io::Error) -> IndexError {
    IndexError::Io { path: path.to_owned(), source }
}
