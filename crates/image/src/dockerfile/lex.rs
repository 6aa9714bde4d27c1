//! Splits a Dockerfile into logical lines: directives, comments, continuations and here-documents.

use super::ast::{Heredoc, ParseError};

/// Longest Dockerfile that is read, in bytes.
pub(super) const MAX_TEXT: usize = 4 << 20;
const MAX_LINES: usize = 20_000;

/// One instruction as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogicalLine {
    /// One-based line on which it begins.
    pub(super) line: u32,
    /// First word as written.
    pub(super) name: String,
    /// The rest, continuation lines joined, surrounding space removed.
    pub(super) rest: String,
    /// Here-documents that follow it, each with the words that introduced it.
    pub(super) heredocs: Vec<(HeredocStart, Heredoc)>,
}

/// The word that introduces a here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeredocStart {
    /// The word as written, `<<-"EOF"`.
    pub(super) word: String,
    /// Whether leading tabs are removed.
    chomp: bool,
    /// The delimiter without quotes.
    name: String,
    /// Whether the delimiter was not quoted.
    expand: bool,
}

/// What the comments at the top of the file say.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directives {
    /// The escape character.
    pub(super) escape: char,
    /// A front end other than the standard one.
    pub(super) foreign_syntax: Option<(u32, String)>,
}

fn error(line: u32, name: &str, what: impl Into<String>) -> ParseError {
    ParseError { line, name: name.to_owned(), what: what.into() }
}

/// Splits the text.
pub(super) fn split(text: &str) -> Result<(Directives, Vec<LogicalLine>), ParseError> {
    if text.len() > MAX_TEXT {
        return Err(error(1, "Dockerfile", format!("is longer than {MAX_TEXT} bytes")));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let directives = directives(&lines)?;
    let mut logical = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let trimmed = lines[at].trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            at += 1;
            continue;
        }
        let first = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let joined = join(&lines, &mut at, directives.escape);
        let joined = joined.trim();
        let (name, rest) = joined.split_once(char::is_whitespace).unwrap_or((joined, ""));
        let (name, rest) = (name.to_owned(), rest.trim().to_owned());
        if name.is_empty() {
            continue;
        }
        let mut heredocs = Vec::new();
        if ["run", "copy", "add"].contains(&name.to_ascii_lowercase().as_str()) && !rest.starts_with('[') {
            for start in heredoc_starts(&rest, directives.escape) {
                let content = heredoc_content(&lines, &mut at, &start).ok_or_else(|| {
                    error(
                        first,
                        &name.to_ascii_uppercase(),
                        format!("here-document `{}` has no end", start.name),
                    )
                })?;
                let heredoc = Heredoc { name: start.name.clone(), content, expand: start.expand };
                heredocs.push((start, heredoc));
            }
        }
        logical.push(LogicalLine { line: first, name, rest, heredocs });
        if logical.len() > MAX_LINES {
            return Err(error(first, "Dockerfile", format!("has more than {MAX_LINES} instructions")));
        }
    }
    Ok((directives, logical))
}

/// Reads `# name=value` comments, which count only before anything else.
fn directives(lines: &[&str]) -> Result<Directives, ParseError> {
    let mut found = Directives { escape: '\\', foreign_syntax: None };
    for (at, line) in lines.iter().enumerate() {
        let Some(comment) = line.trim().strip_prefix('#') else { break };
        let Some((name, value)) = comment.split_once('=') else { break };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        match name.as_str() {
            "escape" => {
                found.escape = match value {
                    "\\" => '\\',
                    "`" => '`',
                    _ => return Err(error(number, "ESCAPE", "must be a backslash or a backtick")),
                };
            }
            "syntax" => {
                let image = value.strip_prefix("docker.io/").unwrap_or(value);
                let standard = ["docker/dockerfile", "docker/dockerfile-upstream"];
                if !standard.contains(&image.split([':', '@']).next().unwrap_or_default()) {
                    found.foreign_syntax = Some((number, value.to_owned()));
                }
            }
            "check" => {}
            _ => break,
        }
    }
    Ok(found)
}

/// Joins continuation lines. Comments and empty lines between them do not count.
fn join(lines: &[&str], at: &mut usize, escape: char) -> String {
    let mut joined = String::new();
    let mut first = true;
    while *at < lines.len() {
        let line = lines[*at];
        *at += 1;
        if !first && (line.trim().is_empty() || line.trim_start().starts_with('#')) {
            continue;
        }
        first = false;
        match line.trim_end_matches([' ', '\t']).strip_suffix(escape) {
            Some(continued) => joined.push_str(continued),
            None => {
                joined.push_str(line);
                break;
            }
        }
    }
    joined
}

/// Finds the words of a line that introduce here-documents: `[n]<<[-]NAME`, the name perhaps quoted.
pub(super) fn heredoc_starts(line: &str, escape: char) -> Vec<HeredocStart> {
    shell_words(line, escape).into_iter().filter_map(|word| heredoc_start(&word)).collect()
}

fn heredoc_start(word: &str) -> Option<HeredocStart> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix("<<")?;
    let (chomp, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    if rest.is_empty() || rest.contains('<') {
        return None;
    }
    let expand = !rest.contains(['"', '\'']);
    let name: String = rest.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
    let plain = !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || "$`\\()|&;>".contains(c));
    plain.then(|| HeredocStart { word: word.to_owned(), chomp, name, expand })
}

/// Splits a line at space outside quotes; quotes and escapes stay in the words.
pub(super) fn shell_words(line: &str, escape: char) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match quote {
            None if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            None if c == '"' || c == '\'' => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
        word.push(c);
        if c == escape && quote != Some('\'') {
            word.extend(chars.next());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Takes the lines of a here-document; nothing when its delimiter never comes.
fn heredoc_content(lines: &[&str], at: &mut usize, start: &HeredocStart) -> Option<String> {
    let mut content = String::new();
    while *at < lines.len() {
        let line = if start.chomp { lines[*at].trim_start_matches('\t') } else { lines[*at] };
        *at += 1;
        if line == start.name {
            return Some(content);
        }
        content.push_str(line);
        content.push('\n');
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(u32, String, String)> {
        split(text).unwrap().1.into_iter().map(|l| (l.line, l.name, l.rest)).collect()
    }

    #[test]
    fn continuations_join_over_comments_and_empty_lines() {
        let found = lines("FROM x\n\nRUN a && \\\n  # why\n\n  b \\  \n  c\nCMD d");
        let expected = [(1, "FROM", "x"), (3, "RUN", "a &&   b   c"), (8, "CMD", "d")];
        assert_eq!(found, expected.map(|(l, n, r)| (l, n.to_owned(), r.to_owned())));
    }

    #[test]
    fn the_escape_directive_counts_only_at_the_top() {
        assert_eq!(lines("# escape=`\nRUN a `\n b\\\nCMD c")[0].2, "a  b\\");
        assert_eq!(lines("# a comment\n# escape=`\nRUN a `\nCMD c")[0].2, "a `");
        assert!(split("# escape=x\n").is_err());
    }

    #[test]
    fn foreign_front_ends_are_noticed() {
        let of = |text: &str| split(text).unwrap().0.foreign_syntax;
        assert_eq!(of("# syntax=docker/dockerfile:1\n"), None);
        assert_eq!(of("# syntax=docker/dockerfile:1.7-labs\n"), None);
        assert_eq!(of("#syntax=other/thing\n"), Some((1, "other/thing".to_owned())));
    }

    #[test]
    fn heredocs_take_the_lines_that_follow() {
        let (_, found) = split("RUN cat <<A <<-\"B\" > x\n$a\nA\n\t\tb # no comment\n\tB\nCMD x").unwrap();
        assert_eq!(found.len(), 2);
        let docs: Vec<_> = found[0].heredocs.iter().map(|(_, h)| h.clone()).collect();
        assert_eq!(docs[0], Heredoc { name: "A".into(), content: "$a\n".into(), expand: true });
        assert_eq!(docs[1], Heredoc { name: "B".into(), content: "b # no comment\n".into(), expand: false });
        assert!(split("RUN <<EOF\nx").unwrap_err().what.contains("EOF"));
        assert!(heredoc_starts("echo $((1 << 2)) \"<<x y\" <<<here", '\\').is_empty());
    }

    #[test]
    fn carriage_returns_and_a_byte_order_mark_are_no_content() {
        assert_eq!(lines("\u{feff}FROM x\r\nRUN a \\\r\n b\r\n")[1].2, "a  b");
    }
}
