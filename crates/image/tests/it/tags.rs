//! Lists of tags, from the real `docker-registry` and from servers with pages of every kind.

use std::collections::{BTreeMap, BTreeSet};

use image::shards::{Shards, Snapshot};
use image::{ImageError, ImageRef, LiveUnknown, Registry};
use record::{Overflow, Placement, ShardConfig};

use crate::registry::{Answer, Asked, RealRegistry, Server, header, options, runtime};
use crate::sample::{digest, sample};
use crate::support::Workshop;

fn registry() -> (Workshop, Registry) {
    let shop = Workshop::new();
    let registry = Registry::new(options(&shop)).unwrap();
    (shop, registry)
}

fn tags(host: &str) -> Result<Option<BTreeSet<String>>, ImageError> {
    let (_shop, registry) = registry();
    let reference: ImageRef = format!("{host}/team/shard:latest").parse().unwrap();
    runtime().block_on(registry.tags(reference.remote().unwrap()))
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("tag-{number:04}")).collect()
}

fn page(tags: &[String], next: Option<String>) -> Answer {
    let body = serde_json::json!({"name": "team/shard", "tags": tags}).to_string().into_bytes();
    (200, next.map(|next| header("link", &format!("<{next}>; rel=\"next\""))).into_iter().collect(), body)
}

fn last(asked: &Asked) -> Option<String> {
    asked.path.split(['?', '&']).find_map(|part| part.strip_prefix("last=")).map(str::to_owned)
}

/// A server that gives `size` tags at once, and says with a link that there are more, or does not.
fn paged(count: usize, size: usize, links: bool) -> Server {
    Server::start(move |asked, _| {
        let all = names(count);
        let start = last(asked).map_or(0, |last| all.iter().take_while(|tag| **tag <= last).count());
        let end = (start + size).min(count);
        let next = (links && end < count)
            .then(|| format!("/v2/team/shard/tags/list?n={size}&last={}", all[end - 1]));
        page(&all[start..end], next)
    })
}

#[test]
fn every_page_is_read() {
    for (count, size, links) in [
        (0, 100, true),
        (99, 100, false),
        (100, 100, false),
        (101, 100, true),
        (250, 100, true),
        (250, 50, true),
        (250, 100, false),
        (1000, 1000, false),
        (120, 1000, false),
    ] {
        let server = paged(count, size, links);
        let found = tags(&server.host).unwrap().unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), names(count), "{count} by {size}, links: {links}");
    }
}

/// `docker-registry` 2.8 gives all tags to every question.
#[test]
fn a_server_that_knows_no_pages_is_asked_twice_at_most() {
    let server = Server::start(|_, _| page(&names(200), None));
    assert_eq!(tags(&server.host).unwrap().unwrap().len(), 200);
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn what_is_no_complete_list_is_an_error() {
    // Links in a circle.
    let circle = Server::start(|_, _| page(&names(3), Some("/v2/team/shard/tags/list?n=3".into())));
    assert!(tags(&circle.host).unwrap_err().to_string().contains("nothing new"));
    let away = Server::start(|_, _| page(&names(3), Some("http://other.invalid/v2/x".into())));
    assert!(tags(&away.host).unwrap_err().to_string().contains("another place"));
    let text = Server::start(|_, _| (200, vec![], b"<html>log in</html>".to_vec()));
    assert!(tags(&text.host).unwrap_err().to_string().contains("list of tags"));
    let endless = Server::start(|asked, _| {
        let number: usize = last(asked).map_or(0, |last| last[4..].parse::<usize>().unwrap() + 1);
        let some: Vec<String> = (number..number + 900).map(|number| format!("tag-{number:07}")).collect();
        page(&some, Some(format!("/v2/team/shard/tags/list?last={}", some[899])))
    });
    assert!(tags(&endless.host).unwrap_err().to_string().contains("10000"));
    let lost = Server::start(|_, _| (404, vec![], b"not here".to_vec()));
    assert!(tags(&lost.host).is_err());
}

#[test]
fn nothing_and_no_repository_are_two_things() {
    let empty = Server::start(|_, _| (200, vec![], br#"{"name":"team/shard","tags":null}"#.to_vec()));
    assert_eq!(tags(&empty.host).unwrap(), Some(BTreeSet::new()));
    let unknown = Server::start(|_, _| (404, vec![], br#"{"errors":[{"code":"NAME_UNKNOWN"}]}"#.to_vec()));
    assert_eq!(tags(&unknown.host).unwrap(), None);
}

#[test]
fn too_many_requests_pass_however_they_are_called() {
    let busy = Server::start(|_, before| match before {
        0 => (403, vec![], br#"{"errors":[{"code":"TOOMANYREQUESTS"}]}"#.to_vec()),
        1 => (429, vec![header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], vec![]),
        _ => page(&names(2), None),
    });
    assert_eq!(tags(&busy.host).unwrap().unwrap().len(), 2);
    let closed = Server::start(|_, _| (403, vec![], b"denied".to_vec()));
    assert!(matches!(tags(&closed.host).unwrap_err(), ImageError::Denied { .. }));
    assert_eq!(closed.asked().len(), 1);
}

fn shards(host: &str, create_repositories: bool) -> Shards {
    Shards::new(ShardConfig {
        registry: host.into(),
        namespace: "team".into(),
        shard_template: "shard-{}".into(),
        shards: 2,
        tag_limit: 100,
        placement: Placement::Hash,
        overflow: Overflow::Fail,
        create_repositories,
        overwrite: false,
        hash_version: "v1".into(),
        platform: None,
        sources: Vec::new(),
    })
    .unwrap()
}

#[test]
fn a_real_registry_says_what_is_live() {
    let Some(real) = RealRegistry::start(false) else { return };
    let (_shop, registry) = registry();
    let sample = sample();
    real.push("team/shard-1", &sample, None);
    let wanted = BTreeSet::from(["1".to_owned(), "not-there".to_owned()]);
    let ask = |create| runtime().block_on(registry.snapshot(&shards(&real.host, create), &wanted));
    let refused = ask(false).unwrap_err();
    assert!(
        matches!(&refused, LiveUnknown::NoRepository { repository } if repository.ends_with("/team/shard-0"))
    );
    let expected = BTreeMap::from([
        ("1".to_owned(), Some(digest(&sample.index))),
        // Not asked for.
        ("plain".to_owned(), None),
    ]);
    assert_eq!(ask(true).unwrap(), Snapshot::new(vec![BTreeMap::new(), expected]));

    let host = real.host.clone();
    drop(real);
    let gone = runtime().block_on(registry.snapshot(&shards(&host, true), &wanted)).unwrap_err();
    assert!(matches!(gone, LiveUnknown::Unanswered { .. }), "{gone}");
}
