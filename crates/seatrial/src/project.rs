//! A recipe's directory: where everything lies, and what every stage was made from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ident::{AliasTable, Digest, to_canonical_json};
use recipe::{Aliases, EngineName, Recipe};
use record::ClusterConfig;
use serde::Serialize;
use trial::Mirrored;

use crate::cli::Jobs;
use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::Output;
use crate::stage::freeze::FROZEN;
use crate::stage::images;
use crate::stage::materialize::TASKS;
use crate::stage::{self, export::EXPORTS};
use crate::workbench::{Places, Workbench};

/// A recipe that is read and the directory it stands in.
#[derive(Debug)]
pub struct Project {
    /// The directory.
    pub root: PathBuf,
    /// The recipe.
    pub recipe: Recipe,
}

/// The right to write to a project; the system takes it back when the process ends, however it ends.
#[derive(Debug)]
pub struct Claim {
    _file: fs_err::File,
}

/// Name of the recipe.
pub const RECIPE: &str = "seatrial.toml";

/// No recipe comes near this size.
const RECIPE_LIMIT: u64 = 16 << 20;

impl Project {
    /// Reads the recipe in `root`.
    pub fn open(root: &Path) -> Result<Self> {
        let path = root.join(RECIPE);
        if !path.exists() {
            let message = format!("there is no recipe at {}", path.display());
            return Err(Failure::new(Exit::Usage, message)
                .hint("run in the directory of a seatrial.toml, or name it with -C DIR")
                .hint("`seatrial init DIR` writes one to start from"));
        }
        let mistakes = |error| Failure::from_report(Exit::Usage, miette::Report::new(error));
        let (name, text) = (path.display().to_string(), text_of(&path)?);
        let mut recipe = recipe::parse(&name, &text).map_err(mistakes)?;
        let wrong = stage::plan::mistakes(&recipe);
        if !wrong.is_empty() {
            return Err(mistakes(recipe::pool_error(&name, &text, wrong)));
        }
        // From here on it does not matter where the names were written, and their digest is that of their content.
        if let Aliases::File(file) = &recipe.aliases {
            let path = root.join(file);
            if !path.exists() {
                let message = format!("there is no file of aliases at {}", path.display());
                return Err(Failure::new(Exit::Usage, message));
            }
            let names =
                recipe::parse_aliases(&path.display().to_string(), &text_of(&path)?).map_err(mistakes)?;
            recipe.aliases = Aliases::Table(names);
        }
        Ok(Self { root: root.to_owned(), recipe })
    }

    /// Files of the bases that the recipe names.
    fn bases(&self) -> BTreeMap<String, PathBuf> {
        self.recipe.bases.iter().map(|(name, path)| (name.clone(), self.path(path))).collect()
    }

    /// Claims the project for a command that writes to it, until the returned claim is dropped.
    pub fn claim(&self) -> Result<Claim> {
        let path = self.state("")?.join("claim");
        let file = fs_err::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .or_exit(Exit::Failed)?;
        match file.file().try_lock() {
            Ok(()) => {
                self.sweep();
                Ok(Claim { _file: file })
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                let message = format!("another seatrial is working in {}", self.root.display());
                Err(Failure::new(Exit::Conflict, message)
                    .hint("wait until it ends, or end it; nothing was changed"))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(Failure::from_error(Exit::Failed, &error)),
        }
    }

    /// Removes what a killed program was just writing: nobody else writes here now.
    fn sweep(&self) {
        let mut places = vec![self.root.clone()];
        places.extend([TASKS, FROZEN, EXPORTS].map(|name| self.path(name)));
        places.extend(entries(&self.path(EXPORTS)));
        for path in places.iter().flat_map(|place| entries(place)) {
            if !path.file_name().is_some_and(artifact::is_unfinished) {
                continue;
            }
            let removed =
                if path.is_dir() { fs_err::remove_dir_all(&path) } else { fs_err::remove_file(&path) };
            if let Err(error) = removed {
                tracing::warn!(%error, "what a killed program left behind cannot be removed");
            }
        }
    }

    /// A file or directory of the project.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// A directory of derived state that can be deleted at any time; created when missing.
    pub fn state(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(".seatrial").join(name);
        fs_err::create_dir_all(&path).or_exit(Exit::Failed)?;
        // Keeps derived state out of version control without touching the user's own ignore file.
        let ignore = self.root.join(".seatrial/.gitignore");
        if !ignore.exists() {
            artifact::write_atomic(&ignore, b"*\n")?;
        }
        Ok(path)
    }

    /// Engine and images for the trials of this project; nothing of the project is visible in sandboxes.
    pub fn workbench(&self, jobs: &Jobs) -> Result<Workbench> {
        self.workbench_with(self.recipe.prove.engine, jobs)
    }

    /// What makes images on this machine and looks into them, which no daemon and no cluster is asked for.
    pub fn local_workbench(&self, jobs: &Jobs) -> Result<Workbench> {
        self.workbench_with(EngineName::Native, jobs)
    }

    fn workbench_with(&self, engine: EngineName, jobs: &Jobs) -> Result<Workbench> {
        let layout = self.recipe.materialize.layout.as_ref().map(|path| self.path(path));
        let mirrored =
            if engine == EngineName::Kubernetes { images::mirrored(self)? } else { Mirrored::default() };
        let places = Places {
            engine,
            state: self.state("")?,
            private: vec![self.root.clone()],
            layout: layout.as_deref(),
            bases: self.bases(),
            cluster: self.recipe.kubernetes.clone().unwrap_or_default(),
            mirrored,
        };
        Workbench::open(places, jobs)
    }

    /// The recipe's aliases as they are written.
    pub fn alias_names(&self) -> &BTreeMap<String, String> {
        self.recipe.aliases.names().expect("a file of aliases is read when the project is opened")
    }

    /// The recipe's alias table.
    pub fn aliases(&self) -> Result<AliasTable> {
        let pairs = self.alias_names().iter().map(|(old, new)| (old.as_str(), new.as_str()));
        AliasTable::new(pairs).or_exit(Exit::Usage)
    }

    /// Name of the frozen set of `count` tasks.
    pub fn frozen_name(&self, count: usize) -> String {
        format!("{}-{count}-{}", self.recipe.dataset.name, self.recipe.dataset.version)
    }
}

/// How the recipe in `root` uses a cluster, for that engine; by its defaults where there is no recipe.
pub fn cluster_of(engine: EngineName, root: &Path) -> Result<ClusterConfig> {
    if engine != EngineName::Kubernetes || !root.join(RECIPE).exists() {
        return Ok(ClusterConfig::default());
    }
    Ok(Project::open(root)?.recipe.kubernetes.unwrap_or_default())
}

/// The bases of the project in `root` for a command that needs no recipe: none where there is no recipe, and a warning where it
/// cannot be read.
pub fn bases_in(output: Output, root: &Path) -> BTreeMap<String, PathBuf> {
    if !root.join(RECIPE).exists() {
        return BTreeMap::new();
    }
    match Project::open(root) {
        Ok(project) => project.bases(),
        Err(failure) => {
            output.warn(format_args!("the [bases] of {RECIPE} are not known: {}", failure.report));
            BTreeMap::new()
        }
    }
}

/// The recipe in `root`, for a command that needs none.
pub fn recipe_in(root: &Path) -> Result<Option<Recipe>> {
    if root.join(RECIPE).exists() {
        Project::open(root).map(|project| Some(project.recipe))
    } else {
        Ok(None)
    }
}

/// A file that users write, as text.
fn text_of(path: &Path) -> Result<String> {
    let bytes = artifact::read_bounded(path, RECIPE_LIMIT).or_exit(Exit::Usage)?;
    String::from_utf8(bytes)
        .map_err(|error| Failure::new(Exit::Usage, format!("{} is not UTF-8: {error}", path.display())))
}

/// What lies in a directory; nothing where there is none.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

/// The digest of a part of the recipe, as an input of a stage.
pub fn section_digest<T: Serialize>(section: &T) -> Result<Digest> {
    Ok(Digest::of(to_canonical_json(section).or_exit(Exit::Failed)?))
}
