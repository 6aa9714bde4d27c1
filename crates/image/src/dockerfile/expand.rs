//! Variables, quotes and escapes in the words of instructions.

/// Deepest nesting of `${a:-${b:-…}}`.
const MAX_DEPTH: u32 = 16;
/// Longest text that one expansion may give, in bytes.
const MAX_LENGTH: usize = 1 << 20;

/// Looks a variable up.
pub(super) type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Expands `$name`, `${name}`, `${name:-word}`, `${name-word}`, `${name:+word}`, `${name+word}`, `${name:?word}` and
/// removes quotes and escapes. A variable that is not set is empty. Other forms in braces are an error by name.
pub(super) fn word(text: &str, escape: char, lookup: &Lookup<'_>) -> Result<String, String> {
    let mut out = Expander { chars: text.chars().collect(), at: 0, escape, lookup, quotes: true };
    let expanded = out.until(None, 0)?;
    Ok(expanded)
}

/// Expands variables in the content of a here-document, where quotes are ordinary characters.
pub(super) fn document(text: &str, escape: char, lookup: &Lookup<'_>) -> Result<String, String> {
    Expander { chars: text.chars().collect(), at: 0, escape, lookup, quotes: false }.until(None, 0)
}

struct Expander<'a> {
    chars: Vec<char>,
    at: usize,
    escape: char,
    lookup: &'a Lookup<'a>,
    quotes: bool,
}

impl Expander<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// Expands up to the closing character, which is taken, or the end.
    fn until(&mut self, close: Option<char>, depth: u32) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nests variables more than {MAX_DEPTH} deep"));
        }
        let mut out = String::new();
        while let Some(c) = self.next() {
            if Some(c) == close {
                return Ok(out);
            }
            match c {
                '\'' if self.quotes => loop {
                    match self.next() {
                        Some('\'') => break,
                        Some(inner) => out.push(inner),
                        None => return Err("has a single quote without its partner".to_owned()),
                    }
                },
                '"' if self.quotes => self.double_quoted(&mut out, depth)?,
                '$' => out.push_str(&self.variable(depth)?),
                c if c == self.escape => match self.next() {
                    Some(escaped) if self.quotes || escaped == '$' || escaped == self.escape => {
                        out.push(escaped);
                    }
                    Some(other) => out.extend([c, other]),
                    None => out.push(c),
                },
                c => out.push(c),
            }
            if out.len() > MAX_LENGTH {
                return Err(format!("expands to more than {MAX_LENGTH} bytes"));
            }
        }
        match close {
            None => Ok(out),
            Some(close) => Err(format!("has no closing `{close}`")),
        }
    }

    fn double_quoted(&mut self, out: &mut String, depth: u32) -> Result<(), String> {
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('$') => out.push_str(&self.variable(depth)?),
                Some(c) if c == self.escape => match self.next() {
                    Some(escaped) if matches!(escaped, '"' | '$') || escaped == self.escape => {
                        out.push(escaped);
                    }
                    Some(other) => out.extend([c, other]),
                    None => return Err("has a double quote without its partner".to_owned()),
                },
                Some(c) => out.push(c),
                None => return Err("has a double quote without its partner".to_owned()),
            }
        }
    }

    /// Expands what follows a dollar sign.
    fn variable(&mut self, depth: u32) -> Result<String, String> {
        match self.peek() {
            Some('{') => {
                self.at += 1;
                self.braced(depth)
            }
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                let name = self.name();
                Ok((self.lookup)(&name).unwrap_or_default())
            }
            // Positional and special parameters are never set at build time.
            Some(c) if c.is_ascii_digit() || "@*#?!".contains(c) => {
                self.at += 1;
                Ok(String::new())
            }
            _ => Ok("$".to_owned()),
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| *c == '_' || c.is_ascii_alphanumeric()) {
            name.push(c);
            self.at += 1;
        }
        name
    }

    fn braced(&mut self, depth: u32) -> Result<String, String> {
        let name = self.name();
        if name.is_empty() {
            return Err("has `${` without a variable's name".to_owned());
        }
        let value = (self.lookup)(&name);
        let operator = self.next().ok_or_else(|| format!("has `${{{name}` without its closing brace"))?;
        let (operator, empty_counts) = match operator {
            '}' => return Ok(value.unwrap_or_default()),
            ':' => (self.next().unwrap_or('}'), true),
            other => (other, false),
        };
        if !matches!(operator, '-' | '+' | '?') {
            return Err(format!(
                "uses `${{{name}{operator}…}}`; supported are ${{{name}}} and the operators - + ? with or without a colon"
            ));
        }
        let alternative = self.until(Some('}'), depth + 1)?;
        let value = value.filter(|value| !(empty_counts && value.is_empty()));
        match (operator, value) {
            ('+', Some(_)) | ('-', None) => Ok(alternative),
            ('?', None) => Err(format!("needs the variable `{name}`: {alternative}")),
            (_, Some(value)) => Ok(value),
            (_, None) => Ok(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expand(text: &str) -> Result<String, String> {
        word(text, '\\', &|name| match name {
            "A" => Some("a".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn all_supported_forms() {
        for (text, expected) in [
            ("$A/${A}b$Ab", "a/ab"),
            ("${NO:-x}${EMPTY:-y}${EMPTY-z}", "xy"),
            ("${A:+x}${NO:+y}${EMPTY:+z}${EMPTY+e}", "xe"),
            ("${NO:-${A}-${NO:-deep}}", "a-deep"),
            ("'$A'\"$A\"\\$A", "$Aa$A"),
            ("\"a\\\"b\\c\"", "a\"b\\c"),
            ("cost $ 5", "cost $ 5"),
            ("$1", ""),
        ] {
            assert_eq!(expand(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_forms_are_named() {
        assert!(expand("${A#x}").unwrap_err().contains("${A#"));
        assert!(expand("${A").unwrap_err().contains("closing"));
        assert!(expand("${NO:?is needed}").unwrap_err().contains("is needed"));
        assert!(expand("'x").unwrap_err().contains("quote"));
        assert!(expand(&"${NO:-".repeat(100)).unwrap_err().contains("deep"));
    }

    #[test]
    fn documents_keep_their_quotes() {
        let text = document("\"$A\" 'b' \\n \\$A", '\\', &|_| Some("v".to_owned())).unwrap();
        assert_eq!(text, "\"v\" 'b' \\n $A");
    }

    proptest! {
        #[test]
        fn any_word_expands_or_is_refused(text in "[$'\"\\\\{}:?+#a-cA-C -]{0,40}") {
            let _ = expand(&text);
            let _ = document(&text, '`', &|_| None);
        }

        #[test]
        fn plain_words_stay_as_they_are(text in "[a-zA-Z0-9/._{}:=-]{0,40}") {
            prop_assert_eq!(expand(&text), Ok(text));
        }
    }
}
