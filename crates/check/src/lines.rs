//! Lines of foreign text.

/// A text as lines counted from 1, without their ends; bytes that are not UTF-8 become replacement characters.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1u32..).zip(text.lines())
}

/// Whether a line marks a text as one that must not be trained on; Harbor drops such lines at the head of a prompt.
pub(crate) fn is_canary(line: &str) -> bool {
    let line = line.trim();
    (line.starts_with('#') || line.starts_with("<!--")) && line.to_lowercase().contains("canary")
}

/// A text with every run of white space as one blank, and none at the ends.
pub(crate) fn squeezed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Contents with fewer characters or bytes than this that are not white space are too common to compare.
pub(crate) const MIN_CONTENT: u64 = 64;

/// How many bytes are neither blanks nor control characters. Contents that [`alike`] takes for the same have equally
/// many, so that the count tells which contents are worth comparing.
pub(crate) fn solid(bytes: &[u8]) -> u64 {
    // Short runs fit their sum into a byte, which lets the compiler count many bytes at once.
    let count = |run: &[u8]| run.iter().map(|b| u8::from(*b > b' ')).sum::<u8>();
    bytes.chunks(255).map(|run| u64::from(count(run))).sum()
}

/// Whether two contents are the same, or are texts that differ only in line ends, line-end blanks and empty lines.
pub(crate) fn alike(a: &[u8], b: &[u8]) -> bool {
    a == b || plain(a).is_some_and(|a| Some(a) == plain(b))
}

/// A text with the white space at line ends, the carriage returns and the empty lines removed. `None` for bytes that are
/// not text.
fn plain(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    let mut out = String::with_capacity(text.len());
    for line in text.lines().map(str::trim_ascii_end).filter(|line| !line.is_empty()) {
        out.push_str(line);
        out.push('\n');
    }
    Some(out)
}

/// The last component of a path.
pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Whether a file of this name is a program, a patch, or anything else that is written for a machine to follow.
pub(crate) fn is_program_name(name: &[u8]) -> bool {
    const ENDINGS: &[&str] = &[
        "sh", "bash", "py", "js", "mjs", "ts", "tsx", "jsx", "rb", "go", "rs", "java", "kt", "c", "cc",
        "cpp", "h", "hpp", "cs", "php", "pl", "lua", "r", "jl", "hs", "scala", "swift", "bats", "patch",
        "diff", "sql", "ipynb", "cob", "cbl", "f90", "ml", "ex", "clj", "pyx",
    ];
    let Some(at) = name.iter().rposition(|&b| b == b'.') else { return false };
    let ending = name[at + 1..].to_ascii_lowercase();
    ENDINGS.iter().any(|known| known.as_bytes() == ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_normalised() {
        assert_eq!(squeezed("  a \t b\n\nc "), "a b c");
        assert_eq!(plain(b"a  \r\n\r\n b\n").unwrap(), "a\n b\n");
        assert!(alike(b"a  \r\n\r\n b\n", b"a\n b") && alike(b"\xff", b"\xff"));
        assert!(!alike(b"a\n b", b"a\nb") && !alike(b"\xff", b"\xff\n"));
        assert_eq!(solid(b"a  \r\n\r\n b\n"), solid(b"a\n b"));
        assert_eq!(solid(&b"a ".repeat(1000)), 1000);
        assert_eq!(plain(b"a\0b"), None);
        assert_eq!(plain(b"\xff"), None);
        assert_eq!(file_name(b"a/b/c"), b"c");
        assert!(is_program_name(b"a.PY") && !is_program_name(b"py") && !is_program_name(b"a.csv"));
        assert_eq!(numbered("a\r\nb").last(), Some((2, "b")));
    }
}
