//! What the verifier fetches while it runs.

use std::collections::BTreeMap;

use record::Severity;

use crate::facts::Facts;
use crate::lines::{lines_with, text};
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};
use crate::shell::{Command, Script};

pub(super) const RULES: &[&Rule] = &[&VERIFIER_NETWORK, &VERIFIER_UNPINNED];

const VERIFIER_NETWORK: Rule = Rule {
    name: "verifier-network",
    family: Family::Verifier,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A verifier script fetches or installs something from the network.",
    explanation: "The verdict then depends on servers that change and fail; with the network off the verifier cannot \
                  give a reward at all, which is an error and not a reward of 0. Looked at are the commands of the \
                  shell scripts in `tests/`: downloads with a literal address of another machine, package managers, \
                  clones; and lines of Python files there that fetch a literal address or start `pip install`. \
                  Addresses in variables and programs written in other languages are not seen.",
    fix: "put what the verifier needs into its image or beside the test script",
};

const VERIFIER_UNPINNED: Rule = Rule {
    name: "verifier-unpinned-install",
    family: Family::Verifier,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A verifier script installs a Python package without an exact version.",
    explanation: "A new release of the package changes the verdict of old solutions. An exact version is `name==1.2`, \
                  an address, or a file; packages that come from a requirements file are not looked at.",
    fix: "pin the version with `==`, or install the package into the image",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    for root in facts.view.roots() {
        let folder = [root.as_slice(), b"tests"].concat();
        for (path, file) in facts.view.files_below(&folder) {
            if let Some(script) = facts.scripts.get(path) {
                shell(path, script, report);
            } else if let Some(content) = file.content.as_deref()
                && path.ends_with(b".py")
                && !is_vendored(content)
            {
                python(path, content, report);
            }
        }
    }
}

/// Whether a file is one of the verifier that this program writes into its own tasks, in which nothing is to be found.
fn is_vendored(content: &[u8]) -> bool {
    grade::vendored::FILES.iter().any(|own| own.text.as_bytes() == content)
}

/// Looks for calls that fetch a literal address, line by line; words in comments and texts do not end in a bracket.
fn python(path: &[u8], content: &[u8], report: &mut Report<'_>) {
    const CALLS: &[&str] = &[
        "urlopen(",
        "urlretrieve(",
        "requests.get(",
        "requests.post(",
        "requests.request(",
        "httpx.get(",
        "httpx.post(",
        "urllib3.request(",
    ];
    for (number, line) in lines_with(content, &["://", "install"]) {
        let line = text(line);
        if line.trim_start().starts_with('#') {
            continue;
        }
        let fetches = || {
            CALLS.iter().find_map(|call| {
                let address = foreign_address(&line[line.find(call)? + call.len()..])?;
                let end = address.find(['"', '\'', ')', ' ']).unwrap_or(address.len());
                Some(format!("`{}` fetches {}", call.trim_end_matches('('), quoted(&address[..end])))
            })
        };
        let found = if line.contains("://") {
            fetches()
        } else if installs_a_package(&line) {
            Some("`pip install`".to_owned())
        } else {
            None
        };
        if let Some(what) = found {
            report.add(&VERIFIER_NETWORK, Place::line(path, number), format!("it needs the network: {what}"));
        }
    }
}

fn shell(path: &[u8], script: &Script<'_>, report: &mut Report<'_>) {
    let mut fetches: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut unpinned: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for command in script.commands.iter().filter(|command| may_fetch(command.name())) {
        if let Some(what) = fetch(command) {
            fetches.entry(command.line).or_default().push(what);
        }
        for package in unpinned_packages(command) {
            unpinned.entry(command.line).or_default().push(package);
        }
    }
    for (line, what) in fetches {
        report.add(
            &VERIFIER_NETWORK,
            Place::line(path, line),
            format!("it needs the network: {}", what.join(", ")),
        );
    }
    for (line, packages) in unpinned {
        let packages: Vec<_> = packages.into_iter().map(quoted).collect();
        report.add(
            &VERIFIER_UNPINNED,
            Place::line(path, line),
            format!("no exact version of {}", packages.join(", ")),
        );
    }
}

/// Whether a program of this name is one that [`fetch`] or [`unpinned_packages`] knows: most commands are not.
fn may_fetch(name: &str) -> bool {
    matches!(
        name,
        "apk"
            | "apt"
            | "apt-get"
            | "brew"
            | "bun"
            | "cargo"
            | "conda"
            | "curl"
            | "dnf"
            | "gem"
            | "git"
            | "go"
            | "mamba"
            | "microdnf"
            | "micromamba"
            | "npm"
            | "npx"
            | "pip"
            | "pip3"
            | "pipx"
            | "pnpm"
            | "uv"
            | "uvx"
            | "wget"
            | "yarn"
            | "yum"
            | "zypper"
    ) || is_python(name)
}

/// Whether a line of Python starts `pip install`, as a list of words or as one text.
fn installs_a_package(line: &str) -> bool {
    const STARTS: [&str; 5] =
        ["pip,install,", "pip3,install,", "run(pipinstall", "system(pipinstall", "check_call(pipinstall"];
    if !line.contains("pip") {
        return false;
    }
    let unquoted: String = line.chars().filter(|c| !matches!(c, '"' | '\'' | ' ' | '[')).collect();
    STARTS.iter().any(|start| unquoted.contains(start)) && !unquoted.contains("--no-index")
}

/// What a command takes from the network, for people.
fn fetch(command: &Command<'_>) -> Option<String> {
    let words: Vec<&str> = command.program().iter().map(|word| &*word.text).collect();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    let name = command.name();
    let name = if is_python(name) && words.get(1) == Some(&"-m") {
        words.get(2).copied().unwrap_or("")
    } else {
        name
    };
    let plain: Vec<&str> = words.iter().skip(1).copied().filter(|word| !word.starts_with('-')).collect();
    let plain: &[&str] =
        if words.get(1) == Some(&"-m") { plain.get(1..).unwrap_or_default() } else { &plain };
    let verb = plain.first().copied().unwrap_or_default();
    let second = plain.get(1).copied().unwrap_or_default();
    match name {
        "curl" | "wget" => {
            let address = words.iter().find_map(|word| foreign_address(word))?;
            Some(format!("`{name}` fetches {}", quoted(address)))
        }
        "pip" | "pip3" | "pipx" if verb == "install" && !offline_pip(&words) => {
            Some(format!("`{name} install`"))
        }
        "uv" => {
            let installs = match verb {
                "pip" => second == "install" && !offline_pip(&words),
                "add" | "sync" => true,
                "tool" => matches!(second, "install" | "run"),
                "run" => has(&["--with", "-w", "--with-requirements"]),
                _ => false,
            };
            (installs && !has(&["--offline"])).then(|| format!("`uv {verb}`"))
        }
        "uvx" if !has(&["--offline"]) && !plain.is_empty() => Some("`uvx`".to_owned()),
        "apt-get" | "apt" | "yum" | "dnf" | "microdnf" | "zypper" | "brew"
            if matches!(verb, "install" | "update" | "upgrade" | "build-dep") =>
        {
            Some(format!("`{name} {verb}`"))
        }
        "apk" if matches!(verb, "add" | "update" | "upgrade") => Some(format!("`apk {verb}`")),
        "npm" | "pnpm" | "yarn" | "bun"
            if matches!(verb, "install" | "ci" | "add" | "i") && !has(&["--offline"]) =>
        {
            Some(format!("`{name} {verb}`"))
        }
        "npx" if !has(&["--offline", "--no-install", "--no"]) && !verb.is_empty() => Some("`npx`".to_owned()),
        "gem" | "conda" | "mamba" | "micromamba" if verb == "install" => Some(format!("`{name} install`")),
        "cargo" if matches!(verb, "install" | "fetch") && !has(&["--offline"]) => {
            Some(format!("`cargo {verb}`"))
        }
        "go" if verb == "install" && second.contains('@') => Some("`go install`".to_owned()),
        "go" if (verb, second) == ("mod", "download") => Some("`go mod download`".to_owned()),
        "git" if verb == "clone" => {
            let address = words.iter().find_map(|word| foreign_address(word))?;
            Some(format!("`git clone` of {}", quoted(address)))
        }
        _ => None,
    }
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

/// Whether a `pip install` stays on the machine: told not to ask an index, or given nothing but files and told to
/// leave their dependencies alone.
fn offline_pip(words: &[&str]) -> bool {
    words.contains(&"--no-index")
        || (words.contains(&"--no-deps")
            && requirements(words).iter().all(|package| is_file_or_address(package)))
}

/// A literal address on another machine. A bare host name without a dot is a service beside the container.
fn foreign_address(word: &str) -> Option<&str> {
    let start =
        ["https://", "http://", "ftp://", "git://", "ssh://", "git@"].iter().find_map(|s| word.find(s))?;
    let address = &word[start..];
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(['/', ':', '?', '#', '"', '\'']).next().unwrap_or_default();
    let local = host.starts_with("127.") || host == "0.0.0.0" || host.starts_with('[') || !host.contains('.');
    (!local && !host.contains('$')).then_some(address)
}

/// The requirements without an exact version that a command installs.
fn unpinned_packages<'w>(command: &'w Command<'_>) -> Vec<&'w str> {
    let words: Vec<&str> = command.program().iter().map(|word| &*word.text).collect();
    let install = |at: usize| words.get(at) == Some(&"install");
    let packages = match command.name() {
        "pip" | "pip3" | "pipx" if install(1) => requirements(&words[2..]),
        "uv" if words.get(1) == Some(&"pip") && install(2) => requirements(&words[3..]),
        "uv" if words.get(1) == Some(&"add") => requirements(&words[2..]),
        name if is_python(name)
            && words.get(1) == Some(&"-m")
            && words.get(2) == Some(&"pip")
            && install(3) =>
        {
            requirements(&words[4..])
        }
        "uvx" | "uv" => with_values(&words),
        _ => return Vec::new(),
    };
    packages.into_iter().filter(|package| !is_exact(package)).collect()
}

/// The values of `--with` and `-w`.
fn with_values<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if matches!(*word, "--with" | "-w") {
            values.extend(words.get(at + 1).copied());
        }
        values.extend(word.strip_prefix("--with="));
    }
    values.into_iter().flat_map(|value| value.split(',')).filter(|value| !value.is_empty()).collect()
}

/// The requirements among the arguments of an install command.
fn requirements<'a>(words: &[&'a str]) -> Vec<&'a str> {
    const WITH_VALUE: &[&str] = &[
        "-r",
        "--requirement",
        "-c",
        "--constraint",
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "-t",
        "--target",
        "--prefix",
        "--root",
        "-e",
        "--editable",
        "--python",
        "-p",
        "--timeout",
        "--retries",
        "--trusted-host",
        "--index-strategy",
        "--progress-bar",
    ];
    let mut packages = Vec::new();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !word.starts_with('-')
            && !matches!(word, "pip" | "install" | "pip3" | "uv")
            && !word.is_empty()
        {
            packages.push(word);
        }
    }
    packages
}

fn is_exact(package: &str) -> bool {
    package.contains("==") || package.contains('@') || package.contains('$') || is_file_or_address(package)
}

fn is_file_or_address(package: &str) -> bool {
    let ending = package.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    package.contains('/') || package.starts_with('.') || matches!(ending.as_str(), "whl" | "gz")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, found_with, own_findings, task_with};
    use super::*;
    use crate::shell::read_script;

    fn script(body: &str) -> String {
        format!("#!/bin/bash\n{body}\necho 1 > /logs/verifier/reward.txt\n")
    }

    fn fetched(line: &str) -> bool {
        read_script(line).commands.iter().any(|command| fetch(command).is_some())
    }

    fn unpinned(line: &str) -> Vec<String> {
        read_script(line).commands.iter().flat_map(unpinned_packages).map(str::to_owned).collect()
    }

    #[test]
    fn nothing_is_found_in_the_vendored_verifier() {
        let options = crate::CheckOptions::default();
        let mut report = Report::new(&options);
        for own in grade::vendored::FILES {
            assert!(is_vendored(own.text.as_bytes()));
            python(own.name.as_bytes(), own.text.as_bytes(), &mut report);
        }
        shell(b"test.sh", &read_script(grade::vendored::TEST_SH), &mut report);
        assert_eq!(report.finish(), []);
    }

    #[test]
    fn a_download_and_an_open_version_are_both_reported() {
        let body = script("curl -LsSf https://tools.invalid/install.sh | sh\npip install pytest");
        let files = [("tests/test.sh", body.as_str())];
        assert_eq!(
            found_with(&files),
            [
                "verifier-network tests/test.sh:2",
                "verifier-network tests/test.sh:3",
                "verifier-unpinned-install tests/test.sh:3",
            ]
        );
        assert!(crate::accepted(&findings(&task_with(&files))));
        assert!(!crate::accepted(&own_findings(&task_with(&files))));
    }

    #[test]
    fn commands_that_need_the_network_are_known() {
        for line in [
            "apt-get update && true",
            "sudo apt-get -y install curl",
            "uvx -p 3.13 -w pytest==8.4.1 pytest /tests",
            "uv pip install --system pytest==8.4.1",
            "uv add pytest==8",
            "python3.11 -m pip install x",
            "npm ci",
            "X=$(wget -qO- http://data.invalid/x)",
            "git clone git@host.invalid:a/b",
            "apk add --no-cache curl",
            "cargo install ripgrep",
        ] {
            assert!(fetched(line), "{line}");
        }
        for line in [
            "# curl https://a.invalid",
            "curl -s http://localhost:8080/health",
            "curl -s http://main:8080/x",
            "curl -s \"$URL/x\"",
            "curl -s \"http://$HOST.local/x\"",
            "command -v curl",
            "echo 'pip install x'",
            "pip install --no-index --find-links /wheels x",
            "pip install --no-deps /tests/x.whl",
            "pip list",
            "uv run pytest",
            "npm test",
            "git clone /srv/repo x",
            "cat <<E\ncurl https://a.invalid\nE",
        ] {
            assert!(!fetched(line), "{line}");
        }
    }

    #[test]
    fn programs_in_python_are_looked_at() {
        let found = |line: &str| found_with(&[("tests/test_a.py", &format!("import x\n{line}\n"))]).len();
        for line in [
            "data = requests.get('https://data.invalid/x.json', timeout=5)",
            "with urllib.request.urlopen(\"http://data.invalid/x\") as r:",
            "subprocess.run([sys.executable, '-m', 'pip', 'install', 'numpy'])",
            "os.system('pip install numpy')",
        ] {
            assert_eq!(found(line), 1, "{line}");
        }
        for line in [
            "# requests.get('https://data.invalid/x')",
            "r = requests.get('http://localhost:8000/x')",
            "r = requests.get(f'http://127.0.0.1:{port}/x')",
            "r = requests.get(URL)",
            "URL = 'https://data.invalid'",
            "subprocess.run(['pip', 'install', '--no-index', 'x'])",
            "assert 'pip install' in text",
        ] {
            assert_eq!(found(line), 0, "{line}");
        }
    }

    #[test]
    fn exact_versions_are_told_from_open_ones() {
        assert_eq!(
            unpinned("pip install -q 'a>=1' b==2 c -r r.txt --target d ./e f.whl 'g @ https://x.invalid'"),
            ["a>=1", "c"]
        );
        assert_eq!(unpinned("uvx -w pytest==8 -w json-ctrf --with=x pytest"), ["json-ctrf", "x"]);
        assert_eq!(unpinned("python3 -m pip install --upgrade pip wheel"), ["wheel"]);
        assert_eq!(unpinned("uv pip install \"$WHAT\""), [""; 0]);
        assert_eq!(unpinned("uv add pytest==8.4.1 rich"), ["rich"]);
    }
}
