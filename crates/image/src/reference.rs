//! Image references: `[host[:port]/]path[:tag][@digest]`, parsed by the rules of the OCI distribution
//! specification and the Docker short forms.

use std::fmt;
use std::str::FromStr;

/// The reserved reference of the machine's own system.
pub const HOST_REFERENCE: &str = "seatrial.local/host";

/// Images below this name exist on this machine only.
const LOCAL_PREFIX: &str = "seatrial.local/";

const DEFAULT_HOST: &str = "docker.io";
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

/// The name of an image: where it is kept, under which path, at which tag or digest.
///
/// Short forms are filled in on parsing: no host means `docker.io`, a single path component there means
/// `library/…`, and neither tag nor digest means the tag `latest`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageRef {
    /// `scratch`: no layers at all.
    Scratch,
    /// `seatrial.local/host`: the machine's own system.
    Host,
    /// `seatrial.local/NAME`: an image that a project builds for itself, by its name. No tag and no digest: its content is
    /// whatever its Dockerfile gives.
    Local(String),
    /// An image in a registry.
    Remote(RemoteRef),
}

/// An image in a registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteRef {
    host: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Which rule of the grammar a reference breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("image reference `{reference}`: {rule}")]
pub struct ReferenceError {
    /// The text that was given, cut to a printable length.
    pub reference: String,
    /// The rule it breaks.
    pub rule: String,
}

impl ImageRef {
    /// Whether the reference names its content: by digest, or because it is empty.
    pub fn pinned(&self) -> bool {
        match self {
            Self::Scratch => true,
            Self::Host | Self::Local(_) => false,
            Self::Remote(remote) => remote.digest.is_some(),
        }
    }

    /// The reference into a registry, if it is one.
    pub fn remote(&self) -> Option<&RemoteRef> {
        match self {
            Self::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// The shortest text that parses to the same reference.
    pub fn familiar(&self) -> String {
        let Self::Remote(remote) = self else { return self.to_string() };
        let mut text = String::new();
        if remote.host == DEFAULT_HOST {
            text.push_str(remote.path.strip_prefix("library/").unwrap_or(&remote.path));
        } else {
            text.push_str(&remote.host);
            text.push('/');
            text.push_str(&remote.path);
        }
        match (&remote.tag, &remote.digest) {
            (Some(tag), None) if tag == "latest" => {}
            _ => remote.push_suffix(&mut text),
        }
        text
    }
}

impl RemoteRef {
    /// Host and port as the reference names them.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Repository path without the host.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, `algorithm:hex`.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// What to ask the registry for: the digest when there is one, else the tag.
    pub fn selector(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest")
    }

    /// The same repository and tag, pinned to a digest.
    pub fn with_digest(&self, digest: &str) -> Result<ImageRef, ReferenceError> {
        check_digest(digest).map_err(|rule| error(digest, rule))?;
        Ok(ImageRef::Remote(Self { digest: Some(digest.to_owned()), ..self.clone() }))
    }

    fn push_suffix(&self, text: &mut String) {
        if let Some(tag) = &self.tag {
            text.push(':');
            text.push_str(tag);
        }
        if let Some(digest) = &self.digest {
            text.push('@');
            text.push_str(digest);
        }
    }
}

impl fmt::Display for ImageRef {
    /// Writes the full form: host, path, tag and digest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scratch => f.write_str("scratch"),
            Self::Host => f.write_str(HOST_REFERENCE),
            Self::Local(name) => write!(f, "{LOCAL_PREFIX}{name}"),
            Self::Remote(remote) => write!(f, "{remote}"),
        }
    }
}

impl fmt::Display for RemoteRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{}/{}", self.host, self.path);
        self.push_suffix(&mut text);
        f.write_str(&text)
    }
}

impl FromStr for ImageRef {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text == "scratch" {
            return Ok(Self::Scratch);
        }
        if text == HOST_REFERENCE {
            return Ok(Self::Host);
        }
        if let Some(name) = text.strip_prefix(LOCAL_PREFIX) {
            check_local(name).map_err(|rule| error(text, rule))?;
            return Ok(Self::Local(name.to_owned()));
        }
        parse_remote(text).map(Self::Remote).map_err(|rule| error(text, rule))
    }
}

fn error(reference: &str, rule: String) -> ReferenceError {
    let mut reference: String = reference.chars().take(300).filter(|c| !c.is_control()).collect();
    if reference.is_empty() {
        reference.push(' ');
    }
    ReferenceError { reference, rule }
}

fn parse_remote(text: &str) -> Result<RemoteRef, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() > MAX_NAME + MAX_TAG + 2 + 7 + 128 {
        return Err("is longer than any reference may be".to_owned());
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => {
            check_digest(digest)?;
            (rest, Some(digest.to_owned()))
        }
        None => (text, None),
    };
    // A colon belongs to a tag only after the last slash; before it, it starts a port.
    let after_slash = rest.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match rest[after_slash..].find(':') {
        Some(at) => {
            let tag = &rest[after_slash + at + 1..];
            check_tag(tag)?;
            (&rest[..after_slash + at], Some(tag.to_owned()))
        }
        None => (rest, None),
    };
    let (host, path) = split_host(name);
    check_host(host)?;
    if path.is_empty() {
        return Err("names no repository".to_owned());
    }
    let official = host == DEFAULT_HOST && !path.contains('/');
    let path = if official { format!("library/{path}") } else { path.to_owned() };
    for component in path.split('/') {
        check_component(component)?;
    }
    if host.len() + 1 + path.len() > MAX_NAME {
        return Err(format!("host and repository together are longer than {MAX_NAME} characters"));
    }
    let tag = if tag.is_none() && digest.is_none() { Some("latest".to_owned()) } else { tag };
    Ok(RemoteRef { host: host.to_owned(), path, tag, digest })
}

/// Splits off the first component when it can only be a host: it has a dot, a port or capitals, or is `localhost`.
fn split_host(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            // The index of the default registry has gone by two older names.
            if first == "index.docker.io" || first == "registry-1.docker.io" {
                (DEFAULT_HOST, rest)
            } else {
                (first, rest)
            }
        }
        _ => (DEFAULT_HOST, name),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let (name, port) = if let Some(inner) = host.strip_prefix('[') {
        let (address, rest) =
            inner.split_once(']').ok_or_else(|| format!("host `{host}` has no closing bracket"))?;
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(format!("host `{host}` is not an IPv6 address in brackets"));
        }
        let port = match rest {
            "" => None,
            _ => Some(
                rest.strip_prefix(':').ok_or_else(|| format!("host `{host}` goes on after the bracket"))?,
            ),
        };
        (None, port)
    } else {
        match host.split_once(':') {
            Some((name, port)) => (Some(name), Some(port)),
            None => (Some(host), None),
        }
    };
    if let Some(port) = port
        && (port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) || port.parse::<u16>().is_err())
    {
        return Err(format!("port `{port}` of the host is not a number up to 65535"));
    }
    for label in name.into_iter().flat_map(|name| name.split('.')) {
        let good = !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-');
        if !good {
            return Err(format!(
                "host `{host}` has a label that is not 1 to 63 letters, digits or inner hyphens"
            ));
        }
    }
    Ok(())
}

/// One repository component, and nothing behind it.
fn check_local(name: &str) -> Result<(), String> {
    if name.contains(['/', ':', '@']) {
        return Err(format!(
            "the host `seatrial.local` is reserved; its images are `{LOCAL_PREFIX}NAME`, no more"
        ));
    }
    if name.len() > MAX_TAG {
        return Err(format!("the name of a local image is longer than {MAX_TAG} characters"));
    }
    check_component(name)
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn check_component(component: &str) -> Result<(), String> {
    let fail = |why: &str| Err(format!("repository component `{component}` {why}"));
    if component.is_empty() {
        return fail("is empty (two slashes, or a slash at an end)");
    }
    if let Some(bad) = component.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-')) {
        if bad.is_ascii_uppercase() {
            return fail("has capitals; repositories are lower case");
        }
        return fail(&format!("has the character {bad:?}; allowed are a-z, 0-9 and . _ - between them"));
    }
    let is_separator = |c: char| matches!(c, '.' | '_' | '-');
    if component.starts_with(is_separator) || component.ends_with(is_separator) {
        return fail("starts or ends with a separator");
    }
    for run in component.split(|c: char| !is_separator(c)).filter(|run| !run.is_empty()) {
        let good = matches!(run, "." | "_" | "__") || run.bytes().all(|b| b == b'-');
        if !good {
            return fail(&format!(
                "has the separator `{run}`; allowed are one dot, one or two underscores, hyphens"
            ));
        }
    }
    Ok(())
}

/// `[A-Za-z0-9_][A-Za-z0-9._-]{0,127}`
fn check_tag(tag: &str) -> Result<(), String> {
    let good = !tag.is_empty()
        && tag.len() <= MAX_TAG
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
        && !tag.starts_with(['.', '-']);
    if good {
        return Ok(());
    }
    let shown: String = tag.chars().take(MAX_TAG + 1).collect();
    Err(format!(
        "tag `{shown}` is not 1 to {MAX_TAG} of A-Z a-z 0-9 _ . - beginning with a letter, digit or underscore"
    ))
}

fn check_digest(digest: &str) -> Result<(), String> {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return Err(format!("digest `{digest}` is not algorithm:hex"));
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha512" => 128,
        _ => return Err(format!("digest algorithm `{algorithm}` is not sha256 or sha512")),
    };
    if hex.len() != length || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return Err(format!("digest of {algorithm} is not {length} lower-case hexadecimal digits"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn full(text: &str) -> String {
        text.parse::<ImageRef>().unwrap().to_string()
    }

    fn rule(text: &str) -> String {
        text.parse::<ImageRef>().unwrap_err().rule
    }

    #[test]
    fn short_forms_are_filled_in() {
        assert_eq!(full("ubuntu"), "docker.io/library/ubuntu:latest");
        assert_eq!(full("ubuntu:24.04"), "docker.io/library/ubuntu:24.04");
        assert_eq!(full("someone/tool"), "docker.io/someone/tool:latest");
        assert_eq!(full("index.docker.io/library/x"), "docker.io/library/x:latest");
        assert_eq!(full("localhost/x"), "localhost/x:latest");
        assert_eq!(full("registry.invalid:5000/a/b__c"), "registry.invalid:5000/a/b__c:latest");
        assert_eq!(full("[::1]:5000/x:t"), "[::1]:5000/x:t");
        assert_eq!(full(&format!("a/b@sha256:{HEX}")), format!("docker.io/a/b@sha256:{HEX}"));
        assert_eq!(full(&format!("a/b:t@sha256:{HEX}")), format!("docker.io/a/b:t@sha256:{HEX}"));
    }

    #[test]
    fn reserved_names_stand_apart() {
        assert_eq!("scratch".parse::<ImageRef>().unwrap(), ImageRef::Scratch);
        assert_eq!("seatrial.local/host".parse::<ImageRef>().unwrap(), ImageRef::Host);
        let other: ImageRef = "seatrial.local/other".parse().unwrap();
        assert_eq!(other, ImageRef::Local("other".to_owned()));
        assert_eq!(other.to_string(), "seatrial.local/other");
        for text in ["seatrial.local/host:1", "seatrial.local/a/b", "seatrial.local/a@sha256:x"] {
            assert!(rule(text).contains("reserved"), "{text}");
        }
        assert!(rule("seatrial.local/").contains("empty"));
        assert!(rule("seatrial.local/Other").contains("capitals"));
        assert!(rule(&format!("seatrial.local/{}", "a".repeat(129))).contains("128"));
        assert!(ImageRef::Scratch.pinned());
        assert!(!ImageRef::Host.pinned() && !other.pinned());
    }

    #[test]
    fn errors_name_the_rule() {
        assert!(rule("").contains("empty"));
        assert!(rule("Ubuntu").contains("capitals"));
        assert!(rule("a___b").contains("___"));
        assert!(rule("a..b").contains(".."));
        assert!(rule("a/").contains("empty"));
        assert!(rule("a//b").contains("empty"));
        assert!(rule("-a").contains("starts or ends"));
        assert!(rule("a:").contains("tag"));
        assert!(rule("a:.x").contains("tag"));
        assert!(rule(&format!("a:{}", "x".repeat(129))).contains("128"));
        assert!(rule("host.invalid:port/x").contains("port"));
        assert!(rule("host.invalid:99999/x").contains("port"));
        assert!(rule("-host.invalid/x").contains("label"));
        assert!(rule("a@sha256:abc").contains("64"));
        assert!(rule("a@md5:abc").contains("md5"));
        assert!(rule("{docker_image}").contains("'{'"));
        assert!(rule("a b").contains("' '"));
        assert!(rule(&"a/".repeat(200)).contains("longer") || rule(&"a/".repeat(200)).contains("empty"));
    }

    #[test]
    fn familiar_forms_drop_what_parsing_fills_in() {
        for text in ["ubuntu", "ubuntu:24.04", "someone/tool", "registry.invalid/a/b:v1", "localhost:5000/x"]
        {
            assert_eq!(text.parse::<ImageRef>().unwrap().familiar(), text);
        }
    }

    #[test]
    fn pinning_keeps_the_tag() {
        let reference: ImageRef = "ubuntu:24.04".parse().unwrap();
        let pinned = reference.remote().unwrap().with_digest(&format!("sha256:{HEX}")).unwrap();
        assert!(pinned.pinned());
        assert_eq!(pinned.remote().unwrap().tag(), Some("24.04"));
        assert_eq!(pinned.remote().unwrap().selector(), format!("sha256:{HEX}"));
    }

    proptest! {
        #[test]
        fn any_text_parses_or_names_a_rule(text in "\\PC{0,60}") {
            if let Ok(reference) = text.parse::<ImageRef>() {
                prop_assert_eq!(&reference.to_string().parse::<ImageRef>().unwrap(), &reference);
                prop_assert_eq!(&reference.familiar().parse::<ImageRef>().unwrap(), &reference);
            }
        }

        #[test]
        fn good_references_come_back(text in "[a-z0-9]{1,8}(\\.[a-z]{2,3}(:[1-9][0-9]{0,3})?)?/[a-z0-9]{1,5}(__|_|-|\\.)[a-z0-9]{1,5}(:[A-Za-z0-9_][A-Za-z0-9._-]{0,20})?") {
            let reference: ImageRef = text.parse().unwrap();
            prop_assert_eq!(&reference.to_string().parse::<ImageRef>().unwrap(), &reference);
            prop_assert_eq!(&reference.familiar().parse::<ImageRef>().unwrap(), &reference);
        }
    }
}
