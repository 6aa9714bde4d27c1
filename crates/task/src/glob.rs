//! Lists of gitignore patterns, read as Harbor reads them.
//!
//! Harbor matches with the Python package `pathspec`, which differs from git in what the order of patterns and a match
//! through a directory mean, and uses two dialects of it: one for `.harborignore`, one for the root's `.gitignore`. A
//! digest depends on every such difference, so the patterns are translated here rather than by a crate that follows git.

use regex::bytes::{Regex, RegexBuilder};

/// Which of Harbor's two readings a list follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `.gitignore` at the root: a flat list over the whole paths of files, in which the last match decides.
    List,
    /// `.harborignore`: asked for each entry on the way down, in which a match of the file itself outweighs a later match
    /// of a directory above it.
    Walk,
}

/// One pattern.
#[derive(Debug)]
struct Pattern {
    negated: bool,
    regex: Regex,
}

/// Patterns in the order of their lines.
#[derive(Debug)]
pub(crate) struct Patterns {
    dialect: Dialect,
    patterns: Vec<Pattern>,
}

/// What a regular expression of a long pattern may take in memory, in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// More patterns than any ignore file has.
const MAX_PATTERNS: usize = 10_000;

impl Patterns {
    /// Reads one pattern a line. Comments, blank lines and lines that are no pattern are left out.
    pub(crate) fn parse(text: &[u8], dialect: Dialect) -> Self {
        let text = String::from_utf8_lossy(text);
        let patterns = text.lines().filter_map(|line| pattern(line, dialect)).take(MAX_PATTERNS);
        Self { dialect, patterns: patterns.collect() }
    }

    /// Whether the patterns exclude an entry, take it back, or say nothing about it. The path of a directory ends in a
    /// slash.
    pub(crate) fn says(&self, path: &[u8]) -> Option<bool> {
        let mut through_directory = None;
        for pattern in self.patterns.iter().rev() {
            let Some(found) = pattern.regex.captures(path) else { continue };
            if self.dialect == Dialect::List || found.name(MARK).is_none() {
                return Some(!pattern.negated);
            }
            through_directory.get_or_insert(!pattern.negated);
        }
        through_directory
    }
}

/// The group that takes part when a pattern matches a directory rather than the whole path.
const MARK: &str = "mark";
const ANY_DEPTH: &str = "^(?:.+/)?";
const MARKED_SLASH: &str = "(?P<mark>/)";

fn pattern(line: &str, dialect: Dialect) -> Option<Pattern> {
    // A blank at the end counts only when it is escaped.
    let line = if line.ends_with("\\ ") { line } else { line.trim_end() };
    if line.is_empty() || line.starts_with('#') || (line == "/" && dialect == Dialect::Walk) {
        return None;
    }
    let (negated, glob) = match line.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let source = translate(glob, dialect)?;
    let regex = RegexBuilder::new(&source).size_limit(MAX_REGEX_BYTES).build().ok()?;
    Some(Pattern { negated, regex })
}

/// The regular expression of one pattern, or `None` for a text that is no pattern.
fn translate(glob: &str, dialect: Dialect) -> Option<String> {
    let mut parts: Vec<&str> = glob.split('/').collect();
    // In the list dialect a lone slash stands for everything.
    let for_directories = glob.ends_with('/') && glob != "/";
    if parts[0].is_empty() {
        parts.remove(0);
    } else if (parts.len() == 1 || parts.len() == 2 && parts[1].is_empty()) && parts[0] != "**" {
        // Without a slash at the start or inside, a pattern holds at every depth.
        parts.insert(0, "**");
    }
    // A slash at the end asks for something below.
    if let Some(last) = parts.last_mut().filter(|last| last.is_empty()) {
        *last = "**";
    }
    parts.dedup_by(|a, b| *a == "**" && *b == "**");

    let slash = if for_directories && dialect == Dialect::Walk { MARKED_SLASH } else { "/" };
    match parts.as_slice() {
        [] => return None,
        ["**"] if for_directories => return Some(slash.to_owned()),
        ["**"] | ["**", "*"] => return Some(".".to_owned()),
        ["**", "*", "**"] => return Some(slash.to_owned()),
        _ => {}
    }
    let last = parts.len() - 1;
    let mut regex = String::new();
    let mut separated = true;
    for (index, part) in parts.iter().enumerate() {
        if *part == "**" {
            match index {
                0 => regex.push_str(ANY_DEPTH),
                _ if index < last => {
                    regex.push_str("(?:/.+)?");
                    separated = false;
                }
                _ => regex.push_str(slash),
            }
            continue;
        }
        if index == 0 {
            regex.push('^');
        }
        if !separated {
            regex.push('/');
        }
        separated = false;
        if *part == "*" {
            regex.push_str("[^/]+");
        } else {
            component(part, dialect, &mut regex)?;
        }
        if index == last {
            regex.push_str(match dialect {
                Dialect::Walk => "(?:(?P<mark>/)|$)",
                // The one pattern that does not reach below what it matches.
                Dialect::List if *part == "*" => "/?$",
                Dialect::List => "(?:/|$)",
            });
        }
    }
    Some(regex)
}

/// Translates the wildcards of one path component.
fn component(part: &str, dialect: Dialect, into: &mut String) -> Option<()> {
    let mut rest = part;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '*' => into.push_str("[^/]*"),
            '?' => into.push_str("[^/]"),
            '\\' => {
                let escaped = rest.chars().next()?;
                rest = &rest[escaped.len_utf8()..];
                into.push_str(&regex::escape(escaped.encode_utf8(&mut [0; 4])));
            }
            '[' => match bracket(rest) {
                Some(length) => {
                    class(&rest[..length], into);
                    rest = &rest[length..];
                }
                None if dialect == Dialect::List => into.push_str("\\["),
                None => return None,
            },
            _ => into.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    Some(())
}

/// The length of a bracket expression behind its opening bracket, the closing one included.
fn bracket(rest: &str) -> Option<usize> {
    let negation = usize::from(rest.starts_with(['!', '^']));
    let first = negation + usize::from(rest[negation..].starts_with(']'));
    rest[first..].find(']').map(|at| first + at + 1)
}

/// Writes a bracket expression; characters that mean more to this regular expression engine are escaped.
fn class(expression: &str, into: &mut String) {
    into.push('[');
    let members = match expression.strip_prefix(['!', '^']) {
        Some(members) => {
            into.push('^');
            members
        }
        None => expression,
    };
    let members = &members[..members.len() - 1];
    for c in members.chars() {
        if matches!(c, '\\' | '[' | ']' | '&' | '~' | '^') {
            into.push('\\');
        }
        into.push(c);
    }
    into.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(patterns: &str, path: &str) -> bool {
        Patterns::parse(patterns.as_bytes(), Dialect::List).says(path.as_bytes()).unwrap_or(false)
    }

    fn walk(patterns: &str, path: &str) -> Option<bool> {
        Patterns::parse(patterns.as_bytes(), Dialect::Walk).says(path.as_bytes())
    }

    #[test]
    fn in_a_list_the_last_match_on_the_whole_path_decides() {
        assert!(list("build/\n", "tests/build/x"));
        assert!(!list("build/\n!keep.txt\n", "tests/build/keep.txt"));
        assert!(list("!keep.txt\nbuild/\n", "tests/build/keep.txt"));
        assert!(!list("__pycache__/\n", "environment/__pycache__"));
        assert!(list("\\#literal\n", "environment/#literal"));
        assert!(list("space\\ \n", "environment/space "));
        assert!(list("/a/*.txt\n", "a/x.txt") && !list("/a/*.txt\n", "b/a/x.txt"));
        assert!(list("a/**/b\n", "a/b") && list("a/**/b\n", "a/x/y/b/c"));
        assert!(list("a/*\n", "a/x") && !list("a/*\n", "a/x/y"));
        assert!(list("[!a]x\n", "bx") && !list("[!a]x\n", "ax") && list("[]a]\n", "]"));
        assert!(list("*/\n", "a/b") && !list("*/\n", "a"));
    }

    #[test]
    fn on_a_walk_the_file_itself_outweighs_a_directory() {
        assert_eq!(walk("*\n!sub\n", "sub/x"), Some(true));
        assert_eq!(walk("*.txt\n!sub/\n", "sub/x.txt"), Some(true));
        assert_eq!(walk("!b\n", "b/x"), Some(false));
        assert_eq!(walk("build/\n", "build/"), Some(true));
        assert_eq!(walk("build/\n", "build"), None);
    }

    #[test]
    fn what_is_no_pattern_matches_nothing() {
        assert_eq!(walk("# x\n\n[\n/\nx\\\n", "x"), None);
        assert!(list("[\n", "["));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[!/*?\\[\\]\\\\a-c#& .~-]{0,12}\n\\PC{0,6}", path in "[a-c/]{1,8}") {
            Patterns::parse(text.as_bytes(), Dialect::List).says(path.as_bytes());
            Patterns::parse(text.as_bytes(), Dialect::Walk).says(path.as_bytes());
        }
    }
}
