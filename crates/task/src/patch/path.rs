//! Paths as diffs write them: prefixed, quoted, followed by a time.

use super::model::PatchProblem;
use crate::printable;
use crate::tree::check_path;

/// Takes a C-style quoted name apart; returns the bytes and what follows the closing quote.
pub(super) fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut bytes = Vec::new();
    loop {
        let (&first, tail) = rest.split_first()?;
        rest = tail;
        match first {
            b'"' => return Some((bytes, rest)),
            b'\\' => {
                let (&escape, tail) = rest.split_first()?;
                rest = tail;
                bytes.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let digits = rest.get(..2)?;
                        rest = &rest[2..];
                        let octal = |d: u8| (b'0'..=b'7').contains(&d).then_some(d - b'0');
                        (escape - b'0') << 6 | octal(digits[0])? << 3 | octal(digits[1])?
                    }
                    _ => return None,
                });
            }
            byte => bytes.push(byte),
        }
    }
}

/// Writes a path as git does: quoted when it holds anything that would not survive otherwise.
pub(super) fn quote(prefix: &str, path: &[u8]) -> Vec<u8> {
    let plain = path.iter().all(|&b| b >= 0x20 && b != 0x7f && b < 0x80 && b != b'"' && b != b'\\');
    let mut written = prefix.as_bytes().to_vec();
    if plain {
        written.extend_from_slice(path);
        return written;
    }
    written.insert(0, b'"');
    for &byte in path {
        match byte {
            b'"' | b'\\' => written.extend([b'\\', byte]),
            b'\n' => written.extend(b"\\n"),
            b'\t' => written.extend(b"\\t"),
            0x20..=0x7e => written.push(byte),
            _ => written.extend(format!("\\{byte:03o}").as_bytes()),
        }
    }
    written.push(b'"');
    written
}

/// Reads the path of a `---` or `+++` line: `None` for `/dev/null`, else without its first component.
pub(super) fn header_path(text: &[u8], line: usize) -> Result<Option<Vec<u8>>, PatchProblem> {
    let malformed = |message: &str| PatchProblem::Malformed { line, message: message.to_owned() };
    let name = if text.starts_with(b"\"") {
        unquote(text).ok_or_else(|| malformed("the quoted path is broken"))?.0
    } else {
        // A time may follow behind a tab.
        text.split(|&b| b == b'\t').next().unwrap_or_default().to_vec()
    };
    if name == b"/dev/null" {
        return Ok(None);
    }
    stripped(&name, line).map(Some)
}

/// Takes the first component, usually `a` or `b`, off a path and checks the rest.
pub(super) fn stripped(name: &[u8], line: usize) -> Result<Vec<u8>, PatchProblem> {
    if name.starts_with(b"/") {
        return Err(escape(name, "it is absolute"));
    }
    let Some(cut) = name.iter().position(|&b| b == b'/') else {
        let message = format!("the path `{}` has no `a/` or `b/` in front", printable(name));
        return Err(PatchProblem::Malformed { line, message });
    };
    if name[..cut] == *b".." {
        return Err(escape(name, "it holds `..`"));
    }
    checked(&name[cut + 1..])
}

/// Checks a path that carries no prefix, as in `rename from`.
pub(super) fn checked(path: &[u8]) -> Result<Vec<u8>, PatchProblem> {
    check_path(path).map_err(|fault| escape(path, &fault.to_string()))?;
    Ok(path.to_vec())
}

pub(super) fn escape(path: &[u8], reason: &str) -> PatchProblem {
    PatchProblem::PathEscape { path: printable(path), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_goes_both_ways() {
        for path in [&b"plain"[..], b"with blank", "ä\t\"\\\n".as_bytes(), b"\xff\x01"] {
            let written = quote("a/", path);
            let read = if written.starts_with(b"\"") { unquote(&written).unwrap().0 } else { written };
            assert_eq!(read, [b"a/", path].concat());
        }
        assert_eq!(quote("a/", "é".as_bytes()), b"\"a/\\303\\251\"");
        assert!(unquote(b"\"open").is_none());
    }

    #[test]
    fn prefixes_are_taken_off_and_escapes_refused() {
        assert_eq!(header_path(b"a/x/y\t2026-01-01", 1).unwrap(), Some(b"x/y".to_vec()));
        assert_eq!(header_path(b"/dev/null", 1).unwrap(), None);
        for path in [&b"/etc/x"[..], b"a/../x", b"../x", b"a//etc/x", b"b/.git/config"] {
            assert_eq!(header_path(path, 1).unwrap_err().name(), "patch_escapes", "{path:?}");
        }
        assert_eq!(header_path(b"x", 1).unwrap_err().name(), "patch_malformed");
    }
}
