//! `environment/Dockerfile`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::refusal::RefusalReason;
use super::settings::{BaseTree, Settings};
use crate::printable;

/// The archive that the Dockerfile unpacks.
pub(super) const WORKSPACE_ARCHIVE: &str = "workspace.tar";

/// Writes the Dockerfile. `gone` are the files of the clean tree that the workspace lacks.
pub(super) fn dockerfile(
    settings: &Settings,
    env: &BTreeMap<String, String>,
    gone: &[&[u8]],
) -> Result<String, RefusalReason> {
    let workdir = &settings.workdir;
    let mut text = format!("FROM {}\n", settings.base_image);
    if settings.base_tree == BaseTree::Present {
        // Arguments in the exec form reach the programs as they are; no shell reads a path.
        let mut remove = vec!["rm".to_owned(), "-rf".to_owned(), "--".to_owned(), format!("{workdir}/.git")];
        for path in gone {
            let path = std::str::from_utf8(path).map_err(|_| RefusalReason::PathNotText(printable(path)))?;
            remove.push(format!("{workdir}/{path}"));
        }
        let byte_code = [
            "find",
            workdir,
            "-name",
            "__pycache__",
            "-type",
            "d",
            "-prune",
            "-exec",
            "rm",
            "-rf",
            "--",
            "{}",
            "+",
        ];
        let list = |arguments: &[String]| serde_json::to_string(arguments).expect("texts are JSON");
        writeln!(text, "RUN {}", list(&remove)).expect("a string takes everything");
        writeln!(text, "RUN {}", list(&byte_code.map(str::to_owned))).expect("a string takes everything");
    }
    writeln!(text, "ADD {WORKSPACE_ARCHIVE} {workdir}/\nWORKDIR {workdir}")
        .expect("a string takes everything");
    for (name, value) in env {
        let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !named || value.chars().any(char::is_control) {
            return Err(RefusalReason::EnvironmentVariable(name.clone()));
        }
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
        writeln!(text, "ENV {name}=\"{escaped}\"").expect("a string takes everything");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(base_tree: BaseTree) -> Settings {
        Settings { base_image: "example.invalid/base:1".into(), base_tree, ..Settings::default() }
    }

    #[test]
    fn variables_are_quoted_and_odd_ones_refused() {
        let env = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let text = dockerfile(&settings(BaseTree::Absent), &env("A", "x \"$HOME\" \\"), &[]).unwrap();
        assert_eq!(
            text,
            "FROM example.invalid/base:1\nADD workspace.tar /testbed/\nWORKDIR /testbed\n\
             ENV A=\"x \\\"\\$HOME\\\" \\\\\"\n"
        );
        for (name, value) in [("A B", ""), ("1A", ""), ("", ""), ("A", "x\nRUN y")] {
            assert!(dockerfile(&settings(BaseTree::Absent), &env(name, value), &[]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_old_checkout_is_replaced_without_a_shell() {
        let text =
            dockerfile(&settings(BaseTree::Present), &BTreeMap::new(), &[b"tests/a; rm b.py"]).unwrap();
        assert!(
            text.contains("RUN [\"rm\",\"-rf\",\"--\",\"/testbed/.git\",\"/testbed/tests/a; rm b.py\"]\n"),
            "{text}"
        );
        assert!(dockerfile(&settings(BaseTree::Present), &BTreeMap::new(), &[b"\xff"]).is_err());
    }
}
