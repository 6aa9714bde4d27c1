//! Which tags a repository has, to the last page.
//!
//! A list that ends too early would let a shard pass its limit, so an answer counts as complete only when the registry says
//! so: by a page without a link to the next one that is no round number of tags, or by a second question for what comes after
//! the last tag that brings nothing new. Registries that do not know that question give everything again.

use std::collections::BTreeSet;

use reqwest::header::{HeaderMap, LINK};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;

use super::Registry;
use super::client::{MAX_ERROR, Question, address, failed, read_body};
use crate::manifest::{self, ACCEPTED, Document};
use crate::{ImageError, RemoteRef};

/// Tags asked for at once. Some registries refuse more.
const PAGE: usize = 1000;
/// Pages of many registries hold a multiple of this.
const ROUND: usize = 50;
/// A list that ends at fewer tags than that is no page of a longer one.
const SMALLEST_PAGE: usize = 100;
/// Most tags of one repository that are read.
const MOST_TAGS: usize = 10_000;
/// Media types of indexes.
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
/// The media type of a manifest of which its index does not say one.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Largest page in bytes.
const MAX_PAGE: u64 = 4 << 20;

/// A manifest or index that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its digest, `sha256:...`.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
}

#[derive(Deserialize)]
struct Page {
    /// `null` of an empty repository.
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Errors {
    errors: Vec<ErrorCode>,
}

#[derive(Deserialize)]
struct ErrorCode {
    code: String,
}

impl Registry {
    /// All tags of a repository; `None` when the registry does not know it.
    pub async fn tags(&self, repository: &RemoteRef) -> Result<Option<BTreeSet<String>>, ImageError> {
        let client = &self.shared.client;
        let first = address(repository, &format!("tags/list?n={PAGE}"))?;
        let mut next = first.clone();
        let mut tags = BTreeSet::new();
        // Whether the page was asked for only to see that there is none.
        let mut asked_for_more = false;
        loop {
            let question = Question::reading(repository, Method::GET, &next, "application/json");
            let response = client.ask(&question).await?;
            if response.status() == StatusCode::NOT_FOUND && tags.is_empty() {
                if is_unknown(repository, response).await? {
                    return Ok(None);
                }
                return Err(failed(repository, format!("GET {}: status 404", next.path())));
            }
            if !response.status().is_success() {
                return Err(client.refusal(repository, &Method::GET, &next, response).await);
            }
            let link = next_page(response.headers(), &next);
            let page = read_page(repository, response).await?;
            let (size, before) = (page.len(), tags.len());
            tags.extend(page);
            let new = tags.len() - before;
            if tags.len() > MOST_TAGS {
                return Err(failed(
                    repository,
                    format!("{} has more than {MOST_TAGS} tags", repository.path()),
                ));
            }
            next = match link {
                Some(Err(what)) => return Err(failed(repository, what)),
                Some(Ok(_)) if new == 0 => {
                    return Err(failed(
                        repository,
                        "a page of tags brings nothing new and names another".into(),
                    ));
                }
                Some(Ok(link)) => link,
                None if new == 0 && asked_for_more => return Ok(Some(tags)),
                None if size < SMALLEST_PAGE || (size % ROUND != 0 && size != PAGE) => return Ok(Some(tags)),
                None => after(&first, &tags),
            };
            asked_for_more = true;
        }
    }

    /// What a reference names; `None` when there is nothing. Registries that count pulls do not count this.
    pub async fn look_up(&self, reference: &RemoteRef) -> Result<Option<Found>, ImageError> {
        let client = &self.shared.client;
        let address = address(reference, &format!("manifests/{}", reference.selector()))?;
        let accept = ACCEPTED.join(", ");
        let response = client.ask(&Question::reading(reference, Method::HEAD, &address, &accept)).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(client.refusal(reference, &Method::HEAD, &address, response).await);
        }
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let digest = text("docker-content-digest").filter(|digest| ident::Digest::parse(digest).is_ok());
        let media_type = text("content-type").filter(|kind| ACCEPTED.contains(kind));
        match (digest, media_type) {
            (Some(digest), Some(media_type)) => {
                Ok(Some(Found { digest: digest.to_owned(), media_type: media_type.to_owned() }))
            }
            (None, _) => {
                Err(failed(reference, format!("HEAD {}: the answer names no sha256 digest", address.path())))
            }
            (_, None) => {
                let what = format!("HEAD {}: the answer is neither a manifest nor an index", address.path());
                Err(failed(reference, what))
            }
        }
    }
}

impl Registry {
    /// What a reference names for one platform, `OS/ARCHITECTURE` or with a variant behind it: of an index the manifest of that platform.
    ///
    /// Getting the index may count as a pull; it is kept. An index without that platform is an error that says what it offers.
    pub async fn look_up_platform(
        &self,
        reference: &RemoteRef,
        platform: &str,
    ) -> Result<Option<Found>, ImageError> {
        let Some(found) = self.look_up(reference).await? else { return Ok(None) };
        let place = reference.to_string();
        let bytes = if found.is_index() {
            self.manifest_by_digest(reference, &found.digest).await?
        } else {
            return Ok(Some(found));
        };
        let Document::Index(manifests) = manifest::read(&place, &bytes)? else { return Ok(Some(found)) };
        let chosen = manifest::choose_platform(&place, &manifests, platform)?;
        let media_type = match chosen.media_type.as_str() {
            "" => MANIFEST.to_owned(),
            media_type => media_type.to_owned(),
        };
        Ok(Some(Found { digest: chosen.digest.clone(), media_type }))
    }
}

impl Found {
    /// Whether it is an index of several manifests.
    pub(crate) fn is_index(&self) -> bool {
        INDEXES.contains(&self.media_type.as_str())
    }
}

/// Whether a 404 says that there is no such repository.
async fn is_unknown(repository: &RemoteRef, response: Response) -> Result<bool, ImageError> {
    let body = read_body(repository, response, MAX_ERROR).await?;
    let errors: Option<Errors> = serde_json::from_slice(&body).ok();
    Ok(errors.is_some_and(|errors| errors.errors.iter().any(|error| error.code == "NAME_UNKNOWN")))
}

async fn read_page(repository: &RemoteRef, response: Response) -> Result<Vec<String>, ImageError> {
    let body = read_body(repository, response, MAX_PAGE).await?;
    let page: Page = serde_json::from_slice(&body)
        .map_err(|error| failed(repository, format!("the list of tags is none: {error}")))?;
    Ok(page.tags.unwrap_or_default())
}

/// The question for what comes after the last tag. Servers sort by bytes.
fn after(first: &Url, tags: &BTreeSet<String>) -> Url {
    let mut next = first.clone();
    if let Some(last) = tags.last() {
        next.query_pairs_mut().append_pair("last", last);
    }
    next
}

/// Where the next page is. An address at another place is refused: credentials go with the request.
fn next_page(headers: &HeaderMap, current: &Url) -> Option<Result<Url, String>> {
    let link = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok()).find_map(|value| {
        let (address, parameters) = value.trim().strip_prefix('<')?.split_once('>')?;
        let next = |parameter: &str| matches!(parameter.trim(), "rel=next" | "rel=\"next\"");
        parameters.split(';').any(next).then_some(address)
    })?;
    Some(match current.join(link) {
        Ok(next) if next.origin() == current.origin() => Ok(next),
        _ => Err("the next page of tags is said to be at another place".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_at_the_same_place() {
        let current: Url = "https://registry.invalid/v2/a/tags/list?n=1000".parse().unwrap();
        let next = |link: &str| {
            let headers = HeaderMap::from_iter([(LINK, link.parse().unwrap())]);
            next_page(&headers, &current).map(|next| next.map(String::from))
        };
        let expected = "https://registry.invalid/v2/a/tags/list?last=x&n=1000".to_owned();
        assert_eq!(next("</v2/a/tags/list?last=x&n=1000>; rel=\"next\""), Some(Ok(expected.clone())));
        assert_eq!(next(&format!("<{expected}>; rel=next")), Some(Ok(expected)));
        assert_eq!(next("</v2/a/tags/list?last=x>; rel=\"prev\""), None);
        assert!(next("<https://other.invalid/v2/a/tags/list>; rel=\"next\"").unwrap().is_err());
        assert!(next("<//other.invalid/v2>; rel=\"next\"").unwrap().is_err());
    }
}
