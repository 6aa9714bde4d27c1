//! What the vendored verifier knows of a framework's suites: their commands, and which file a test is defined in.

use crate::Framework;

/// Programs that start another one from the installed packages.
const STARTERS: [&str; 3] = ["npx", "pnpm", "yarn"];

/// Maven, and the script of a project that brings its own.
const MAVENS: [&str; 2] = ["mvn", "mvnw"];

/// Without these Surefire names only tests that fail, and those not where the log shows them.
const NAMES_TESTS: [&str; 2] = ["-Dsurefire.reportFormat=plain", "-Dsurefire.useFile=false"];

impl Framework {
    /// Gives the framework that a command starts by its own name; `None` where that cannot be seen, as with `npm test`.
    pub fn of_command<S: AsRef<str>>(command: &[S]) -> Option<Self> {
        let words: Vec<&str> = command.iter().map(AsRef::as_ref).collect();
        let (&program, rest) = words.split_first()?;
        let rest = rest.strip_prefix(&["exec"]).unwrap_or(rest);
        match base_name(program) {
            "pytest" | "py.test" => Some(Self::Pytest),
            name if is_python(name) && rest.starts_with(&["-m", "pytest"]) => Some(Self::Pytest),
            name if is_python(name) && rest.starts_with(&["-m", "unittest"]) => Some(Self::Unittest),
            "go" if rest.first() == Some(&"test") => Some(Self::Go),
            "cargo" if rest.first() == Some(&"test") => Some(Self::Cargo),
            "node" if rest.contains(&"--test") => Some(Self::Node),
            "jest" => Some(Self::Jest),
            "mocha" => Some(Self::Mocha),
            "vitest" => Some(Self::Vitest),
            "tape" => Some(Self::Tap),
            name if MAVENS.contains(&name) && rest.contains(&"test") => Some(Self::Surefire),
            "uv" if rest.first() == Some(&"run") => Self::of_command(&rest[1..]),
            name if STARTERS.contains(&name) && !rest.is_empty() => Self::of_command(rest),
            _ => None,
        }
    }

    /// Says whether the verifier can start such suites with a command.
    ///
    /// # Errors
    /// Why it cannot, in words.
    pub fn accepts<S: AsRef<str>>(self, command: &[S]) -> Result<(), &'static str> {
        let words: Vec<&str> = command.iter().map(AsRef::as_ref).collect();
        let program = words.first().map_or("", |program| base_name(program));
        let rest = words.get(1..).unwrap_or_default();
        let asks = |options: &[&str]| {
            rest.iter().any(|word| {
                options.iter().any(|option| {
                    word.trim_start_matches('-').split('=').next() == Some(option) && word.starts_with('-')
                })
            })
        };
        match self {
            Self::Lines => Err("logs of lines are graded when they are recorded; no suite is run for them"),
            Self::Unittest
                if !is_python(program)
                    || !matches!(rest, ["-m", _, ..])
                        && rest.first().is_none_or(|file| file.starts_with('-')) =>
            {
                Err("a unittest suite is started with `python -m MODULE` or `python FILE`")
            }
            Self::Go if program != "go" || rest.first() != Some(&"test") => {
                Err("a Go suite is started with `go test`")
            }
            Self::Go if asks(&["exec", "json", "c"]) => {
                Err("the verifier gives `go test` its own -json and -exec, and -c runs nothing")
            }
            Self::Node if program != "node" || !rest.contains(&"--test") || asks(&["test-reporter"]) => {
                Err("a suite of Node's own runner is started with `node --test`, without a reporter")
            }
            Self::Surefire if !MAVENS.contains(&program) || !rest.contains(&"test") => {
                Err("a suite of Surefire is started with `mvn test` or `mvnw test`")
            }
            Self::Surefire if !NAMES_TESTS.iter().all(|option| rest.contains(option)) => Err(
                "Surefire names its tests with -Dsurefire.reportFormat=plain and -Dsurefire.useFile=false only",
            ),
            Self::Surefire if words.iter().any(|word| word.starts_with("-Dmaven.test.failure.ignore")) => {
                Err("with -Dmaven.test.failure.ignore the exit status does not tell that tests failed")
            }
            Self::Mocha | Self::Jest if words.iter().any(|word| word.starts_with("NODE_OPTIONS=")) => {
                Err("NODE_OPTIONS is set inside the command; put it into the profile's `env`")
            }
            _ => Ok(()),
        }
    }

    /// Gives the file that a test's id names.
    pub fn file_of(self, id: &str) -> Option<&str> {
        match self {
            Self::Pytest => id.split_once("::").map(|(file, _)| file),
            Self::Vitest => id.split_once(" > ").map(|(file, _)| file),
            _ => None,
        }
    }

    /// Says whether the text of the file at `path` defines a test, for ids that name no file.
    ///
    /// Read as the collections' own programs do: a function of that name, or a title in quotes behind a bracket.
    pub fn defines(self, id: &str, path: &str, text: &str) -> bool {
        match self {
            Self::Pytest | Self::Lines | Self::Vitest => false,
            Self::Unittest => defines_case(id, path, text),
            Self::Go => {
                let function = format!("func {}(", id.split('/').next().unwrap_or(id));
                path.ends_with("_test.go") && text.lines().any(|line| line.starts_with(&function))
            }
            Self::Cargo => {
                let name = id.rsplit("::").next().unwrap_or(id);
                let name = name.strip_suffix(" - should panic").unwrap_or(name);
                has_extension(path, &["rs"]) && text.contains(&format!("fn {name}("))
            }
            Self::Surefire => defines_class(id, path),
            Self::Jest | Self::Mocha | Self::Node | Self::Tap => {
                has_extension(path, &["js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx"])
                    && ['\'', '"', '`'].iter().any(|quote| {
                        [format!("({quote}{id}{quote}"), format!("( {quote}{id}{quote}")]
                            .iter()
                            .any(|call| text.contains(call.as_str()))
                    })
            }
        }
    }
}

/// Says whether a file holds the class of `test_name (package.module.Class)`, whose name Python 3.11 puts behind it again.
fn defines_case(id: &str, path: &str, text: &str) -> bool {
    let Some((name, place)) = id.split_once(" (") else { return false };
    let Some(place) = place.strip_suffix(')') else { return false };
    let place = place.strip_suffix(name).and_then(|place| place.strip_suffix('.')).unwrap_or(place);
    let Some((module, class)) = place.rsplit_once('.') else { return false };
    let Some(stem) = path.strip_suffix(".py") else { return false };
    let is_module = stem == module.replace('.', "/") || module == "__main__" && !path.contains('/');
    is_module
        && ['(', ':'].iter().any(|end| {
            let class = format!("class {class}{end}");
            text.lines().any(|line| line.starts_with(&class))
        })
}

/// Says whether a file is that of the class of `package.Class.method`, or of `package.Class`, which a failing set-up has.
fn defines_class(id: &str, path: &str) -> bool {
    let end = id.find(['(', '[', '{', ' ']).unwrap_or(id.len());
    let (before, _) = id.split_at(end);
    let classes = [Some(before), before.rsplit_once('.').map(|(class, _)| class)];
    classes.into_iter().flatten().any(|class| {
        let class = class.split('$').next().unwrap_or(class).replace('.', "/");
        ["java", "kt", "groovy"].iter().any(|language| {
            path.strip_suffix(language).and_then(|path| path.strip_suffix('.')).is_some_and(|path| {
                path.strip_suffix(class.as_str())
                    .is_some_and(|above| above.is_empty() || above.ends_with('/'))
            })
        })
    })
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_python(name: &str) -> bool {
    matches!(name, "python" | "python3")
}

fn has_extension(path: &str, extensions: &[&str]) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| extensions.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &str) -> Vec<&str> {
        command.split(' ').collect()
    }

    #[test]
    fn commands_tell_their_framework_or_nothing() {
        for (command, framework) in [
            ("pytest -q", Some(Framework::Pytest)),
            ("/usr/bin/python3 -m pytest", Some(Framework::Pytest)),
            ("python -m unittest -v", Some(Framework::Unittest)),
            ("go test -v ./...", Some(Framework::Go)),
            ("go vet", None),
            ("cargo test", Some(Framework::Cargo)),
            ("node --test", Some(Framework::Node)),
            ("node test.js", None),
            ("./node_modules/.bin/mocha --exit", Some(Framework::Mocha)),
            ("npx tape test/a.js", Some(Framework::Tap)),
            ("mvn test -B", Some(Framework::Surefire)),
            ("./mvnw -B test", Some(Framework::Surefire)),
            ("mvn compile", None),
            ("yarn jest --verbose", Some(Framework::Jest)),
            ("pnpm exec vitest", Some(Framework::Vitest)),
            ("/root/.local/bin/uv run pytest -v", Some(Framework::Pytest)),
            ("uv sync", None),
            ("npm test", None),
            ("yarn", None),
        ] {
            assert_eq!(Framework::of_command(&words(command)), framework, "{command}");
        }
    }

    #[test]
    fn commands_that_the_verifier_cannot_watch_are_refused() {
        let accepts = |framework: Framework, command: &str| framework.accepts(&words(command)).is_ok();
        assert!(accepts(Framework::Go, "go test -v ./..."));
        for command in ["make test", "go test -json ./...", "go test -exec=x", "go test -c", "go vet"] {
            assert!(!accepts(Framework::Go, command), "{command}");
        }
        assert!(accepts(Framework::Node, "node --test"));
        assert!(!accepts(Framework::Node, "npm test"));
        assert!(!accepts(Framework::Node, "node --test --test-reporter=tap"));
        for command in ["python -m tornado.test --verbose", "python test.py --verbose"] {
            assert!(accepts(Framework::Unittest, command), "{command}");
        }
        for command in ["python -c x", "make test", "python", "python -m"] {
            assert!(!accepts(Framework::Unittest, command), "{command}");
        }
        assert!(accepts(Framework::Mocha, "npm run mocha-node-test -- --verbose"));
        assert!(!accepts(Framework::Jest, "yarn cross-env NODE_OPTIONS=--x jest"));
        assert!(!accepts(Framework::Lines, "anything"));
        let maven = "mvn test -B -Dsurefire.useFile=false -Dsurefire.reportFormat=plain";
        assert!(accepts(Framework::Surefire, maven));
        for command in [
            "mvn test -B",
            &maven.replace("test", "verify"),
            &maven.replace("mvn", "gradle"),
            &format!("{maven} -Dmaven.test.failure.ignore=true"),
        ] {
            assert!(!accepts(Framework::Surefire, command), "{command}");
        }
    }

    #[test]
    fn tests_are_found_where_they_are_defined() {
        let go = "package till\n\nfunc TestAdds(t *testing.T) {\n\tt.Run(\"x\", nil)\n}\n";
        assert!(Framework::Go.defines("TestAdds/small_sums", "till/till_test.go", go));
        assert!(!Framework::Go.defines("TestAdd", "till/till_test.go", go));
        assert!(!Framework::Go.defines("TestAdds", "till/till.go", go));
        let mocha = "describe('till', () => {\n  it('adds (1) to `2`', () => {});\n});\n";
        assert!(Framework::Mocha.defines("adds (1) to `2`", "test/till.js", mocha));
        assert!(!Framework::Mocha.defines("adds", "test/till.js", mocha));
        assert!(!Framework::Mocha.defines("adds (1) to `2`", "README.md", mocha));
        let python = "class TillTest(unittest.TestCase):\n    def test_adds(self): pass\n";
        for id in ["test_adds (shop.till_test.TillTest)", "test_adds (shop.till_test.TillTest.test_adds)"] {
            assert!(Framework::Unittest.defines(id, "shop/till_test.py", python), "{id}");
            assert!(!Framework::Unittest.defines(id, "till_test.py", python), "{id}");
        }
        assert!(Framework::Unittest.defines("test_adds (__main__.TillTest)", "test.py", python));
        assert!(!Framework::Unittest.defines("test_adds (__main__.Till)", "test.py", python));
        for id in [
            "shop.TillTest.adds",
            "shop.TillTest.takes(int, a.B)[2]",
            "shop.TillTest$Inner.adds",
            "shop.TillTest",
        ] {
            assert!(Framework::Surefire.defines(id, "core/src/test/java/shop/TillTest.java", ""), "{id}");
            assert!(!Framework::Surefire.defines(id, "src/test/java/workshop/TillTest.java", ""), "{id}");
            assert!(!Framework::Surefire.defines(id, "src/test/java/shop/Till.java", ""), "{id}");
        }
        assert!(Framework::Cargo.defines("it::adds", "tests/it.rs", "fn adds() {}"));
        assert_eq!(Framework::Pytest.file_of("t/a.py::T::x"), Some("t/a.py"));
        assert_eq!(Framework::Vitest.file_of("t/a.test.ts > till > adds"), Some("t/a.test.ts"));
        assert_eq!(Framework::Cargo.file_of("till::adds"), None);
    }
}
