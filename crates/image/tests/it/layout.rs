//! OCI layout directories.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};

use image::{ImageRef, ImageSources, Layer, Layout, Resolve as _, UnpackLimits};

use crate::sample::{digest, sample, write_layout};
use crate::support::Workshop;

#[test]
fn an_image_is_found_by_name_digest_or_alone() {
    let shop = Workshop::new();
    let (root, sample) = (shop.root.path().join("layout"), sample());
    write_layout(&root, &sample);
    let layout = Layout::open(&root).unwrap();
    assert_eq!(layout.names(), ["sample:1"]);
    let limits = UnpackLimits::default();
    let found = layout.load(Some("sample:1"), &shop.store, &limits).unwrap();
    assert_eq!(found.resolved.prefixed(), digest(&sample.index));
    assert_eq!(found.manifest.prefixed(), digest(&sample.manifest));
    assert_eq!(found.image.config.workdir.as_deref(), Some("/work"));
    assert_eq!(found.image.config.env["PATH"], "/bin");
    let [Layer::Directory(lower), Layer::Directory(upper)] = &found.image.layers[..] else {
        panic!("two layers")
    };
    assert_eq!(fs::read_to_string(lower.join("bin/tool")).unwrap(), "tool");
    let deleted = fs::symlink_metadata(upper.join("bin/old")).unwrap();
    assert!(deleted.file_type().is_char_device() || deleted.len() == 0);
    for name in [None, Some(digest(&sample.index))] {
        assert_eq!(layout.load(name.as_deref(), &shop.store, &limits).unwrap(), found);
    }
    let missing = layout.load(Some("other"), &shop.store, &limits).unwrap_err().to_string();
    assert!(missing.contains("sample:1"), "{missing}");
}

#[test]
fn tampered_blobs_are_noticed() {
    let sample = sample();
    for (name, bytes) in &sample.blobs {
        let shop = Workshop::new();
        let root = shop.root.path().join("layout");
        write_layout(&root, &sample);
        let mut bytes = bytes.clone();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(root.join("blobs/sha256").join(&name["sha256:".len()..]), bytes).unwrap();
        let layout = Layout::open(&root).unwrap();
        let error = layout.load(None, &shop.store, &UnpackLimits::default());
        assert!(error.is_err(), "{name}");
    }
}

#[test]
fn what_follows_an_archive_counts_for_its_digest() {
    let sample = sample();
    let shop = Workshop::new();
    let root = shop.root.path().join("layout");
    write_layout(&root, &sample);
    for name in sample.blobs.keys() {
        let path = root.join("blobs/sha256").join(&name["sha256:".len()..]);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b" ");
        fs::write(path, bytes).unwrap();
    }
    let error = Layout::open(&root).unwrap().load(None, &shop.store, &UnpackLimits::default());
    assert!(error.unwrap_err().to_string().contains("digest"));
    assert_eq!(shop.store.list().unwrap(), []);
}

#[test]
fn links_in_a_layout_are_not_followed() {
    let shop = Workshop::new();
    let root = shop.root.path().join("layout");
    write_layout(&root, &sample());
    fs::rename(root.join("index.json"), shop.root.path().join("elsewhere")).unwrap();
    symlink(shop.root.path().join("elsewhere"), root.join("index.json")).unwrap();
    assert!(Layout::open(&root).is_err());
    assert!(Layout::open(shop.root.path()).is_err());
}

#[test]
fn sources_are_asked_in_order() {
    let shop = Workshop::new();
    let root = shop.root.path().join("layout");
    write_layout(&root, &sample());
    let reference = |text: &str| text.parse::<ImageRef>().unwrap();
    let sources = ImageSources::new(shop.store.clone())
        .with_layout(Layout::open(&root).unwrap())
        .with_substitution(reference("python:3"), reference("sample:1"))
        .with_substitution(reference("x"), reference("y"))
        .with_substitution(reference("y"), reference("x"));
    let direct = sources.resolve(&reference("docker.io/library/sample:1")).unwrap();
    assert_eq!(sources.resolve(&reference("python:3")).unwrap(), direct);
    assert!(sources.resolve(&ImageRef::Scratch).unwrap().layers.is_empty());
    for (text, reason) in [
        ("x", "circle"),
        ("other", "no registry"),
        ("seatrial.local/host", "not offer"),
        ("seatrial.local/other", "built by the project"),
    ] {
        let error = sources.resolve(&reference(text)).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let with_host = ImageSources::new(shop.store.clone()).with_host(vec![]);
    let host = with_host.resolve(&ImageRef::Host).unwrap();
    assert!(matches!(&host.layers[..], [Layer::Host(_)]));
}
