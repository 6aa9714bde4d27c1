//! Files in and out.

use std::io::Read;

use sandbox::{Archive, Sandbox, SandboxError};
use tar::{Builder, EntryType, Header};

use super::ground::Ground;
use crate::host::{sh, text};

struct Packed(Builder<Vec<u8>>);

impl Packed {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds an entry with a name that the library itself would refuse to write.
    fn raw(mut self, kind: EntryType, name: &str, link: &str, mode: u32, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(1234);
        header.set_gid(1234);
        header.set_mtime(1_000_000_000);
        header.set_size(content.len() as u64);
        let fields = header.as_gnu_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name.as_bytes());
        fields.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, mode: u32, content: &str) -> Self {
        self.raw(EntryType::Regular, name, "", mode, content.as_bytes())
    }

    fn finish(self) -> Archive {
        self.0.into_inner().unwrap().into()
    }
}

/// Name, kind, mode, link target and content of each entry.
fn listing(archive: &Archive) -> Vec<(String, EntryType, u32, String, String)> {
    archive
        .as_tar()
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let link = entry.link_name().unwrap().map(|link| link.display().to_string()).unwrap_or_default();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            (path, header.entry_type(), header.mode().unwrap(), link, content)
        })
        .collect()
}

pub async fn files_make_the_round_trip(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("round")).await;
    let long = format!("{}/leaf", "d".repeat(60));
    let packed = Packed::new()
        .raw(EntryType::Directory, "empty/", "", 0o700, b"")
        .file("bin/run", 0o755, "#!/bin/sh\necho ran\n")
        .file("plain", 0o640, "text")
        .file(&long, 0o600, "")
        .raw(EntryType::Link, "hard", "plain", 0o640, b"")
        .raw(EntryType::Symlink, "soft", "../elsewhere", 0o777, b"")
        .raw(EntryType::Fifo, "pipe", "", 0o600, b"")
        .finish();
    sandbox.upload(&packed, "/new/place").await.unwrap();
    let outcome = sandbox
        .exec(&sh("cd /new/place && ./bin/run && stat -c '%U:%G %a %Y' plain && stat -c %h hard"))
        .await
        .unwrap();
    assert_eq!(text(&outcome), "ran\nroot:root 640 1000000000\n2\n");
    let got = listing(&sandbox.download("/new/place", 1 << 20).await.unwrap());
    let kinds: Vec<(&str, EntryType, u32)> = got.iter().map(|e| (e.0.as_str(), e.1, e.2)).collect();
    let parent = "d".repeat(60);
    assert_eq!(
        kinds,
        [
            ("bin", EntryType::Directory, 0o755),
            ("bin/run", EntryType::Regular, 0o755),
            (parent.as_str(), EntryType::Directory, 0o755),
            (long.as_str(), EntryType::Regular, 0o600),
            ("empty", EntryType::Directory, 0o700),
            ("hard", EntryType::Regular, 0o640),
            ("plain", EntryType::Regular, 0o640),
            ("soft", EntryType::Symlink, 0o777),
        ]
    );
    assert_eq!(got[7].3, "../elsewhere");
    assert_eq!(got[1].4, "#!/bin/sh\necho ran\n");
    let single = listing(&sandbox.download("/new/place/plain", 1 << 20).await.unwrap());
    assert_eq!(single, [("plain".into(), EntryType::Regular, 0o640, String::new(), "text".into())]);
    sandbox.destroy().await.unwrap();
}

pub async fn much_data_passes_in_both_directions(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("much")).await;
    let content: Vec<u8> =
        (0..5 << 20_u32).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let packed = Packed::new().raw(EntryType::Regular, "big", "", 0o644, &content).finish();
    sandbox.upload(&packed, "/data").await.unwrap();
    let back = sandbox.download("/data/big", 8 << 20).await.unwrap();
    let mut archive = back.as_tar();
    let mut got = Vec::new();
    archive.entries().unwrap().next().unwrap().unwrap().read_to_end(&mut got).unwrap();
    assert!(got == content);
    sandbox.destroy().await.unwrap();
}

pub async fn hostile_archives_stay_in_their_directory(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("hostile")).await;
    let refused = [
        Packed::new().file("../out", 0o644, "x"),
        Packed::new().file("a/../../out", 0o644, "x"),
        Packed::new().raw(EntryType::Symlink, "link", "/etc", 0o777, b"").file("link/passwd", 0o644, "x"),
        Packed::new().raw(EntryType::Symlink, "up", "..", 0o777, b"").file("up/out", 0o644, "x"),
        Packed::new().raw(EntryType::Link, "hard", "../../etc/passwd", 0o644, b""),
        Packed::new().raw(EntryType::Symlink, "l", "/etc", 0o777, b"").raw(
            EntryType::Link,
            "h",
            "l/passwd",
            0o644,
            b"",
        ),
        Packed::new().raw(EntryType::Char, "dev", "", 0o666, b""),
    ];
    for packed in refused {
        let error = sandbox.upload(&packed.finish(), "/box/inner").await.unwrap_err();
        assert!(matches!(error, SandboxError::Io { .. }), "{error}");
    }
    // An absolute name counts from the directory, and a link in the way of a file is replaced, not followed.
    let packed = Packed::new()
        .file("/abs", 0o644, "x")
        .raw(EntryType::Symlink, "way", "/etc/passwd", 0o777, b"")
        .file("way", 0o644, "mine");
    sandbox.upload(&packed.finish(), "/box/inner").await.unwrap();
    // What lies outside is as it was.
    let outcome =
        sandbox.exec(&sh("ls / /box; cat /box/inner/abs /box/inner/way; head -1 /etc/passwd")).await.unwrap();
    assert!(!text(&outcome).contains("out\n"), "{}", text(&outcome));
    assert!(
        text(&outcome).ends_with("xminero"[..5].to_owned().as_str())
            || text(&outcome).contains("xmineroot:x:0:0")
    );
    sandbox.destroy().await.unwrap();
}

pub async fn broken_archives_are_errors(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("broken")).await;
    let good = Packed::new().file("a", 0o644, "text").finish();
    let mut cut = vec![0; 600];
    good.read_at(0, &mut cut).unwrap();
    let cut = Archive::from(cut);
    assert!(sandbox.upload(&vec![7_u8; 4096].into(), "/x").await.is_err());
    assert!(sandbox.upload(&cut, "/x").await.is_err());
    sandbox.upload(&Vec::new().into(), "/made").await.unwrap();
    assert!(sandbox.exec(&sh("test -d /made")).await.unwrap().success());
    assert!(sandbox.upload(&good, "/etc/passwd").await.is_err());
    sandbox.destroy().await.unwrap();
}

pub async fn downloads_are_bounded_and_follow_nothing(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("bounded")).await;
    let script = "mkdir /out && cd /out && echo secret > /root/secret && ln -s /root/secret link && ln -s /root dir && \
                  mkfifo pipe && truncate -s 1T sparse && mkdir sub && echo x > sub/f";
    assert!(sandbox.exec(&sh(script)).await.unwrap().success());
    assert!(matches!(sandbox.download("/nothing/here", 1 << 20).await, Err(SandboxError::NoSuchPath(_))));
    assert!(matches!(sandbox.download("/etc/passwd/x", 1 << 20).await, Err(SandboxError::NoSuchPath(_))));
    assert!(
        matches!(sandbox.download("/out", 1 << 20).await, Err(SandboxError::TooLarge { limit, .. }) if limit == 1 << 20)
    );
    assert!(sandbox.exec(&sh("rm /out/sparse")).await.unwrap().success());
    let got = listing(&sandbox.download("/out", 1 << 20).await.unwrap());
    let names: Vec<(&str, &str)> = got.iter().map(|entry| (entry.0.as_str(), entry.3.as_str())).collect();
    assert_eq!(names, [("dir", "/root"), ("link", "/root/secret"), ("sub", ""), ("sub/f", "")]);
    assert!(got.iter().all(|entry| !entry.4.contains("secret")));
    // The path itself may be a link: it comes as one.
    let got = listing(&sandbox.download("/out/link", 1 << 20).await.unwrap());
    assert_eq!((got[0].0.as_str(), got[0].1), ("link", EntryType::Symlink));
    sandbox.destroy().await.unwrap();
}

pub async fn account_files_may_be_anything(ground: &Ground) {
    let sandbox = ground.start(&ground.spec("accounts")).await;
    let try_as_app = async |sandbox: &dyn Sandbox| {
        let mut command = sh("true");
        command.user = Some("app".into());
        sandbox.exec(&command).await
    };
    for script in [
        "rm /etc/passwd; mkfifo /etc/passwd",
        "rm /etc/passwd; truncate -s 1G /etc/passwd",
        "rm -rf /etc/passwd /etc/group",
    ] {
        assert!(sandbox.exec(&sh(script)).await.unwrap().success());
        assert!(matches!(try_as_app(&*sandbox).await, Err(SandboxError::Spawn { .. })), "{script}");
    }
    // Root needs no names.
    assert_eq!(text(&sandbox.exec(&sh("id -u")).await.unwrap()), "0\n");
    sandbox.destroy().await.unwrap();
}
