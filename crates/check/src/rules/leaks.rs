//! Answers within reach of the agent: by path, by content, and hidden tests in the workspace.

use std::collections::BTreeMap;

use grade::SurfacePatterns;
use ident::Digest;
use image::dockerfile::{CopySource, Dockerfile, Instruction, Transfer};
use record::Severity;
use task::printable;

use crate::facts::{DOCKERFILE, Facts};
use crate::instance::test_name;
use crate::lines::{
    Beginning, alike, beginning, file_name, is_distinctive, is_program_name, lead, numbered, solid, text,
};
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};
use crate::view::{Archive, FileEntry, Member, MemberKind, TaskView};

pub(super) const RULES: &[&Rule] = &[
    &ANSWER_COPIED,
    &ANSWER_MOUNTED,
    &ANSWER_IN_IMAGE,
    &ANSWER_IN_CONTEXT,
    &HIDDEN_TEST_IN_WORKSPACE,
    &ARCHIVE_UNREAD,
];

const ANSWER_COPIED: Rule = Rule {
    name: "answer-copied-into-image",
    family: Family::Leaks,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "The Dockerfile copies `tests/` or `solution/` of the task into the agent's image.",
    explanation: "Harbor brings both into the container only when the agent has finished. Judged are the sources of \
                  `COPY` and `ADD` in `environment/Dockerfile`, the agent's image alone. The build context is \
                  `environment/`: a source that exists there is the project's own folder and is judged by its content \
                  instead (`answer-in-image`).",
    fix: "remove the instruction; tests and solution reach the container by themselves",
};

const ANSWER_MOUNTED: Rule = Rule {
    name: "answer-mounted",
    family: Family::Leaks,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A compose file mounts `tests/`, `solution/` or the whole task into a service.",
    explanation: "Services run beside the agent, and what is mounted into them can be read, and often written, while it \
                  works. Looked at are the sources of volumes in the compose file of `environment/`, in the short form \
                  `- SOURCE:TARGET` and in the long form `source: SOURCE`.",
    fix: "remove the mount; tests and solution reach the container by themselves",
};

const ANSWER_IN_IMAGE: Rule = Rule {
    name: "answer-in-image",
    family: Family::Leaks,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A script of the solution or the tests has the content of a file that the image holds.",
    explanation: "Copies under other names, and inside tar archives, count. Contents are compared without carriage \
                  returns, line-end blanks and empty lines; those of fewer than 64 characters and files that every \
                  project has are left out. The image holds what the last stage of the agent's Dockerfile copies, or \
                  all of `environment/` when it is uploaded beside a prebuilt image; where a `.dockerignore` may leave it out, the finding is `answer-in-context`.",
    fix: "take the copy out of the build context",
};

const ANSWER_IN_CONTEXT: Rule = Rule {
    name: "answer-in-context",
    family: Family::Leaks,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A file of the solution or the tests has the content of a file in the build context.",
    explanation: "As `answer-in-image`, for copies that may or may not reach the agent's image: nothing copies them for \
                  certain, they belong to another service, or they are data, which a verifier often keeps a clean \
                  copy of.",
    fix: "take the copy out of the build context, or make sure that it never reaches the agent's image",
};

const HIDDEN_TEST_IN_WORKSPACE: Rule = Rule {
    name: "hidden-test-in-workspace",
    family: Family::Leaks,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A file with tests that decide the reward is in the workspace of the agent.",
    explanation: "The files in front of `::` in the list of failing tests, as far as they belong to the test surface, \
                  are looked for by path in the build context and its archives, and by content where the verifier's archive holds them. In a foreign task an older \
                  version of the file is often meant to be there, so the name of a deciding test has to occur in it.",
    fix: "remove the file from the workspace; the verifier puts it in place",
};

const ARCHIVE_UNREAD: Rule = Rule {
    name: "archive-unread",
    family: Family::Leaks,
    severity: Severity::Note,
    materialized: Severity::Error,
    summary: "An archive in the task could not be read to its end.",
    explanation: "What lies behind the damage or the bound was not looked at. Read are tar archives, compressed with \
                  gzip or not, up to 256 MiB and 100,000 members.",
    fix: "write the archive anew, or take it out",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let copies = Copies::of(facts);
    copies.by_path(facts.view, report);
    let shown = shown(facts.view);
    by_content(facts, &copies, &shown, report);
    mounted(facts.view, report);
    hidden_tests(facts, &shown, report);
    for (path, file) in facts.view.files() {
        if let Some(why) = file.archive.as_ref().and_then(|archive| archive.cut.as_ref()) {
            report.add(
                &ARCHIVE_UNREAD,
                Place::file(path),
                format!("reading it ended early: {}", quoted(why)),
            );
        }
    }
}

fn mounted(view: &TaskView, report: &mut Report<'_>) {
    for name in ["docker-compose.yaml", "docker-compose.yml"] {
        let path = format!("environment/{name}");
        let Some(text) = view.text(path.as_bytes()) else { continue };
        for (number, line) in numbered(&text) {
            let line = line.trim_start().trim_start_matches("- ").trim_start();
            let (source, long) = match line.strip_prefix("source:") {
                Some(rest) => (rest.trim(), true),
                None => (line, false),
            };
            let source = source.trim_start_matches(['"', '\'']);
            let end = source.find([':', '"', '\'', ' ']).unwrap_or(source.len());
            if !long && !source[end..].starts_with(':') {
                continue;
            }
            // Relative to the compose file, one step up is the task.
            let Some(outside) = source[..end].trim_end_matches('/').strip_prefix("..") else { continue };
            let top = outside.trim_start_matches('/').split('/').next().unwrap_or_default();
            if matches!(top, "" | "tests" | "solution") {
                let message = format!("{} is mounted into a service", quoted(&source[..end]));
                report.add(&ANSWER_MOUNTED, Place::line(&path, number), message);
            }
        }
    }
}

/// What the agent's Dockerfile copies out of the build context.
struct Copies<'a> {
    /// Every source with its line.
    sources: Vec<(u32, &'a str)>,
    /// Every file that is given in the Dockerfile itself, with its line.
    inline: Vec<(u32, &'a str)>,
    /// What reaches the image, by path from the context.
    image: SurfacePatterns,
    /// Whether files may be left out of the context.
    ignoring: bool,
}

impl<'a> Copies<'a> {
    fn of(facts: &'a Facts<'_>) -> Self {
        let dockerfile = facts.dockerfile.as_ref().and_then(|parsed| parsed.as_ref().ok());
        let steps = dockerfile.map(|dockerfile| dockerfile.steps.as_slice()).unwrap_or_default();
        let sources = |transfer: &'a Transfer| {
            let plain = transfer.flags.from.is_none();
            transfer.sources.iter().filter(move |_| plain).filter_map(|source| match source {
                CopySource::Path(path) => Some(path.as_str()),
                CopySource::Inline(_) => None,
            })
        };
        let all = steps.iter().flat_map(|step| match &step.instruction {
            Instruction::Copy(transfer) | Instruction::Add(transfer) => {
                sources(transfer).map(|source| (step.line, source)).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        });
        let all: Vec<(u32, &str)> = all.collect();
        let first = dockerfile.map_or(0, first_line_of_image);
        let reaching = all.iter().filter(|(line, _)| *line >= first);
        let mut patterns: Vec<String> = reaching.map(|(_, source)| pattern(source)).collect();
        let has = |path: &[u8]| facts.view.entries.contains_key(path);
        let prebuilt =
            facts.view.task_config().is_some_and(|config| config.environment.docker_image.is_some());
        let composed = has(b"environment/docker-compose.yaml") || has(b"environment/docker-compose.yml");
        if prebuilt && !has(DOCKERFILE) && !composed {
            // Harbor then uploads the whole of `environment/` into the running container.
            patterns.push(pattern("."));
        }
        let inline = steps.iter().flat_map(|step| match &step.instruction {
            Instruction::Copy(transfer) | Instruction::Add(transfer) => {
                let texts = transfer.sources.iter().filter_map(|source| match source {
                    CopySource::Inline(heredoc) => Some((step.line, heredoc.content.as_str())),
                    CopySource::Path(_) => None,
                });
                texts.collect::<Vec<_>>()
            }
            _ => Vec::new(),
        });
        Self {
            inline: inline.filter(|(line, _)| *line >= first).collect(),
            image: SurfacePatterns::new(&patterns),
            ignoring: facts.view.entries.contains_key(&b"environment/.dockerignore"[..]),
            sources: all,
        }
    }

    /// Whether a path of the context is copied into the image for certain.
    fn certainly(&self, path: &[u8]) -> bool {
        !self.ignoring && std::str::from_utf8(path).is_ok_and(|path| self.image.is_match(path))
    }

    fn by_path(&self, view: &TaskView, report: &mut Report<'_>) {
        let in_context = |source: &str| view.entries.contains_key(format!("environment/{source}").as_bytes());
        // Sources such as `environment/x` only exist when the whole task is the context.
        let whole_task = self.sources.iter().map(|(_, source)| normal(source)).any(|source| {
            source.starts_with("environment/")
                && !in_context(&source)
                && view.entries.contains_key(source.as_bytes())
        });
        for (line, source) in &self.sources {
            let path = normal(source);
            let top = path.split('/').next().unwrap_or_default();
            let taken = matches!(top, "tests" | "solution") && !in_context(&path);
            let everything = whole_task && matches!(path.as_str(), "" | "*");
            if taken || everything {
                let message = format!("{} is copied into the agent's image", quoted(source));
                report.add(&ANSWER_COPIED, Place::line(DOCKERFILE, *line), message);
            }
        }
    }
}

/// The line on which the stages begin that make the image: the last stage and the ones it is built from.
fn first_line_of_image(dockerfile: &Dockerfile) -> u32 {
    let mut first = 0;
    let mut wanted: Option<String> = None;
    for step in dockerfile.steps.iter().rev() {
        if let Instruction::From { image, name, .. } = &step.instruction
            && (wanted.is_none() || (name.is_some() && *name == wanted))
        {
            first = step.line;
            wanted = Some(image.to_lowercase());
        }
    }
    first
}

/// A source of `COPY` without `./`, slashes at the ends, and steps up.
fn normal(source: &str) -> String {
    let parts: Vec<&str> = source.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    parts.join("/")
}

/// The pattern that covers what a source names and everything below it.
fn pattern(source: &str) -> String {
    match normal(source) {
        all if all.is_empty() => "*/".to_owned(),
        path => format!("/{path}/"),
    }
}

/// A content that must not be seen, and where it comes from.
struct Secret<'a> {
    path: &'a [u8],
    /// It is a program or a patch, which has no business in the image; data may have.
    program: bool,
}

/// A content as it was read: its bytes, or their digest where they were not kept.
#[derive(Clone, Copy)]
struct Content<'a> {
    bytes: Option<&'a [u8]>,
    digest: Option<Digest>,
}

/// What contents that are like one another have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Beginning(Beginning),
    Digest(Digest),
}

impl<'a> Content<'a> {
    fn file(file: &'a FileEntry) -> Self {
        Self { bytes: file.content.as_deref(), digest: file.digest }
    }

    fn member(member: &'a Member) -> Self {
        Self { bytes: member.content.as_deref(), digest: member.digest }
    }

    /// None of a content that is too short to be compared.
    fn mark(&self) -> Option<Mark> {
        match self.bytes {
            Some(bytes) => beginning(bytes).map(Mark::Beginning),
            None => self.digest.map(Mark::Digest),
        }
    }

    /// Whether two contents with the same mark are the same.
    fn is_like(&self, other: &Self) -> bool {
        match (self.bytes, other.bytes) {
            // Files of one project often begin with the same lines, so they are counted before they are compared.
            (Some(own), Some(other)) => own == other || (solid(own) == solid(other) && alike(own, other)),
            _ => true,
        }
    }
}

/// Contents with what they stand for, by their marks: only those of one mark are compared.
struct Known<'a, T> {
    by_mark: BTreeMap<Mark, Vec<(Content<'a>, T)>>,
    /// How they begin: most other contents begin otherwise.
    leads: [bool; 256],
}

impl<'a, T> Known<'a, T> {
    fn of(contents: impl Iterator<Item = (Content<'a>, T)>) -> Self {
        let mut known = Self { by_mark: BTreeMap::new(), leads: [false; 256] };
        for (content, what) in contents {
            let distinctive = content.bytes.is_none_or(is_distinctive);
            if let Some(mark) = content.mark().filter(|_| distinctive) {
                if let Some(bytes) = content.bytes {
                    known.leads[usize::from(lead(bytes))] = true;
                }
                known.by_mark.entry(mark).or_default().push((content, what));
            }
        }
        known
    }

    /// What a content stands for.
    fn find(&self, content: &Content<'_>) -> Option<&T> {
        if content.bytes.is_some_and(|bytes| !self.leads[usize::from(lead(bytes))]) {
            return None;
        }
        let alike = self.by_mark.get(&content.mark()?)?;
        alike.iter().find(|(known, _)| known.is_like(content)).map(|(_, what)| what)
    }
}

/// A file of the build context, or a regular member of an archive there.
struct Shown<'a> {
    /// The file, or the archive.
    place: &'a [u8],
    member: Option<&'a Member>,
    content: Content<'a>,
}

/// What the build context shows, in order, members behind their archive.
fn shown(view: &TaskView) -> Vec<Shown<'_>> {
    let mut shown = Vec::new();
    for (place, file) in view.files_below(b"environment") {
        shown.push(Shown { place, member: None, content: Content::file(file) });
        let members = file.archive.iter().flat_map(|archive| &archive.members);
        for member in members.filter(|member| member.kind == MemberKind::File) {
            shown.push(Shown { place, member: Some(member), content: Content::member(member) });
        }
    }
    shown
}

/// The contents that must not be seen.
fn secrets(view: &TaskView) -> Known<'_, Secret<'_>> {
    Known::of(view.files().filter_map(|(path, file)| {
        let folder = secret_folder(path)?;
        let name = file_name(path);
        if file.archive.is_some() || is_common(name) {
            return None;
        }
        let program = is_program(name, file.content.as_deref()) && (folder != "tests" || is_test_code(name));
        Some((Content::file(file), Secret { path, program }))
    }))
}

fn by_content(facts: &Facts<'_>, copies: &Copies<'_>, shown: &[Shown<'_>], report: &mut Report<'_>) {
    let secrets = secrets(facts.view);
    let mut add = |place: Place<'_>, secret: &Secret<'_>, certain: bool, what: &str| {
        let rule = if secret.program && certain { &ANSWER_IN_IMAGE } else { &ANSWER_IN_CONTEXT };
        report.add(rule, place, format!("{what} the content of {}", printable(secret.path)));
    };
    for Shown { place, member, content } in shown {
        if let Some(secret) = secrets.find(content) {
            let certain = copies.certainly(&place[b"environment/".len()..]);
            match member {
                None => add(Place::file(place), secret, certain, "it has"),
                Some(member) => {
                    let what = format!("its member `{}` has", printable(&member.path));
                    add(Place::file(place), secret, certain, &what);
                }
            }
        }
    }
    for (line, heredoc) in &copies.inline {
        let content = Content { bytes: Some(heredoc.as_bytes()), digest: None };
        if let Some(secret) = secrets.find(&content) {
            add(Place::line(DOCKERFILE, *line), secret, true, "a here-document has");
        }
    }
}

/// Whether a path is below `tests/` or `solution/`, of the task or of a step.
fn secret_folder(path: &[u8]) -> Option<&'static str> {
    let mut parts = path.split(|&b| b == b'/');
    let mut first = parts.next()?;
    if first == b"steps" {
        parts.next()?;
        first = parts.next()?;
    }
    parts.next()?;
    match first {
        b"tests" => Some("tests"),
        b"solution" => Some("solution"),
        _ => None,
    }
}

/// Files that are alike in many projects.
fn is_common(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let named = [
        &b"__init__.py"[..],
        b"dockerfile",
        b".gitignore",
        b".dockerignore",
        b"package.json",
        b"package-lock.json",
        b"pyproject.toml",
        b"uv.lock",
        b"cargo.lock",
        b"go.sum",
        b"setup.cfg",
        b"setup.py",
        b".harborignore",
    ];
    named.contains(&name.as_slice())
        || [&b"license"[..], b"readme", b"requirements"].iter().any(|start| name.starts_with(start))
}

fn is_program(name: &[u8], content: Option<&[u8]>) -> bool {
    is_program_name(name) || content.is_some_and(|content| content.starts_with(b"#!"))
}

/// Whether a program in `tests/` tests or judges, rather than serving both sides as a library would.
fn is_test_code(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_lowercase();
    [
        "test", "verif", "grade", "judge", "check", "eval", "expected", "solution", "answer", "truth",
        "score", "oracle",
    ]
    .iter()
    .any(|word| name.contains(word))
}

fn hidden_tests(facts: &Facts<'_>, shown: &[Shown<'_>], report: &mut Report<'_>) {
    let Some(instance) = facts.instance() else { return };
    let hidden = instance.hidden_files();
    if hidden.is_empty() {
        return;
    }
    let names: Vec<(&str, &str)> = instance
        .fail_to_pass
        .iter()
        .flatten()
        .filter_map(|id| Some((instance.file_of(id)?, test_name(id))))
        .collect();
    let strict = report.materialized();
    // A foreign task may show an older version of the file; it has to hold a deciding test by name.
    let decides = |file: &str, content: Option<&[u8]>| {
        let text = content.map(text).unwrap_or_default();
        strict || names.iter().any(|(of, name)| *of == file && text.contains(name))
    };
    let surface = facts.view.files_below(b"tests").filter_map(|(_, file)| file.archive.as_ref());
    let known = Known::of(surface.flat_map(|archive: &Archive| &archive.members).filter_map(|member| {
        let file = hidden.iter().find(|file| member.path == file.as_bytes())?;
        Some((Content::member(member), *file))
    }));
    let mut name_it = |place: &[u8], inside: Option<&[u8]>, file: &str| {
        let at = inside.map(|path| format!("its member `{}` ", printable(path))).unwrap_or_default();
        let message = format!("{at}holds tests of {}, which decide the reward", quoted(file));
        report.add(&HIDDEN_TEST_IN_WORKSPACE, Place::file(place), message.trim_start().to_owned());
    };
    let (members, files): (Vec<&Shown<'_>>, Vec<&Shown<'_>>) =
        shown.iter().partition(|shown| shown.member.is_some());
    for Shown { place, member, content } in files.into_iter().chain(members) {
        let inside = member.map(|member| member.path.as_slice());
        let path = inside.unwrap_or(place);
        let by_path = hidden.iter().find(|hidden| is_at(path, hidden) && decides(hidden, content.bytes));
        if let Some(found) = by_path.or_else(|| known.find(content)) {
            name_it(place, inside, found);
        }
    }
}

/// Whether a path ends with all components of `file`.
fn is_at(path: &[u8], file: &str) -> bool {
    path.strip_suffix(file.as_bytes()).is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        changed_task, findings, found_with, own_findings, places, tar_of, task_with, write,
    };

    const LONG: &str =
        "#!/bin/sh\n# A script that is long enough to be told from others by its content alone.\nexit 0\n";

    #[test]
    fn copying_tests_or_solution_is_an_error_with_its_line() {
        let text = "FROM debian:bookworm\nCOPY sum.sh /app/\nCOPY ./tests/ /tests/\nADD solution /opt/solution\nCOPY . /app\n";
        let dockerfile = [("environment/Dockerfile", text)];
        assert_eq!(
            found_with(&dockerfile),
            [
                "answer-copied-into-image environment/Dockerfile:3",
                "answer-copied-into-image environment/Dockerfile:4"
            ]
        );
        let own = [dockerfile[0], ("environment/tests/test_a.py", "x"), ("environment/solution/a.txt", "x")];
        assert_eq!(found_with(&own), [""; 0]);
        let staged = "FROM a:1 AS solution\nFROM b:1\nCOPY --from=solution /solution /x\n";
        assert_eq!(found_with(&[("environment/Dockerfile", staged)]), [""; 0]);
    }

    #[test]
    fn a_dockerfile_for_the_whole_task_copies_everything() {
        let text = "FROM debian:bookworm\nCOPY environment/sum.sh /app/\nCOPY . /app\n";
        assert_eq!(
            found_with(&[("environment/Dockerfile", text)]),
            ["answer-copied-into-image environment/Dockerfile:3"]
        );
    }

    #[test]
    fn copies_under_another_name_are_found_by_content() {
        let spread = LONG.replace('\n', "  \n\n");
        let image = "FROM debian:bookworm\nCOPY extra /opt\n";
        let files = [
            ("solution/solve.sh", LONG),
            ("environment/extra/help.txt", spread.as_str()),
            ("environment/Dockerfile", image),
        ];
        assert_eq!(found_with(&files), ["answer-in-image environment/extra/help.txt"]);
        let elsewhere = [files[0], ("environment/other/help.txt", LONG), files[2]];
        assert_eq!(found_with(&elsewhere), ["answer-in-context environment/other/help.txt"]);
        let ignored = [files[0], files[1], files[2], ("environment/.dockerignore", "extra\n")];
        assert_eq!(found_with(&ignored), ["answer-in-context environment/extra/help.txt"]);
        assert!(!crate::accepted(&own_findings(&task_with(&elsewhere))));
        let prebuilt = "[environment]\ndocker_image = \"a/b:1\"\n";
        let uploaded = [files[0], elsewhere[1], ("environment/Dockerfile", "-"), ("task.toml", prebuilt)];
        assert_eq!(found_with(&uploaded), ["answer-in-image environment/other/help.txt"]);
    }

    #[test]
    fn here_documents_of_the_dockerfile_are_looked_at() {
        let text = format!("FROM debian:bookworm\nCOPY <<'EOF' /opt/help\n{LONG}EOF\n");
        let files = [("solution/solve.sh", LONG), ("environment/Dockerfile", text.as_str())];
        assert_eq!(found_with(&files), ["answer-in-image environment/Dockerfile:2"]);
    }

    #[test]
    fn mounts_of_the_answer_are_errors() {
        let found = |volume: &str| {
            let text = format!("services:\n  main:\n    volumes:\n      {volume}\n");
            found_with(&[("environment/docker-compose.yaml", &text)])
        };
        let place = ["answer-mounted environment/docker-compose.yaml:4"];
        for volume in [
            "- ../tests:/tests",
            "- \"../solution/:/s:ro\"",
            "- ..:/task",
            "source: ../tests/data",
            "source: '../'",
        ] {
            assert_eq!(found(volume), place, "{volume}");
        }
        for volume in
            ["- ./tests:/tests", "- data:/data", "- ../shared:/x", "command: ../tests", "- ../tests"]
        {
            assert_eq!(found(volume), [""; 0], "{volume}");
        }
    }

    #[test]
    fn only_stages_of_the_image_count() {
        let text = "FROM a:1 AS build\nCOPY extra /x\nFROM a:1 AS base\nCOPY base /y\nFROM base\n";
        let at = |place: &str| {
            let files = [("solution/solve.sh", LONG), (place, LONG), ("environment/Dockerfile", text)];
            found_with(&files)
        };
        assert_eq!(at("environment/extra/x"), ["answer-in-context environment/extra/x"]);
        assert_eq!(at("environment/base/x"), ["answer-in-image environment/base/x"]);
    }

    #[test]
    fn data_and_short_files_are_no_answers() {
        let data = "name,value\n".repeat(20);
        let files = [("tests/input.csv", data.as_str()), ("environment/input.csv", &data)];
        assert_eq!(found_with(&files), ["answer-in-context environment/input.csv"]);
        assert_eq!(found_with(&[("tests/a.py", "x = 1\n"), ("environment/a.py", "x = 1\n")]), [""; 0]);
        assert_eq!(found_with(&[("tests/README.md", &data), ("environment/README.md", &data)]), [""; 0]);
    }

    fn task_of(archive: &[u8], surface: &[u8], files: &[(&str, &str)]) -> crate::TaskView {
        changed_task(|root| {
            write(root, files);
            std::fs::write(root.join("environment/workspace.tar"), archive).unwrap();
            std::fs::write(root.join("tests/surface.tar"), surface).unwrap();
        })
    }

    #[test]
    fn archives_are_looked_into() {
        let archive = tar_of(&[("app/sum.sh", b"x"), ("app/.hidden/fix", LONG.as_bytes())]);
        let image = "FROM debian:bookworm\nADD workspace.tar /app\n";
        let view = task_of(
            &archive,
            &tar_of(&[]),
            &[("solution/solve.sh", LONG), ("environment/Dockerfile", image)],
        );
        assert_eq!(places(&findings(&view)), ["answer-in-image environment/workspace.tar"]);
        let cut = task_of(&archive[..700], &tar_of(&[]), &[]);
        assert_eq!(places(&findings(&cut)), ["archive-unread environment/workspace.tar"]);
    }

    #[test]
    fn hidden_tests_are_found_by_path_and_by_content() {
        let config =
            r#"{"FAIL_TO_PASS": ["t/test_a.py::test_one[x]"], "PASS_TO_PASS": ["t/test_b.py::test_two"]}"#;
        let files = [("tests/config.json", config)];
        let test =
            b"def test_one(x):\n    assert compute(x) == 42, 'long enough to be compared by content'\n";
        let surface = tar_of(&[("t/test_a.py", test)]);
        let found = |members: &[(&str, &[u8])]| {
            let view = task_of(&tar_of(members), &surface, &files);
            let of = |found: Vec<record::Finding>| {
                found.iter().filter(|found| found.rule == "hidden-test-in-workspace").count()
            };
            (of(findings(&view)), of(own_findings(&view)))
        };
        assert_eq!(found(&[("t/test_b.py", b"x"), ("src/a.py", b"x")]), (0, 0));
        assert_eq!(found(&[("app/t/test_a.py", b"def test_other(): pass")]), (0, 1));
        assert_eq!(found(&[("t/test_a.py", b"def test_one(): pass")]), (1, 1));
        assert_eq!(found(&[("src/renamed.txt", test)]), (1, 1));
        assert_eq!(found(&[("at/test_a.py", b"def test_one(): pass")]), (0, 0));
    }
}
