//! The tags of an XML text that nobody vouches for: enough to read test reports, in one pass.

use std::borrow::Cow;

/// Longest tag that is read, in bytes.
const MAX_TAG_BYTES: usize = 65_536;

/// One tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tag<'t> {
    /// `<?xml ...?>`: a document begins.
    Declaration,
    /// `<name ...>`; its attributes are kept as text.
    Open { name: &'t str, attributes: &'t str, is_empty: bool },
    /// `</name>`.
    Close { name: &'t str },
    /// A comment, a literal part or a declaration without an end: whatever follows is inside it.
    Cut,
}

/// Goes through the tags of a text. Literal parts (CDATA), comments and text between tags are passed over, so what
/// they hold is never a tag.
pub(super) struct Tags<'t> {
    text: &'t str,
    at: usize,
    is_cut: bool,
}

impl<'t> Tags<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { text, at: 0, is_cut: false }
    }

    /// Goes to where a test report begins: text outside of reports is anything at all.
    pub(super) fn seek_report(&mut self) -> bool {
        const BEGINNINGS: [&str; 2] = ["<?xml", "<testsuite"];
        let rest = &self.text[self.at..];
        let found = rest
            .match_indices('<')
            .find(|(at, _)| BEGINNINGS.iter().any(|beginning| rest[*at..].starts_with(beginning)));
        self.at += found.map_or(rest.len(), |(at, _)| at);
        found.is_some()
    }

    /// Passes over everything up to the end of `end`.
    fn skip(&mut self, end: &str) -> bool {
        match self.text[self.at..].find(end) {
            Some(found) => self.at += found + end.len(),
            None => (self.at, self.is_cut) = (self.text.len(), true),
        }
        !self.is_cut
    }

    /// Reads the tag whose `<` stands right before `self.at`, or passes on.
    fn tag(&mut self) -> Option<Tag<'t>> {
        let rest = &self.text[self.at..];
        if let Some(after) = rest.strip_prefix('/') {
            let end = after.find(|c: char| !is_name(c)).unwrap_or(after.len());
            let name = &after[..end];
            self.at += 1 + end;
            return (!name.is_empty()).then_some(Tag::Close { name });
        }
        let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        self.at += end;
        if name.is_empty() {
            return None;
        }
        let mut quote = None;
        for (at, byte) in after.bytes().enumerate().take(MAX_TAG_BYTES) {
            match (byte, quote) {
                (b'"' | b'\'', None) => quote = Some(byte),
                (_, Some(open)) if byte == open => quote = None,
                (b'>', None) => {
                    let attributes = &after[..at];
                    self.at += at + 1;
                    let is_empty = attributes.ends_with('/');
                    return Some(Tag::Open { name, attributes, is_empty });
                }
                (b'<', None) => return None,
                _ => {}
            }
        }
        None
    }
}

impl<'t> Iterator for Tags<'t> {
    type Item = Tag<'t>;

    fn next(&mut self) -> Option<Tag<'t>> {
        loop {
            let open = self.text[self.at..].find('<')?;
            self.at += open + 1;
            let rest = &self.text[self.at..];
            let end = if rest.starts_with("?xml") {
                if !self.skip("?>") {
                    return Some(Tag::Cut);
                }
                return Some(Tag::Declaration);
            } else if rest.starts_with("!--") {
                "-->"
            } else if rest.starts_with("![CDATA[") {
                "]]>"
            } else if rest.starts_with('?') || rest.starts_with('!') {
                ">"
            } else {
                match self.tag() {
                    Some(tag) => return Some(tag),
                    None => continue,
                }
            };
            if !self.skip(end) {
                return Some(Tag::Cut);
            }
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

/// Gives the value of an attribute, its references resolved.
pub(super) fn attribute<'t>(attributes: &'t str, wanted: &str) -> Option<Cow<'t, str>> {
    let mut rest = attributes;
    loop {
        let (before, after) = rest.split_once('=')?;
        let name = before.trim();
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, next) = after[1..].split_once(quote)?;
        if name == wanted {
            return Some(resolved(value));
        }
        rest = next;
    }
}

/// Resolves references such as `&lt;` and `&#10;`; unknown ones stay as they are.
fn resolved(value: &str) -> Cow<'_, str> {
    if !value.contains('&') {
        return Cow::Borrowed(value);
    }
    let mut parts = value.split('&');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found = part.split_once(';').and_then(|(name, rest)| Some((character(name)?, rest)));
        match found {
            Some((character, rest)) => {
                text.push(character);
                text.push_str(rest);
            }
            None => {
                text.push('&');
                text.push_str(part);
            }
        }
    }
    Cow::Owned(text)
}

fn character(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_parts_and_comments_hold_no_tags() {
        let text = "<a x='>'>1 < 2<![CDATA[<b>]]><!-- <c> --><d/></a><e";
        let tags: Vec<_> = Tags::of(text).collect();
        assert_eq!(
            tags,
            [
                Tag::Open { name: "a", attributes: " x='>'", is_empty: false },
                Tag::Open { name: "d", attributes: "/", is_empty: true },
                Tag::Close { name: "a" },
            ]
        );
        assert_eq!(Tags::of("<![CDATA[<b>").collect::<Vec<_>>(), [Tag::Cut]);
    }

    #[test]
    fn attributes_are_found_and_resolved() {
        let text = " name=\"a &lt; &#98; &#x63; &no; &\" classname = 'x' time='0'";
        assert_eq!(attribute(text, "name").unwrap(), "a < b c &no; &");
        assert_eq!(attribute(text, "classname").unwrap(), "x");
        assert_eq!(attribute(text, "status"), None);
        assert_eq!(attribute(" name", "name"), None);
    }
}
