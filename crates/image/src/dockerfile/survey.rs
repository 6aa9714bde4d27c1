//! Tells what of a Dockerfile this builder does not support, without building.

use std::collections::BTreeSet;

use super::ast::Instruction;
use super::instruction::parse;
use crate::ImageRef;

/// One thing that stands in the way of building.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unsupported {
    /// One-based line of the instruction.
    pub line: u32,
    /// The instruction and what about it is not supported, or is wrong.
    pub what: String,
}

/// Lists everything in a Dockerfile that [`Builder`](super::Builder) refuses whatever the context holds; nothing
/// means that it can be tried. References to images are read, not resolved.
pub fn survey(text: &str) -> Vec<Unsupported> {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            return vec![Unsupported { line: error.line, what: format!("{}: {}", error.name, error.what) }];
        }
    };
    let mut stages = BTreeSet::new();
    let mut found = Vec::new();
    for step in &parsed.steps {
        let what = match &step.instruction {
            Instruction::Unsupported(what) => Some(what.clone()),
            Instruction::From { image, name, .. } => {
                let is_stage = stages.contains(&image.to_ascii_lowercase());
                stages.extend(name.clone());
                // What a variable stands for is known only when building.
                let wrong =
                    (!is_stage && !image.contains('$')).then(|| image.parse::<ImageRef>().err()).flatten();
                wrong.map(|error| error.to_string())
            }
            Instruction::Copy(transfer) | Instruction::Add(transfer) => {
                let octal = |mode: &str| mode.contains('$') || u32::from_str_radix(mode, 8).is_ok();
                let wrong = transfer.flags.chmod.as_ref().filter(|mode| !octal(mode));
                wrong.map(|mode| format!("--chmod={mode}"))
            }
            _ => None,
        };
        found
            .extend(what.map(|what| Unsupported { line: step.line, what: format!("{}: {what}", step.name) }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_listed_at_once() {
        let found = survey("FROM x\nRUN --mount=type=ssh a\nRUN b\nONBUILD RUN c\n");
        assert_eq!(found.iter().map(|u| u.line).collect::<Vec<_>>(), [2, 4]);
        assert!(found[0].what.starts_with("RUN: --mount=type=ssh"));
        assert_eq!(survey("HELLO\n")[0].line, 1);
        assert_eq!(survey("ARG I=X\nFROM x AS Stage\nCOPY . /\nFROM $I\nFROM STAGE\n"), []);
        let found = survey("FROM {image}\nCOPY --chmod=u+x a b\n");
        assert!(found[0].what.contains("`{image}`") && found[1].what.contains("--chmod=u+x"));
    }
}
