//! Index pages: the JSON form (PEP 691) and the HTML form (PEP 503).

use ident::Digest;
use reqwest::Url;
use serde::Deserialize;

/// One file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageFile {
    /// Its name.
    pub file: String,
    /// Its address.
    pub url: Url,
    /// Its digest, where the index tells it.
    pub sha256: Option<Digest>,
    /// Whether its publisher has taken it back; a pinned file may still be used.
    pub yanked: bool,
}

#[derive(Deserialize)]
struct JsonPage {
    meta: JsonMeta,
    files: Vec<JsonFile>,
}

#[derive(Deserialize)]
struct JsonMeta {
    #[serde(rename = "api-version")]
    api_version: String,
}

#[derive(Deserialize)]
struct JsonFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    yanked: serde_json::Value,
}

/// Reads a page in JSON; addresses may be relative to `base`.
pub(crate) fn parse_json_page(base: &Url, bytes: &[u8]) -> Result<Vec<PageFile>, String> {
    let page: JsonPage = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let version = &page.meta.api_version;
    if version.split('.').next() != Some("1") {
        return Err(format!("it follows version {version} of the interface, and only version 1 is known"));
    }
    let files = page.files.into_iter().filter_map(|file| {
        let yanked = !matches!(file.yanked, serde_json::Value::Null | serde_json::Value::Bool(false));
        let sha256 = file.hashes.get("sha256").and_then(|text| Digest::parse(text).ok());
        Some(PageFile { url: file_url(base, &file.url)?, file: file.filename, sha256, yanked })
    });
    Ok(files.collect())
}

/// Reads a page in HTML: each anchor is a file, its text the file's name, its fragment the digest.
pub(crate) fn parse_html_page(base: &Url, text: &str) -> Vec<PageFile> {
    let mut files = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some(tag) =
            rest.strip_prefix(['a', 'A']).filter(|tag| tag.starts_with(|c: char| c.is_whitespace()))
        else {
            continue;
        };
        let (attributes, after) = parse_attributes(tag);
        rest = after;
        let label = &rest[..rest.find('<').unwrap_or(rest.len())];
        let attribute = |name| attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value);
        let Some(mut url) = attribute("href").and_then(|href| file_url(base, href)) else {
            continue;
        };
        let sha256 = url
            .fragment()
            .and_then(|fragment| fragment.split('&').find_map(|part| part.strip_prefix("sha256=")))
            .and_then(|hex| Digest::parse(hex).ok());
        url.set_fragment(None);
        let yanked = attribute("data-yanked").is_some();
        files.push(PageFile { file: unescape(label.trim()), url, sha256, yanked });
    }
    files
}

/// An address that can be fetched, and nothing else: no file of this machine.
fn file_url(base: &Url, text: &str) -> Option<Url> {
    base.join(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Reads attributes up to the end of the tag, and gives what follows the tag.
fn parse_attributes(tag: &str) -> (Vec<(String, String)>, &str) {
    let mut attributes = Vec::new();
    let mut rest = tag;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        if rest.is_empty() {
            return (attributes, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (attributes, after);
        }
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '=' | '>')).unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start();
        let Some(value) = rest.strip_prefix('=') else {
            attributes.push((name, String::new()));
            continue;
        };
        let value = value.trim_start();
        let (text, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            _ => value.split_at(value.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(value.len())),
        };
        attributes.push((name, unescape(text)));
        rest = after;
    }
}

/// Undoes the character references that addresses and file names are written with.
fn unescape(text: &str) -> String {
    const NAMED: [(&str, char); 6] =
        [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("nbsp", '\u{a0}')];
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference = rest[1..].split_once(';').and_then(|(name, after)| {
            let found = match name.strip_prefix('#') {
                Some(number) => {
                    let code = match number.strip_prefix(['x', 'X']) {
                        Some(hex) => u32::from_str_radix(hex, 16),
                        None => number.parse(),
                    };
                    char::from_u32(code.ok()?)?
                }
                None => NAMED.iter().find(|(known, _)| *known == name)?.1,
            };
            Some((found, after))
        });
        match reference {
            Some((found, after)) => {
                plain.push(found);
                rest = after;
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base() -> Url {
        Url::parse("https://index.invalid/simple/funcs/").unwrap()
    }

    #[test]
    fn anchors_become_files() {
        let digest = Digest::of("x");
        let page = format!(
            "<!DOCTYPE html><html><body><!-- <a href='old'>old-0.tar.gz</a> -->\n\
             <a href=\"../../files/f-1.0.tar.gz#sha256={digest}\" data-requires-python=\"&gt;=3.8\">f-1.0.tar.gz</a><br>\n\
             <A class=x HREF='https://files.invalid/f-2.0.tar.gz?a=1&amp;b=2' data-yanked=\"bad > worse\"> f-2.0.tar.gz </A>\n\
             <a href=\"file:///etc/passwd\">f-3.0.tar.gz</a><abbr href=x>no</abbr><a>f-4.0.tar.gz</a>"
        );
        let files = parse_html_page(&base(), &page);
        let shown: Vec<_> = files
            .iter()
            .map(|file| (file.file.as_str(), file.url.as_str(), file.sha256, file.yanked))
            .collect();
        assert_eq!(
            shown,
            [
                ("f-1.0.tar.gz", "https://index.invalid/files/f-1.0.tar.gz", Some(digest), false),
                ("f-2.0.tar.gz", "https://files.invalid/f-2.0.tar.gz?a=1&b=2", None, true)
            ]
        );
    }

    #[test]
    fn json_pages_give_the_same_facts() {
        let digest = Digest::of("x");
        let page = serde_json::json!({"meta": {"api-version": "1.4"}, "name": "f", "extra": 1, "files": [
            {"filename": "f-1.0.tar.gz", "url": "/files/f-1.0.tar.gz", "hashes": {"sha256": digest}, "yanked": false},
            {"filename": "f-2.0.tar.gz", "url": "f-2.0.tar.gz", "hashes": {}, "yanked": "bad"}]});
        let files = parse_json_page(&base(), page.to_string().as_bytes()).unwrap();
        assert_eq!(files[0].url.as_str(), "https://index.invalid/files/f-1.0.tar.gz");
        assert_eq!((files[0].sha256, files[0].yanked), (Some(digest), false));
        assert_eq!((files[1].sha256, files[1].yanked), (None, true));
        let next = br#"{"meta": {"api-version": "2.0"}, "files": []}"#;
        assert!(parse_json_page(&base(), next).unwrap_err().contains("2.0"));
        assert!(parse_json_page(&base(), b"<html>").is_err());
    }

    #[test]
    fn references_are_undone_once() {
        assert_eq!(unescape("a&amp;lt;&#65;&#x42;&bogus;&;&"), "a&lt;AB&bogus;&;&");
    }

    proptest! {
        #[test]
        fn any_page_is_read_without_harm(text in "(<a |href=|['\"<>&;#=/]|é|[a-z ]|-->|<!--){0,60}") {
            let _ = parse_html_page(&base(), &text);
        }
    }
}
