//! Takes a script apart.

use std::borrow::Cow;

use super::command::{Command, Joint, Word, place_of_program};

/// Substitutions nested deeper than this are read as text.
const MAX_DEPTH: usize = 64;

/// A script taken apart.
#[derive(Debug, Default)]
pub(crate) struct Script<'a> {
    /// Simple commands in the order in which they end, those of substitutions included.
    pub(crate) commands: Vec<Command<'a>>,
    /// Here-documents in order.
    pub(crate) heredocs: Vec<Heredoc<'a>>,
}

impl Script<'_> {
    /// The same without borrowing from its text.
    pub(crate) fn into_owned(self) -> Script<'static> {
        let heredoc = |heredoc: Heredoc<'_>| Heredoc {
            line: heredoc.line,
            body: heredoc.body.into_owned().into(),
            command: heredoc.command,
        };
        Script {
            commands: self.commands.into_iter().map(Command::into_owned).collect(),
            heredocs: self.heredocs.into_iter().map(heredoc).collect(),
        }
    }
}

/// A here-document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heredoc<'a> {
    /// The first line of its body, counted from 1.
    pub(crate) line: u32,
    /// The body.
    pub(crate) body: Cow<'a, str>,
    /// Place in [`Script::commands`] of the command that it belongs to, where that has been read.
    pub(crate) command: usize,
}

/// What a reader is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// `$( )` or `( )`
    Parenthesis,
    /// Two backticks.
    Backticks,
}

/// A command that was interrupted by a substitution, and whether it stood in double quotes.
struct Outer<'a> {
    inside: Inside,
    command: Command<'a>,
    word: Option<Draft>,
    in_quotes: bool,
}

/// A word that is being read: a part of the script as long as nothing inside it was left out.
#[derive(Default)]
struct Draft {
    begin: usize,
    end: usize,
    /// The text, where it is no part of the script.
    text: Option<String>,
    quoted: bool,
}

impl Draft {
    /// Adds a part of the script.
    fn push(&mut self, script: &str, begin: usize, end: usize) {
        let part = &script[begin..end];
        match &mut self.text {
            Some(text) => text.push_str(part),
            None if self.begin == self.end => (self.begin, self.end) = (begin, end),
            None if self.end == begin => self.end = end,
            None => self.text = Some([&script[self.begin..self.end], part].concat()),
        }
    }

    fn finish(self, script: &str) -> Word<'_> {
        let text = self.text.map_or(Cow::Borrowed(&script[self.begin..self.end]), Cow::Owned);
        Word { text, quoted: self.quoted }
    }
}

/// Which way a redirection goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirection {
    Input,
    Output,
}

/// A here-document whose body comes with the next line.
struct Pending {
    delimiter: String,
    strip_tabs: bool,
    command: usize,
}

struct Reader<'a> {
    text: &'a str,
    /// Where the next character begins.
    at: usize,
    line: u32,
    script: Script<'a>,
    outer: Vec<Outer<'a>>,
    command: Command<'a>,
    word: Option<Draft>,
    /// The word being read is the target of a redirection and no argument.
    redirected: Option<Redirection>,
    pending: Vec<Pending>,
}

/// Takes the text of a script apart.
pub(crate) fn read_script(text: &str) -> Script<'_> {
    let mut reader = Reader {
        text,
        at: 0,
        line: 1,
        script: Script::default(),
        outer: Vec::new(),
        command: Command::default(),
        word: None,
        redirected: None,
        pending: Vec::new(),
    };
    reader.read();
    reader.script
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += u32::from(c == '\n');
        Some(c)
    }

    /// Goes on to the next byte for which `ends` holds, or to the end. No such byte stands inside a character.
    fn skip_until(&mut self, ends: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len());
        // A line end is passed only where it ends nothing.
        if !ends(b'\n') {
            self.line += memchr::memchr_iter(b'\n', &rest[..length]).count() as u32;
        }
        self.at += length;
    }

    fn next_is(&mut self, wanted: char) -> bool {
        let is = self.peek() == Some(wanted);
        if is {
            self.next();
        }
        is
    }

    /// Adds what was read since `begin` to the word.
    fn push_from(&mut self, begin: usize) {
        let (text, end) = (self.text, self.at);
        self.word().push(text, begin, end);
    }

    fn quote(&mut self) {
        self.word().quoted = true;
    }

    /// The word being read, which begins here if there is none.
    fn word(&mut self) -> &mut Draft {
        if self.command.words.is_empty() && self.word.is_none() {
            self.command.line = self.line;
        }
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let word = word.finish(self.text);
        match self.redirected.take() {
            None => self.command.words.push(word),
            Some(Redirection::Output) => self.command.outputs.push(word.text),
            Some(Redirection::Input) => {}
        }
    }

    fn end_command(&mut self, joint: Joint) {
        self.end_word();
        self.redirected = None;
        let depth = self.outer.len();
        let mut done = std::mem::replace(&mut self.command, Command { joint, depth, ..Command::default() });
        if done.words.is_empty() {
            // `a &&` at a line end joins what follows on the next line.
            if joint == Joint::Then && done.joint != Joint::Then {
                self.command.joint = done.joint;
            }
        } else {
            done.program = place_of_program(&done.words);
            self.script.commands.push(done);
        }
    }

    fn read(&mut self) {
        loop {
            let begin = self.at;
            let Some(c) = self.next() else { break };
            match c {
                '\n' => {
                    self.end_command(Joint::Then);
                    self.bodies();
                }
                ' ' | '\t' | '\r' => self.end_word(),
                '#' if self.word.is_none() => self.skip_until(|byte| byte == b'\n'),
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(_) => self.push_from(begin + 1),
                },
                '\'' => self.single_quotes(),
                '"' => {
                    self.quote();
                    self.double_quotes();
                }
                '$' => self.dollar(false),
                '`' => self.backtick(false),
                '(' => {
                    self.end_command(Joint::Then);
                    self.enter(Inside::Parenthesis, false);
                }
                ')' => self.close(Inside::Parenthesis),
                ';' => self.end_command(Joint::Then),
                '|' => {
                    let joint = if self.next_is('|') { Joint::Or } else { Joint::Pipe };
                    self.next_is('&');
                    self.end_command(joint);
                }
                '&' if self.peek() == Some('>') => self.end_word(),
                '&' => {
                    let joint = if self.next_is('&') { Joint::And } else { Joint::Then };
                    self.end_command(joint);
                }
                '>' | '<' => self.redirection(c),
                _ => {
                    self.skip_until(ends_a_run);
                    self.push_from(begin);
                }
            }
        }
        while !self.outer.is_empty() {
            self.leave();
        }
        self.end_command(Joint::Then);
    }

    fn single_quotes(&mut self) {
        self.quote();
        let begin = self.at;
        self.skip_until(|byte| byte == b'\'');
        self.push_from(begin);
        self.next();
    }

    /// Reads on inside double quotes, up to the closing one or a substitution.
    fn double_quotes(&mut self) {
        loop {
            let begin = self.at;
            let Some(c) = self.next() else { return };
            match c {
                '"' => return,
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some('"' | '\\' | '$' | '`') => self.push_from(begin + 1),
                    Some(_) => self.push_from(begin),
                },
                '$' if self.peek() == Some('(') => {
                    let depth = self.outer.len();
                    self.dollar(true);
                    if self.outer.len() != depth {
                        return;
                    }
                }
                '`' => {
                    let depth = self.outer.len();
                    self.backtick(true);
                    if self.outer.len() != depth {
                        return;
                    }
                }
                _ => {
                    self.skip_until(|byte| matches!(byte, b'"' | b'\\' | b'$' | b'`'));
                    self.push_from(begin);
                }
            }
        }
    }

    /// A dollar sign, which was just read: arithmetic and braces are text, `$(` begins a substitution.
    fn dollar(&mut self, in_quotes: bool) {
        let begin = self.at;
        self.push_from(begin - 1);
        match self.peek() {
            Some('(') => {
                self.next();
                if self.next_is('(') {
                    self.skip_until_balanced('(', ')', 2);
                    self.push_from(begin);
                } else if self.outer.len() < MAX_DEPTH {
                    self.enter(Inside::Parenthesis, in_quotes);
                } else {
                    self.push_from(begin);
                }
            }
            Some('{') => {
                self.next();
                self.skip_until_balanced('{', '}', 1);
                self.push_from(begin);
            }
            Some('\'') if !in_quotes => {
                // `$'…'` with its own escapes: an escaped quote does not end it.
                self.next();
                self.quote();
                let begin = self.at;
                loop {
                    self.skip_until(|byte| matches!(byte, b'\'' | b'\\'));
                    if self.peek() != Some('\\') {
                        break;
                    }
                    self.next();
                    self.next();
                }
                self.push_from(begin);
                self.next();
            }
            _ => {}
        }
    }

    fn skip_until_balanced(&mut self, open: char, close: char, mut depth: usize) {
        while depth > 0 {
            // A line end inside means that this was something else.
            let Some(c) = self.peek() else { return };
            if c == '\n' {
                return;
            }
            self.next();
            if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
            }
        }
    }

    fn backtick(&mut self, in_quotes: bool) {
        if self.outer.iter().any(|outer| outer.inside == Inside::Backticks) {
            self.close(Inside::Backticks);
        } else if self.outer.len() < MAX_DEPTH {
            self.enter(Inside::Backticks, in_quotes);
        }
    }

    fn enter(&mut self, inside: Inside, in_quotes: bool) {
        if self.outer.len() >= MAX_DEPTH {
            return;
        }
        let depth = self.outer.len() + 1;
        let command = std::mem::replace(&mut self.command, Command { depth, ..Command::default() });
        self.outer.push(Outer { inside, command, word: self.word.take(), in_quotes });
    }

    /// A closing sign: it ends the substitutions up to the nearest one of its kind; without one, such as in the
    /// patterns of `case`, it ends the command.
    fn close(&mut self, inside: Inside) {
        if !self.outer.iter().any(|outer| outer.inside == inside) {
            self.end_command(Joint::Then);
            return;
        }
        loop {
            let reached = self.outer.last().is_none_or(|outer| outer.inside == inside);
            let in_quotes = self.leave();
            if reached {
                if in_quotes {
                    self.double_quotes();
                }
                return;
            }
        }
    }

    /// Goes back to the interrupted command; tells whether it stood in double quotes.
    fn leave(&mut self) -> bool {
        self.end_command(Joint::Then);
        let Some(outer) = self.outer.pop() else { return false };
        self.command = outer.command;
        self.word = outer.word;
        outer.in_quotes
    }

    fn redirection(&mut self, sign: char) {
        // The number in `2>` belongs to the redirection.
        let script = self.text.as_bytes();
        self.word.take_if(|word| {
            let text = word.text.as_ref().map_or(&script[word.begin..word.end], |text| text.as_bytes());
            !word.quoted && text.iter().all(u8::is_ascii_digit)
        });
        self.end_word();
        if sign == '<' && self.next_is('<') {
            if self.next_is('<') {
                // A here-string: its word is read like any other.
                return;
            }
            let strip_tabs = self.next_is('-');
            self.skip_until(|byte| !matches!(byte, b' ' | b'\t'));
            if let Some(delimiter) = self.delimiter() {
                let command = self.script.commands.len();
                self.pending.push(Pending { delimiter, strip_tabs, command });
            }
            return;
        }
        self.skip_until(|byte| !matches!(byte, b'>' | b'&' | b'|'));
        if sign == '<' && self.peek() == Some('(') {
            return;
        }
        self.skip_until(|byte| !matches!(byte, b' ' | b'\t'));
        let way = if sign == '>' { Redirection::Output } else { Redirection::Input };
        self.redirected = self.peek().is_some_and(|c| c != '\n' && c != '(').then_some(way);
    }

    fn delimiter(&mut self) -> Option<String> {
        let mut name = String::new();
        let mut quote = None;
        while let Some(c) = self.peek() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, '\\') => {}
                (None, c) if c.is_whitespace() || matches!(c, ';' | '&' | '|' | ')' | '>' | '<') => break,
                (_, '\n') => break,
                (_, c) => name.push(c),
            }
            self.next();
        }
        (!name.is_empty()).then_some(name)
    }

    /// Reads the bodies of the here-documents that were announced on the line that just ended.
    fn bodies(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let (line, begin) = (self.line, self.at);
            let mut stripped = String::new();
            let end = loop {
                let begin = self.at;
                self.skip_until(|byte| byte == b'\n');
                let text = &self.text[begin..self.at];
                let ended = self.next().is_none();
                let plain = text.trim_end_matches('\r');
                let plain = if pending.strip_tabs { plain.trim_start_matches('\t') } else { plain };
                if plain == pending.delimiter || (ended && text.is_empty()) {
                    break begin;
                }
                if pending.strip_tabs {
                    stripped.push_str(text.trim_start_matches('\t'));
                    stripped.push('\n');
                }
                if ended {
                    break self.at;
                }
            };
            let body = match &self.text[begin..end] {
                _ if pending.strip_tabs => Cow::Owned(stripped),
                whole if whole.is_empty() || whole.ends_with('\n') => Cow::Borrowed(whole),
                cut => Cow::Owned([cut, "\n"].concat()),
            };
            self.script.heredocs.push(Heredoc { line, body, command: pending.command });
        }
    }
}

/// Whether a byte may mean something else inside a word than itself.
fn ends_a_run(byte: u8) -> bool {
    matches!(
        byte,
        b'\n'
            | b' '
            | b'\t'
            | b'\r'
            | b'\\'
            | b'\''
            | b'"'
            | b'$'
            | b'`'
            | b'('
            | b')'
            | b';'
            | b'|'
            | b'&'
            | b'>'
            | b'<'
    )
}

#[cfg(test)]
mod tests {
    use super::super::command::Joint::{And, Or, Pipe, Then};
    use super::*;

    fn commands(text: &str) -> Vec<(u32, Vec<String>)> {
        let script = read_script(text);
        let words =
            |command: &Command<'_>| command.words.iter().map(|word| word.text.clone().into_owned()).collect();
        script.commands.iter().map(|command| (command.line, words(command))).collect()
    }

    fn words(text: &str) -> Vec<Vec<String>> {
        commands(text).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn commands_have_lines_and_words() {
        assert_eq!(
            commands("#!/bin/sh\n# curl x\napt-get update && \\\n  apt-get install -y 'a b' \"c\"d # no\n"),
            [
                (3, vec!["apt-get".into(), "update".into()]),
                (4, vec!["apt-get".into(), "install".into(), "-y".into(), "a b".into(), "cd".into()]),
            ]
        );
        assert_eq!(words("a;b|c||d&e"), [["a"], ["b"], ["c"], ["d"], ["e"]]);
        assert_eq!(words("a#b #c"), [["a#b"]]);
    }

    #[test]
    fn outputs_are_kept_apart() {
        let script = read_script("printf x > a.sh 2> /dev/null\ncat <<E >> \"b c\"\nE\n");
        let outputs: Vec<_> = script.commands.iter().map(|command| command.outputs.join(" ")).collect();
        assert_eq!(outputs, ["a.sh /dev/null", "b c"]);
    }

    #[test]
    fn redirections_are_no_words() {
        assert_eq!(words("curl x > /dev/null 2>&1 </in >>log"), [["curl", "x"]]);
        assert_eq!(words("curl x &> all; b"), [vec!["curl", "x"], vec!["b"]]);
        assert_eq!(words("cat <<< 'x y' z"), [["cat", "x y", "z"]]);
    }

    #[test]
    fn substitutions_are_commands_of_their_own() {
        assert_eq!(words("x=\"$(curl a) b\" c"), [vec!["curl", "a"], vec!["x=$ b", "c"]]);
        assert_eq!(words("`curl a` b"), [vec!["curl", "a"], vec!["b"]]);
        assert_eq!(words("echo $(( 1 + 2 )) ${x:-(}"), [["echo", "$(( 1 + 2 ))", "${x:-(}"]]);
        assert_eq!(words("(a; b) && c"), [["a"], ["b"], ["c"]]);
        assert_eq!(
            words("case x in\n y) a;;\nesac"),
            [vec!["case", "x", "in"], vec!["y"], vec!["a"], vec!["esac"]]
        );
    }

    #[test]
    fn here_documents_are_kept_apart() {
        let script = read_script("cat > f <<'EOF' && a\ncurl x\nEOF\nb <<-E\n\ty\n\tE\nc\n");
        assert_eq!(
            script.heredocs,
            [
                Heredoc { line: 2, body: "curl x\n".into(), command: 0 },
                Heredoc { line: 5, body: "y\n".into(), command: 2 },
            ]
        );
        let names: Vec<_> = script.commands.iter().map(|command| command.name().to_owned()).collect();
        assert_eq!(names, ["cat", "a", "b", "c"]);
        assert_eq!(read_script("cat <<E\nx").heredocs[0].body, "x\n");
    }

    #[test]
    fn joints_tell_how_commands_hang_together() {
        let script = read_script("a\nb || c && d | e\nf &&\n g\n");
        let joints: Vec<_> = script.commands.iter().map(|command| command.joint).collect();
        assert_eq!(joints, [Then, Then, Or, And, Pipe, Then, And]);
    }

    #[test]
    fn odd_texts_do_no_harm() {
        for text in [
            "'", "\"", "$(", "`", "\"$(\"", "((((", "))))", "<<", "<<'", "a <<E", "\\", "${", "$((", "$'\\",
            "&>", ">",
        ] {
            read_script(text);
        }
        read_script(&"$(".repeat(10_000));
        read_script(&"\"$(".repeat(10_000));
    }

    proptest::proptest! {
        /// Whatever the text, it is read to its end, every command has a word and a line of the text.
        #[test]
        fn any_text_is_read(text in "[a-c \n'\"`$(){}<>|&;#\\\\E-]{0,80}") {
            let script = read_script(&text);
            let lines = text.split('\n').count() as u32;
            for command in &script.commands {
                proptest::prop_assert!(!command.words.is_empty());
                proptest::prop_assert!((1..=lines).contains(&command.line), "{command:?}");
            }
        }
    }
}
