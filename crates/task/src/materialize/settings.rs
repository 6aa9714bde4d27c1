//! What a materialization is told besides the instance.

use ident::Digest;

use super::plan::TaskFile;

/// Settings that hold for a whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The part of the package name in front of the slash.
    pub organization: String,
    /// The image that the environment is built on, as written behind `FROM`.
    pub base_image: String,
    /// What that image has at [`Settings::workdir`].
    pub base_tree: BaseTree,
    /// The finished image of this very task, once one is known; Harbor then builds nothing.
    pub docker_image: Option<String>,
    /// Absolute path of the workspace inside the image.
    pub workdir: String,
    /// Time limit of the agent in seconds; none when absent.
    pub agent_timeout_sec: Option<u64>,
    /// Time limit of the verifier in seconds.
    pub verifier_timeout_sec: u64,
    /// Time limit of the environment's start in seconds.
    pub build_timeout_sec: u64,
    /// Processors; no limit when absent.
    pub cpus: Option<u32>,
    /// Memory in MiB; no limit when absent.
    pub memory_mb: Option<u64>,
    /// Disk space in MiB; no limit when absent.
    pub storage_mb: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            organization: "seatrial".to_owned(),
            base_image: String::new(),
            base_tree: BaseTree::Absent,
            docker_image: None,
            workdir: "/testbed".to_owned(),
            agent_timeout_sec: None,
            verifier_timeout_sec: 600,
            build_timeout_sec: 600,
            cpus: None,
            memory_mb: None,
            storage_mb: None,
        }
    }
}

/// What the base image has at the place of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseTree {
    /// Nothing: an image of tools and packages. The workspace is unpacked and that is all.
    Absent,
    /// A checkout of the clean tree with its history and whatever building it has left behind.
    ///
    /// What git does not know there is kept, since compiled extensions and `egg-info` folders are what an editable
    /// installation needs to work. Everything else is replaced: the old `.git`, files of the clean tree that the
    /// workspace lacks, and every folder of byte code, which could hold removed tests in compiled form.
    Present,
}

/// The file name of the archive of the test surface inside `tests/`.
pub const SURFACE_ARCHIVE: &str = "surface.tar";

/// The files that belong to the tests, packed from the clean tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfaceArchive<'a> {
    /// The uncompressed archive; names are relative to the workspace.
    pub bytes: &'a [u8],
    /// Digest of the archive.
    pub digest: Digest,
}

/// The seam to the verifier, which lives in a room of its own.
pub trait Verifier {
    /// Whether the workspace file at `path` decides what the tests check: tests, their data, their settings.
    fn owns(&self, path: &str) -> bool;

    /// The workspace file that a test's id names, where ids name files.
    fn file_of<'i>(&self, id: &'i str) -> Option<&'i str>;

    /// Whether the file at `path`, which belongs to the tests, defines a test whose id names no file.
    fn defines(&self, id: &str, path: &str, text: &str) -> bool;

    /// The files of `tests/` beside the archive [`SURFACE_ARCHIVE`], with paths relative to `tests/`. An error is the
    /// reason why this instance cannot be verified.
    fn files(&self, surface: &SurfaceArchive<'_>) -> Result<Vec<TaskFile>, String>;
}
