//! Bugs in Go, JavaScript and Java, from a row of a collection to an accepted task.

use std::path::Path;
use std::process::Command;

use prove::cheats::{CHEATS, Cheat};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::{binary, ended, sandboxes_run};

/// A small project, the line of it that a bug changes, and the tests that see it.
struct Project {
    name: &'static str,
    /// What the profile says runs the tests; told from the command when absent.
    framework: Option<&'static str>,
    command: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// The file with the bug, its line, and the line with the bug.
    bug: (&'static str, &'static str, &'static str),
    /// The file whose tests decide, which no agent sees.
    hidden: &'static str,
    fail_to_pass: &'static [&'static str],
    pass_to_pass: &'static [&'static str],
}

const GO: Project = Project {
    name: "mini__till-go.0123abcd",
    framework: None,
    command: "go test -v ./...",
    files: &[
        ("go.mod", "module example.invalid/till\n\ngo 1.18\n"),
        (
            "till.go",
            "// Package till counts coins.\npackage till\n\n// Add adds two counts.\nfunc Add(a, b int) int {\n\treturn a + b\n}\n",
        ),
        (
            "till_test.go",
            "package till\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tt.Run(\"small sums\", func(t *testing.T) {\n\
             \t\tif Add(2, 3) != 5 {\n\t\t\tt.Fatal(\"no sum\")\n\t\t}\n\t})\n}\n",
        ),
        (
            "zero_test.go",
            "package till\n\nimport \"testing\"\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal(\"not zero\")\n\t}\n}\n",
        ),
        (
            "door/door.go",
            "// Package door opens.\npackage door\n\n// Open opens.\nfunc Open() bool { return true }\n",
        ),
        (
            "door/door_test.go",
            "package door\n\nimport \"testing\"\n\nfunc TestOpens(t *testing.T) {\n\tif !Open() {\n\t\tt.Fatal(\"closed\")\n\t}\n}\n",
        ),
    ],
    bug: ("till.go", "\treturn a + b", "\treturn a - b"),
    hidden: "till_test.go",
    fail_to_pass: &["TestAdds", "TestAdds/small_sums"],
    pass_to_pass: &["TestOpens", "TestZero"],
};

const NODE: Project = Project {
    name: "mini__till-node.0123abcd",
    framework: None,
    command: "node --test",
    files: &[
        ("package.json", "{\"name\": \"till\", \"version\": \"1.0.0\"}\n"),
        ("till.js", "// Counts coins.\nexports.add = (a, b) => {\n  return a + b;\n};\n"),
        (
            "test/till.test.js",
            "const { describe, it } = require('node:test');\nconst assert = require('node:assert');\n\
             const { add } = require('../till.js');\n\ndescribe('till', () => {\n  it('adds (1) to `2`', () => assert.equal(add(1, 2), 3));\n});\n",
        ),
        (
            "test/zero.test.js",
            "const { it } = require('node:test');\nconst assert = require('node:assert');\n\
             const { add } = require('../till.js');\n\nit('adds nothing at all', () => assert.equal(add(0, 0), 0));\n",
        ),
    ],
    bug: ("till.js", "  return a + b;", "  return a - b;"),
    hidden: "test/till.test.js",
    fail_to_pass: &["adds (1) to `2`"],
    pass_to_pass: &["adds nothing at all"],
};

const MOCHA: Project = Project {
    name: "mini__till-mocha.0123abcd",
    framework: Some("mocha"),
    command: "npm run units -- --verbose",
    files: &[
        (
            "package.json",
            "{\"name\": \"till\", \"version\": \"1.0.0\", \"scripts\": {\"units\": \"mocha\"}}\n",
        ),
        ("till.js", "// Counts coins.\nexports.add = (a, b) => {\n  return a + b;\n};\n"),
        (
            "test/till.js",
            "const assert = require('assert');\nconst { add } = require('../till.js');\n\ndescribe('till', () => {\n\
             \x20 it('adds (1) to `2`', () => assert.equal(add(1, 2), 3));\n});\n",
        ),
        (
            "test/zero.js",
            "const assert = require('assert');\nconst { add } = require('../till.js');\n\n\
             it('adds nothing at all', () => assert.equal(add(0, 0), 0));\nit.skip('knows dollars', () => {});\n",
        ),
    ],
    // Another bug than that of `NODE`: of equal solutions only one enters a set.
    bug: ("till.js", "  return a + b;", "  return b;"),
    hidden: "test/till.js",
    fail_to_pass: &["adds (1) to `2`"],
    pass_to_pass: &["adds nothing at all", "knows dollars"],
};

const MAVEN: Project = Project {
    name: "mini__till-maven.0123abcd",
    framework: None,
    command: "mvn test -B -Dsurefire.useFile=false -Dsurefire.reportFormat=plain",
    files: &[
        (
            "pom.xml",
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>shop</groupId>\n\
             \x20 <artifactId>till</artifactId>\n  <version>0</version>\n  <properties>\n    <maven.compiler.source>8</maven.compiler.source>\n\
             \x20   <maven.compiler.target>8</maven.compiler.target>\n\
             \x20   <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>\n  </properties>\n  <dependencies>\n    <dependency>\n\
             \x20     <groupId>junit</groupId>\n      <artifactId>junit</artifactId>\n      <version>4.13.2</version>\n\
             \x20     <scope>test</scope>\n    </dependency>\n  </dependencies>\n</project>\n",
        ),
        (
            "src/main/java/shop/Till.java",
            "package shop;\n\n/** Counts coins. */\npublic class Till {\n    public static int add(int a, int b) {\n        return a + b;\n    }\n}\n",
        ),
        (
            "src/test/java/shop/TillTest.java",
            "package shop;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Test;\n\npublic class TillTest {\n\
             \x20   @Test public void adds() { assertEquals(3, Till.add(1, 2)); }\n}\n",
        ),
        (
            "src/test/java/shop/ZeroTest.java",
            "package shop;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Test;\n\npublic class ZeroTest {\n\
             \x20   @Test public void zero() { assertEquals(0, Till.add(0, 0)); }\n}\n",
        ),
    ],
    bug: ("src/main/java/shop/Till.java", "        return a + b;", "        return a - b;"),
    hidden: "src/test/java/shop/TillTest.java",
    fail_to_pass: &["shop.TillTest.adds"],
    pass_to_pass: &["shop.ZeroTest.zero"],
};

impl Project {
    fn repo(&self) -> String {
        format!("swesmith/{}", self.name)
    }

    fn id(&self) -> String {
        format!("{}.lm_rewrite__00000001", self.name)
    }

    /// The row of a collection. Its patch brings the bug in.
    fn instance(&self) -> Value {
        let (file, line, bug) = self.bug;
        let text = self.files.iter().find(|(path, _)| *path == file).unwrap().1;
        let lines: Vec<&str> = text.lines().collect();
        let changed =
            |old: &str| if old == line { format!("-{line}\n+{bug}\n") } else { format!(" {old}\n") };
        let hunk: String = lines.iter().copied().map(changed).collect();
        let count = lines.len();
        let patch = format!(
            "diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -1,{count} +1,{count} @@\n{hunk}"
        );
        json!({
            "instance_id": self.id(),
            "repo": self.repo(),
            "image_name": "example.invalid/till:1",
            "patch": patch,
            "FAIL_TO_PASS": self.fail_to_pass,
            "PASS_TO_PASS": self.pass_to_pass,
            "problem_statement": "The till gives wrong sums: two counts of coins are to be added up, and for 1 and 2 \
                                  the answer is not 3. Please make the sum right for all counts.",
        })
    }

    fn profile(&self) -> Value {
        json!({ "repo": self.repo(), "framework": self.framework, "test_cmd": self.command })
    }

    /// Writes the project without the bug as a bare mirror.
    fn mirror(&self, root: &Path) {
        let checkout = root.join("checkout").join(self.name);
        for (path, text) in self.files {
            let path = checkout.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mirror = root.join(format!("mirrors/{}.git", self.name));
        for arguments in [
            &["init", "--quiet"][..],
            &["add", "-A"],
            &["commit", "--quiet", "-m", "Initial commit"],
            &["clone", "--quiet", "--bare", ".", mirror.to_str().unwrap()],
        ] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=Somebody", "-c", "user.email=somebody@example.invalid"]);
            assert!(git.args(arguments).current_dir(&checkout).status().unwrap().success(), "{arguments:?}");
        }
    }
}

/// Writes a recipe over projects. With packages the environment starts from an image that holds them.
fn write_recipe(root: &Path, projects: &[&Project], packages: bool) {
    let lines = |rows: Vec<Value>| rows.iter().fold(String::new(), |text, row| format!("{text}{row}\n"));
    let write = |name: &str, text: String| std::fs::write(root.join(name), text).unwrap();
    let solved = |project: &&Project| {
        let id = project.id();
        let model = "claude-3-7-sonnet-20250219";
        json!({"instance_id": id, "model": model, "resolved": true, "traj_id": format!("{id}.00000000")})
    };
    for project in projects {
        project.mirror(root);
    }
    write("instances.jsonl", lines(projects.iter().map(|project| project.instance()).collect()));
    write("trajectories.jsonl", lines(projects.iter().map(solved).collect()));
    let profiles: Vec<Value> = projects.iter().map(|project| project.profile()).collect();
    write("profiles.json", json!(profiles).to_string());
    let bases = if packages { "\n[bases]\npackages = \"bases/packages\"\n" } else { "" };
    let base = if packages { "packages" } else { "host" };
    let count = projects.len();
    let source = |name: &str, path: &str| {
        format!("[sources.{name}]\nkind = \"file\"\nas = \"{name}\"\npath = \"{path}\"\n\n")
    };
    let sources = source("instances", "instances.jsonl")
        + &source("profiles", "profiles.json")
        + &source("trajectories", "trajectories.jsonl");
    write(
        "seatrial.toml",
        format!(
            r#"[dataset]
name = "tills"
version = "v1"

{sources}[[pool]]
stage = "all"
members = "instances"
target = {count}
cap = {count}

[materialize]
workspace = "git"
base = "seatrial.local/{base}"
from = "mirrors"

[prove]
oracle_runs = 3
nop_runs = 3

[resolve]
repo_cap = {count}
split = {{ train = {count} }}
{bases}"#
        ),
    );
}

/// Installs Mocha through npm into the context of a base image; says why tests are skipped where that cannot be done.
fn install_mocha(context: &Path) -> bool {
    std::fs::create_dir_all(context).unwrap();
    let installed = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--no-save", "--fetch-retries=1", "mocha@10"])
        .current_dir(context)
        .output()
        .is_ok_and(|output| output.status.success());
    if installed {
        let dockerfile = "FROM seatrial.local/host\nCOPY node_modules /testbed/node_modules\n";
        std::fs::write(context.join("Dockerfile"), dockerfile).unwrap();
    } else {
        eprintln!("skipped: npm cannot install mocha");
    }
    installed
}

/// Copies Maven's repository into the context of a base image; says why tests are skipped where there is none.
fn install_maven(context: &Path) -> bool {
    let Some(repository) = std::env::var_os("SEATRIAL_TEST_MAVEN_REPOSITORY") else {
        eprintln!(
            "skipped: SEATRIAL_TEST_MAVEN_REPOSITORY names no repository of Maven; scripts/maven-repository makes one"
        );
        return false;
    };
    std::fs::create_dir_all(context).unwrap();
    let copied = Command::new("cp").arg("-rL").arg(repository).arg(context.join("repository")).status();
    assert!(copied.unwrap().success());
    let dockerfile = "FROM seatrial.local/host\nCOPY repository /root/.m2/repository\n";
    std::fs::write(context.join("Dockerfile"), dockerfile).unwrap();
    true
}

/// Whether a program of the system is there, where sandboxes find it.
fn has(program: &str) -> bool {
    let found = ["/usr/local/bin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(program).exists());
    if !found {
        eprintln!("skipped: no {program} in the system");
    }
    found
}

/// Proves everything in `root` by the full rule, cheats included.
fn prove(root: &Path, projects: &[&Project]) {
    for stage in [&["source", "pull"][..], &["plan"], &["materialize"]] {
        ended(binary().arg("-C").arg(root).args(stage)).with_code(0);
    }
    for project in projects {
        let task = root.join("tasks").join(project.id());
        let config = std::fs::read(task.join("tests/config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        // Names arrive whole, and what decides is nowhere in the workspace.
        assert_eq!(config["fail_to_pass"], json!(project.fail_to_pass));
        assert_eq!(config["pass_to_pass"], json!(project.pass_to_pass));
        let listed =
            |archive: &str| Command::new("tar").arg("-tf").arg(task.join(archive)).output().unwrap().stdout;
        let held = |archive: &str| {
            String::from_utf8(listed(archive)).unwrap().lines().any(|path| path == project.hidden)
        };
        assert!(!held("environment/workspace.tar") && held("tests/surface.tar"), "{}", project.hidden);
    }
    ended(binary().arg("-C").arg(root).arg("check")).with_code(0);
    let proved = ended(binary().arg("-C").arg(root).args(["prove", "-j", "2"]));
    let proofs: Value = serde_json::from_slice(&std::fs::read(root.join("proofs.json")).unwrap()).unwrap();
    let tasks = proofs["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), projects.len());
    for task in tasks {
        assert_eq!(task["verdict"]["status"], "accepted", "{task}\n{}", proved.all());
        assert_eq!((&task["oracle_runs"], &task["nop_runs"]), (&json!(3), &json!(3)), "{task}");
        let tried = CHEATS.map(Cheat::name);
        assert_eq!(task["cheats"], json!(tried), "{task}");
    }
    assert_eq!(proved.code, Some(0), "{}", proved.all());
    ended(binary().arg("-C").arg(root).arg("up")).with_code(0);
}

/// What an agent may do to installed packages and to the search path, and what the verifier says about it.
const TAMPERED: [(&str, &str, &str); 3] = [
    ("changed-package", "echo '// nothing' >> node_modules/mocha/lib/runner.js", "forged"),
    (
        "package-beside-the-tests",
        "mkdir -p test/node_modules/chai; echo 'module.exports = {};' > test/node_modules/chai/index.js",
        "forged",
    ),
    (
        "programs-in-front",
        "for name in node npm sh env mktemp; do printf '#!/bin/sh\\nexit 0\\n' > /usr/local/sbin/$name; chmod 755 /usr/local/sbin/$name; done",
        "",
    ),
];

/// Lets agents tamper with a proved task, and holds what the verifier says about them.
fn tamper(root: &Path, project: &Project) {
    for (name, script, reason) in TAMPERED {
        let task = root.join("tampered").join(name);
        std::fs::create_dir_all(task.parent().unwrap()).unwrap();
        let from = root.join("tasks").join(project.id());
        assert!(Command::new("cp").arg("-r").arg(from).arg(&task).status().unwrap().success());
        // A task by itself has no image of the project, so it brings the packages along.
        let copy = |from: &Path, to: &Path| Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
        let environment = task.join("environment");
        assert!(copy(&root.join("bases/packages/node_modules"), &environment.join("node_modules")).success());
        let dockerfile = std::fs::read_to_string(environment.join("Dockerfile")).unwrap().replace(
            "FROM seatrial.local/packages\n",
            "FROM seatrial.local/host\nCOPY node_modules /testbed/node_modules\n",
        );
        std::fs::write(environment.join("Dockerfile"), dockerfile).unwrap();
        let script = format!("#!/bin/bash\ncd /testbed\n{script}\n");
        std::fs::write(task.join("solution/solve.sh"), script).unwrap();
        let path = format!("tampered/{name}");
        let arguments = ["run", "--json", "-a", "oracle", "--job-name", name, "-p", &path];
        let ran = ended(binary().arg("-C").arg(root).args(arguments));
        let line = &ran.json_lines()[0];
        assert_eq!(line["outcome"], json!({"reward": 0.0}), "{name}: {}", ran.all());
        let trial = root.join(line["directory"].as_str().unwrap());
        let report = std::fs::read(trial.join("verifier/report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["verdict"]["reason"].as_str().unwrap_or_default(), reason, "{name}: {report}");
    }
}

#[test]
fn bugs_in_go_become_proved_tasks() {
    if !sandboxes_run() || !has("go") {
        return;
    }
    let temp: TempDir = tempfile::tempdir().unwrap();
    write_recipe(temp.path(), &[&GO], false);
    prove(temp.path(), &[&GO]);
}

#[test]
fn bugs_in_javascript_become_proved_tasks() {
    if !sandboxes_run() || !has("node") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let packages = has("npm") && install_mocha(&temp.path().join("bases/packages"));
    let projects = if packages { vec![&NODE, &MOCHA] } else { vec![&NODE] };
    write_recipe(temp.path(), &projects, packages);
    prove(temp.path(), &projects);
    if packages {
        tamper(temp.path(), &MOCHA);
    }
}

#[test]
fn bugs_in_java_become_proved_tasks() {
    if !sandboxes_run() || !has("mvn") || !has("java") {
        return;
    }
    let temp: TempDir = tempfile::tempdir().unwrap();
    if !install_maven(&temp.path().join("bases/packages")) {
        return;
    }
    write_recipe(temp.path(), &[&MAVEN], true);
    prove(temp.path(), &[&MAVEN]);
}
