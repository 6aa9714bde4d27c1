//! Dockerfiles against small contexts.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use image::{ImageError, Layer};

use crate::support::{Recorder, Workshop, archive, directory, file, flatten};

fn top(image: &image::RootImage) -> std::path::PathBuf {
    let Some(Layer::Directory(path)) = image.layers.last() else { panic!("no layer") };
    path.clone()
}

fn message(result: Result<image::RootImage, ImageError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn copies_follow_the_rules_for_destinations() {
    let shop = Workshop::new();
    shop.write("a.txt", "a");
    shop.write("b.txt", "b");
    shop.write("dir/inner/c.txt", "c");
    symlink("inner/c.txt", shop.context().join("dir/link")).unwrap();
    let image = shop
        .build(
            "FROM base\nWORKDIR /app\nCOPY a.txt one\nCOPY a.txt b.txt ./\nCOPY dir /srv/data\nCOPY dir/ /new/\n\
             COPY *.txt /globbed/\nCOPY a.txt /bin/\nCOPY a.txt /srv/data\n",
            &Recorder::default(),
        )
        .unwrap();
    let all = flatten(&image);
    for (path, content) in [
        ("app/one", "a"),
        ("app/a.txt", "a"),
        ("app/b.txt", "b"),
        ("srv/data/inner/c.txt", "c"),
        ("srv/data/link", "-> inner/c.txt"),
        ("new/inner/c.txt", "c"),
        ("globbed/a.txt", "a"),
        // The image's `/bin` is a link to `usr/bin`, and stays one.
        ("usr/bin/a.txt", "a"),
        ("bin", "-> usr/bin"),
        ("srv/data/a.txt", "a"),
    ] {
        assert_eq!(all.get(path).map(String::as_str), Some(content), "{path}");
    }
    assert_eq!(image.config.workdir.as_deref(), Some("/app"));
}

#[test]
fn a_directory_that_exists_keeps_its_permissions() {
    let shop = Workshop::new();
    shop.write("a", "a");
    let image = shop.build("FROM base\nCOPY a /tmp/deep/a\n", &Recorder::default()).unwrap();
    let top = top(&image);
    assert_eq!(fs::metadata(top.join("tmp")).unwrap().mode() & 0o7777, 0o1777);
    assert_eq!(fs::metadata(top.join("tmp/deep")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(&top).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn links_of_the_image_never_lead_out_of_it() {
    let shop = Workshop::new();
    shop.write("a", "a");
    let image = shop.build("FROM base\nCOPY a /escape/a\nWORKDIR /escape/b\n", &Recorder::default()).unwrap();
    let all = flatten(&image);
    assert_eq!(all.get("etc/a").map(String::as_str), Some("a"));
    assert_eq!(all.get("etc/b").map(String::as_str), Some("/"));
    assert!(!std::path::Path::new("/etc/a").exists());
}

#[test]
fn sources_stay_in_the_context() {
    let shop = Workshop::new();
    fs::write(shop.root.path().join("outside"), "secret").unwrap();
    symlink(shop.root.path().join("outside"), shop.context().join("absolute")).unwrap();
    symlink("../outside", shop.context().join("relative")).unwrap();
    let run = Recorder::default();
    assert!(
        message(shop.build("FROM base\nCOPY ../outside /\n", &run)).contains("Dockerfile:2: COPY: source")
    );
    assert!(message(shop.build("FROM base\nCOPY absolute /x\n", &run)).contains("out of the build context"));
    assert!(message(shop.build("FROM base\nCOPY relative /x\n", &run)).contains("out of the build context"));
    assert!(message(shop.build("FROM base\nCOPY nothing /x\n", &run)).contains("not in the build context"));
}

#[test]
fn ignored_files_do_not_exist() {
    let shop = Workshop::new();
    shop.write(".dockerignore", "*.log\nsecret\n!secret/public.txt\n.dockerignore\nDockerfile\n");
    shop.write("a.log", "x");
    shop.write("a.txt", "x");
    shop.write("secret/key", "x");
    shop.write("secret/public.txt", "x");
    let run = Recorder::default();
    let image = shop.build("FROM scratch\nCOPY . /all\n", &run).unwrap();
    let names: Vec<_> = flatten(&image).into_keys().collect();
    assert_eq!(names, ["all", "all/a.txt", "all/secret", "all/secret/public.txt"]);
    assert!(message(shop.build("FROM scratch\nCOPY a.log /\n", &run)).contains(".dockerignore"));
}

#[test]
fn archives_are_unpacked_by_add_only() {
    let shop = Workshop::new();
    let tar = archive(&[directory("bin"), file("bin/tool", "tool"), file(".wh.plain", "no deletion")]);
    shop.write("x.tar", &tar);
    shop.write("x.tgz", gzip(&tar));
    shop.write("plain.gz", gzip(b"no archive"));
    shop.write("x.tar.xz", b"\xfd7zXZ\0rest");
    let run = Recorder::default();
    let image = shop
        .build("FROM base\nADD x.tgz /\nADD x.tar /out/\nCOPY x.tar /raw\nADD plain.gz /\n", &run)
        .unwrap();
    let all = flatten(&image);
    // Through the image's own link, not over it.
    assert_eq!(all.get("usr/bin/tool").map(String::as_str), Some("tool"));
    assert_eq!(all.get("bin").map(String::as_str), Some("-> usr/bin"));
    assert_eq!(all.get("out/bin/tool").map(String::as_str), Some("tool"));
    assert_eq!(all.get("out/.wh.plain").map(String::as_str), Some("no deletion"));
    assert!(all.contains_key("raw") && all.contains_key("plain.gz"));
    assert!(message(shop.build("FROM base\nADD x.tar.xz /\n", &run)).contains("xz, which is not supported"));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn owners_and_modes() {
    let shop = Workshop::new();
    let path = shop.write("a", "a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let run = Recorder::default();
    let image = shop.build("FROM base\nCOPY --chown=agent:team --chmod=0755 a /x\n", &run).unwrap();
    let metadata = fs::metadata(top(&image).join("x")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o755);
    if rustix_is_root() {
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 77));
        let image = shop.build("FROM base\nCOPY --chown=agent a /x\n", &run).unwrap();
        let metadata = fs::metadata(top(&image).join("x")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o7777), (1234, 1235, 0o640));
    }
    assert!(message(shop.build("FROM base\nCOPY --chown=ghost a /x\n", &run)).contains("`ghost`"));
    assert!(message(shop.build("FROM base\nCOPY --chmod=u+x a /x\n", &run)).contains("octal"));
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn run_gets_the_whole_environment() {
    let shop = Workshop::new();
    let run = Recorder::default();
    let image = shop
        .build(
            "ARG TAG=base\nFROM $TAG\nARG LEVEL=3\nARG TARGETOS\nENV NAME=\"a b\" LEVEL2=${LEVEL}x\nUSER agent\n\
             WORKDIR /srv/work\nSHELL [\"/bin/bash\", \"-lc\"]\nRUN make it\nRUN [\"a\", \"$NAME\"]\n\
             RUN <<EOF\none\ntwo\nEOF\nRUN <<EOF\n#!/usr/bin/env python3\nprint(1)\nEOF\n",
            &run,
        )
        .unwrap();
    let commands = run.commands.borrow();
    assert_eq!(commands[0].argv, ["/bin/bash", "-lc", "make it"]);
    let env: Vec<_> = commands[0].env.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let expected =
        ["HOME=/home/agent", "LEVEL=3", "LEVEL2=3x", "NAME=a b", "PATH=/usr/bin:/bin", "TARGETOS=linux"];
    assert_eq!(env, expected);
    assert_eq!(commands[0].workdir, "/srv/work");
    assert_eq!(commands[0].user.as_deref(), Some("agent"));
    assert_eq!(commands[1].argv, ["a", "$NAME"]);
    assert_eq!(commands[2].argv, ["/bin/bash", "-lc", "one\ntwo\n"]);
    assert_eq!(commands[3].argv, ["/usr/bin/env", "python3"]);
    assert_eq!(commands[3].stdin, b"#!/usr/bin/env python3\nprint(1)\n");
    assert!(!image.config.env.contains_key("HOME") && !image.config.env.contains_key("LEVEL"));
}

#[test]
fn unchanged_instructions_are_not_built_again() {
    let shop = Workshop::new();
    shop.write("a", "one");
    let run = Recorder::default();
    let text = "FROM base\nCOPY a /a\nRUN x\nENV LATER=1\n";
    let first = shop.build(text, &run).unwrap();
    let second = shop.build(text, &run).unwrap();
    assert_eq!(first, second);
    assert_eq!(run.commands.borrow().len(), 1);
    shop.write("a", "two");
    let third = shop.build(text, &run).unwrap();
    assert_ne!(first.digest, third.digest);
    assert_eq!(run.commands.borrow().len(), 2);
    let fourth = shop.build("FROM base\nCOPY a /a\nRUN x\nENV LATER=2\n", &run).unwrap();
    assert_eq!(third.layers, fourth.layers);
    assert_ne!(third.digest, fourth.digest);
    assert_eq!(run.commands.borrow().len(), 2);
}

#[test]
fn stages_are_built_when_needed() {
    let shop = Workshop::new();
    shop.write("a", "a");
    let run = Recorder::default();
    let text = "FROM base AS unused\nRUN never\nFROM base AS Build\nRUN make\nCOPY a /srv/data/\n\
                FROM scratch\nCOPY --from=build /ran /srv/data/../../srv/data /got/\nCOPY --from=1 /ran /again\n\
                COPY --from=base /bin/sh /sh\n";
    let image = shop.build(text, &run).unwrap();
    let all = flatten(&image);
    assert_eq!(all.get("got/ran").map(String::as_str), Some("/bin/sh -c make"));
    assert_eq!(all.get("got/a").map(String::as_str), Some("a"));
    assert_eq!(all.get("again").map(String::as_str), Some("/bin/sh -c make"));
    assert_eq!(all.get("sh").map(String::as_str), Some("shell"));
    assert_eq!(run.commands.borrow().len(), 1);
    assert!(message(shop.build("FROM base\nCOPY --from=ghost /a /b\n", &run)).contains("ghost"));
}

#[test]
fn a_cache_mount_leaves_nothing_in_the_layer() {
    let shop = Workshop::new();
    let run = Recorder::default();
    let with = shop.build("FROM base\nRUN --mount=type=cache,target=/srv/cache x\n", &run).unwrap();
    assert!(flatten(&with).contains_key("srv/cache"));
    assert!(!flatten(&with).contains_key("srv/cache/left"));
    let without = shop.build("FROM base\nRUN x\n", &run).unwrap();
    assert!(flatten(&without).contains_key("srv/cache/left"));
}

#[test]
fn entry_points_and_commands() {
    let shop = Workshop::new();
    let run = Recorder::default();
    let config = |text: &str| shop.build(text, &run).unwrap().config;
    assert_eq!(config("FROM base\n").cmd, ["sh"]);
    let both = config("FROM base\nCMD a b\nENTRYPOINT [\"/e\", \"--\"]\nLABEL x=1\n");
    assert_eq!(
        (both.entrypoint, both.cmd),
        (vec!["/e".into(), "--".into()], vec!["/bin/sh".to_owned(), "-c".to_owned(), "a b".to_owned()])
    );
    assert_eq!(both.labels["x"], "1");
    assert!(config("FROM base\nENTRYPOINT [\"/e\"]\n").cmd.is_empty());
    assert!(config("FROM base\nENTRYPOINT []\n").entrypoint.is_empty());
}

#[test]
fn inline_files() {
    let shop = Workshop::new();
    let run = Recorder::default();
    let text =
        "FROM base\nENV V=value\nCOPY <<one <<'two' /d/\n$V\none\n$V\ntwo\nCOPY <<x /named\nx content\nx\n";
    let all = flatten(&shop.build(text, &run).unwrap());
    assert_eq!(all.get("d/one").map(String::as_str), Some("value\n"));
    assert_eq!(all.get("d/two").map(String::as_str), Some("$V\n"));
    assert_eq!(all.get("named").map(String::as_str), Some("x content\n"));
}

#[test]
fn failures_name_file_and_line() {
    let shop = Workshop::new();
    shop.write("dir/x", "x");
    let run = Recorder::default();
    for (text, expected) in [
        ("FROM base\n\nRUN false\n", "Dockerfile:3: RUN: the command exited with 1"),
        (
            "FROM base\nRUN --mount=type=secret,id=k x\n",
            "Dockerfile:2: RUN: --mount=type=secret is not supported",
        ),
        ("FROM base\nADD https://index.invalid/x /\n", "Dockerfile:2: ADD: the remote source"),
        ("FROM base\nFETCH x\n", "Dockerfile:2: FETCH: is no Dockerfile instruction"),
        ("FROM {image}\n", "Dockerfile:1: FROM: image reference `{image}`"),
        ("FROM --platform=linux/s390x base\n", "Dockerfile:1: FROM: the platform linux/s390x"),
        ("FROM other\n", "Dockerfile:1: FROM: no image other: not in this test"),
        ("FROM base\nENV A=${B#x}\n", "Dockerfile:2: ENV: uses `${B#"),
        ("FROM base\nCOPY dir /usr/bin/sh\n", "Dockerfile:2: COPY: /usr/bin/sh is a file in the image"),
        ("FROM base\nCOPY dir/x dir/x /nowhere\n", "must end with a slash"),
        ("FROM base\nWORKDIR /usr/bin/sh\n", "Dockerfile:2: WORKDIR: /usr/bin/sh exists"),
        ("FROM base\nUSER $NOBODY\n", "Dockerfile:2: USER: the user is empty"),
    ] {
        let found = message(shop.build(text, &run));
        assert!(found.contains(expected), "{text:?} gave {found}");
    }
    assert!(run.commands.borrow().is_empty());
}

#[test]
fn the_target_stage_can_be_chosen() {
    let shop = Workshop::new();
    let run = Recorder::default();
    let dockerfile = shop.write("Dockerfile", "FROM base AS one\nENV S=1\nFROM one\nENV S=2\n");
    let resolve = |reference: &image::ImageRef| shop.resolve(reference);
    let builder = |target: &str| {
        image::dockerfile::Builder::new(&shop.store, &run, &resolve)
            .target(target)
            .build(&shop.context(), &dockerfile)
    };
    assert_eq!(builder("one").unwrap().config.env["S"], "1");
    assert_eq!(builder("1").unwrap().config.env["S"], "2");
    assert!(message(builder("ghost")).contains("no stage `ghost`"));
}
