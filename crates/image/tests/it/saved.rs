//! Images as container daemons save them, and layouts in archives.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use image::pack::LayoutWriter;
use image::{ImageRef, Layout, UnpackLimits};
use serde_json::{Value, json};

use crate::sample::{architecture, digest, sample, write_layout};
use crate::support::{Workshop, archive, file, flatten};

/// The files of a saved image by their names, and the links.
struct Saved {
    files: BTreeMap<String, Vec<u8>>,
    links: Vec<(&'static str, &'static str)>,
}

/// An image of three layers, of which the last is the first again, as Docker 20 saves it.
fn saved() -> Saved {
    let (lower, upper) = (archive(&[file("one", "1")]), archive(&[file("two", "2")]));
    let config = json!({
        "os": "linux", "architecture": architecture(), "config": {"Env": ["A=1"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(&lower), digest(&upper), digest(&lower)]},
    });
    let list = json!([{"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["x/layer.tar", "y/layer.tar", "z/layer.tar"]}]);
    let files = [
        ("x/layer.tar", lower),
        ("y/layer.tar", upper),
        ("c.json", config.to_string().into_bytes()),
        ("manifest.json", list.to_string().into_bytes()),
    ];
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    Saved { files, links: vec![("z/layer.tar", "../x/layer.tar")] }
}

/// What is made wrong with a saved image.
type Change<'a> = &'a dyn Fn(&mut Saved);

impl Saved {
    fn write(&self, shop: &Workshop) -> PathBuf {
        let path = shop.root.path().join("saved.tar");
        let mut tar = tar::Builder::new(File::create(&path).unwrap());
        for (name, bytes) in &self.files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, &bytes[..]).unwrap();
        }
        for (name, target) in &self.links {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, name, target).unwrap();
        }
        tar.into_inner().unwrap();
        path
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let bytes = self.files.get_mut(name).unwrap();
        let mut value = serde_json::from_slice(bytes).unwrap();
        change(&mut value);
        *bytes = value.to_string().into_bytes();
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn layout(shop: &Workshop) -> PathBuf {
    shop.root.path().join("layout")
}

fn load(shop: &Workshop, root: &Path, name: &str) -> image::FetchedImage {
    Layout::open(root).unwrap().load(Some(name), &shop.store, &UnpackLimits::default()).unwrap()
}

#[test]
fn a_saved_image_becomes_one_of_a_layout() {
    let shop = Workshop::new();
    let path = saved().write(&shop);
    let writer = LayoutWriter::open(&layout(&shop)).unwrap();
    assert_eq!(writer.saved_before("a:1", "id"), None);
    let packed = writer.add_saved("a:1", &path, "id", None).unwrap();
    writer.finish(std::slice::from_ref(&packed)).unwrap();
    let fetched = load(&shop, &layout(&shop), "a:1");
    let expected = BTreeMap::from([("one".to_owned(), "1".to_owned()), ("two".into(), "2".into())]);
    assert_eq!((flatten(&fetched.image), fetched.image.config.env["A"].as_str()), (expected, "1"));

    // It is not saved again while its id is the same, and gives the same bytes when it is.
    let again = LayoutWriter::open(&layout(&shop)).unwrap();
    assert_eq!(again.saved_before("a:1", "id"), Some(packed.clone()));
    assert_eq!(again.saved_before("a:1", "other"), None);
    assert_eq!(again.add_saved("a:1", &path, "id", None).unwrap(), packed);

    // Layers that are compressed already, as newer daemons give them, stay as they are.
    let mut newer = saved();
    for name in ["x/layer.tar", "y/layer.tar"] {
        let plain = newer.files[name].clone();
        let bytes =
            if name == "x/layer.tar" { gzip(&plain) } else { zstd::encode_all(&plain[..], 1).unwrap() };
        newer.files.insert(name.to_owned(), bytes);
    }
    let path = newer.write(&shop);
    let writer = LayoutWriter::open(&shop.root.path().join("newer")).unwrap();
    let packed = writer.add_saved("a:1", &path, "id", None).unwrap();
    writer.finish(&[packed]).unwrap();
    let other = load(&shop, &shop.root.path().join("newer"), "a:1");
    assert_eq!(other.image, fetched.image);
    assert!(
        shop.root.path().join("newer/blobs/sha256").join(&digest(&newer.files["x/layer.tar"])[7..]).exists()
    );
}

#[test]
fn saved_images_that_lie_are_refused() {
    let refused = |change: &dyn Fn(&mut Saved)| {
        let shop = Workshop::new();
        let mut saved = saved();
        change(&mut saved);
        let writer = LayoutWriter::open(&layout(&shop)).unwrap();
        writer.add_saved("a:1", &saved.write(&shop), "id", Some("linux/amd64")).unwrap_err().to_string()
    };
    let cases: &[(&str, Change<'_>)] = &[
        ("lacks the file `manifest.json`", &|saved| drop(saved.files.remove("manifest.json"))),
        ("lacks the file `c.json`", &|saved| drop(saved.files.remove("c.json"))),
        ("manifest.json that is none", &|saved| {
            saved.files.insert("manifest.json".into(), b"{".to_vec());
        }),
        ("is 0 images", &|saved| saved.change("manifest.json", |list| *list = json!([]))),
        ("has no configuration", &|saved| saved.change("c.json", |config| *config = json!(7))),
        ("has 1 layers", &|saved| {
            saved.change("manifest.json", |list| list[0]["Layers"] = json!(["x/layer.tar"]));
        }),
        ("is missing", &|saved| {
            saved.links = vec![("z/layer.tar", "../../etc/passwd")];
        }),
        ("content has digest", &|saved| {
            saved.files.insert("y/layer.tar".into(), archive(&[file("two", "3")]));
        }),
        ("content has digest", &|saved| {
            saved.files.insert("y/layer.tar".into(), gzip(&archive(&[file("two", "3")])));
        }),
        ("xz", &|saved| {
            saved.files.insert("y/layer.tar".into(), b"\xfd7zXZ\0 and so on".to_vec());
        }),
        ("and not for linux/amd64", &|saved| {
            saved.change("c.json", |config| config["architecture"] = json!("riscv64"));
        }),
    ];
    for (expected, change) in cases {
        let said = refused(change);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

fn archived(shop: &Workshop, from: &Path) -> PathBuf {
    let path = shop.root.path().join("layout.tar");
    let mut tar = tar::Builder::new(File::create(&path).unwrap());
    tar.follow_symlinks(false);
    tar.append_dir_all(".", from).unwrap();
    tar.into_inner().unwrap();
    path
}

#[test]
fn a_layout_in_an_archive_is_the_same_as_its_directory() {
    let shop = Workshop::new();
    write_layout(&layout(&shop), &sample());
    let whole = Layout::open(&layout(&shop)).unwrap();
    let packed = Layout::open_archive(&archived(&shop, &layout(&shop))).unwrap();
    assert_eq!(packed.names(), whole.names());
    let reference: ImageRef = "sample:1".parse().unwrap();
    let name = packed.name_of(&reference).unwrap();
    let platform = format!("linux/{}", architecture());
    for wanted in [None, Some(platform.as_str())] {
        let found = packed.look_up(&name, wanted).unwrap().unwrap();
        assert_eq!(whole.look_up(&name, wanted).unwrap().unwrap(), found);
        let expected = if wanted.is_some() { digest(&sample().manifest) } else { digest(&sample().index) };
        assert_eq!(found.digest, expected);
    }
    let absent = packed.look_up(&name, Some("linux/mips")).unwrap_err().to_string();
    assert!(absent.contains("and not linux/mips"), "{absent}");
    assert_eq!(packed.look_up("absent", None).unwrap(), None);
    let load = |layout: &Layout| layout.load(Some(&name), &shop.store, &UnpackLimits::default()).unwrap();
    assert_eq!(load(&packed), load(&whole));
}

#[test]
fn broken_layouts_are_refused_with_their_place() {
    let shop = Workshop::new();
    let root = layout(&shop);
    let refused = |change: &dyn Fn()| {
        let _ = fs::remove_dir_all(&root);
        write_layout(&root, &sample());
        change();
        let said = |opened: Result<Layout, image::ImageError>| match opened {
            Err(error) => error.to_string(),
            Ok(layout) => match layout.look_up("sample:1", None) {
                Err(error) => error.to_string(),
                Ok(found) => format!("{found:?}"),
            },
        };
        [said(Layout::open(&root)), said(Layout::open_archive(&archived(&shop, &root)))]
    };
    let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
    let blob = |bytes: &[u8]| root.join("blobs/sha256").join(&digest(bytes)[7..]);
    let index = || -> Value { serde_json::from_slice(&fs::read(root.join("index.json")).unwrap()).unwrap() };
    let entry = |change: &dyn Fn(&mut Value)| {
        let mut index = index();
        change(&mut index["manifests"][0]);
        write("index.json", &index.to_string());
    };
    let cases: &[(&str, &dyn Fn())] = &[
        ("does not mark an OCI layout", &|| write("oci-layout", "{}")),
        ("layout version 2.0", &|| write("oci-layout", "{\"imageLayoutVersion\":\"2.0\"}")),
        ("is no manifest", &|| write("index.json", "[")),
        ("is missing", &|| fs::remove_file(blob(&sample().index)).unwrap()),
        ("content has digest", &|| fs::write(blob(&sample().index), b"other").unwrap()),
        ("is not sha256", &|| entry(&|entry| entry["digest"] = json!("sha256:../../../etc/passwd"))),
        ("at most", &|| entry(&|entry| entry["size"] = json!(u64::MAX))),
        ("is missing", &|| {
            fs::remove_file(blob(&sample().index)).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", blob(&sample().index)).unwrap();
        }),
        ("has 2 images with the name", &|| {
            let mut index = index();
            let mut other = index["manifests"][0].clone();
            other["digest"] = json!(digest(&sample().manifest));
            index["manifests"].as_array_mut().unwrap().push(other);
            write("index.json", &index.to_string());
        }),
    ];
    for (expected, change) in cases {
        for said in refused(change) {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}
