//! Applies the instructions of a Dockerfile, stage by stage, to a root image.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::ast::{Command, CopySource, Dockerfile, Heredoc, Instruction, RunMount, Step, Transfer};
use super::copy::{CopyPlan, Origin, Source, Treatment, context_layers};
use super::expand;
use super::ignore::Ignore;
use super::instruction::parse;
use super::lex::MAX_TEXT;
use super::stage::Stage;
use crate::digest::Fields;
use crate::host::DEFAULT_PATH;
use crate::layer_path::LayerPath;
use crate::stack::{Found, Leaving, Stack};
use crate::store::{LayerKey, LayerStore, remove_tree};
use crate::writer::{Attributes, LayerWriter};
use crate::{ImageError, ImageRef, Layer, RootImage, RunCommand, RunStep};

/// Finds images by reference: the seam through which the builder gets what `FROM` and `COPY --from` name.
pub trait Resolve {
    /// Returns the image. `scratch` is never asked for.
    fn resolve(&self, reference: &ImageRef) -> Result<RootImage, ImageError>;
}

impl<F: Fn(&ImageRef) -> Result<RootImage, ImageError>> Resolve for F {
    fn resolve(&self, reference: &ImageRef) -> Result<RootImage, ImageError> {
        self(reference)
    }
}

/// Builds root images from Dockerfiles.
///
/// Each instruction that changes files makes one layer. Its key is a hash over the layers below, the instruction with
/// its variables expanded, and the content of what it copies, so an unchanged instruction over unchanged input is
/// never run again, and equal keys mean equal layers except for what `RUN` fetches or computes from outside.
/// Files that the builder writes itself are dated 2000-01-01, keep their modes, and belong to root unless `--chown`
/// says otherwise.
///
/// ```no_run
/// # use std::path::Path;
/// # fn build(run: &dyn image::RunStep) -> Result<image::RootImage, image::ImageError> {
/// let store = image::LayerStore::open(".seatrial/layers")?;
/// let resolve = |reference: &image::ImageRef| match reference {
///     image::ImageRef::Host => Ok(image::host::prepare(&store, &[])?.image),
///     other => Err(image::ImageError::NotFound { reference: other.to_string(), reason: "offline".into() }),
/// };
/// let context = Path::new("tasks/example/environment");
/// image::dockerfile::Builder::new(&store, run, &resolve).build(context, &context.join("Dockerfile"))
/// # }
/// ```
pub struct Builder<'a> {
    store: &'a LayerStore,
    run: &'a dyn RunStep,
    resolver: &'a dyn Resolve,
    arguments: BTreeMap<String, String>,
    target: Option<String>,
}

impl<'a> Builder<'a> {
    /// Takes where layers are kept, who runs `RUN`, and who finds images.
    pub fn new(store: &'a LayerStore, run: &'a dyn RunStep, resolver: &'a dyn Resolve) -> Self {
        Self { store, run, resolver, arguments: BTreeMap::new(), target: None }
    }

    /// Sets a build argument, for `ARG` instructions that declare it.
    #[must_use]
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.insert(name.into(), value.into());
        self
    }

    /// Builds this stage, by name or number, instead of the last.
    #[must_use]
    pub fn target(mut self, stage: impl Into<String>) -> Self {
        self.target = Some(stage.into());
        self
    }

    /// Builds the Dockerfile at `dockerfile` with the files below `context`.
    ///
    /// Nothing is built when anything in the file is not supported; the error names the first such line.
    pub fn build(&self, context: &Path, dockerfile: &Path) -> Result<RootImage, ImageError> {
        let text = read_text(dockerfile, MAX_TEXT as u64)?;
        let context =
            fs::canonicalize(context).map_err(|e| ImageError::io("opening the build context", e))?;
        let located = |line: u32, instruction: &str, what: String| ImageError::Dockerfile {
            file: dockerfile.to_path_buf(),
            line,
            instruction: instruction.to_owned(),
            what,
        };
        let parsed = parse(&text).map_err(|e| located(e.line, &e.name, e.what))?;
        for step in &parsed.steps {
            if let Instruction::Unsupported(what) = &step.instruction {
                return Err(located(step.line, &step.name, format!("{what} is not supported")));
            }
        }
        let build = Build {
            builder: self,
            file: dockerfile,
            escape: parsed.escape,
            ignore: Ignore::load(&context, dockerfile)?,
            context: context_layers(&context),
        };
        build.all(&parsed)
    }
}

/// One build in progress.
struct Build<'a> {
    builder: &'a Builder<'a>,
    file: &'a Path,
    escape: char,
    ignore: Ignore,
    context: [Layer; 1],
}

/// A stage as the file states it.
struct StageText<'a> {
    from: &'a Step,
    /// The image or stage that it begins with, variables expanded.
    base: String,
    name: Option<&'a str>,
    steps: &'a [Step],
}

impl Build<'_> {
    fn all(&self, parsed: &Dockerfile) -> Result<RootImage, ImageError> {
        let (globals, stages) = self.stages(parsed)?;
        let last = stages.len() - 1;
        let target = match &self.builder.target {
            None => last,
            Some(name) => find_stage(&stages, stages.len(), name).ok_or_else(|| {
                self.error(stages[last].from, format!("there is no stage `{name}` to build"))
            })?,
        };
        let needed = needed_stages(&stages, target);
        let mut built: BTreeMap<usize, Stage> = BTreeMap::new();
        for (at, text) in stages.iter().enumerate().filter(|(at, _)| needed.contains(at)) {
            let stage = self.stage(at, text, &stages, &built, &globals)?;
            built.insert(at, stage);
        }
        let stage = built.remove(&target).expect("the target is among the needed stages");
        Ok(stage.image())
    }

    /// Splits the file into stages and expands the images they begin with.
    fn stages<'p>(
        &self,
        parsed: &'p Dockerfile,
    ) -> Result<(BTreeMap<String, String>, Vec<StageText<'p>>), ImageError> {
        let mut globals = platform_arguments();
        let first = parsed.steps.iter().position(is_from).unwrap_or(parsed.steps.len());
        for step in &parsed.steps[..first] {
            if let Instruction::Arg(arguments) = &step.instruction {
                for (name, default) in arguments {
                    let given = self.builder.arguments.get(name).cloned();
                    let value = match (given, default) {
                        (Some(given), _) => Some(given),
                        (None, Some(default)) => {
                            Some(self.word(step, default, &|n| globals.get(n).cloned())?)
                        }
                        (None, None) => None,
                    };
                    if let Some(value) = value {
                        globals.insert(name.clone(), value);
                    }
                }
            }
        }
        let mut stages = Vec::new();
        let mut rest = &parsed.steps[first..];
        while let Some((from, after)) = rest.split_first() {
            let end = after.iter().position(is_from).unwrap_or(after.len());
            let Instruction::From { image, platform, name } = &from.instruction else { break };
            let lookup = |name: &str| globals.get(name).cloned();
            let base = self.word(from, image, &lookup)?;
            if let Some(platform) = platform {
                let platform = self.word(from, platform, &lookup)?;
                let (os, architecture) = platform.split_once('/').unwrap_or((&platform, ""));
                let fits =
                    os == "linux" && architecture.split('/').next() == Some(crate::manifest::architecture());
                if !fits {
                    return Err(
                        self.error(from, format!("the platform {platform} is not that of this machine"))
                    );
                }
            }
            stages.push(StageText { from, base, name: name.as_deref(), steps: &after[..end] });
            rest = &after[end..];
        }
        Ok((globals, stages))
    }

    fn stage(
        &self,
        at: usize,
        text: &StageText<'_>,
        stages: &[StageText<'_>],
        built: &BTreeMap<usize, Stage>,
        globals: &BTreeMap<String, String>,
    ) -> Result<Stage, ImageError> {
        let mut stage = match find_named(stages, at, &text.base) {
            Some(earlier) => Stage::on_stage(&built[&earlier]),
            None => self.base(text.from, &text.base)?,
        };
        for step in text.steps {
            tracing::debug!(line = step.line, instruction = step.name, "builds");
            self.step(step, &mut stage, at, stages, built, globals)?;
        }
        Ok(stage)
    }

    fn base(&self, step: &Step, reference: &str) -> Result<Stage, ImageError> {
        let reference: ImageRef = reference.parse().map_err(|e| self.error(step, format!("{e}")))?;
        if reference == ImageRef::Scratch {
            return Ok(Stage::scratch());
        }
        Ok(Stage::on_image(self.builder.resolver.resolve(&reference).map_err(|e| self.locate(step, e))?))
    }

    fn step(
        &self,
        step: &Step,
        stage: &mut Stage,
        at: usize,
        stages: &[StageText<'_>],
        built: &BTreeMap<usize, Stage>,
        globals: &BTreeMap<String, String>,
    ) -> Result<(), ImageError> {
        match &step.instruction {
            Instruction::Arg(arguments) => self.declare(step, stage, arguments, globals)?,
            Instruction::Env(pairs) => {
                // All values of one instruction see the environment from before it.
                let values = self.pairs(step, stage, pairs)?;
                stage.config.env.extend(values);
            }
            Instruction::Label(pairs) => {
                let values = self.pairs(step, stage, pairs)?;
                stage.config.labels.extend(values);
            }
            Instruction::Run { command, mounts } => self.run(step, stage, command, mounts)?,
            Instruction::Copy(transfer) => {
                self.transfer(step, stage, transfer, false, at, stages, built)?;
            }
            Instruction::Add(transfer) => self.transfer(step, stage, transfer, true, at, stages, built)?,
            Instruction::Workdir(path) => self.workdir(step, stage, path)?,
            Instruction::User(user) => {
                let user = self.stage_word(step, stage, user)?;
                if user.is_empty() {
                    return Err(
                        self.error(step, "the user is empty after variables were expanded".to_owned())
                    );
                }
                stage.config.user = Some(user);
            }
            Instruction::Shell(words) => stage.config.shell.clone_from(words),
            Instruction::Entrypoint(command) => {
                stage.config.entrypoint = exec_form(stage, command);
                if !stage.has_own_cmd {
                    // Arguments meant for the base image's entry point say nothing to another one.
                    stage.config.cmd.clear();
                }
            }
            Instruction::Cmd(command) => {
                stage.config.cmd = exec_form(stage, command);
                stage.has_own_cmd = true;
            }
            Instruction::NoEffect => {}
            Instruction::From { .. } | Instruction::Unsupported(_) => {
                return Err(self.error(step, "stands where it cannot be built".to_owned()));
            }
        }
        Ok(())
    }

    fn declare(
        &self,
        step: &Step,
        stage: &mut Stage,
        arguments: &[(String, Option<String>)],
        globals: &BTreeMap<String, String>,
    ) -> Result<(), ImageError> {
        for (name, default) in arguments {
            let value = match (self.builder.arguments.get(name), default) {
                (Some(given), _) => Some(given.clone()),
                (None, Some(default)) => Some(self.stage_word(step, stage, default)?),
                (None, None) => globals.get(name).cloned(),
            };
            if let Some(value) = value {
                stage.arguments.insert(name.clone(), value);
            }
        }
        Ok(())
    }

    fn run(
        &self,
        step: &Step,
        stage: &mut Stage,
        command: &Command,
        mounts: &[RunMount],
    ) -> Result<(), ImageError> {
        let command = self.run_command(step, stage, command)?;
        let mut targets = Vec::new();
        for mount in mounts {
            let target = self.stage_word(step, stage, &mount.target)?;
            let target = stage.resolve(&stage.absolute(&target)).map_err(|e| self.locate(step, e))?;
            if target.is_root() {
                return Err(self.error(step, "a mount over the root directory is not supported".to_owned()));
            }
            targets.push(target);
        }
        let mut fields = Fields::new("seatrial.run/1");
        fields.add(stage.chain.as_str().as_bytes());
        fields.number(command.argv.len() as u64);
        for word in &command.argv {
            fields.add(word.as_bytes());
        }
        fields.number(command.env.len() as u64);
        for (name, value) in &command.env {
            fields.add(name.as_bytes()).add(value.as_bytes());
        }
        fields.add(command.workdir.as_bytes()).add(&command.stdin);
        fields.add(command.user.as_deref().unwrap_or_default().as_bytes());
        for target in &targets {
            fields.add(target.absolute().as_os_str().as_encoded_bytes());
        }
        let base = stage.image();
        self.layer(step, stage, fields, |into, below| {
            self.builder.run.run(&base, &command, into).map_err(|failure| ImageError::Run {
                file: self.file.to_path_buf(),
                line: step.line,
                failure,
            })?;
            for target in &targets {
                forget_below(into, target, below)?;
            }
            Ok(())
        })
    }

    fn run_command(&self, step: &Step, stage: &Stage, command: &Command) -> Result<RunCommand, ImageError> {
        let mut env = stage.arguments.clone();
        env.extend(stage.config.env.clone());
        env.entry("PATH".to_owned()).or_insert_with(|| DEFAULT_PATH.to_owned());
        if !env.contains_key("HOME") {
            env.insert("HOME".to_owned(), stage.home().map_err(|what| self.error(step, what))?);
        }
        let mut stdin = Vec::new();
        let argv = match command {
            Command::Exec(words) => words.clone(),
            Command::Shell(text) => in_shell(stage, text),
            Command::Script(Heredoc { content, .. }) => match content.strip_prefix("#!") {
                // The interpreter reads the script from its standard input, so that no file stays in the layer.
                Some(rest) => {
                    let line = rest.lines().next().unwrap_or_default().trim();
                    let words: Vec<String> =
                        line.splitn(2, char::is_whitespace).map(|w| w.trim().to_owned()).collect();
                    stdin = content.clone().into_bytes();
                    words
                }
                None => in_shell(stage, content),
            },
        };
        if argv.first().is_none_or(String::is_empty) {
            return Err(self.error(step, "names no program to run".to_owned()));
        }
        let workdir = stage.config.workdir.clone().unwrap_or_else(|| "/".to_owned());
        Ok(RunCommand { argv, env, workdir, user: stage.config.user.clone(), stdin })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the state of a build, which nothing else needs as one value"
    )]
    fn transfer(
        &self,
        step: &Step,
        stage: &mut Stage,
        transfer: &Transfer,
        add: bool,
        at: usize,
        stages: &[StageText<'_>],
        built: &BTreeMap<usize, Stage>,
    ) -> Result<(), ImageError> {
        let fail = |what: String| self.error(step, what);
        let destination = stage.absolute(&self.stage_word(step, stage, &transfer.destination)?);
        let mut sources = Vec::new();
        for source in &transfer.sources {
            sources.push(match source {
                CopySource::Path(word) => Source::Path(self.stage_word(step, stage, word)?),
                CopySource::Inline(heredoc) => {
                    let content = if heredoc.expand {
                        expand::document(&heredoc.content, self.escape, &|name| stage.variable(name))
                            .map_err(fail)?
                    } else {
                        heredoc.content.clone()
                    };
                    Source::Inline { name: heredoc.name.clone(), content: content.into_bytes() }
                }
            });
        }
        let mut treatment = Treatment { owner: None, mode: None };
        if let Some(owner) = &transfer.flags.chown {
            let owner = self.stage_word(step, stage, owner)?;
            treatment.owner = Some(stage.owner(&owner).map_err(fail)?);
        }
        if let Some(mode) = &transfer.flags.chmod {
            let mode = self.stage_word(step, stage, mode)?;
            let octal = u32::from_str_radix(&mode, 8).ok().filter(|mode| *mode <= 0o7777);
            treatment.mode = Some(octal.ok_or_else(|| {
                fail(format!("--chmod={mode} is not supported; write the mode in octal, such as 0755"))
            })?);
        }
        let from = match &transfer.flags.from {
            None => None,
            Some(name) => Some(match find_stage(stages, at, name) {
                Some(earlier) => built[&earlier].clone(),
                None => self.base(step, name)?,
            }),
        };
        let origin = match &from {
            None => Origin {
                stack: Stack::new(&self.context, Leaving::Refuse),
                ignore: Some(&self.ignore),
                hash: true,
                unpack: add,
            },
            Some(from) => Origin { stack: from.stack(), ignore: None, hash: false, unpack: false },
        };
        let plan = CopyPlan::new(&origin, sources, &destination, &stage.stack(), treatment).map_err(fail)?;
        let mut fields = Fields::new("seatrial.copy/1");
        fields.add(stage.chain.as_str().as_bytes());
        fields.add(from.as_ref().map_or("context", |from| from.chain.as_str()).as_bytes());
        plan.hash(&mut fields);
        self.layer(step, stage, fields, |into, below| plan.write(into, below))
    }

    fn workdir(&self, step: &Step, stage: &mut Stage, path: &str) -> Result<(), ImageError> {
        let path = self.stage_word(step, stage, path)?;
        if path.is_empty() {
            return Err(self.error(step, "the directory is empty after variables were expanded".to_owned()));
        }
        let path = LayerPath::of_absolute(Path::new(&stage.absolute(&path)))
            .map_err(|rule| self.error(step, format!("the directory {rule}")))?;
        let absolute = path.absolute().to_string_lossy().into_owned();
        let target = stage.resolve(&absolute).map_err(|e| self.locate(step, e))?;
        stage.config.workdir = Some(absolute);
        match stage.stack().find(&target).map_err(|e| self.locate(step, e))? {
            Some(found) if found.is_dir() => return Ok(()),
            Some(_) => {
                let what = format!("{} exists and is not a directory", target.absolute().display());
                return Err(self.error(step, what));
            }
            None => {}
        }
        let (uid, gid) = match &stage.config.user {
            Some(user) => stage.owner(user).map_err(|what| self.error(step, what))?,
            None => (0, 0),
        };
        let mut fields = Fields::new("seatrial.workdir/1");
        fields.add(stage.chain.as_str().as_bytes()).add(target.absolute().as_os_str().as_encoded_bytes());
        fields.number(u64::from(uid)).number(u64::from(gid));
        self.layer(step, stage, fields, |into, below| {
            let missing = |path: &LayerPath| match below.find(path) {
                Ok(Some(found)) if found.is_dir() => Some(found.attributes()),
                _ if path.is_root() => None,
                _ => Some(Attributes::new(0o755, uid, gid)),
            };
            let mut writer = LayerWriter::open(into, &missing)?;
            writer.directory(&target, Attributes::new(0o755, uid, gid))?;
            writer.finish()
        })
    }

    /// Makes the layer of an instruction, or takes it from the store, and puts it on the stage.
    fn layer(
        &self,
        step: &Step,
        stage: &mut Stage,
        key: Fields,
        fill: impl FnOnce(&Path, &Stack<'_>) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let key = LayerKey::from(key.digest());
        let origin = format!("{}:{} {}", self.file.display(), step.line, step.name);
        let layer = self.builder.store.get_or_make(&key, &origin, |into| fill(into, &stage.stack()));
        let layer = layer.map_err(|e| self.locate(step, e))?;
        stage.push(&key, &layer);
        Ok(())
    }

    fn pairs(
        &self,
        step: &Step,
        stage: &Stage,
        pairs: &[(String, String)],
    ) -> Result<Vec<(String, String)>, ImageError> {
        let expand = |text: &String| self.stage_word(step, stage, text);
        pairs.iter().map(|(name, value)| Ok((expand(name)?, expand(value)?))).collect()
    }

    fn stage_word(&self, step: &Step, stage: &Stage, text: &str) -> Result<String, ImageError> {
        self.word(step, text, &|name| stage.variable(name))
    }

    fn word(&self, step: &Step, text: &str, lookup: &expand::Lookup<'_>) -> Result<String, ImageError> {
        expand::word(text, self.escape, lookup).map_err(|what| self.error(step, what))
    }

    fn error(&self, step: &Step, what: String) -> ImageError {
        ImageError::Dockerfile {
            file: self.file.to_path_buf(),
            line: step.line,
            instruction: step.name.clone(),
            what,
        }
    }

    /// Adds the place to an error that has none.
    fn locate(&self, step: &Step, error: ImageError) -> ImageError {
        match error {
            placed @ (ImageError::Dockerfile { .. } | ImageError::Run { .. }) => placed,
            // What the machine or a registry is to blame for is not the Dockerfile's fault.
            foreign @ (ImageError::StoreFull { .. }
            | ImageError::Registry { .. }
            | ImageError::Denied { .. }) => foreign,
            full @ ImageError::Io { .. } if full.is_disk_full() => full,
            other => self.error(step, other.to_string()),
        }
    }
}

fn is_from(step: &Step) -> bool {
    matches!(step.instruction, Instruction::From { .. })
}

fn in_shell(stage: &Stage, text: &str) -> Vec<String> {
    let mut argv = stage.shell();
    argv.push(text.to_owned());
    argv
}

fn exec_form(stage: &Stage, command: &Command) -> Vec<String> {
    match command {
        Command::Exec(words) => words.clone(),
        Command::Shell(text) => in_shell(stage, text),
        Command::Script(heredoc) => in_shell(stage, &heredoc.content),
    }
}

/// Finds an earlier stage by name; of several with one name the last.
fn find_named(stages: &[StageText<'_>], before: usize, name: &str) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    (0..before).rev().find(|at| stages[*at].name == Some(name.as_str()))
}

/// Finds an earlier stage by name or number.
fn find_stage(stages: &[StageText<'_>], before: usize, name: &str) -> Option<usize> {
    find_named(stages, before, name).or_else(|| name.parse::<usize>().ok().filter(|at| *at < before))
}

/// The target and every stage that it needs, directly or not.
fn needed_stages(stages: &[StageText<'_>], target: usize) -> BTreeSet<usize> {
    let mut needed = BTreeSet::new();
    let mut open = vec![target];
    while let Some(at) = open.pop() {
        if !needed.insert(at) {
            continue;
        }
        open.extend(find_named(stages, at, &stages[at].base));
        for step in stages[at].steps {
            if let Instruction::Copy(transfer) | Instruction::Add(transfer) = &step.instruction {
                open.extend(transfer.flags.from.as_deref().and_then(|name| find_stage(stages, at, name)));
            }
        }
    }
    needed
}

/// Arguments that every build has without being told.
fn platform_arguments() -> BTreeMap<String, String> {
    let architecture = crate::manifest::architecture();
    let mut arguments = BTreeMap::new();
    for side in ["TARGET", "BUILD"] {
        arguments.insert(format!("{side}PLATFORM"), format!("linux/{architecture}"));
        arguments.insert(format!("{side}OS"), "linux".to_owned());
        arguments.insert(format!("{side}ARCH"), architecture.to_owned());
        arguments.insert(format!("{side}VARIANT"), String::new());
    }
    arguments
}

/// Removes from a fresh layer what was written at the place of a mount.
fn forget_below(into: &Path, target: &LayerPath, below: &Stack<'_>) -> Result<(), ImageError> {
    let mut path: PathBuf = into.to_path_buf();
    for name in target.names() {
        path.push(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            // Nothing was written there, or something that is no directory took its place.
            _ => return Ok(()),
        }
    }
    let doing = |e: std::io::Error| ImageError::io("removing what a mount held", e);
    remove_tree(&path).map_err(doing)?;
    if !below.find(target)?.is_some_and(|found: Found| found.is_dir()) {
        // As with a real mount, its place stays as an empty directory.
        fs::create_dir(&path).map_err(doing)?;
    }
    Ok(())
}

/// Reads a text file of at most `limit` bytes.
pub(super) fn read_text(path: &Path, limit: u64) -> Result<String, ImageError> {
    let doing = |e: std::io::Error| ImageError::io(format!("reading {}", path.display()), e);
    let file = std::fs::File::open(path).map_err(doing)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(doing)?;
    if bytes.len() as u64 > limit {
        return Err(doing(std::io::Error::other(format!("is larger than {limit} bytes"))));
    }
    String::from_utf8(bytes).map_err(|_| doing(std::io::Error::other("is not UTF-8")))
}
