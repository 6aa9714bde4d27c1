//! Behaviours of package indexes, good and bad.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ident::Digest;
use source::{
    ClientSettings, DistributionSpec, Environment, FetchOrigin, Index, IndexError, IndexSettings, Retry,
};

use crate::server::{Answer, Server};

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/vnd.pypi.simple.v1+json";
const BYTES: &str = "application/octet-stream";

const FILE: &str = "funcs-1.0.tar.gz";

fn content() -> Vec<u8> {
    b"a source distribution".repeat(1000)
}

fn index(server: &Server, downloads: &Path) -> Index {
    let client = ClientSettings {
        connect_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_millis(500),
        retry: Retry { attempts: 3, first_pause: Duration::from_millis(1) },
        certificates: None,
    };
    let settings = IndexSettings {
        url: Some(format!("{}/simple", server.address)),
        downloads: downloads.to_owned(),
        sdist_dir: None,
        client: Some(client),
    };
    Index::new(settings, Environment::default())
}

fn wish(sha256: Option<Digest>) -> DistributionSpec {
    DistributionSpec::of_file(FILE, None, sha256).unwrap()
}

fn json_page(sha256: &str) -> Answer {
    let page = serde_json::json!({"meta": {"api-version": "1.1"}, "name": "funcs", "files": [
        {"filename": "funcs-1.0-py3-none-any.whl", "url": "/files/wheel", "hashes": {}},
        {"filename": FILE, "url": "../../files/sdist", "hashes": {"sha256": sha256}}]});
    Answer::Full(200, JSON, page.to_string().into_bytes())
}

fn html_page(fragment: &str) -> Answer {
    let page = format!("<html><body><a href=\"/files/sdist{fragment}\">{FILE}</a></body></html>");
    Answer::Full(200, HTML, page.into_bytes())
}

fn files_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).map(|entries| {
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    });
    entries.unwrap_or_default()
}

#[tokio::test]
async fn a_pinned_file_comes_through_json_once_and_then_from_the_cache() {
    let digest = Digest::of(content());
    let server = Server::start(move |path, _| match path {
        "/simple/funcs/" => json_page(&digest.hex()),
        "/files/sdist" => Answer::Full(200, BYTES, content()),
        _ => Answer::Full(404, HTML, vec![]),
    });
    let cache = tempfile::tempdir().unwrap();
    let index = index(&server, cache.path());
    let wishes = vec![wish(Some(digest)); 6];
    let fetched: Vec<_> = index.fetch_all(&wishes).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(fs::read(&fetched[0].path).unwrap(), content());
    assert_eq!((fetched[0].package.as_str(), fetched[0].version.as_str()), ("funcs", "1.0"));
    let from_index = fetched.iter().filter(|fetched| fetched.origin == FetchOrigin::Index).count();
    assert_eq!((from_index, fetched.len()), (1, 6));
    assert_eq!(server.requests(), ["/simple/funcs/", "/files/sdist"], "one file was fetched more than once");
    assert_eq!(files_in(cache.path()), [digest.hex()]);

    // A damaged file in the cache is seen, thrown away, and fetched again.
    fs::write(&fetched[0].path, "damaged").unwrap();
    let again = index.fetch(&wish(Some(digest))).await.unwrap();
    assert_eq!(again.origin, FetchOrigin::Index);
    assert_eq!(fs::read(&again.path).unwrap(), content());
}

#[tokio::test]
async fn html_pages_redirects_and_unpinned_wishes_work() {
    let digest = Digest::of(content());
    let server = Server::start(move |path, _| match path {
        "/simple/funcs/" => Answer::Redirect("/mirror/funcs/".into()),
        "/mirror/funcs/" => html_page(&format!("#sha256={digest}")),
        "/files/sdist" => Answer::Redirect("/store/sdist".into()),
        "/store/sdist" => Answer::Full(200, BYTES, content()),
        _ => Answer::Full(404, HTML, vec![]),
    });
    let cache = tempfile::tempdir().unwrap();
    let index = index(&server, cache.path());
    let by_version =
        DistributionSpec { package: "funcs".into(), version: "1.0".into(), file: None, sha256: None };
    let fetched = index.fetch(&by_version).await.unwrap();
    assert_eq!((fetched.file.as_str(), fetched.sha256), (FILE, digest));
    assert_eq!(index.fetch(&wish(Some(digest))).await.unwrap().origin, FetchOrigin::Cache);
}

#[tokio::test]
async fn a_page_without_digests_is_pinned_by_what_comes() {
    let server = Server::start(|path, _| match path {
        "/simple/funcs/" => html_page(""),
        _ => Answer::Full(200, BYTES, content()),
    });
    let cache = tempfile::tempdir().unwrap();
    let fetched = index(&server, cache.path()).fetch(&wish(None)).await.unwrap();
    assert_eq!(fetched.sha256, Digest::of(content()));
}

#[tokio::test]
async fn missing_packages_and_files_are_told_apart() {
    let server = Server::start(|path, _| match path {
        "/simple/funcs/" => json_page(&Digest::of(content()).hex()),
        _ => Answer::Full(404, HTML, vec![]),
    });
    let cache = tempfile::tempdir().unwrap();
    let index = index(&server, cache.path());
    let other = DistributionSpec::of_file("other-1.0.tar.gz", None, None).unwrap();
    assert!(
        matches!(index.fetch(&other).await, Err(IndexError::PackageMissing { package, .. }) if package == "other")
    );
    let version = DistributionSpec::of_file("funcs-9.9.tar.gz", None, None).unwrap();
    assert!(matches!(index.fetch(&version).await, Err(IndexError::FileMissing { .. })));
    let gone = index.fetch(&wish(None)).await.unwrap_err();
    assert!(matches!(&gone, IndexError::FileMissing { url, .. } if url.ends_with("/files/sdist")), "{gone}");
    assert_eq!(files_in(cache.path()), [] as [String; 0]);
}

#[tokio::test]
async fn wrong_content_is_thrown_away_and_both_digests_are_named() {
    let pinned = Digest::of(content());
    let server = Server::start(move |path, _| match path {
        "/simple/funcs/" => html_page(""),
        _ => Answer::Full(200, BYTES, b"something else".to_vec()),
    });
    let cache = tempfile::tempdir().unwrap();
    let error = index(&server, cache.path()).fetch(&wish(Some(pinned))).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains(&pinned.hex()) && message.contains(&Digest::of("something else").hex()),
        "{message}"
    );
    assert_eq!(files_in(cache.path()), [] as [String; 0], "wrong content was left in the cache");
}

#[tokio::test]
async fn an_index_that_contradicts_the_pin_is_not_even_asked_for_the_file() {
    let server = Server::start(|path, _| match path {
        "/simple/funcs/" => json_page(&Digest::of("other").hex()),
        _ => Answer::Full(200, BYTES, content()),
    });
    let cache = tempfile::tempdir().unwrap();
    let error = index(&server, cache.path()).fetch(&wish(Some(Digest::of(content())))).await.unwrap_err();
    assert!(matches!(error, IndexError::HashMismatch { .. }), "{error}");
    assert_eq!(server.requests(), ["/simple/funcs/"]);
}

#[tokio::test]
async fn failures_that_may_pass_are_tried_again() {
    let digest = Digest::of(content());
    let server = Server::start(move |path, number| match (path, number) {
        ("/simple/funcs/", 0) => Answer::Full(503, HTML, vec![]),
        ("/simple/funcs/", _) => json_page(&digest.hex()),
        (_, 2) => Answer::Cut(content()[..100].to_vec()),
        (_, 3) => Answer::Stall(content()[..100].to_vec()),
        _ => Answer::Full(200, BYTES, content()),
    });
    let cache = tempfile::tempdir().unwrap();
    let fetched = index(&server, cache.path()).fetch(&wish(Some(digest))).await.unwrap();
    assert_eq!(fs::read(fetched.path).unwrap(), content());
    assert_eq!(server.requests().len(), 5);
    assert_eq!(files_in(cache.path()), [digest.hex()], "parts of broken downloads are left");
}

#[tokio::test]
async fn attempts_are_bounded_and_lasting_refusals_are_not_repeated() {
    let server = Server::start(|path, _| match path {
        "/simple/funcs/" => Answer::Full(500, HTML, vec![]),
        _ => Answer::Full(403, HTML, vec![]),
    });
    let cache = tempfile::tempdir().unwrap();
    let index = index(&server, cache.path());
    let error = index.fetch(&wish(None)).await.unwrap_err();
    assert!(
        matches!(&error, IndexError::Unreachable { attempts: 3, detail, .. } if detail.contains("500")),
        "{error}"
    );
    assert_eq!(server.requests().len(), 3);
    let other = DistributionSpec::of_file("other-1.0.tar.gz", None, None).unwrap();
    assert!(matches!(index.fetch(&other).await, Err(IndexError::Refused { status: 403, .. })));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn endless_redirects_end() {
    let server = Server::start(|path, number| Answer::Redirect(format!("{path}{number}/")));
    let cache = tempfile::tempdir().unwrap();
    let error = index(&server, cache.path()).fetch(&wish(None)).await.unwrap_err();
    assert!(error.to_string().contains("redirects without end"), "{error}");
}

#[tokio::test]
async fn a_directory_stands_in_for_the_index() {
    let server = Server::start(|_, _| Answer::Full(404, HTML, vec![]));
    let cache = tempfile::tempdir().unwrap();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FILE), content()).unwrap();
    let mut environment = Environment::default();
    let path = directory.path().to_str().unwrap().to_owned();
    environment.variables.insert("SEATRIAL_SDIST_DIR".into(), path);
    let settings = IndexSettings {
        url: Some(server.address.clone()),
        downloads: cache.path().join("downloads"),
        sdist_dir: None,
        client: None,
    };
    let index = Index::new(settings, environment);
    let fetched = index.fetch(&wish(Some(Digest::of(content())))).await.unwrap();
    assert_eq!(fetched.origin, FetchOrigin::Directory);
    assert_eq!(fs::read(&fetched.path).unwrap(), content());
    assert!(fetched.path.starts_with(cache.path()));
    let error = index.fetch(&wish(Some(Digest::of("other")))).await.unwrap_err();
    assert!(matches!(error, IndexError::HashMismatch { .. }), "{error}");
    assert!(server.requests().is_empty(), "the index was asked for a file that is here");
}

#[tokio::test]
async fn without_an_index_the_cache_still_serves() {
    let cache = tempfile::tempdir().unwrap();
    let digest = Digest::of(content());
    fs::write(cache.path().join(digest.hex()), content()).unwrap();
    let settings = IndexSettings { url: None, downloads: cache.path().into(), sdist_dir: None, client: None };
    let index = Index::new(settings, Environment::default());
    assert_eq!(index.fetch(&wish(Some(digest))).await.unwrap().origin, FetchOrigin::Cache);
    let message = index.fetch(&wish(None)).await.unwrap_err().to_string();
    assert!(message.contains("SEATRIAL_INDEX_URL"), "{message}");
}

#[tokio::test]
async fn without_network_only_what_is_here_is_given() {
    let digest = Digest::of(content());
    let server = Server::start(move |path, _| match path {
        "/files/sdist" => Answer::Full(200, BYTES, content()),
        _ => json_page(&digest.hex()),
    });
    let cache = tempfile::tempdir().unwrap();
    let offline = || index(&server, cache.path()).without_network();
    let refused = offline().fetch(&wish(Some(digest))).await.unwrap_err();
    assert!(matches!(&refused, IndexError::Offline { file } if file == FILE), "{refused}");
    assert_eq!(server.requests().len(), 0);
    index(&server, cache.path()).fetch(&wish(Some(digest))).await.unwrap();
    let asked = server.requests().len();
    assert_eq!(offline().fetch(&wish(Some(digest))).await.unwrap().origin, FetchOrigin::Cache);
    assert_eq!(server.requests().len(), asked);
}
