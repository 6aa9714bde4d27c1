//! Tells what of a Dockerfile this builder does not support, without building.

use super::ast::Instruction;
use super::instruction::parse;

/// One thing that stands in the way of building.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unsupported {
    /// One-based line of the instruction.
    pub line: u32,
    /// The instruction and what about it is not supported, or is wrong.
    pub what: String,
}

/// Lists everything in a Dockerfile that [`Builder`](super::Builder) refuses whatever the context holds; nothing
/// means that it can be tried. References to images are not resolved.
pub fn survey(text: &str) -> Vec<Unsupported> {
    let parsed = match parse(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            return vec![Unsupported { line: error.line, what: format!("{}: {}", error.name, error.what) }];
        }
    };
    parsed
        .steps
        .iter()
        .filter_map(|step| match &step.instruction {
            Instruction::Unsupported(what) => {
                Some(Unsupported { line: step.line, what: format!("{}: {what}", step.name) })
            }
            _ => None,
        })
        .collect()
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
        assert_eq!(survey("FROM x\nCOPY . /\n"), []);
    }
}
