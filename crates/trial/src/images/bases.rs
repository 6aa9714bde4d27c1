//! Images that a project builds for itself and calls `seatrial.local/NAME`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use image::{
    Builder, ImageError, ImageRef, ImageSources, LayerStore, RemoteRef, Resolve, RootImage, RunStep,
};

/// Build contexts by the name of the image that each gives. An image is built when it is first asked for, once.
#[derive(Default)]
pub(crate) struct Bases(BTreeMap<String, Base>);

struct Base {
    directory: PathBuf,
    built: Mutex<Option<Built>>,
}

/// A base that was built.
struct Built {
    image: RootImage,
    /// The images of registries that its Dockerfile named.
    named: BTreeSet<RemoteRef>,
}

impl Bases {
    pub(crate) fn new(directories: &BTreeMap<String, PathBuf>) -> Self {
        let base = |directory: &PathBuf| Base { directory: directory.clone(), built: Mutex::default() };
        Self(directories.iter().map(|(name, directory)| (name.clone(), base(directory))).collect())
    }

    /// The images of registries that the Dockerfile of a base named when it was built; none where it was not built.
    pub(crate) fn named(&self, name: &str) -> BTreeSet<RemoteRef> {
        let Some(base) = self.0.get(name) else { return BTreeSet::new() };
        let built = base.built.lock().unwrap_or_else(PoisonError::into_inner);
        built.as_ref().map(|built| built.named.clone()).unwrap_or_default()
    }
}

/// Finds a project's own images first, then everything else.
pub(crate) struct Resolver<'a> {
    pub(crate) bases: &'a Bases,
    pub(crate) store: &'a LayerStore,
    pub(crate) sources: &'a ImageSources,
    pub(crate) run: &'a dyn RunStep,
}

impl Resolver<'_> {
    fn base(&self, base: &Base) -> Result<RootImage, ImageError> {
        // Held while it is built: whoever else wants it waits. A failed build is tried again by the next who asks.
        let mut built = base.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = built.as_ref() {
            return Ok(built.image.clone());
        }
        let named = RefCell::new(BTreeSet::new());
        let below = |reference: &ImageRef| match reference {
            // So that no two bases can wait for each other.
            ImageRef::Local(_) => Err(ImageError::NotFound {
                reference: reference.to_string(),
                reason: "a base starts from no other base; use several stages in one Dockerfile".to_owned(),
            }),
            other => {
                named.borrow_mut().extend(other.remote().cloned());
                self.sources.resolve(other)
            }
        };
        let image = Builder::new(self.store, self.run, &below)
            .build(&base.directory, &base.directory.join("Dockerfile"))?;
        *built = Some(Built { image: image.clone(), named: named.into_inner() });
        Ok(image)
    }
}

impl Resolve for Resolver<'_> {
    fn resolve(&self, reference: &ImageRef) -> Result<RootImage, ImageError> {
        match reference {
            ImageRef::Local(name) => match self.bases.0.get(name) {
                Some(base) => self.base(base),
                None => self.sources.resolve(reference),
            },
            other => self.sources.resolve(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use image::{Layer, RunCommand, RunFailure};

    use super::*;

    struct NoRuns;

    impl RunStep for NoRuns {
        fn run(&self, _: &RootImage, _: &RunCommand, _: &Path) -> Result<(), RunFailure> {
            Err(RunFailure::Engine("these images run nothing".into()))
        }
    }

    fn write(directory: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join(name), text).unwrap();
    }

    /// Resolves `seatrial.local/<name>` with the bases `site`, which holds one file, and `nested`, which starts from it.
    fn resolve(root: &Path, name: &str) -> Result<RootImage, ImageError> {
        let store = LayerStore::open(root.join("layers")).unwrap();
        let sources = ImageSources::new(store.clone());
        let directories =
            ["site", "nested"].map(|name| (name.to_owned(), root.join(name))).into_iter().collect();
        let bases = Bases::new(&directories);
        let resolver = Resolver { bases: &bases, store: &store, sources: &sources, run: &NoRuns };
        let reference = format!("seatrial.local/{name}").parse().unwrap();
        let image = resolver.resolve(&reference);
        assert_eq!(image.as_ref().ok(), resolver.resolve(&reference).as_ref().ok(), "built once");
        image
    }

    #[test]
    fn a_base_is_what_its_directory_gives() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("site"), "Dockerfile", "FROM scratch\nCOPY tool /opt/tool\nENV A=1\n");
        write(&root.path().join("site"), "tool", "1");
        let first = resolve(root.path(), "site").unwrap();
        assert_eq!(first.config.env["A"], "1");
        let Layer::Directory(layer) = first.layers.last().unwrap() else { panic!("a layer of files") };
        assert_eq!(std::fs::read_to_string(layer.join("opt/tool")).unwrap(), "1");

        assert_eq!(resolve(root.path(), "site").unwrap().digest, first.digest);
        write(&root.path().join("site"), "tool", "2");
        assert_ne!(resolve(root.path(), "site").unwrap().digest, first.digest);
    }

    #[test]
    fn bases_do_not_start_from_bases_and_unknown_names_are_refused() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("nested"), "Dockerfile", "FROM seatrial.local/site\n");
        for (name, reason) in [("nested", "starts from no other base"), ("absent", "built by the project")] {
            let error = resolve(root.path(), name).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
