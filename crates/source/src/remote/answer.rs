//! Parts of answers: links to further pages, quoted tags, JSON.

use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde::de::DeserializeOwned;

use super::RemoteError;
use super::http::{Ask, unusable};

/// The address of the next page of a list, if there is one.
pub(super) fn next_page(headers: &HeaderMap, page: &Url) -> Option<Url> {
    let links = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    links.flat_map(split_links).find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let next = parameters.split(';').any(|parameter| {
            let relation = parameter.trim().strip_prefix("rel=").map(|value| value.trim_matches('"'));
            relation.is_some_and(|value| value.split(' ').any(|word| word.eq_ignore_ascii_case("next")))
        });
        next.then(|| page.join(target).ok()).flatten()
    })
}

/// Parts a `Link` header at the commas outside its addresses.
fn split_links(header: &str) -> Vec<&str> {
    let mut links = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, c) in header.char_indices() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            ',' if !inside => {
                links.push(&header[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    links.push(&header[start..]);
    links
}

/// An entity tag without quotes and without the mark of a weak one.
pub(super) fn bare_tag(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/").trim_matches('"')
}

/// A header as text.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// Reads a JSON answer.
pub(super) fn json<T: DeserializeOwned>(ask: Ask<'_>, body: &[u8]) -> Result<T, RemoteError> {
    serde_json::from_slice(body).map_err(|error| unusable(ask, error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_link_is_read_without_harm(text in "[<>;,= \"a-z/?:.-]{0,60}") {
            let page = Url::parse("https://hub.invalid/x").unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(LINK, text.parse().unwrap());
            if let Some(next) = next_page(&headers, &page) {
                prop_assert!(text.contains("next"), "{}", next);
            }
        }
    }

    #[test]
    fn the_next_page_is_found_among_links() {
        let page = Url::parse("https://hub.invalid/api/datasets/o/n/tree/c?recursive=true").unwrap();
        let next = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(LINK, value.parse().unwrap());
            }
            next_page(&headers, &page).map(|url| url.to_string())
        };
        assert_eq!(
            next(&["<?cursor=a,b>; rel=\"next\""]).unwrap(),
            "https://hub.invalid/api/datasets/o/n/tree/c?cursor=a,b"
        );
        assert_eq!(
            next(&["</p>; rel=prev, </n>; title=x; rel=\"last next\""]).unwrap(),
            "https://hub.invalid/n"
        );
        assert_eq!(next(&["</p>; rel=\"prev\"", "</n>; rel=\"NEXT\""]).unwrap(), "https://hub.invalid/n");
        for none in [&["</p>; rel=prev"][..], &["nonsense"], &["<", ">"], &[]] {
            assert_eq!(next(none), None, "{none:?}");
        }
        assert_eq!((bare_tag("W/\"abc\""), bare_tag("\"abc\""), bare_tag("abc")), ("abc", "abc", "abc"));
    }
}
