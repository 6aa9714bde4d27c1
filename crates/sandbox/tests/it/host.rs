//! A root image over the host's system, and short ways to run commands in it.

use std::path::{Path, PathBuf};

use fs_err as fs;
use image::{HostRoot, ImageConfig, Layer, RootImage};
use sandbox::native::{Native, NativeConfig};
use sandbox::{Engine, ExecOutcome, ExecSpec, Sandbox, SandboxSpec};

/// The init that the tests re-execute.
pub fn init() -> PathBuf {
    env!("CARGO_BIN_EXE_sandbox-init").into()
}

/// An engine.
pub fn engine() -> Native {
    Native::new(NativeConfig { init: init(), require_limits: false }).unwrap()
}

/// A directory for one test with a skeleton and a scratch directory in it.
pub struct Bench {
    pub temp: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::prepare(tempfile::tempdir().unwrap())
    }

    /// Works below a directory that somebody else removes.
    pub fn within(directory: &Path) -> Self {
        Self::prepare(tempfile::Builder::new().disable_cleanup(true).tempdir_in(directory).unwrap())
    }

    fn prepare(temp: tempfile::TempDir) -> Self {
        fs::create_dir(temp.path().join("scratch")).unwrap();
        skeleton(&temp.path().join("skeleton"));
        Self { temp }
    }

    pub fn scratch(&self) -> PathBuf {
        self.temp.path().join("scratch")
    }

    pub fn host_layer(&self) -> Layer {
        let trees = ["/usr", "/opt", "/lib", "/lib64", "/bin", "/sbin"]
            .into_iter()
            .map(PathBuf::from)
            .filter(|tree| tree.is_dir() && !tree.is_symlink())
            .collect();
        Layer::Host(HostRoot { skeleton: self.temp.path().join("skeleton"), trees })
    }

    pub fn image(&self, above: &[&Path]) -> RootImage {
        let mut layers = vec![self.host_layer()];
        layers.extend(above.iter().map(|path| Layer::Directory(path.to_path_buf())));
        RootImage { layers, config: ImageConfig::default(), digest: "sha256:test".into() }
    }

    pub fn spec(&self, name: &str) -> SandboxSpec {
        SandboxSpec::new(name, self.image(&[]).into(), self.scratch())
    }

    /// What is left of sandboxes in the scratch directory.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        fs::read_dir(self.scratch()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

fn skeleton(root: &Path) {
    for directory in
        ["dev", "etc", "home", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr", "var/tmp"]
    {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for directory in ["tmp", "var/tmp"] {
        rustix::fs::chmod(root.join(directory), rustix::fs::Mode::from_raw_mode(0o1777)).unwrap();
    }
    for name in ["bin", "sbin", "lib", "lib32", "lib64"] {
        match fs::read_link(Path::new("/").join(name)) {
            Ok(target) => fs::os::unix::fs::symlink(target, root.join(name)).unwrap(),
            Err(_) if Path::new("/").join(name).is_dir() => fs::create_dir(root.join(name)).unwrap(),
            Err(_) => {}
        }
    }
    fs::write(
        root.join("etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\napp:x:1234:1234::/home/app:/bin/sh\n",
    )
    .unwrap();
    fs::write(root.join("etc/group"), "root:x:0:\nnogroup:x:65534:\napp:x:1234:\nextra:x:77:app\n").unwrap();
}

/// A shell command.
pub fn sh(script: &str) -> ExecSpec {
    ExecSpec { argv: ["sh", "-c", script].map(String::from).to_vec(), ..ExecSpec::default() }
}

/// Standard output as text.
pub fn text(outcome: &ExecOutcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.bytes).into_owned()
}

/// Starts a sandbox, or fails the test with the reason.
pub async fn start(spec: &SandboxSpec) -> Box<dyn Sandbox> {
    engine().start(spec).await.unwrap_or_else(|error| panic!("{error}"))
}
