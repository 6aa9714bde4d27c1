//! Clean source trees, from wherever the recipe says.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use image::ImageRef;
use recipe::Workspace;
use record::Profile;
use sandbox::{Archive, Engine as _, ExecSpec, SandboxError, SandboxSpec};
use source::Pulled;
use task::tree::{Tree, TreeLimits};

use crate::project::Project;
use crate::workbench::Workbench;

/// The largest tree that is taken out of an image.
const IMAGE_TREE_LIMIT: u64 = 2 << 30;
/// Where an archive is put inside a sandbox.
const ARCHIVE: &str = "/tmp/seatrial-tree.tar";

/// A clean tree and what it was taken from.
pub struct CleanTree {
    /// The files.
    pub tree: Tree,
    /// Such as `sdist:<sha256>`.
    pub source: String,
}

/// A tree that cannot be had: a stable reason and what happened.
pub type NoTree = (&'static str, String);

/// Gives the clean tree of a repository.
pub async fn clean(
    project: &Project,
    pulled: &Pulled,
    bench: Option<&Workbench>,
    profile: &Profile,
    image: &str,
) -> Result<CleanTree, NoTree> {
    match &project.recipe.materialize.workspace {
        Workspace::Sdist => sdist(pulled, profile),
        Workspace::Git => git(project, profile),
        Workspace::Image(path) => {
            let bench = bench.ok_or(("workspace_missing", "no engine is there to open images".to_owned()))?;
            in_image(bench, image, path).await
        }
    }
}

fn sdist(pulled: &Pulled, profile: &Profile) -> Result<CleanTree, NoTree> {
    let missing = |what: &str| ("workspace_missing", format!("the profile of `{}` {what}", profile.repo));
    let spec = source::DistributionSpec::of_profile(profile)
        .map_err(|error| ("workspace_missing", error.to_string()))?
        .ok_or_else(|| missing("names no source distribution"))?;
    let fetched = pulled
        .distributions
        .values()
        .find(|fetched| match (&spec.sha256, &spec.file) {
            (Some(digest), _) => fetched.sha256 == *digest,
            (None, Some(file)) => fetched.file == *file,
            (None, None) => fetched.package == spec.package && fetched.version == spec.version,
        })
        .ok_or_else(|| missing("names a source distribution that was not fetched"))?;
    let tree = Tree::from_sdist(&fetched.path, TreeLimits::default())
        .map_err(|error| ("workspace_invalid", error.to_string()))?;
    Ok(CleanTree { tree, source: format!("sdist:{}", fetched.sha256) })
}

/// The default branch of a bare mirror `<from>/<owner>__<name>.<commit8>.git`.
fn git(project: &Project, profile: &Profile) -> Result<CleanTree, NoTree> {
    let missing = |what: String| ("workspace_missing", what);
    let from = project.recipe.materialize.from.as_ref();
    let from = from.ok_or_else(|| missing("[materialize] from names no directory of mirrors".into()))?;
    let name = profile.repo.rsplit('/').next().unwrap_or(&profile.repo);
    let mirror = [format!("{name}.git"), name.to_owned()]
        .iter()
        .map(|name| project.path(from).join(name))
        .find(|path| path.join("HEAD").is_file())
        .ok_or_else(|| missing(format!("there is no mirror {name}.git in {from}")))?;
    let archive = git_archive(&mirror).map_err(|what| ("workspace_invalid", what))?;
    let tree = Tree::from_tar(&archive[..], &mirror, TreeLimits::default())
        .map_err(|error| ("workspace_invalid", error.to_string()))?;
    let digest = tree.digest();
    Ok(CleanTree { tree, source: format!("git:{digest}") })
}

fn git_archive(mirror: &Path) -> Result<Vec<u8>, String> {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(mirror)
        // A foreign repository's settings must not run anything.
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"])
        .args(["archive", "--format=tar", "HEAD"])
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("git cannot be run: {error}; install it"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("git archive of {} failed: {}", mirror.display(), said.trim()))
    }
}

/// A directory inside an image: what git knows at its head, or everything where there is no repository.
async fn in_image(bench: &Workbench, image: &str, path: &str) -> Result<CleanTree, NoTree> {
    let reference: ImageRef = image.parse().map_err(|error| ("image_invalid", format!("{error}")))?;
    let root = bench.local.resolve(&reference).await.map_err(|(_, detail)| ("image_missing", detail))?;
    let invalid = |error: SandboxError| ("workspace_invalid", error.to_string());
    let scratch = tempfile::Builder::new()
        .prefix("tree-")
        .tempdir_in(bench.scratch.path())
        .map_err(|error| ("workspace_invalid", error.to_string()))?;
    let spec = SandboxSpec {
        workdir: Some("/".into()),
        ..SandboxSpec::new("tree", root.clone().into(), scratch.path())
    };
    let sandbox = bench.native.start(&spec).await.map_err(invalid)?;
    let git = [
        "git",
        "-c",
        "safe.directory=*",
        "-c",
        "core.fsmonitor=false",
        "-C",
        path,
        "archive",
        "--format=tar",
        "-o",
    ];
    let command = ExecSpec {
        argv: git.into_iter().chain([ARCHIVE, "HEAD"]).map(str::to_owned).collect(),
        user: Some("0".into()),
        timeout: Some(Duration::from_secs(600)),
        ..ExecSpec::default()
    };
    let archived = matches!(sandbox.exec(&command).await, Ok(outcome) if outcome.success());
    let packed =
        sandbox.download(if archived { ARCHIVE } else { path }, IMAGE_TREE_LIMIT).await.map_err(invalid);
    let _ = sandbox.destroy().await;
    let (packed, name) = (packed?, PathBuf::from(format!("{image}:{path}")));
    let tree = if archived { from_inner(&packed, &name) } else { from_tar(packed.reader(), &name) }
        .map_err(|error| ("workspace_invalid", error))?;
    Ok(CleanTree { tree, source: format!("image:{}", root.digest) })
}

/// The tree of the tar file that is the archive's only entry.
fn from_inner(outer: &Archive, name: &Path) -> Result<Tree, String> {
    let mut outer = outer.as_tar();
    let mut entries = outer.entries().map_err(|error| error.to_string())?;
    let inner = entries.next().ok_or("git archive left nothing")?.map_err(|error| error.to_string())?;
    from_tar(inner, name)
}

fn from_tar(tar: impl Read, name: &Path) -> Result<Tree, String> {
    Tree::from_tar(tar, name, TreeLimits::default()).map_err(|error| error.to_string())
}
