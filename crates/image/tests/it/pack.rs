//! Packing what was built here as images that others take.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use image::pack::{BaseImage, LayoutWriter};
use image::{HostRoot, ImageConfig, ImageRef, ImageSources, Layer, Layout, RootImage, UnpackLimits};
use rustix::fs::{FileType, Mode, XattrFlags};
use serde_json::Value;

use crate::sample::{digest, sample, write_layout};
use crate::support::Workshop;

/// The sample image as a base.
fn base(shop: &Workshop) -> BaseImage {
    let root = shop.root.path().join("base-layout");
    write_layout(&root, &sample());
    let sources = ImageSources::new(shop.store.clone()).with_layout(Layout::open(&root).unwrap());
    let reference: ImageRef = "sample:1".parse().unwrap();
    sources.base(&reference).unwrap().expect("it has documents")
}

fn whiteout(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        FileType::CharacterDevice,
        Mode::empty(),
        rustix::fs::makedev(0, 0),
    )
    .unwrap();
}

/// Two layers over the base: the second deletes and replaces what the first and the base have.
fn changes(root: &Path) -> [PathBuf; 2] {
    let [lower, upper] = ["lower", "upper"].map(|name| root.join(name));
    for directory in
        [lower.join("bin"), lower.join("cut"), lower.join("again"), upper.join("cut"), upper.join("again")]
    {
        fs::create_dir_all(directory).unwrap();
    }
    for name in ["gone", "bin/kept", "cut/hidden", "again/hidden", "changed"] {
        fs::write(lower.join(name), "lower").unwrap();
    }
    fs::hard_link(lower.join("bin/kept"), lower.join("bin/same")).unwrap();
    symlink("/very/".repeat(40), lower.join("far")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, lower.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::write(upper.join("changed"), "upper").unwrap();
    fs::write(upper.join("cut/shown"), "upper").unwrap();
    fs::write(upper.join("again/shown"), "upper").unwrap();
    fs::write(upper.join("n".repeat(180)), "long").unwrap();
    rustix::fs::setxattr(upper.join("changed"), "user.note", b"kept", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(upper.join("cut"), "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    whiteout(&upper.join("gone"));
    // Of the base.
    whiteout(&upper.join("new"));
    [lower, upper]
}

fn built(base: &BaseImage, layers: &[PathBuf]) -> RootImage {
    let mut image = base.image().clone();
    image.layers.extend(layers.iter().cloned().map(Layer::Directory));
    image.config.workdir = Some("/testbed".into());
    image.digest = digest(b"built");
    image
}

#[test]
fn a_build_is_one_layer_on_its_base() {
    let shop = Workshop::new();
    let (base, target) = (base(&shop), shop.root.path().join("images"));
    let image = built(&base, &changes(shop.root.path()));
    let writer = LayoutWriter::open(&target).unwrap();
    let packed = writer.add("task-a", &image, Some(&base)).unwrap();
    writer.finish(std::slice::from_ref(&packed)).unwrap();

    let found =
        Layout::open(&target).unwrap().load(Some("task-a"), &shop.store, &UnpackLimits::default()).unwrap();
    assert_eq!(found.manifest.prefixed(), packed.digest);
    assert_eq!(found.image.config, image.config);
    assert_eq!(found.image.layers[..2], base.image().layers);
    let [.., Layer::Directory(top)] = &found.image.layers[..] else { panic!("a layer of files") };
    assert_eq!(found.image.layers.len(), 3, "one layer for all changes");
    let text = |name: &str| fs::read_to_string(top.join(name)).unwrap();
    assert_eq!(
        (text("changed"), text("bin/kept"), text("cut/shown")),
        ("upper".into(), "lower".into(), "upper".into())
    );
    assert_eq!(text(&"n".repeat(180)), "long");
    // Only where the upper layer hides the lower one.
    assert!(!top.join("cut/hidden").exists() && top.join("again/hidden").exists());
    let mut mark = [0; 8];
    assert_eq!(rustix::fs::getxattr(top.join("cut"), "user.overlay.opaque", &mut mark[..]), Ok(1));
    assert!(rustix::fs::getxattr(top.join("again"), "user.overlay.opaque", &mut mark[..]).is_err());
    for name in ["gone", "new"] {
        assert!(fs::symlink_metadata(top.join(name)).unwrap().file_type().is_char_device(), "{name}");
    }
    assert_eq!(fs::read_link(top.join("far")).unwrap(), Path::new(&"/very/".repeat(40)));
    assert!(fs::symlink_metadata(top.join("pipe")).unwrap().file_type().is_fifo());
    let inode = |name: &str| fs::metadata(top.join(name)).unwrap().ino();
    assert_eq!(inode("bin/kept"), inode("bin/same"));
    let length = rustix::fs::getxattr(top.join("changed"), "user.note", &mut mark[..]).unwrap();
    assert_eq!(&mark[..length], b"kept");
}

#[test]
fn the_same_layers_give_the_same_bytes() {
    let digests = [1_u64, 2].map(|day| {
        let shop = Workshop::new();
        let base = base(&shop);
        let layers = changes(shop.root.path());
        let later =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + day * 86_400);
        fs::File::options().write(true).open(layers[1].join("changed")).unwrap().set_modified(later).unwrap();
        let writer = LayoutWriter::open(&shop.root.path().join("images")).unwrap();
        writer.add("task-a", &built(&base, &layers), Some(&base)).unwrap().digest
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn what_is_there_is_not_packed_again_and_nothing_else_stays() {
    let shop = Workshop::new();
    let (base, target) = (base(&shop), shop.root.path().join("images"));
    let layers = changes(shop.root.path());
    let image = built(&base, &layers);
    let pack = || LayoutWriter::open(&target).unwrap().add("task-a", &image, Some(&base));
    let first = pack().unwrap();
    LayoutWriter::open(&target).unwrap().finish(std::slice::from_ref(&first)).unwrap();
    fs::write(target.join("blobs/sha256/leftover"), "x").unwrap();
    fs::remove_dir_all(&layers[1]).unwrap();
    assert_eq!(pack().unwrap(), first, "the layers are not read again");
    LayoutWriter::open(&target).unwrap().finish(std::slice::from_ref(&first)).unwrap();
    assert!(!target.join("blobs/sha256/leftover").exists());

    let index: Value = serde_json::from_slice(&fs::read(target.join("index.json")).unwrap()).unwrap();
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "task-a");
    let manifest = target.join("blobs/sha256").join(&first.digest["sha256:".len()..]);
    let manifest: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    let top = manifest["layers"].as_array().unwrap().last().unwrap()["digest"].as_str().unwrap();
    fs::remove_file(target.join("blobs/sha256").join(&top["sha256:".len()..])).unwrap();
    assert!(pack().is_err(), "a lost blob is packed again, and the layer is gone");
}

#[test]
fn images_of_this_project_are_packed_whole_and_the_host_is_none() {
    let shop = Workshop::new();
    let layers = changes(shop.root.path());
    let image = RootImage {
        layers: layers.into_iter().map(Layer::Directory).collect(),
        config: ImageConfig::default(),
        digest: digest(b"own"),
    };
    let target = shop.root.path().join("images");
    let writer = LayoutWriter::open(&target).unwrap();
    let own = writer.add("seatrial.local/site", &image, None).unwrap();
    writer.finish(&[own]).unwrap();
    let found = Layout::open(&target).unwrap().load(None, &shop.store, &UnpackLimits::default()).unwrap();
    assert_eq!(found.image.layers.len(), 2);

    let host = HostRoot { skeleton: shop.root.path().into(), trees: vec!["/usr".into()] };
    let on_host = RootImage { layers: vec![Layer::Host(host)], ..image };
    let refused = LayoutWriter::open(&target).unwrap().add("task-h", &on_host, None).unwrap_err().to_string();
    assert!(refused.contains("task-h"), "{refused}");
}
