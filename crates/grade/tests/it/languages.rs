//! The vendored verifier at work on suites that pytest does not run: honest work is rewarded, cheats are not.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use grade::{CONFIG_SCHEMA, Framework, Surface, VerifierConfig, VerifierReport, vendored};
use tempfile::TempDir;

use crate::twin::has_python;

/// A small project with one bug, and the tests that see it.
#[derive(Clone, Copy)]
struct Project {
    framework: Framework,
    command: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// The workspace without the bug, tests included.
    files: &'static [(&'static str, &'static str)],
    /// The file with the bug, and its text with it.
    bug: (&'static str, &'static str),
    fail_to_pass: &'static [&'static str],
    pass_to_pass: &'static [&'static str],
}

const GO: Project = Project {
    framework: Framework::Go,
    command: &["go", "test", "-v", "./..."],
    env: &[],
    files: &[
        ("go.mod", "module example.invalid/till\n\ngo 1.18\n"),
        ("till.go", "package till\n\nfunc Add(a, b int) int { return a + b }\n"),
        (
            "till_test.go",
            "package till\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tt.Run(\"small sums\", func(t *testing.T) {\n\
             \t\tif Add(2, 3) != 5 {\n\t\t\tt.Fatal(\"no sum\")\n\t\t}\n\t})\n}\n\nfunc TestZero(t *testing.T) {\n\
             \tif Add(0, 0) != 0 {\n\t\tt.Fatal(\"not zero\")\n\t}\n}\n",
        ),
        ("door/door.go", "package door\n\nfunc Open() bool { return true }\n"),
        (
            "door/door_test.go",
            "package door\n\nimport \"testing\"\n\nfunc TestOpens(t *testing.T) {\n\tif !Open() {\n\t\tt.Fatal()\n\t}\n}\n",
        ),
    ],
    bug: ("till.go", "package till\n\nfunc Add(a, b int) int { return a - b }\n"),
    fail_to_pass: &["TestAdds", "TestAdds/small_sums"],
    pass_to_pass: &["TestOpens", "TestZero"],
};

const NODE_TESTS: &str = "const { describe, it } = require('node:test');\nconst assert = require('node:assert');\n\
    const { add } = require('../till.js');\ndescribe('till', () => {\n  it('adds (1) to `2`', () => assert.equal(add(1, 2), 3));\n\
    \x20 it('adds nothing', () => assert.equal(add(0, 0), 0));\n});\n";

const NODE: Project = Project {
    framework: Framework::Node,
    command: &["node", "--test"],
    env: &[("NO_COLOR", "1")],
    files: &[
        ("package.json", "{\"name\": \"till\", \"version\": \"1.0.0\"}\n"),
        ("till.js", "exports.add = (a, b) => a + b;\n"),
        ("test/till.test.js", NODE_TESTS),
    ],
    bug: ("till.js", "exports.add = (a, b) => a - b;\n"),
    fail_to_pass: &["adds (1) to `2`"],
    pass_to_pass: &["adds nothing"],
};

const MOCHA: Project = Project {
    framework: Framework::Mocha,
    command: &["npm", "run", "units", "--", "--verbose"],
    env: &[],
    files: &[
        (
            "package.json",
            "{\"name\": \"till\", \"version\": \"1.0.0\", \"scripts\": {\"units\": \"mocha\"}}\n",
        ),
        ("till.js", "exports.add = (a, b) => a + b;\n"),
        (
            "test/till.js",
            "const assert = require('assert');\nconst { add } = require('../till.js');\ndescribe('till', () => {\n\
             \x20 it('adds (1) to `2`', () => assert.equal(add(1, 2), 3));\n  it('adds nothing', () => assert.equal(add(0, 0), 0));\n\
             \x20 it.skip('knows dollars', () => {});\n});\n",
        ),
    ],
    bug: ("till.js", "exports.add = (a, b) => a - b;\n"),
    fail_to_pass: &["adds (1) to `2`"],
    pass_to_pass: &["adds nothing", "knows dollars"],
};

const JEST: Project = Project {
    framework: Framework::Jest,
    command: &["npm", "test", "--", "--verbose"],
    env: &[],
    files: &[
        (
            "package.json",
            "{\"name\": \"till\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"jest\"}, \"jest\": {\"watchman\": false}}\n",
        ),
        ("till.js", "exports.add = (a, b) => a + b;\n"),
        (
            "till.test.js",
            "const { add } = require('./till.js');\ndescribe('till', () => {\n  it('adds (1) to `2`', () => expect(add(1, 2)).toBe(3));\n\
             \x20 it('adds nothing', () => expect(add(0, 0)).toBe(0));\n});\n",
        ),
    ],
    bug: ("till.js", "exports.add = (a, b) => a - b;\n"),
    fail_to_pass: &["adds (1) to `2`"],
    pass_to_pass: &["adds nothing"],
};

const UNITTEST: Project = Project {
    framework: Framework::Unittest,
    command: &["python", "test.py", "--verbose"],
    env: &[],
    files: &[
        ("till.py", "def add(a, b):\n    return a + b\n"),
        (
            "test.py",
            "import unittest\nfrom till import add\n\n\nclass TillTest(unittest.TestCase):\n    def test_adds(self):\n\
             \x20       \"\"\"Sums are right.\"\"\"\n        self.assertEqual(add(1, 2), 3)\n\n    def test_zero(self):\n\
             \x20       for part in (0, 1):\n            with self.subTest(part):\n                self.assertEqual(add(part, 0), part)\n\n\n\
             if __name__ == '__main__':\n    unittest.main()\n",
        ),
    ],
    bug: ("till.py", "def add(a, b):\n    return a - b\n"),
    fail_to_pass: &["test_adds (__main__.TillTest)"],
    pass_to_pass: &["test_zero (__main__.TillTest)"],
};

const CARGO: Project = Project {
    framework: Framework::Cargo,
    command: &["cargo", "test", "--verbose"],
    env: &[],
    files: &[
        ("Cargo.toml", "[package]\nname = \"till\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n"),
        ("Cargo.lock", "version = 3\n\n[[package]]\nname = \"till\"\nversion = \"0.0.0\"\n"),
        ("src/lib.rs", "pub fn add(a: u32, b: u32) -> u32 { a + b }\n"),
        (
            "tests/it.rs",
            "#[test]\nfn adds() { assert_eq!(till::add(1, 2), 3); }\n#[test]\nfn zero() { assert_eq!(till::add(0, 0), 0); }\n",
        ),
    ],
    bug: ("src/lib.rs", "pub fn add(a: u32, b: u32) -> u32 { a * b }\n"),
    fail_to_pass: &["adds"],
    pass_to_pass: &["zero"],
};

const JAVA_TESTS: &str = "package shop;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Ignore;\nimport org.junit.Test;\n\n\
    public class TillTest {\n    @Test public void adds() { assertEquals(3, Till.add(1, 2)); }\n\
    \x20   @Test public void zero() { assertEquals(0, Till.add(0, 0)); }\n    @Ignore @Test public void dollars() {}\n}\n";

const MAVEN: Project = Project {
    framework: Framework::Surefire,
    command: &["mvn", "test", "-B", "-Dsurefire.useFile=false", "-Dsurefire.reportFormat=plain"],
    env: &[],
    files: &[
        (
            "pom.xml",
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>shop</groupId>\n\
             \x20 <artifactId>shop</artifactId>\n  <version>0</version>\n  <properties>\n    <maven.compiler.source>8</maven.compiler.source>\n\
             \x20   <maven.compiler.target>8</maven.compiler.target>\n\
             \x20   <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>\n  </properties>\n  <dependencies>\n    <dependency>\n\
             \x20     <groupId>junit</groupId>\n      <artifactId>junit</artifactId>\n      <version>4.13.2</version>\n\
             \x20     <scope>test</scope>\n    </dependency>\n  </dependencies>\n</project>\n",
        ),
        (
            "src/main/java/shop/Till.java",
            "package shop;\n\npublic class Till {\n    public static int add(int a, int b) { return a + b; }\n}\n",
        ),
        ("src/test/java/shop/TillTest.java", JAVA_TESTS),
    ],
    bug: (
        "src/main/java/shop/Till.java",
        "package shop;\n\npublic class Till {\n    public static int add(int a, int b) { return a - b; }\n}\n",
    ),
    fail_to_pass: &["shop.TillTest.adds"],
    pass_to_pass: &["shop.TillTest.dollars", "shop.TillTest.zero"],
};

/// A root folder with a task's tests and a workspace in it.
struct Trial {
    root: TempDir,
    config: VerifierConfig,
}

impl Trial {
    /// The project with its bug, where an agent has changed nothing yet.
    fn new(project: &Project) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder can be made");
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut config = VerifierConfig {
            schema: CONFIG_SCHEMA.to_owned(),
            instance_id: "till".to_owned(),
            workdir: "/testbed".to_owned(),
            framework: project.framework,
            command: owned(project.command),
            env: BTreeMap::new(),
            python: None,
            timeout_sec: 120,
            p2p_only: false,
            fail_to_pass: owned(project.fail_to_pass),
            pass_to_pass: owned(project.pass_to_pass),
            surface: Surface::of(project.framework),
        };
        project.framework.accepts(&config.command).expect("the verifier runs it");
        config.env.extend(project.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut archive = tar::Builder::new(Vec::new());
        let trial = Self { root, config };
        for (path, text) in project.files {
            trial.write(path, text);
            if trial.config.surface.contains(path) {
                let mut header = tar::Header::new_ustar();
                header.set_size(text.len() as u64);
                header.set_mode(0o644);
                archive.append_data(&mut header, path, text.as_bytes()).unwrap();
            }
        }
        for file in vendored::FILES {
            trial.write(&format!("../tests/{}", file.name), file.text);
        }
        fs::write(trial.root.path().join("tests/surface.tar"), archive.into_inner().unwrap()).unwrap();
        trial.write(project.bug.0, project.bug.1);
        trial
    }

    /// The project as it was before the bug.
    fn fixed(project: &Project) -> Self {
        let trial = Self::new(project);
        let (path, text) = project.files.iter().find(|(path, _)| *path == project.bug.0).unwrap();
        trial.write(path, text);
        trial
    }

    /// Writes a file of the workspace.
    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join("testbed").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes installed packages those of the workspace.
    fn with_packages(self, packages: &Path) -> Self {
        let to = self.root.path().join("testbed/node_modules");
        assert!(Command::new("cp").arg("-al").arg(packages).arg(to).status().unwrap().success());
        self
    }

    /// Runs the verifier; gives reward, outcome and reason, or the fault, and everything that is known.
    fn run(&self) -> (Option<String>, String, String) {
        let root = self.root.path();
        fs::write(root.join("tests/config.json"), self.config.to_json().unwrap()).unwrap();
        let output = Command::new("/usr/bin/python3")
            .args(["-I", "-S", "-B"])
            .arg(root.join("tests/verify.py"))
            .arg("--root")
            .arg(root)
            .env_clear()
            .output()
            .expect("the verifier starts");
        let logs = root.join("logs/verifier");
        let text = |name: &str| fs::read_to_string(logs.join(name)).ok();
        let report = text("report.json").unwrap_or_default();
        let typed: VerifierReport = serde_json::from_str(&report).expect("the host can read the report");
        let said = match (&typed.verdict, &typed.fault) {
            (Some(verdict), _) => match verdict.reason {
                Some(reason) => reason.as_str().to_owned(),
                None => serde_json::to_value(verdict.outcome).unwrap().as_str().unwrap().to_owned(),
            },
            (None, fault) => fault.clone().unwrap_or_default(),
        };
        let known = format!(
            "{report}\n{}\n{}",
            text("suite.log").unwrap_or_default(),
            String::from_utf8_lossy(&output.stderr)
        );
        (text("reward.txt"), said, known)
    }

    #[track_caller]
    fn assert_ends(&self, reward: Option<&str>, said: &str) {
        let (found, reason, known) = self.run();
        assert_eq!((found.as_deref().map(str::trim), reason.as_str()), (reward, said), "{known}");
    }
}

/// Says whether programs are there, and prints what is skipped when one is not.
fn has(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err());
    let missing = missing.filter(|program| {
        **program != "go" || !Command::new("go").arg("version").output().is_ok_and(|go| go.status.success())
    });
    if let Some(program) = missing {
        eprintln!("skipped: no {program} on PATH");
    }
    missing.is_none() && has_python() && Path::new("/usr/bin/python3").exists()
}

/// Installs a package in a folder of its own; prints why tests are skipped when that is not possible.
fn packages(name: &str) -> Option<(TempDir, PathBuf)> {
    if !has(&["node", "npm"]) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let installed = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--no-save", "--fetch-retries=1", name])
        .current_dir(folder.path())
        .output()
        .is_ok_and(|output| output.status.success());
    if !installed {
        eprintln!("skipped: npm cannot install {name}");
        return None;
    }
    let modules = folder.path().join("node_modules");
    Some((folder, modules))
}

#[test]
fn go_is_graded_by_its_events() {
    if !has(&["go"]) {
        return;
    }
    Trial::fixed(&GO).assert_ends(Some("1"), "resolved");
    Trial::new(&GO).assert_ends(Some("0"), "unresolved");
    let broken = Trial::new(&GO);
    broken.write("till.go", "package till\n\nfunc Add(a int) int { return a }\n");
    broken.assert_ends(Some("0"), "unresolved");
    let mut empty = Trial::fixed(&GO);
    empty.config.command = ["go", "test", "-v", "-run", "Nothing", "./..."].map(str::to_owned).to_vec();
    empty.assert_ends(Some("0"), "nothing_collected");
    let mut slow = Trial::new(&GO);
    slow.write("till.go", "package till\n\nfunc Add(a, b int) int { for { } }\n");
    slow.config.timeout_sec = 8;
    slow.assert_ends(Some("0"), "timeout");
}

/// Ends the test program with a status, after it has printed results as `go test -v` prints them.
fn early_end(status: u8) -> String {
    format!(
        "package till\n\nimport \"os\"\n\nfunc Add(a, b int) int {{ return a - b }}\n\nfunc init() {{\n\tfor _, name := range []string{{\"TestAdds\", \
         \"TestAdds/small_sums\", \"TestZero\"}} {{\n\t\tprint := os.Stdout.WriteString\n\t\tprint(\"=== RUN   \" + name + \"\\n\")\n\t\tprint(\"--- PASS: \" + \
         name + \" (0.00s)\\n\")\n\t}}\n\tos.Stdout.WriteString(\"PASS\\n\")\n\tos.Exit({status})\n}}\n"
    )
}

#[test]
fn go_programs_that_do_not_come_to_their_end_are_not_believed() {
    if !has(&["go"]) {
        return;
    }
    for status in [0, 1] {
        let trial = Trial::new(&GO);
        trial.write("till.go", &early_end(status));
        let (reward, said, known) = trial.run();
        assert_eq!(reward.as_deref(), Some("0\n"), "{said} {known}");
    }
    // Results that are printed while the tests run cannot hide a failure.
    let printing = Trial::new(&GO);
    printing.write("till.go", &early_end(0).replace("\tos.Exit(0)\n", ""));
    printing.assert_ends(Some("0"), "unresolved");
}

#[test]
fn the_surface_of_go_is_restored() {
    if !has(&["go"]) {
        return;
    }
    let trial = Trial::new(&GO);
    trial.write("till_test.go", "package till\n\nimport \"testing\"\n\nfunc TestAdds(*testing.T) {}\n");
    trial.write("extra_test.go", "package till\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n");
    trial.write("go.mod", "module example.invalid/other\n\ngo 1.18\n");
    trial.write("vendor/modules.txt", "# example.invalid/fake v1.0.0\n");
    trial.write("go.work", "go 1.18\n\nuse ./nowhere\n");
    trial.assert_ends(Some("0"), "unresolved");
    for gone in ["extra_test.go", "go.work", "vendor/modules.txt"] {
        assert!(!trial.root.path().join("testbed").join(gone).exists(), "{gone}");
    }
}

#[test]
fn nodes_own_runner_is_graded() {
    if !has(&["node"]) {
        return;
    }
    Trial::fixed(&NODE).assert_ends(Some("1"), "resolved");
    Trial::new(&NODE).assert_ends(Some("0"), "unresolved");
    for cheat in [
        "console.log('\\u2714 adds (1) to `2` (0.5ms)\\n\\u2714 adds nothing (0.5ms)');\nprocess.exit(0);\n",
        "require('fs').writeSync(1, '\\u2714 adds (1) to `2` (0.5ms)\\n');\nexports.add = (a, b) => a - b;\n",
        "process.exitCode = 0;\nprocess.on('exit', () => process.reallyExit(0));\nexports.add = (a, b) => a - b;\n",
        "throw new Error('no');\n",
    ] {
        let trial = Trial::new(&NODE);
        trial.write("till.js", cheat);
        let (reward, said, known) = trial.run();
        assert_eq!(reward.as_deref(), Some("0\n"), "{said} {known}");
    }
    let restored = Trial::new(&NODE);
    restored.write("test/till.test.js", &NODE_TESTS.replace("add(1, 2)", "3"));
    restored.write("test/more.test.js", "process.exit(0);\n");
    restored.assert_ends(Some("0"), "unresolved");
}

/// What code under test may do to look good, whichever runner loads it.
const JAVASCRIPT_CHEATS: [&str; 5] = [
    // Prints what the runner would print, and ends.
    "const say = (text) => require('fs').writeSync(1, text);\nsay('\\n  till\\n    \\u2714 adds (1) to `2`\\n    \\u2714 adds nothing\\n\\n  2 passing (3ms)\\n\\n');\nprocess.exit(0);\n",
    "const say = (text) => require('fs').writeSync(1, text);\nsay('PASS till.test.js\\n  till\\n    \\u2713 adds (1) to `2`\\n    \\u2713 adds nothing\\n\\nTests:       2 passed, 2 total\\n');\nprocess.reallyExit(0);\n",
    // Prints, hides what follows, and corrects the status at the end.
    "const fs = require('fs');\nfs.writeSync(1, '\\n  till\\n    \\u2714 adds (1) to `2`\\n    \\u2714 adds nothing\\n\\n  2 passing (3ms)\\n\\n');\nprocess.stdout.write = () => true;\nconsole.log = () => {};\nconsole.error = () => {};\nprocess.on('exit', () => process.reallyExit(0));\nexports.add = (a, b) => a - b;\n",
    // Empties what runs the tests.
    "globalThis.it = globalThis.test = (title) => console.log('    \\u2714 ' + title);\nexports.add = (a, b) => a - b;\n",
    "throw new Error('no');\n",
];

/// Files that steer runners, and how they would be misused.
const JAVASCRIPT_SETTINGS: [(&str, &str); 6] = [
    (
        "package.json",
        "{\"name\": \"x\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"echo ok\", \"units\": \"echo ok\"}}\n",
    ),
    (".mocharc.json", "{\"grep\": \"nothing\", \"require\": \"./shim.js\"}\n"),
    (".npmrc", "node-options=--require ./shim.js\nscript-shell=/bin/true\n"),
    ("jest.config.js", "module.exports = { passWithNoTests: true, testMatch: ['**/none'] };\n"),
    ("babel.config.js", "process.exit(0);\n"),
    ("test/more.test.js", "process.exit(0);\n"),
];

fn cheats_get_nothing(project: &Project, packages: &Path, cheats: &[&str]) {
    Trial::fixed(project).with_packages(packages).assert_ends(Some("1"), "resolved");
    Trial::new(project).with_packages(packages).assert_ends(Some("0"), "unresolved");
    for cheat in cheats {
        let trial = Trial::new(project).with_packages(packages);
        trial.write(project.bug.0, cheat);
        let (reward, said, known) = trial.run();
        assert_eq!(reward.as_deref(), Some("0\n"), "{cheat}\n{said} {known}");
    }
    let trial = Trial::new(project).with_packages(packages);
    trial.write("shim.js", "process.exit(0);\n");
    for (path, text) in JAVASCRIPT_SETTINGS {
        trial.write(path, text);
    }
    trial.assert_ends(Some("0"), "unresolved");
}

#[test]
fn mocha_is_graded_and_has_to_come_to_its_end() {
    let Some((_folder, packages)) = packages("mocha@10") else { return };
    cheats_get_nothing(&MOCHA, &packages, &JAVASCRIPT_CHEATS);
    // Mocha is started anew for options of Node, and in parallel by another class.
    for options in [&["--parallel"][..], &["--throw-deprecation"], &["--reporter", "spec", "--exit"]] {
        let mut trial = Trial::fixed(&MOCHA).with_packages(&packages);
        trial.config.command.extend(options.iter().map(ToString::to_string));
        trial.assert_ends(Some("1"), "resolved");
    }
    let mut missing = Trial::fixed(&MOCHA).with_packages(&packages);
    missing.config.command = vec!["no-such-runner".to_owned()];
    missing.assert_ends(None, "no_runner");
}

#[test]
fn jest_is_graded_and_has_to_come_to_its_end() {
    let Some((_folder, packages)) = packages("jest@29") else { return };
    // Jest takes its time to start.
    cheats_get_nothing(&JEST, &packages, &[JAVASCRIPT_CHEATS[3]]);
    let mut alone = Trial::new(&JEST).with_packages(&packages);
    alone.config.command.push("--runInBand".to_owned());
    alone.write("till.js", JAVASCRIPT_CHEATS[1]);
    alone.assert_ends(Some("0"), "incomplete");
}

#[test]
fn unittest_is_graded_by_its_report() {
    if !has(&[]) {
        return;
    }
    let with_names = |mut trial: Trial| {
        // Python 3.11 puts the method's name behind that of the class.
        let asks = ["-c", "import sys; print(sys.version_info >= (3, 11))"];
        let answer = Command::new("/usr/bin/python3").args(asks).output().unwrap();
        if answer.stdout.starts_with(b"True") {
            let ids = [&mut trial.config.fail_to_pass, &mut trial.config.pass_to_pass];
            for id in ids.into_iter().flatten() {
                *id = id.replace(')', &format!(".{})", id.split(' ').next().unwrap()));
            }
        }
        trial
    };
    with_names(Trial::fixed(&UNITTEST)).assert_ends(Some("1"), "resolved");
    with_names(Trial::new(&UNITTEST)).assert_ends(Some("0"), "unresolved");
    let mut module = with_names(Trial::fixed(&UNITTEST));
    module.config.command = ["python3", "-m", "unittest", "-v", "test"].map(str::to_owned).to_vec();
    for id in module.config.fail_to_pass.iter_mut().chain(&mut module.config.pass_to_pass) {
        *id = id.replace("__main__", "test");
    }
    module.assert_ends(Some("1"), "resolved");
    let ok = "import os\nos.write(1, b'test_adds (__main__.TillTest) ... ok\\n\\nRan 2 tests in 0.001s\\n\\nOK\\n')\n";
    for cheat in [
        format!("{ok}os._exit(0)\n"),
        format!("{ok}import sys\nsys.exit(0)\n"),
        format!("{ok}import atexit\natexit.register(os._exit, 0)\ndef add(a, b):\n    return a - b\n"),
        "import unittest\nraise unittest.SkipTest('no')\n".to_owned(),
        "import unittest\nunittest.TestCase.run = lambda self, result: result.addSuccess(self)\n\ndef add(a, b):\n    return 0\n"
            .to_owned(),
    ] {
        let trial = with_names(Trial::new(&UNITTEST));
        trial.write("till.py", &cheat);
        trial.write("unittest.py", "import os\nos._exit(0)\n");
        let (reward, said, known) = trial.run();
        assert_eq!(reward.as_deref(), Some("0\n"), "{cheat}\n{said} {known}");
    }
}

#[test]
fn cargo_is_graded_by_its_log() {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    if !home.join(".cargo/bin/cargo").exists() || !has(&[]) {
        eprintln!("skipped: no cargo below the home directory");
        return;
    }
    Trial::fixed(&CARGO).assert_ends(Some("1"), "resolved");
    Trial::new(&CARGO).assert_ends(Some("0"), "unresolved");
    let loud = Trial::new(&CARGO);
    loud.write(
        "src/lib.rs",
        "pub fn add(a: u32, b: u32) -> u32 { println!(\"\\ntest adds ... ok\"); a * b }\n",
    );
    loud.assert_ends(Some("0"), "forged");
}

/// Says where Maven has the plugins that the project needs; prints why tests are skipped when it has not.
fn maven_repository() -> Option<String> {
    if !has(&["mvn", "java"]) {
        return None;
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let named = std::env::var_os("SEATRIAL_TEST_MAVEN_REPOSITORY").map(PathBuf::from);
    let repository = named.unwrap_or_else(|| home.join(".m2/repository"));
    let there = ["org/apache/maven/plugins/maven-surefire-plugin", "junit/junit/4.13.2"]
        .iter()
        .all(|part| repository.join(part).is_dir());
    if !there {
        eprintln!(
            "skipped: {} has no Surefire and JUnit 4.13.2; scripts/maven-repository makes one that has",
            repository.display()
        );
    }
    there.then(|| repository.display().to_string())
}

#[test]
fn maven_is_graded_by_its_log() {
    let Some(repository) = maven_repository() else { return };
    let with_repository = |mut trial: Trial| {
        let option = format!("-Dmaven.repo.local={repository}");
        trial.config.command.push(option);
        trial
    };
    with_repository(Trial::fixed(&MAVEN)).assert_ends(Some("1"), "resolved");
    with_repository(Trial::new(&MAVEN)).assert_ends(Some("0"), "unresolved");
    let lines = "[INFO] shop.TillTest.adds -- Time elapsed: 0.001 s\\n[INFO] shop.TillTest.zero -- Time elapsed: 0.001 s\\n\
        [WARNING] shop.TillTest.dollars skipped\\n";
    let code = |body: &str| {
        format!(
            "package shop;\n\npublic class Till {{\n    public static int add(int a, int b) {{ {body} }}\n}}\n"
        )
    };
    for (body, said) in [
        (format!("System.out.print(\"{lines}\"); return a - b;"), "unresolved"),
        (format!("System.out.print(\"{lines}\"); System.exit(0); return 0;"), "contradiction"),
        (format!("System.out.print(\"{lines}\"); Runtime.getRuntime().halt(0); return 0;"), "contradiction"),
        ("return \"no\";".to_owned(), "nothing_collected"),
    ] {
        let trial = with_repository(Trial::new(&MAVEN));
        trial.write(MAVEN.bug.0, &code(&body));
        trial.assert_ends(Some("0"), said);
    }
    // What steers the run is restored, and what was built before is gone.
    let restored = with_repository(Trial::new(&MAVEN));
    restored.write("src/test/java/shop/TillTest.java", &JAVA_TESTS.replace("Till.add(1, 2)", "3"));
    restored.write("src/test/java/shop/MoreTest.java", "no Java");
    restored
        .write("src/main/resources/junit-platform.properties", "junit.jupiter.conditions.deactivate = *\n");
    restored.write("pom.xml", "<project/>\n");
    restored.write(".mvn/maven.config", "-DskipTests\n");
    restored.write("target/classes/shop/Till.class", "no class");
    restored.assert_ends(Some("0"), "unresolved");
    assert!(!restored.root.path().join("testbed/.mvn/maven.config").exists());
}

#[test]
fn artifacts_that_changed_are_named_but_for_the_projects_own() {
    if !has(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for file in vendored::FILES {
        write(file.name, file.text);
    }
    let parent = "<parent><groupId>shop</groupId><artifactId>junit</artifactId></parent>";
    for (path, own) in [("work/pom.xml", "shop"), ("work/door/pom.xml", "shop-door")] {
        write(
            path,
            &format!("<project xmlns=\"urn:m\">{parent}<artifactId> {own} </artifactId></project>\n"),
        );
    }
    write("work/broken/pom.xml", "<project>");
    write("work/door/target/classes/Door.class", "");
    write("work/src/main/java/shop/target/Aim.java", "");
    write("m2/shop/shop-door/0/shop-door-0.jar", "");
    write("m2/junit/junit/4.13.2/_remote.repositories", "");
    let run = || {
        let script = "import sys; sys.path.append('.'); import seatrial_suite as suite\n\
            own = suite.remove_built_by_maven('work'); print(sorted(own))\n\
            print([suite.changed_artifact('m2', own, began) for began in (1.0, 1e11)])";
        let output = Command::new("/usr/bin/python3")
            .args(["-S", "-B", "-c", script])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(), "['shop', 'shop-door']\n[None, None]\n");
    assert!(!folder.path().join("work/door/target").exists());
    assert!(folder.path().join("work/src/main/java/shop/target/Aim.java").exists());
    write("m2/junit/junit/4.13.2/junit-4.13.2.jar", "");
    assert_eq!(run(), "['shop', 'shop-door']\n['m2/junit/junit/4.13.2/junit-4.13.2.jar', None]\n");
}
