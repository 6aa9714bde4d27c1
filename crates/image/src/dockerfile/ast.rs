//! The instructions of a Dockerfile as values. Variables are not expanded yet.

/// A parsed Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dockerfile {
    /// The escape character: a backslash, or a backtick where the directive says so.
    pub escape: char,
    /// Instructions in order.
    pub steps: Vec<Step>,
}

/// One instruction and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// One-based line on which the instruction begins.
    pub line: u32,
    /// The instruction's name in capitals.
    pub name: String,
    /// What it says.
    pub instruction: Instruction,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// `FROM [--platform=…] image [AS name]`
    From {
        /// An image reference or the name of an earlier stage.
        image: String,
        /// The flag's value.
        platform: Option<String>,
        /// The stage's name, in lower case.
        name: Option<String>,
    },
    /// `ARG name[=default] …`
    Arg(Vec<(String, Option<String>)>),
    /// `ENV name=value …`
    Env(Vec<(String, String)>),
    /// `LABEL name=value …`
    Label(Vec<(String, String)>),
    /// `RUN …`
    Run {
        /// What runs.
        command: Command,
        /// Mounts that hold nothing worth keeping.
        mounts: Vec<RunMount>,
    },
    /// `COPY …`
    Copy(Transfer),
    /// `ADD …`
    Add(Transfer),
    /// `WORKDIR path`
    Workdir(String),
    /// `USER user[:group]`
    User(String),
    /// `SHELL ["program", "argument", …]`
    Shell(Vec<String>),
    /// `ENTRYPOINT …`
    Entrypoint(Command),
    /// `CMD …`
    Cmd(Command),
    /// `EXPOSE`, `VOLUME`, `STOPSIGNAL`, `HEALTHCHECK`, `MAINTAINER`: known, and without effect in a sandbox.
    NoEffect,
    /// Something that this builder does not do, by name.
    Unsupported(String),
}

/// The command of `RUN`, `CMD` or `ENTRYPOINT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// For the shell, here-documents included in the text.
    Shell(String),
    /// Program and arguments.
    Exec(Vec<String>),
    /// A here-document that is the whole script.
    Script(Heredoc),
}

/// A here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heredoc {
    /// The delimiter without quotes; the file's name in `COPY`.
    pub name: String,
    /// Lines up to the delimiter, leading tabs removed where `<<-` says so.
    pub content: String,
    /// Whether variables in it are expanded: the delimiter was not quoted.
    pub expand: bool,
}

/// A mount of `RUN --mount=type=cache` or `type=tmpfs`. The step sees an ordinary directory there instead; what it
/// writes below is not kept, as with the real mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMount {
    /// Where it is mounted.
    pub target: String,
}

/// The arguments of `COPY` and `ADD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// What is copied, at least one.
    pub sources: Vec<CopySource>,
    /// Where to.
    pub destination: String,
    /// Flags.
    pub flags: CopyFlags,
}

/// One source of `COPY` or `ADD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopySource {
    /// A path or pattern.
    Path(String),
    /// A file given in the Dockerfile itself.
    Inline(Heredoc),
}

/// Flags of `COPY` and `ADD`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyFlags {
    /// `--from`: a stage or an image.
    pub from: Option<String>,
    /// `--chown`: `user[:group]`.
    pub chown: Option<String>,
    /// `--chmod`: an octal mode.
    pub chmod: Option<String>,
}

/// Text that is not a Dockerfile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {name}: {what}")]
pub struct ParseError {
    /// One-based line of the instruction.
    pub line: u32,
    /// The instruction's name in capitals, or the first word of the line.
    pub name: String,
    /// What is wrong with it.
    pub what: String,
}
