//! Patterns that are fixed, and what stands before one.

use regex::Regex;

/// Declares a pattern that is compiled when it is first asked for. Its parts are joined.
macro_rules! pattern {
    ($(#[$doc:meta])* $name:ident, $($part:expr),+ $(,)?) => {
        $(#[$doc])*
        static $name: std::sync::LazyLock<regex::Regex> = std::sync::LazyLock::new(|| {
            regex::Regex::new(&[$($part),+].concat()).expect("the pattern is fixed and valid")
        });
    };
}

/// Gives what stands before the first match, or the whole text where nothing matches.
pub(super) fn before<'t>(pattern: &Regex, text: &'t str) -> &'t str {
    pattern.find(text).map_or(text, |found| &text[..found.start()])
}
