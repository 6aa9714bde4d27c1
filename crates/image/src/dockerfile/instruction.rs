//! Turns logical lines into instructions.

use super::ast::{
    Command, CopyFlags, CopySource, Dockerfile, Instruction, ParseError, RunMount, Step, Transfer,
};
use super::lex::{self, LogicalLine, shell_words};

/// Parses a Dockerfile.
///
/// What this builder does not support becomes [`Instruction::Unsupported`]; an error means that the text is no
/// Dockerfile at all.
pub fn parse(text: &str) -> Result<Dockerfile, ParseError> {
    let (directives, lines) = lex::split(text)?;
    let mut steps = Vec::new();
    if let Some((line, syntax)) = directives.foreign_syntax {
        let instruction = Instruction::Unsupported(format!("the front end `{syntax}`"));
        steps.push(Step { line, name: "SYNTAX".to_owned(), instruction });
    }
    let mut in_stage = false;
    for logical in lines {
        let name = logical.name.to_ascii_uppercase();
        let fail = |what: String| ParseError { line: logical.line, name: name.clone(), what };
        let instruction = read(&name, &logical, directives.escape).map_err(fail)?;
        match instruction {
            Instruction::From { .. } => in_stage = true,
            Instruction::Arg(_) => {}
            _ if !in_stage => return Err(fail("stands before the first FROM".to_owned())),
            _ => {}
        }
        steps.push(Step { line: logical.line, name, instruction });
    }
    if !in_stage {
        let what = "has no FROM, so there is nothing to build".to_owned();
        return Err(ParseError { line: 1, name: "Dockerfile".to_owned(), what });
    }
    Ok(Dockerfile { escape: directives.escape, steps })
}

fn read(name: &str, logical: &LogicalLine, escape: char) -> Result<Instruction, String> {
    let known = [
        "FROM",
        "ARG",
        "ENV",
        "LABEL",
        "RUN",
        "COPY",
        "ADD",
        "WORKDIR",
        "USER",
        "SHELL",
        "ENTRYPOINT",
        "CMD",
        "EXPOSE",
        "VOLUME",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "MAINTAINER",
        "ONBUILD",
    ];
    if !known.contains(&name) {
        return Err("is no Dockerfile instruction".to_owned());
    }
    let rest = logical.rest.as_str();
    if rest.is_empty() && !matches!(name, "CMD" | "ENTRYPOINT") {
        return Err("needs an argument".to_owned());
    }
    match name {
        "FROM" => from(rest),
        "ARG" => arg(rest, escape),
        "ENV" => Ok(Instruction::Env(pairs(rest, escape)?)),
        "LABEL" => Ok(Instruction::Label(pairs(rest, escape)?)),
        "RUN" => run(logical),
        "COPY" => transfer(logical, false),
        "ADD" => transfer(logical, true),
        "WORKDIR" => Ok(Instruction::Workdir(rest.to_owned())),
        "USER" => Ok(Instruction::User(rest.to_owned())),
        "SHELL" => match json_list(rest) {
            Some(words) if !words.is_empty() => Ok(Instruction::Shell(words)),
            _ => Err("needs a JSON list of strings, such as [\"/bin/bash\", \"-c\"]".to_owned()),
        },
        "ENTRYPOINT" => Ok(Instruction::Entrypoint(command(rest))),
        "CMD" => Ok(Instruction::Cmd(command(rest))),
        "ONBUILD" => Ok(Instruction::Unsupported("instructions for images built from this one".to_owned())),
        _ => Ok(Instruction::NoEffect),
    }
}

/// Takes leading `--name[=value]` words.
fn flags(rest: &str) -> (Vec<(String, Option<String>)>, &str) {
    let mut flags = Vec::new();
    let mut rest = rest.trim_start();
    while let Some(flag) = rest.strip_prefix("--") {
        let end = flag.find(char::is_whitespace).unwrap_or(flag.len());
        if end == 0 {
            break;
        }
        let (name, value) = match flag[..end].split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (&flag[..end], None),
        };
        flags.push((name.to_owned(), value));
        rest = flag[end..].trim_start();
    }
    (flags, rest)
}

/// A JSON list of strings, or nothing: then the text is for the shell.
fn json_list(text: &str) -> Option<Vec<String>> {
    if !text.starts_with('[') {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn command(text: &str) -> Command {
    match json_list(text) {
        Some(words) => Command::Exec(words),
        None if text.is_empty() => Command::Exec(Vec::new()),
        None => Command::Shell(text.to_owned()),
    }
}

fn from(rest: &str) -> Result<Instruction, String> {
    let (flags, rest) = flags(rest);
    let mut platform = None;
    for (name, value) in flags {
        match (name.as_str(), value) {
            ("platform", Some(value)) => platform = Some(value),
            _ => return Err(format!("has the unknown flag --{name}")),
        }
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (image, name) = match words[..] {
        [image] => (image, None),
        [image, keyword, name] if keyword.eq_ignore_ascii_case("as") => {
            (image, Some(name.to_ascii_lowercase()))
        }
        _ => return Err("takes `image` or `image AS name`".to_owned()),
    };
    if let Some(name) = &name {
        let good = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if !good {
            return Err(format!(
                "stage name `{name}` must be letters, digits and - _ . beginning with a letter"
            ));
        }
    }
    Ok(Instruction::From { image: image.to_owned(), platform, name })
}

fn arg(rest: &str, escape: char) -> Result<Instruction, String> {
    let mut found = Vec::new();
    for word in shell_words(rest, escape) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        check_name(name)?;
        found.push((name.to_owned(), value));
    }
    Ok(Instruction::Arg(found))
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['\0', '=']) {
        return Err("has a variable without a name".to_owned());
    }
    Ok(())
}

/// `name=value …`, or the old form `name value with spaces`.
fn pairs(rest: &str, escape: char) -> Result<Vec<(String, String)>, String> {
    let words = shell_words(rest, escape);
    let first = words.first().map(String::as_str).unwrap_or_default();
    if !first.contains('=') {
        let Some((name, value)) = rest.split_once(char::is_whitespace) else {
            return Err(format!("`{rest}` has no value; write {rest}=value"));
        };
        check_name(name)?;
        return Ok(vec![(name.to_owned(), value.trim().to_owned())]);
    }
    let mut found = Vec::new();
    for word in &words {
        let Some((name, value)) = word.split_once('=') else {
            return Err(format!("`{word}` is not name=value"));
        };
        check_name(name)?;
        found.push((name.to_owned(), value.to_owned()));
    }
    Ok(found)
}

fn run(logical: &LogicalLine) -> Result<Instruction, String> {
    let (flags, rest) = flags(&logical.rest);
    let mut mounts = Vec::new();
    for (name, value) in flags {
        let value = value.unwrap_or_default();
        match (name.as_str(), value.as_str()) {
            ("mount", _) => match run_mount(&value)? {
                Ok(mount) => mounts.push(mount),
                Err(what) => return Ok(Instruction::Unsupported(what)),
            },
            ("network", "default") | ("security", "sandbox") => {}
            ("network" | "security" | "device", _) => {
                return Ok(Instruction::Unsupported(format!("the flag --{name}={value}")));
            }
            _ => return Err(format!("has the unknown flag --{name}")),
        }
    }
    if rest.is_empty() {
        return Err("needs a command".to_owned());
    }
    let command = match &logical.heredocs[..] {
        [] => command(rest),
        [(start, heredoc)] if rest == start.word => Command::Script(heredoc.clone()),
        heredocs => {
            let mut text = rest.to_owned();
            for (_, heredoc) in heredocs {
                text.push('\n');
                text.push_str(&heredoc.content);
                text.push_str(&heredoc.name);
            }
            text.push('\n');
            Command::Shell(text)
        }
    };
    if command == Command::Exec(Vec::new()) {
        return Err("needs a command".to_owned());
    }
    Ok(Instruction::Run { command, mounts })
}

/// The outer error is a malformed mount, the inner one a kind that is not supported.
fn run_mount(value: &str) -> Result<Result<RunMount, String>, String> {
    let mut kind = "bind";
    let mut target = None;
    for part in value.split(',') {
        match part.split_once('=') {
            Some(("type", value)) => kind = value,
            Some(("target" | "dst" | "destination", value)) => target = Some(value),
            _ => {}
        }
    }
    match (kind, target) {
        ("cache" | "tmpfs", Some(target)) => Ok(Ok(RunMount { target: target.to_owned() })),
        ("cache" | "tmpfs", None) => Err(format!("--mount=type={kind} needs a target")),
        _ => Ok(Err(format!("--mount=type={kind}"))),
    }
}

fn transfer(logical: &LogicalLine, add: bool) -> Result<Instruction, String> {
    let (given, rest) = flags(&logical.rest);
    let mut flags = CopyFlags::default();
    for (name, value) in given {
        match (name.as_str(), value) {
            ("from", Some(value)) if !add => flags.from = Some(value),
            ("chown", Some(value)) => flags.chown = Some(value),
            ("chmod", Some(value)) => flags.chmod = Some(value),
            // Layers are always made without looking at what lies above, which is all that this flag promises.
            ("link", None) => {}
            ("link", Some(value)) if value == "true" || value == "false" => {}
            ("parents" | "exclude" | "checksum" | "keep-git-dir" | "unpack", _) => {
                return Ok(Instruction::Unsupported(format!("the flag --{name}")));
            }
            _ => return Err(format!("has the unknown flag --{name}, or it has no value")),
        }
    }
    let words =
        json_list(rest).unwrap_or_else(|| rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let Some((destination, words)) = words.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err("needs at least one source and a destination".to_owned());
    };
    let mut sources = Vec::new();
    for word in words {
        if let Some((_, heredoc)) = logical.heredocs.iter().find(|(start, _)| start.word == *word) {
            sources.push(CopySource::Inline(heredoc.clone()));
            continue;
        }
        let lower = word.to_ascii_lowercase();
        let remote = ["http://", "https://", "git@", "git://", "ssh://", "ftp://"];
        if add && remote.iter().any(|scheme| lower.starts_with(scheme)) {
            return Ok(Instruction::Unsupported(format!(
                "the remote source {word}; fetch it beforehand and copy it from the context"
            )));
        }
        sources.push(CopySource::Path(word.clone()));
    }
    let transfer = Transfer { sources, destination: destination.clone(), flags };
    Ok(if add { Instruction::Add(transfer) } else { Instruction::Copy(transfer) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dockerfile::Heredoc;

    fn steps(text: &str) -> Vec<Instruction> {
        parse(&format!("FROM x\n{text}")).unwrap().steps.into_iter().skip(1).map(|s| s.instruction).collect()
    }

    fn one(text: &str) -> Instruction {
        let mut steps = steps(text);
        assert_eq!(steps.len(), 1, "{steps:?}");
        steps.remove(0)
    }

    fn wrong(text: &str) -> String {
        parse(&format!("FROM x\n{text}")).unwrap_err().to_string()
    }

    #[test]
    fn stages_and_platforms() {
        let parsed = parse("ARG V=1\nfrom --platform=linux/amd64 a:$V as Build\nFROM build").unwrap();
        assert_eq!(parsed.steps[0].instruction, Instruction::Arg(vec![("V".into(), Some("1".into()))]));
        assert_eq!(
            parsed.steps[1].instruction,
            Instruction::From {
                image: "a:$V".into(),
                platform: Some("linux/amd64".into()),
                name: Some("build".into())
            }
        );
        assert!(parse("RUN x\nFROM y").unwrap_err().what.contains("before"));
        assert!(parse("# nothing").unwrap_err().what.contains("FROM"));
        assert!(wrong("FROM a b c").contains("line 2: FROM"));
    }

    #[test]
    fn commands_in_all_forms() {
        let run = |command| Instruction::Run { command, mounts: vec![] };
        assert_eq!(one("RUN echo [a]"), run(Command::Shell("echo [a]".into())));
        assert_eq!(one("RUN [\"a\", \"b c\"]"), run(Command::Exec(vec!["a".into(), "b c".into()])));
        assert_eq!(one("RUN [ -f x ] && y"), run(Command::Shell("[ -f x ] && y".into())));
        assert_eq!(
            one("RUN <<EOF\na\nb\nEOF"),
            run(Command::Script(Heredoc { name: "EOF".into(), content: "a\nb\n".into(), expand: true }))
        );
        assert_eq!(one("RUN cat <<'E' > f\n$a\nE"), run(Command::Shell("cat <<'E' > f\n$a\nE\n".into())));
        assert_eq!(one("ENTRYPOINT []"), Instruction::Entrypoint(Command::Exec(vec![])));
        assert_eq!(one("CMD a b"), Instruction::Cmd(Command::Shell("a b".into())));
        assert_eq!(one("SHELL [\"sh\"]"), Instruction::Shell(vec!["sh".into()]));
        assert!(wrong("SHELL sh").contains("JSON"));
        assert!(wrong("NOSUCH a").contains("line 2: NOSUCH"));
    }

    #[test]
    fn variables_in_both_forms() {
        assert_eq!(
            one("ENV A=1 B=\"x y\" C=a\\ b"),
            Instruction::Env(vec![
                ("A".into(), "1".into()),
                ("B".into(), "\"x y\"".into()),
                ("C".into(), "a\\ b".into())
            ])
        );
        assert_eq!(one("ENV A x  y"), Instruction::Env(vec![("A".into(), "x  y".into())]));
        assert!(wrong("ENV A=1 B").contains("`B`"));
        assert!(wrong("ENV A").contains("no value"));
    }

    #[test]
    fn mounts_that_hold_nothing_are_accepted() {
        let Instruction::Run { mounts, .. } =
            one("RUN --mount=type=cache,target=/root/.cache --network=default x")
        else {
            panic!()
        };
        assert_eq!(mounts, [RunMount { target: "/root/.cache".into() }]);
        for (text, what) in [
            ("RUN --mount=type=secret,id=x y", "type=secret"),
            ("RUN --mount=target=/x y", "type=bind"),
            ("RUN --network=none y", "--network=none"),
            ("RUN --security=insecure y", "--security=insecure"),
            ("ADD https://index.invalid/x /y", "https://index.invalid/x"),
            ("COPY --parents a b", "--parents"),
            ("ONBUILD RUN x", "built from"),
        ] {
            let Instruction::Unsupported(found) = one(text) else { panic!("{text}") };
            assert!(found.contains(what), "{found}");
        }
    }

    #[test]
    fn copies_with_flags_and_inline_files() {
        let Instruction::Copy(copy) = one("COPY --from=build --chown=1:2 --chmod=755 a b/ /c/") else {
            panic!()
        };
        assert_eq!(copy.flags.from.as_deref(), Some("build"));
        assert_eq!(copy.sources, [CopySource::Path("a".into()), CopySource::Path("b/".into())]);
        let Instruction::Copy(copy) = one("COPY [\"a b\", \"/c\"]") else { panic!() };
        assert_eq!(copy.sources, [CopySource::Path("a b".into())]);
        let Instruction::Copy(copy) = one("COPY <<one <<two /c/\n1\none\n2\ntwo") else { panic!() };
        assert_eq!(copy.sources.len(), 2);
        assert!(wrong("COPY a").contains("destination"));
    }

    proptest! {
        #[test]
        fn any_text_parses_or_names_a_line(text in "\\PC{0,300}") {
            let lines = u32::try_from(text.split('\n').count()).unwrap();
            if let Err(error) = parse(&text) {
                prop_assert!(error.line >= 1 && error.line <= lines);
            }
        }

        #[test]
        fn text_like_a_dockerfile_parses_or_names_a_line(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("FROM x\n"), Just("RUN "), Just("<<EOF "), Just("EOF\n"), Just("\\\n"), Just("\n"),
                    Just("COPY "), Just("--from="), Just("ENV "), Just("A="), Just("\""), Just("'"), Just("${"),
                    Just("}"), Just("[\"a\"]"), Just("# escape=`\n"), Just("\u{e9} "), Just("ARG "), Just("a "),
                ],
                0..40,
            )
        ) {
            let text = parts.concat();
            if let Ok(parsed) = parse(&text) {
                for pair in parsed.steps.windows(2) {
                    prop_assert!(pair[0].line < pair[1].line);
                }
            }
        }
    }
}
