//! Small inputs that several tests share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use image::{
    ImageConfig, ImageError, ImageRef, Layer, LayerStore, RootImage, RunCommand, RunFailure, RunStep,
};

/// One archive entry: kind, name, content or target, mode.
pub type Entry<'a> = (tar::EntryType, &'a str, &'a str, u32);

/// A tar archive whose names are written as they are, however bad.
pub fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, content, mode) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_mtime(1_000_000_000);
        header.set_uid(0);
        header.set_gid(0);
        let field = &mut header.as_gnu_mut().unwrap().name;
        let name = &name.as_bytes()[..name.len().min(field.len())];
        field[..name.len()].copy_from_slice(name);
        let data = if kind.is_file() { content.as_bytes() } else { b"" };
        if kind.is_symlink() || kind.is_hard_link() {
            let field = &mut header.as_gnu_mut().unwrap().linkname;
            let target = &content.as_bytes()[..content.len().min(field.len())];
            field[..target.len()].copy_from_slice(target);
        }
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }
    builder.into_inner().unwrap()
}

pub fn file<'a>(name: &'a str, content: &'a str) -> Entry<'a> {
    (tar::EntryType::Regular, name, content, 0o644)
}

pub fn directory(name: &str) -> Entry<'_> {
    (tar::EntryType::Directory, name, "", 0o755)
}

pub fn link<'a>(name: &'a str, target: &'a str) -> Entry<'a> {
    (tar::EntryType::Symlink, name, target, 0o777)
}

/// A directory with a layer store, a build context and an image to begin with.
pub struct Workshop {
    pub root: tempfile::TempDir,
    pub store: LayerStore,
}

impl Workshop {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = LayerStore::open(root.path().join("layers")).unwrap();
        fs::create_dir(root.path().join("context")).unwrap();
        Self { root, store }
    }

    pub fn context(&self) -> PathBuf {
        self.root.path().join("context")
    }

    /// Writes a file of the context.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.context().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A base image with a merged `/usr`, accounts and a link to an absolute path.
    pub fn base(&self) -> RootImage {
        let directory = self.root.path().join("base");
        if !directory.exists() {
            fs::create_dir(&directory).unwrap();
            let tar = archive(&[
                self::directory("usr/bin"),
                file("usr/bin/sh", "shell"),
                link("bin", "usr/bin"),
                (tar::EntryType::Directory, "tmp", "", 0o1777),
                file("etc/passwd", "root:x:0:0::/root:/bin/sh\nagent:x:1234:1235::/home/agent:/bin/sh\n"),
                file("etc/group", "root:x:0:\nteam:x:77:\n"),
                link("escape", "/etc"),
                self::directory("srv/data"),
            ]);
            image::unpack_layer("base", &tar[..], &directory, &image::UnpackLimits::default()).unwrap();
        }
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let config = ImageConfig { env, cmd: vec!["sh".to_owned()], ..ImageConfig::default() };
        RootImage { layers: vec![Layer::Directory(directory)], config, digest: "sha256:base".to_owned() }
    }

    pub fn resolve(&self, reference: &ImageRef) -> Result<RootImage, ImageError> {
        match reference.familiar().as_str() {
            "base" => Ok(self.base()),
            other => Err(ImageError::NotFound {
                reference: other.to_owned(),
                reason: "not in this test".to_owned(),
            }),
        }
    }

    /// Builds `text` with the context; `run` stands for the sandbox.
    pub fn build(&self, text: &str, run: &dyn RunStep) -> Result<RootImage, ImageError> {
        let dockerfile = self.write("Dockerfile", text);
        let resolve = |reference: &ImageRef| self.resolve(reference);
        image::dockerfile::Builder::new(&self.store, run, &resolve).build(&self.context(), &dockerfile)
    }
}

/// Writes what it is asked to run into the layer, in place of a sandbox, and remembers it.
#[derive(Default)]
pub struct Recorder {
    pub commands: RefCell<Vec<RunCommand>>,
}

impl RunStep for Recorder {
    fn run(&self, _base: &RootImage, command: &RunCommand, into: &Path) -> Result<(), RunFailure> {
        if command.argv.last().is_some_and(|last| last == "false") {
            return Err(RunFailure::Exit { code: 1, tail: "no".to_owned() });
        }
        self.commands.borrow_mut().push(command.clone());
        let cache = into.join("srv/cache");
        fs::create_dir_all(&cache).map_err(|e| RunFailure::Engine(e.to_string()))?;
        fs::write(cache.join("left"), "left").map_err(|e| RunFailure::Engine(e.to_string()))?;
        fs::write(into.join("ran"), command.argv.join(" ")).map_err(|e| RunFailure::Engine(e.to_string()))
    }
}

/// The path of every object of all layers, later layers winning, with the content of files.
pub fn flatten(image: &RootImage) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for layer in &image.layers {
        let Layer::Directory(root) = layer else { panic!("not a directory layer") };
        for entry in walkdir::WalkDir::new(root).min_depth(1).sort_by_file_name() {
            let entry = entry.unwrap();
            let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let content = if entry.file_type().is_file() {
                String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned()
            } else if entry.file_type().is_symlink() {
                format!("-> {}", fs::read_link(entry.path()).unwrap().display())
            } else {
                "/".to_owned()
            };
            all.insert(name, content);
        }
    }
    all
}
