//! Simple commands and their words.

use std::borrow::Cow;

/// One word of a command, quotes removed, expansions left as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    /// The text: a part of the script, unless a quote or something else inside it was removed.
    pub(crate) text: Cow<'a, str>,
    /// Whether any part of it was quoted.
    pub(crate) quoted: bool,
}

/// What stands between a command and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Joint {
    /// A line end, a semicolon, `&`, or a parenthesis.
    #[default]
    Then,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
}

/// One simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Command<'a> {
    /// Line of its first word, counted from 1.
    pub(crate) line: u32,
    /// How it is joined to the command before it.
    pub(crate) joint: Joint,
    /// How deep it stands in substitutions and subshells.
    pub(crate) depth: usize,
    /// Its words without redirections.
    pub(crate) words: Vec<Word<'a>>,
    /// Place in the words of the program's name; their number where there is none.
    pub(super) program: usize,
    /// The files that its output goes to.
    pub(crate) outputs: Vec<Cow<'a, str>>,
}

/// Words that may stand before a command without being one.
const KEYWORDS: &[&str] = &["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "eval"];
/// Programs that run the command that follows them.
const WRAPPERS: &[&str] =
    &["sudo", "exec", "nohup", "env", "command", "builtin", "stdbuf", "nice", "xargs", "timeout"];

impl<'a> Command<'a> {
    /// The same without borrowing from the script.
    pub(super) fn into_owned(self) -> Command<'static> {
        let word = |word: Word<'_>| Word { text: word.text.into_owned().into(), quoted: word.quoted };
        Command {
            line: self.line,
            joint: self.joint,
            depth: self.depth,
            words: self.words.into_iter().map(word).collect(),
            program: self.program,
            outputs: self.outputs.into_iter().map(|file| file.into_owned().into()).collect(),
        }
    }

    /// The words from the program's name on: without assignments, keywords, and programs that only run another.
    pub(crate) fn program(&self) -> &[Word<'a>] {
        &self.words[self.program..]
    }

    /// The name of the program without its directory; empty when there is none.
    pub(crate) fn name(&self) -> &str {
        let name = self.program().first().map_or("", |word| &*word.text);
        name.rsplit('/').next().unwrap_or(name)
    }

    /// Whether the first word is `word`, unquoted.
    pub(crate) fn begins_with(&self, word: &str) -> bool {
        self.words.first().is_some_and(|first| !first.quoted && first.text == word)
    }
}

/// Place in `words` of the name of the program that they run; their number where they run none.
pub(super) fn place_of_program(words: &[Word<'_>]) -> usize {
    let mut rest = words;
    while let Some((first, tail)) = rest.split_first() {
        let word = &*first.text;
        if first.quoted || !(KEYWORDS.contains(&word) || is_assignment(word)) {
            if !WRAPPERS.contains(&word) {
                break;
            }
            // `command -v curl` asks for a program and does not run it.
            if word == "command" && tail.first().is_some_and(|next| matches!(&*next.text, "-v" | "-V")) {
                return words.len();
            }
            rest = without_options(word, tail);
            continue;
        }
        rest = tail;
    }
    words.len() - rest.len()
}

/// Whether a word is an assignment such as `NAME=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.trim_end_matches('+').bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// What follows the options of a wrapper; `timeout` also takes a duration.
fn without_options<'w, 'a>(wrapper: &str, words: &'w [Word<'a>]) -> &'w [Word<'a>] {
    let mut rest = words;
    while let Some((first, tail)) = rest.split_first() {
        let takes_value = matches!((wrapper, &*first.text), ("sudo", "-u" | "-g") | ("timeout", "-k" | "-s"));
        rest = match first.text.starts_with('-') {
            true if takes_value => tail.get(1..).unwrap_or_default(),
            true => tail,
            false => break,
        };
    }
    if wrapper == "timeout" { rest.get(1..).unwrap_or_default() } else { rest }
}

#[cfg(test)]
mod tests {
    use super::super::read_script;

    fn names(text: &str) -> Vec<String> {
        let names = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        read_script(text).commands.iter().filter_map(|command| names(command.name())).collect()
    }

    #[test]
    fn programs_are_found_behind_what_stands_before_them() {
        assert_eq!(names("A=1 B+=2 curl x"), ["curl"]);
        assert_eq!(names("if ! sudo -u me -E curl x; then\n /usr/bin/wget y; fi"), ["curl", "wget", "fi"]);
        assert_eq!(names("timeout -k 5 30 curl x"), ["curl"]);
        assert_eq!(names("env A=1 pip install x"), ["pip"]);
        assert_eq!(names("command -v curl && command curl x"), ["curl"]);
    }
}
