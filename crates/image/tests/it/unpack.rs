//! Archives from strangers.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use image::{ImageError, UnpackLimits, Unpacked, unpack_layer};
use proptest::prelude::*;
use tar::EntryType;

use crate::support::{Entry, archive, directory, file, link};

fn unpack(tar: &[u8], into: &Path) -> Result<Unpacked, ImageError> {
    unpack_layer("test", tar, into, &UnpackLimits::default())
}

fn refused(entries: &[Entry<'_>]) -> String {
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive(entries), dir.path()).unwrap_err().to_string()
}

#[test]
fn everything_a_layer_may_hold() {
    let dir = tempfile::tempdir().unwrap();
    let tar = archive(&[
        (EntryType::Directory, "./", "", 0o750),
        (EntryType::Directory, "closed", "", 0o500),
        file("closed/inside", "x"),
        (EntryType::Regular, "setuid", "s", 0o4755),
        link("link", "/etc/passwd"),
        (EntryType::Link, "hard", "closed/inside", 0o644),
        (EntryType::Fifo, "pipe", "", 0o622),
        (EntryType::Char, "device", "", 0o666),
        file("deep/without/parents", "y"),
        file("old-style/", ""),
    ]);
    let unpacked = unpack(&tar, dir.path()).unwrap();
    assert_eq!(unpacked, Unpacked { entries: 9, bytes: 3, devices: 1 });
    let stat = |name: &str| fs::symlink_metadata(dir.path().join(name)).unwrap();
    assert_eq!(stat(".").mode() & 0o7777, 0o750);
    assert_eq!(stat("closed").mode() & 0o7777, 0o500);
    assert_eq!(stat("setuid").mode() & 0o7777, 0o4755);
    assert_eq!(stat("pipe").mode() & 0o7777, 0o622);
    assert_eq!(stat("hard").ino(), stat("closed/inside").ino());
    assert_eq!(stat("closed").mtime(), 1_000_000_000);
    assert_eq!(stat("deep/without").mode() & 0o7777, 0o755);
    assert!(stat("old-style").is_dir());
    assert!(!dir.path().join("device").exists());
    assert_eq!(fs::read_link(dir.path().join("link")).unwrap(), Path::new("/etc/passwd"));
}

#[test]
fn compressions_are_read_by_content() {
    let tar = archive(&[file("a", "content")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    for bytes in [tar.clone(), gzip.finish().unwrap(), zstd::encode_all(&tar[..], 1).unwrap()] {
        let dir = tempfile::tempdir().unwrap();
        unpack(&bytes, dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "content");
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(unpack(b"BZh91AY", dir.path()).unwrap_err().to_string().contains("bzip2"));
}

#[test]
fn ways_out_are_refused_by_name() {
    for (entries, rule) in [
        (vec![file("../x", "")], "`..`"),
        (vec![file("a/../../x", "")], "`..`"),
        (vec![file("/etc/x", "")], "absolute"),
        (vec![link("a", "/tmp"), file("a/x", "")], "not a directory in this layer"),
        (vec![link("a", "b"), directory("b"), file("a/x", "")], "not a directory in this layer"),
        (vec![(EntryType::Link, "a", "/etc/passwd", 0o644)], "does not come before"),
        (vec![(EntryType::Link, "a", "../x", 0o644)], "`..`"),
        (vec![link("l", "/etc"), (EntryType::Link, "a", "l/passwd", 0o644)], "does not come before"),
        (vec![directory("d"), (EntryType::Link, "a", "d", 0o644)], "directory"),
        (vec![file("d", ""), file("d/x", "")], "not a directory in this layer"),
        (vec![file("a/.wh.", "")], "deletion of nothing"),
        (vec![file("a/.wh...", "")], "deletion of nothing"),
        (vec![file(".", "")], "root"),
    ] {
        let found = refused(&entries);
        assert!(found.contains(rule), "{entries:?} gave {found}");
    }
}

#[test]
fn the_last_entry_of_a_name_wins() {
    let dir = tempfile::tempdir().unwrap();
    let tar = archive(&[
        file("a", "first"),
        file("a", "second"),
        directory("d"),
        file("d/x", "x"),
        file("d", "no directory any more"),
        link("l", "a"),
        file("l", "own content"),
    ]);
    unpack(&tar, dir.path()).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "second");
    assert_eq!(fs::read_to_string(dir.path().join("d")).unwrap(), "no directory any more");
    assert_eq!(fs::read_to_string(dir.path().join("l")).unwrap(), "own content");
}

fn is_whiteout(path: &Path) -> bool {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.file_type().is_char_device() && metadata.rdev() == 0)
        || xattr(path, "user.overlay.whiteout").is_some()
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0_u8; 64];
    rustix::fs::lgetxattr(path, name, &mut value[..]).ok().map(|length| value[..length].to_vec())
}

#[test]
fn deletions_become_whiteouts() {
    let dir = tempfile::tempdir().unwrap();
    let tar = archive(&[
        file("gone/.wh.a", ""),
        file("opaque/.wh..wh..opq", ""),
        file("opaque/b", "b"),
        // Deletions speak of lower layers only, whatever the order.
        file("kept", "kept"),
        file(".wh.kept", ""),
        file(".wh.later", ""),
        file("later", "later"),
        // A directory deleted and made anew hides the lower one.
        file(".wh.renewed", ""),
        file("renewed/x", "x"),
        directory("renewed2"),
        file(".wh.renewed2", ""),
        file(".wh..wh.plnk", ""),
    ]);
    unpack(&tar, dir.path()).unwrap();
    let at = |name: &str| dir.path().join(name);
    assert!(is_whiteout(&at("gone/a")));
    for opaque in ["opaque", "renewed", "renewed2"] {
        assert_eq!(xattr(&at(opaque), "user.overlay.opaque").as_deref(), Some(&b"y"[..]), "{opaque}");
    }
    assert_eq!(fs::read_to_string(at("kept")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(at("later")).unwrap(), "later");
    assert!(!at(".wh..wh.plnk").exists() && !at(".wh.plnk").exists());
}

#[test]
fn attributes_of_the_overlay_itself_do_not_come_from_archives() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    let attributes = [
        ("SCHILY.xattr.user.color", &b"blue"[..]),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.trusted.x", b"y"),
    ];
    builder.append_pax_extensions(attributes).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("f").unwrap();
    header.set_size(0);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, &b""[..]).unwrap();
    unpack(&builder.into_inner().unwrap(), dir.path()).unwrap();
    let path = dir.path().join("f");
    assert_eq!(xattr(&path, "user.color").as_deref(), Some(&b"blue"[..]));
    assert_eq!(xattr(&path, "user.overlay.opaque"), None);
    assert_eq!(xattr(&path, "user.overlay.redirect"), None);
}

#[test]
fn bombs_are_stopped() {
    let limited = |tar: &[u8], limits: UnpackLimits| {
        let dir = tempfile::tempdir().unwrap();
        unpack_layer("test", tar, dir.path(), &limits).unwrap_err().to_string()
    };
    let limits = UnpackLimits { entries: 3, total: 100, file: 50 };
    let many: Vec<Entry<'_>> = ["a", "b", "c", "d"].into_iter().map(|n| file(n, "")).collect();
    assert!(limited(&archive(&many), limits).contains("3 entries"));
    let text = "x".repeat(60);
    assert!(limited(&archive(&[file("a", &text)]), limits).contains("50 bytes in one file"));
    let text = "x".repeat(40);
    let three = [file("a", &text), file("b", &text), file("c", &text)];
    assert!(limited(&archive(&three), limits).contains("100 bytes in all"));

    // A long-name header of many megabytes compresses to nothing.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(64 << 20);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, std::io::Read::take(std::io::repeat(b'a'), 64 << 20)).unwrap();
    let bomb = zstd::encode_all(&builder.into_inner().unwrap()[..], 1).unwrap();
    assert!(limited(&bomb, UnpackLimits::default()).contains("headers"));
}

#[test]
fn broken_archives_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let tar = archive(&[file("a", &"x".repeat(2000))]);
    assert!(unpack(&tar[..1000], dir.path()).is_err());
    let dir = tempfile::tempdir().unwrap();
    assert!(unpack(&vec![b'x'; 2048], dir.path()).is_err());
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(unpack(&[], dir.path()).unwrap(), Unpacked::default());
}

fn any_entry() -> impl Strategy<Value = (EntryType, String, String)> {
    let part = prop_oneof![
        Just("a"),
        Just("b"),
        Just(".."),
        Just("."),
        Just("l"),
        Just(".wh.a"),
        Just(".wh.l"),
        Just(".wh..wh..opq"),
        Just("outside"),
        Just("")
    ];
    let path = proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"));
    let kind = prop_oneof![
        Just(EntryType::Regular),
        Just(EntryType::Directory),
        Just(EntryType::Symlink),
        Just(EntryType::Link),
        Just(EntryType::Fifo),
        Just(EntryType::Char)
    ];
    (kind, path.clone(), path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_outside_is_ever_touched(entries in proptest::collection::vec(any_entry(), 0..14)) {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a"), "precious").unwrap();
        let into = root.path().join("into");
        fs::create_dir(&into).unwrap();
        let entries: Vec<Entry<'_>> =
            entries.iter().map(|(kind, name, text)| (*kind, name.as_str(), text.as_str(), 0o755)).collect();
        // Most random archives break a rule somewhere: every beginning of one is tried.
        for length in 0..=entries.len() {
            let _ = unpack(&archive(&entries[..length]), &into);
        }
        let mut left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        prop_assert_eq!(left, ["into", "outside"]);
        prop_assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        prop_assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "precious");
        prop_assert_eq!(fs::metadata(outside.join("a")).unwrap().nlink(), 1);
    }

    #[test]
    fn damaged_archives_end_in_an_error_or_in_a_layer(
        places in proptest::collection::vec((0_usize..6000, any::<u8>()), 0..20),
        length in 0_usize..8000,
    ) {
        let mut tar = archive(&[directory("a"), file("a/b", &"x".repeat(700)), link("l", "a"), file("a/.wh.c", "")]);
        for (place, byte) in places {
            let place = place % tar.len();
            tar[place] = byte;
        }
        tar.truncate(length);
        // Headers are checked by their sums; made right again, more of the damage gets through.
        for header in tar.chunks_exact_mut(512) {
            let sum: u32 = header.iter().enumerate().map(|(n, b)| if (148..156).contains(&n) { 32 } else { u32::from(*b) }).sum();
            if header[0] != 0 {
                header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
        let dir = tempfile::tempdir().unwrap();
        if let Ok(unpacked) = unpack(&tar, dir.path()) {
            prop_assert!(unpacked.bytes <= tar.len() as u64);
        }
    }
}
