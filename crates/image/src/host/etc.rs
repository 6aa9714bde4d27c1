//! The filtered `/etc`: an allow-list of what programs need to run, and nothing that tells secrets or people.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::accounts;
use super::skeleton::{Node, Plan};
use crate::ImageError;

/// Files and directories that are taken over as they are, where they exist and every user may read them.
const ALLOWED: [&str; 47] = [
    // The dynamic linker, locales, time.
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "timezone",
    // Which system this is.
    "os-release",
    "debian_version",
    "lsb-release",
    "redhat-release",
    "alpine-release",
    "arch-release",
    // Which program stands behind a common name.
    "alternatives",
    // Certificates of authorities, without keys.
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
    "ca-certificates",
    "ca-certificates.conf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "crypto-policies",
    // Languages and tools.
    "python3",
    "perl",
    "java-8-openjdk",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    // Not all of `maven`: its settings may hold passwords of mirrors.
    "maven/m2.conf",
    "maven/logging",
    "maven/toolchains.xml",
    "fonts",
    "mime.types",
    "magic",
    "magic.mime",
    "terminfo",
    "inputrc",
    // Names of protocols and services.
    "protocols",
    "services",
    "rpc",
    "ethertypes",
    // Shells and accounts tools.
    "shells",
    "profile",
    "bash.bashrc",
    "login.defs",
    "pam.d",
];
/// Versioned directories of the same kind, by their beginning.
const ALLOWED_PREFIXES: [&str; 2] = ["python3.", "ImageMagick-"];
/// Names that are left out wherever they occur.
const NEVER: [&str; 4] = ["private", "shadow", "gshadow", "jmxremote.password"];
const MAX_FILE: u64 = 8 << 20;
const MAX_TOTAL: u64 = 64 << 20;
const MAX_FILES: usize = 20_000;

/// Collects the filtered `/etc` of the system at `root`.
pub(super) fn collect(root: &Path, plan: &mut Plan) -> Result<(), ImageError> {
    let etc = root.join("etc");
    let mut budget = Budget { bytes: MAX_TOTAL, files: MAX_FILES };
    for name in allowed_names(&etc)? {
        copy(&etc.join(&name), &format!("/etc/{name}"), plan, &mut budget)?;
    }
    let text = |name: &str| -> String {
        read_bounded(&etc.join(name), MAX_FILE)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    };
    let mut passwd = accounts::passwd(&text("passwd"));
    if passwd.is_empty() {
        passwd.push_str("root:x:0:0::/root:/bin/sh\n");
    }
    let mut group = accounts::group(&text("group"), &passwd);
    if group.is_empty() {
        group.push_str("root:x:0:\n");
    }
    let own: [(&str, &str); 8] = [
        ("passwd", &passwd),
        ("group", &group),
        ("hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"),
        ("hostname", "seatrial\n"),
        ("host.conf", "multi on\n"),
        // Name services beyond files and DNS would reach for sockets of the host.
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
        ),
        ("resolv.conf", ""),
        ("environment", ""),
    ];
    for (name, content) in own {
        plan.add(&format!("/etc/{name}"), Node::File(0o644, content.as_bytes().to_vec()));
    }
    plan.add("/etc/mtab", Node::Link(PathBuf::from("../proc/self/mounts")));
    Ok(())
}

fn allowed_names(etc: &Path) -> Result<Vec<String>, ImageError> {
    let mut names: Vec<String> = ALLOWED.iter().map(|name| (*name).to_owned()).collect();
    let Ok(entries) = fs::read_dir(etc) else { return Ok(names) };
    for entry in entries {
        let entry = entry.map_err(|e| ImageError::io("listing the host's /etc", e))?;
        let name = entry.file_name();
        if let Some(name) = name.to_str()
            && ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

struct Budget {
    bytes: u64,
    files: usize,
}

/// Copies what every user of the host may read; links are kept as links.
fn copy(from: &Path, to: &str, plan: &mut Plan, budget: &mut Budget) -> Result<(), ImageError> {
    let Ok(metadata) = fs::symlink_metadata(from) else { return Ok(()) };
    if budget.files == 0 {
        return Err(ImageError::Host(format!("/etc holds more than {MAX_FILES} allowed files")));
    }
    budget.files -= 1;
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(|e| ImageError::io("reading the host's /etc", e))?;
        plan.add(to, Node::Link(target));
    } else if metadata.is_dir() && metadata.mode() & 0o005 == 0o005 {
        plan.add(to, Node::Directory(metadata.mode() & 0o755));
        let mut names = Vec::new();
        for entry in fs::read_dir(from).map_err(|e| ImageError::io("listing the host's /etc", e))? {
            names.push(entry.map_err(|e| ImageError::io("listing the host's /etc", e))?.file_name());
        }
        names.sort();
        for name in names.iter().filter_map(|name| name.to_str()).filter(|name| !NEVER.contains(name)) {
            copy(&from.join(name), &format!("{to}/{name}"), plan, budget)?;
        }
    } else if metadata.is_file() && metadata.mode() & 0o004 != 0 && metadata.len() <= MAX_FILE {
        let content = read_bounded(from, MAX_FILE)?;
        budget.bytes = budget.bytes.checked_sub(content.len() as u64).ok_or_else(|| {
            ImageError::Host(format!("allowed files of /etc hold more than {MAX_TOTAL} bytes"))
        })?;
        plan.add(to, Node::File(metadata.mode() & 0o755, content));
    }
    Ok(())
}

/// Reads a file of at most `limit` bytes without following a link at its end.
pub(super) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, ImageError> {
    let file = crate::stack::open_file(path)?;
    let mut content = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut content);
    read.map_err(|e| ImageError::io(format!("reading {}", path.display()), e))?;
    if content.len() as u64 > limit {
        return Err(ImageError::Host(format!("{} is larger than {limit} bytes", path.display())));
    }
    Ok(content)
}
