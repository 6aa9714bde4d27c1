//! What is wrong with a recipe, and where.

use std::fmt;

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};

/// One mistake in a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Byte range in the text.
    pub span: std::ops::Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

/// A recipe that cannot be used: every mistake that could be found in one pass.
#[derive(Debug)]
pub struct RecipeError {
    text: NamedSource<String>,
    mistakes: Vec<Mistake>,
}

impl RecipeError {
    pub(crate) fn new(file: &str, text: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by(|a, b| (a.span.start, &a.message).cmp(&(b.span.start, &b.message)));
        Self { text: NamedSource::new(file, text.to_owned()).with_language("TOML"), mistakes }
    }

    /// The mistakes in order of their place.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    /// Line and column of a mistake, both counted from 1, the column in characters.
    pub fn position(&self, mistake: &Mistake) -> (usize, usize) {
        let before = &self.text.inner()[..mistake.span.start.min(self.text.inner().len())];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mistakes.as_slice() {
            [one] => {
                let (line, column) = self.position(one);
                write!(f, "{}:{line}:{column}: {}", self.text.name(), one.message)
            }
            many => write!(f, "{} has {} mistakes", self.text.name(), many.len()),
        }
    }
}

impl std::error::Error for RecipeError {}

impl Diagnostic for RecipeError {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let helps: Vec<&str> = self.mistakes.iter().filter_map(|mistake| mistake.help.as_deref()).collect();
        (!helps.is_empty()).then(|| Box::new(helps.join("\n")) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.text)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(
            self.mistakes.iter().map(|mistake| {
                LabeledSpan::new_with_span(Some(mistake.message.clone()), mistake.span.clone())
            }),
        ))
    }
}
