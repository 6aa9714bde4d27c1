//! Lines of foreign text.

use std::borrow::Cow;

/// A content as text; bytes that are not UTF-8 become replacement characters.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Looking for the first wrong byte takes longer than asking whether there is one.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

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
const MIN_CONTENT: usize = 64;

/// How many bytes a beginning has.
const BEGINNING: usize = 24;

/// How a content begins, without blanks.
pub(crate) type Beginning = [u8; BEGINNING];

/// The first bytes that are neither blanks nor control characters; none where there are fewer. Contents that [`alike`] takes for
/// the same begin alike, so that this tells which are worth comparing.
pub(crate) fn beginning(bytes: &[u8]) -> Option<Beginning> {
    let mut first = [0; BEGINNING];
    let mut solid = bytes.iter().filter(|byte| is_solid(**byte));
    for place in &mut first {
        *place = *solid.next()?;
    }
    Some(first)
}

/// Whether a content has enough bytes that are neither blanks nor control characters to be told from others.
pub(crate) fn is_distinctive(bytes: &[u8]) -> bool {
    bytes.iter().filter(|byte| is_solid(**byte)).nth(MIN_CONTENT - 1).is_some()
}

/// A mixture of the first bytes that are neither blanks nor control characters: what differs in it differs in its [`beginning`].
pub(crate) fn lead(bytes: &[u8]) -> u8 {
    let first = bytes.iter().filter(|byte| is_solid(**byte)).take(4);
    first.fold(0, |mixed: u8, byte| mixed.rotate_left(3) ^ byte)
}

/// How many bytes are neither blanks nor control characters. Contents that [`alike`] takes for the same have equally many.
pub(crate) fn solid(bytes: &[u8]) -> u64 {
    // Short runs fit their sum into a byte, which lets the compiler count many bytes at once.
    let count = |run: &[u8]| run.iter().map(|byte| u8::from(is_solid(*byte))).sum::<u8>();
    bytes.chunks(255).map(|run| u64::from(count(run))).sum()
}

fn is_solid(byte: u8) -> bool {
    byte > b' '
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

/// Whether a word stands anywhere in a content.
pub(crate) fn holds(content: &[u8], word: &str) -> bool {
    memchr::memmem::find(content, word.as_bytes()).is_some()
}

/// The lines of a content that hold one of these words, counted from 1, in order, without their ends. Most contents hold none, and
/// looking at the whole is quicker than looking at lines.
pub(crate) fn lines_with<'a>(content: &'a [u8], words: &[&str]) -> Vec<(u32, &'a [u8])> {
    let mut places: Vec<usize> =
        words.iter().flat_map(|word| memchr::memmem::find_iter(content, word.as_bytes())).collect();
    places.sort_unstable();
    let (mut lines, mut number, mut begin) = (Vec::new(), 1, 0);
    for at in places {
        if at < begin {
            continue;
        }
        number += memchr::memchr_iter(b'\n', &content[begin..at]).count() as u32;
        begin = memchr::memrchr(b'\n', &content[..at]).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', &content[at..]).map_or(content.len(), |end| at + end);
        let line = &content[begin..end];
        lines.push((number, line.strip_suffix(b"\r").unwrap_or(line)));
        number += 1;
        begin = end + 1;
    }
    lines
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
    ENDINGS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(&name[at + 1..]))
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
        assert_eq!(beginning(&b"a \n".repeat(24)), Some([b'a'; 24]));
        assert_eq!(beginning(&b"a \n".repeat(23)), None);
        assert_eq!(lead(b" a\r\nbc  def"), lead(b"abc\ndxyz"));
        assert_ne!(lead(b"def x"), lead(b"diff"));
        assert!(is_distinctive(&b"a ".repeat(64)) && !is_distinctive(&b"a ".repeat(63)));
        assert_eq!(plain(b"a\0b"), None);
        assert_eq!(plain(b"\xff"), None);
        assert_eq!(file_name(b"a/b/c"), b"c");
        assert!(is_program_name(b"a.PY") && !is_program_name(b"py") && !is_program_name(b"a.csv"));
        assert_eq!(numbered("a\r\nb").last(), Some((2, "b")));
    }

    #[test]
    fn lines_are_found_by_the_words_in_them() {
        let text = "one\ntwo\r\n\none two one\nnone";
        for words in [&["one"][..], &["two", "one"], &["three"]] {
            let expected: Vec<_> = text
                .split('\n')
                .zip(1u32..)
                .filter(|(line, _)| words.iter().any(|word| line.contains(word)))
                .map(|(line, number)| (number, line.trim_end_matches('\r').as_bytes()))
                .collect();
            assert_eq!(lines_with(text.as_bytes(), words), expected, "{words:?}");
        }
        assert_eq!(lines_with(b"", &["x"]), []);
    }
}
