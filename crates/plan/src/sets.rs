//! Set expressions: union `|`, intersection `&`, difference `-` and parentheses over named id sets.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::str::FromStr;

/// Parentheses nest at most this deep, so that no recipe exhausts the stack.
const DEPTH_LIMIT: usize = 64;

/// One expression holds at most this many operations: standing in a row, each is a level of the tree.
const NODE_LIMIT: usize = 256;

/// A parsed set expression. `&` binds tighter than `|` and `-`, which are read from left to right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetExpr {
    /// The ids of a named set.
    Name(String),
    /// Ids in either.
    Union(Box<Self>, Box<Self>),
    /// Ids in both.
    Intersection(Box<Self>, Box<Self>),
    /// Ids in the left one only.
    Difference(Box<Self>, Box<Self>),
}

/// Where and why a text is no set expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct SetError {
    /// Offset in bytes of the first character that does not fit.
    pub offset: usize,
    /// The same place in characters, counted from 1.
    pub column: usize,
    /// What was expected there.
    pub problem: String,
}

impl SetExpr {
    /// Whether `name` can stand in an expression: letters, digits, `_` and `.`, beginning with a letter or `_`. A dash
    /// is the sign for difference.
    pub fn is_name(name: &str) -> bool {
        name.starts_with(is_name_start) && name.chars().all(is_name_part)
    }

    /// The names that the expression mentions.
    pub fn names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        let mut open = vec![self];
        while let Some(expression) = open.pop() {
            match expression {
                Self::Name(name) => {
                    names.insert(name.as_str());
                }
                Self::Union(a, b) | Self::Intersection(a, b) | Self::Difference(a, b) => {
                    open.extend([&**a, &**b]);
                }
            }
        }
        names
    }

    /// The ids that the expression stands for; `lookup` gives the ids of a name, and an unknown name is an empty set.
    pub(crate) fn eval<'s, 'a: 's>(
        &self,
        lookup: &impl Fn(&str) -> Option<&'s HashSet<&'a str>>,
    ) -> HashSet<&'a str> {
        match self {
            Self::Name(name) => lookup(name).cloned().unwrap_or_default(),
            Self::Union(a, b) => {
                let mut ids = a.eval(lookup);
                ids.extend(b.eval(lookup));
                ids
            }
            Self::Intersection(a, b) => {
                let (mut ids, other) = (a.eval(lookup), b.eval(lookup));
                ids.retain(|id| other.contains(id));
                ids
            }
            Self::Difference(a, b) => {
                let (mut ids, other) = (a.eval(lookup), b.eval(lookup));
                ids.retain(|id| !other.contains(id));
                ids
            }
        }
    }
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

impl FromStr for SetExpr {
    type Err = SetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser { text, at: 0, depth: 0, nodes: 0 };
        let expression = parser.sum()?;
        match parser.peek() {
            None => Ok(expression),
            Some(')') => Err(parser.error("this parenthesis was never opened")),
            Some(_) => Err(parser.error("expected `|`, `&`, `-` or the end")),
        }
    }
}

impl fmt::Display for SetExpr {
    /// Writes the expression with parentheses around every inner operation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |f: &mut fmt::Formatter<'_>, inner: &Self| match inner {
            Self::Name(name) => f.write_str(name),
            _ => write!(f, "({inner})"),
        };
        let (left, sign, right) = match self {
            Self::Name(name) => return f.write_str(name),
            Self::Union(a, b) => (a, " | ", b),
            Self::Intersection(a, b) => (a, " & ", b),
            Self::Difference(a, b) => (a, " - ", b),
        };
        side(f, left)?;
        f.write_str(sign)?;
        side(f, right)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    nodes: usize,
}

impl Parser<'_> {
    /// The next character that is not white space, without taking it.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn error(&self, problem: impl Into<String>) -> SetError {
        let column = self.text[..self.at].chars().count() + 1;
        SetError { offset: self.at, column, problem: problem.into() }
    }

    fn count_node(&mut self) -> Result<(), SetError> {
        self.nodes += 1;
        if self.nodes > NODE_LIMIT { Err(self.error("the expression is too long")) } else { Ok(()) }
    }

    fn sum(&mut self) -> Result<SetExpr, SetError> {
        let mut left = self.product()?;
        while let Some(sign @ ('|' | '-')) = self.peek() {
            self.count_node()?;
            self.at += 1;
            let right = self.product()?;
            let (left_box, right_box) = (Box::new(left), Box::new(right));
            left = if sign == '|' {
                SetExpr::Union(left_box, right_box)
            } else {
                SetExpr::Difference(left_box, right_box)
            };
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<SetExpr, SetError> {
        let mut left = self.operand()?;
        while self.peek() == Some('&') {
            self.count_node()?;
            self.at += 1;
            left = SetExpr::Intersection(Box::new(left), Box::new(self.operand()?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<SetExpr, SetError> {
        match self.peek() {
            Some('(') => {
                if self.depth == DEPTH_LIMIT {
                    return Err(self.error("the parentheses are nested too deeply"));
                }
                let opened = self.error("this parenthesis is never closed");
                self.at += 1;
                self.depth += 1;
                let inner = self.sum()?;
                self.depth -= 1;
                match self.peek() {
                    Some(')') => {
                        self.at += 1;
                        Ok(inner)
                    }
                    Some(_) => Err(self.error("expected `|`, `&`, `-` or `)`")),
                    None => Err(opened),
                }
            }
            Some(c) if is_name_start(c) => {
                let rest = &self.text[self.at..];
                let end = rest.find(|c| !is_name_part(c)).unwrap_or(rest.len());
                self.at += end;
                Ok(SetExpr::Name(rest[..end].to_owned()))
            }
            Some(_) => Err(self.error("expected the name of a set or `(`")),
            None => Err(self.error("the expression ends where the name of a set should be")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn eval(text: &str) -> String {
        let named =
            |name: &'static str, ids: &'static str| (name, ids.split_terminator("").skip(1).collect());
        let sets: BTreeMap<&str, HashSet<&str>> =
            [named("a", "123"), named("b", "234"), named("c", "345"), named("hf.x_1", "19")].into();
        let ids = text.parse::<SetExpr>().unwrap().eval(&|name| sets.get(name));
        ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
    }

    #[test]
    fn operators_have_their_usual_meaning() {
        for (text, ids) in [
            ("a", "123"),
            ("a|b", "1234"),
            ("a & b", "23"),
            ("a - b", "1"),
            ("a - b - c", "1"),
            ("a - (b - c)", "13"),
            ("a | b & c", "1234"),
            ("(a | b) & c", "34"),
            ("a - b | c", "1345"),
            ("a - b & c", "12"),
            ("a - hf.x_1", "23"),
            ("((a))", "123"),
            ("nothing", ""),
        ] {
            assert_eq!(eval(text), ids, "{text}");
        }
    }

    #[test]
    fn errors_point_at_the_place() {
        for (text, column, problem) in [
            ("", 1, "ends"),
            ("a &", 4, "ends"),
            ("a b", 3, "expected `|`"),
            ("a & | b", 5, "name of a set"),
            ("(a | b", 1, "never closed"),
            ("(a b)", 4, "or `)`"),
            ("a)", 2, "never opened"),
            ("é + a", 3, "expected `|`"),
            ("1a", 1, "name of a set"),
        ] {
            let error = text.parse::<SetExpr>().unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.problem.contains(problem), "{text}: {error}");
        }
        let deep = "(".repeat(100_000);
        assert!(deep.parse::<SetExpr>().unwrap_err().problem.contains("deep"));
        let long = format!("a{}", "|a".repeat(100_000));
        assert!(long.parse::<SetExpr>().unwrap_err().problem.contains("long"));
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_the_written_form_means_the_same(text in "[ab.()&|é -]{0,24}") {
            if let Ok(expression) = text.parse::<SetExpr>() {
                prop_assert_eq!(expression.to_string().parse::<SetExpr>().unwrap(), expression);
            }
        }
    }
}
