//! Reads a patch from bytes.

use super::model::{FileChange, Hunk, Line, LineKind, Note, Patch, PatchProblem};
use super::path::{checked, header_path, stripped, unquote};
use crate::printable;

impl Patch {
    /// Reads a unified diff with or without git's headers.
    pub fn parse(bytes: &[u8]) -> Result<Self, PatchProblem> {
        if bytes.trim_ascii().is_empty() {
            return Err(PatchProblem::Empty);
        }
        let mut notes = Vec::new();
        let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        let line_ends_lost = headers_end_in_cr(&lines);
        if line_ends_lost {
            notes.push(Note::LineEndsRepaired);
            for line in &mut lines {
                let end = line.strip_suffix(b"\r\n").map(<[u8]>::len);
                if let Some(end) = end {
                    line.truncate(end);
                    line.push(b'\n');
                }
            }
        }
        if let Some(last) = lines.last_mut().filter(|line| !line.ends_with(b"\n")) {
            last.push(b'\n');
            notes.push(Note::FinalNewlineRepaired);
        }
        let mut parser = Parser { lines: &lines, at: 0 };
        let mut files = Vec::new();
        while let Some(file) = parser.next_file()? {
            files.push(file);
        }
        if files.is_empty() {
            return Err(PatchProblem::Malformed { line: 1, message: "no file header was found".to_owned() });
        }
        Ok(Self { files, notes, line_ends_lost })
    }
}

/// Whether the lines that only a patch has end in CRLF, all of them.
fn headers_end_in_cr(lines: &[Vec<u8>]) -> bool {
    let is_header = |line: &&Vec<u8>| {
        line.starts_with(b"diff --git ")
            || line.starts_with(b"+++ ")
            || (line.starts_with(b"@@ -") && line[3..].windows(3).any(|part| part == b" @@"))
    };
    let mut headers = lines.iter().filter(is_header).peekable();
    headers.peek().is_some() && headers.all(|line| line.ends_with(b"\r\n"))
}

/// The paths of both sides.
type Names = (Option<Vec<u8>>, Option<Vec<u8>>);

struct Parser<'a> {
    lines: &'a [Vec<u8>],
    at: usize,
}

impl<'a> Parser<'a> {
    /// The line at the cursor without its end.
    fn line(&self) -> Option<&'a [u8]> {
        self.lines.get(self.at).map(|line| line.strip_suffix(b"\n").unwrap_or(line))
    }

    fn peek(&self, ahead: usize) -> &'a [u8] {
        self.lines.get(self.at + ahead).map_or(&[], Vec::as_slice)
    }

    fn malformed(&self, message: impl Into<String>) -> PatchProblem {
        PatchProblem::Malformed { line: self.at + 1, message: message.into() }
    }

    fn next_file(&mut self) -> Result<Option<FileChange>, PatchProblem> {
        while let Some(line) = self.line() {
            if let Some(names) = line.strip_prefix(b"diff --git ") {
                return self.git_file(names).map(Some);
            }
            if self.stands_at_names() {
                return self.plain_file().map(Some);
            }
            if line.starts_with(b"@@ -") {
                return Err(self.malformed("a hunk without a file header"));
            }
            // What is not part of a change, such as a commit message, is passed over.
            self.at += 1;
        }
        Ok(None)
    }

    fn stands_at_names(&self) -> bool {
        self.peek(0).starts_with(b"--- ") && self.peek(1).starts_with(b"+++ ")
    }

    /// A change that begins with its `---` and `+++` lines.
    fn plain_file(&mut self) -> Result<FileChange, PatchProblem> {
        let (old, new) = self.names()?;
        let mut file =
            FileChange { old, new, old_mode: None, new_mode: None, keeps_old: false, hunks: Vec::new() };
        if let (Some(old), Some(new)) = (&file.old, &file.new)
            && old != new
        {
            let message =
                format!("`{}` and `{}` differ without a rename header", printable(old), printable(new));
            return Err(PatchProblem::Malformed { line: self.at, message });
        }
        self.hunks(&mut file)?;
        if file.hunks.is_empty() {
            return Err(self.malformed(format!("no hunk follows the header of `{}`", file.name())));
        }
        Ok(file)
    }

    /// Reads the `---` and `+++` lines.
    fn names(&mut self) -> Result<Names, PatchProblem> {
        let rest = |line: &'a [u8]| line[4..].strip_suffix(b"\n").unwrap_or(&line[4..]);
        let old = header_path(rest(self.peek(0)), self.at + 1)?;
        let new = header_path(rest(self.peek(1)), self.at + 2)?;
        if old.is_none() && new.is_none() {
            return Err(self.malformed("both sides are /dev/null"));
        }
        self.at += 2;
        Ok((old, new))
    }

    /// A change that begins with `diff --git`.
    fn git_file(&mut self, names: &[u8]) -> Result<FileChange, PatchProblem> {
        let header = self.at + 1;
        let both = git_names(names, header)?;
        self.at += 1;
        let mut file = FileChange {
            old: None,
            new: None,
            old_mode: None,
            new_mode: None,
            keeps_old: false,
            hunks: Vec::new(),
        };
        let (mut created, mut deleted, mut moved, mut named) = (false, false, false, false);
        while let Some(line) = self.line() {
            if let Some(mode) = line.strip_prefix(b"old mode ") {
                file.old_mode = Some(self.mode(mode)?);
            } else if let Some(mode) = line.strip_prefix(b"new mode ") {
                file.new_mode = Some(self.mode(mode)?);
            } else if let Some(mode) = line.strip_prefix(b"new file mode ") {
                file.new_mode = Some(self.mode(mode)?);
                created = true;
            } else if let Some(mode) = line.strip_prefix(b"deleted file mode ") {
                file.old_mode = Some(self.mode(mode)?);
                deleted = true;
            } else if let Some(path) = line.strip_prefix(b"rename from ").or(line.strip_prefix(b"copy from "))
            {
                file.keeps_old = line.starts_with(b"copy");
                file.old = Some(self.extended(path)?);
                moved = true;
            } else if let Some(path) = line.strip_prefix(b"rename to ").or(line.strip_prefix(b"copy to ")) {
                file.new = Some(self.extended(path)?);
                moved = true;
            } else if let Some(rest) = line.strip_prefix(b"index ") {
                // `index old..new mode` states the mode of a file that keeps it.
                if let Some(mode) = rest.split(|&b| b == b' ').nth(1) {
                    let mode = self.mode(mode)?;
                    file.old_mode.get_or_insert(mode);
                    file.new_mode.get_or_insert(mode);
                }
            } else if line.starts_with(b"GIT binary patch") || line.starts_with(b"Binary files ") {
                let path = both.map_or_else(|| printable(names), |path| printable(&path));
                return Err(PatchProblem::Binary { path });
            } else if line.starts_with(b"similarity index ") || line.starts_with(b"dissimilarity index ") {
            } else {
                break;
            }
            self.at += 1;
        }
        if self.stands_at_names() {
            let (old, new) = self.names()?;
            named = true;
            if moved && (file.old.is_some() && old != file.old || file.new.is_some() && new != file.new) {
                return Err(self.malformed("the names of the hunks are not those of the rename"));
            }
            created |= old.is_none();
            deleted |= new.is_none();
            (file.old, file.new) = (old, new);
        } else if !moved {
            let Some(path) = both else {
                return Err(PatchProblem::Malformed {
                    line: header,
                    message: "the file cannot be told from its header".to_owned(),
                });
            };
            file.old = (!created).then(|| path.clone());
            file.new = (!deleted).then_some(path);
        }
        let sides = (file.old.is_some(), file.new.is_some());
        if sides != (!created, !deleted) || (created && deleted) {
            return Err(PatchProblem::Malformed {
                line: header,
                message: "the header contradicts itself about which side exists".to_owned(),
            });
        }
        if !moved && file.old.is_some() && file.new.is_some() && file.old != file.new {
            return Err(PatchProblem::Malformed {
                line: header,
                message: "two names without a rename header".to_owned(),
            });
        }
        self.hunks(&mut file)?;
        if named && file.hunks.is_empty() {
            return Err(self.malformed(format!("no hunk follows the header of `{}`", file.name())));
        }
        let changes_mode = file.old_mode != file.new_mode;
        if !(moved || created || deleted || changes_mode || !file.hunks.is_empty()) {
            return Err(PatchProblem::Malformed {
                line: header,
                message: "the header changes nothing".to_owned(),
            });
        }
        Ok(file)
    }

    fn extended(&self, text: &[u8]) -> Result<Vec<u8>, PatchProblem> {
        if text.starts_with(b"\"") {
            let (path, _) = unquote(text).ok_or_else(|| self.malformed("the quoted path is broken"))?;
            return checked(&path);
        }
        checked(text)
    }

    fn mode(&self, text: &[u8]) -> Result<u32, PatchProblem> {
        let text = std::str::from_utf8(text).ok().map(str::trim_end);
        text.filter(|text| text.len() == 6)
            .and_then(|text| u32::from_str_radix(text, 8).ok())
            .ok_or_else(|| self.malformed("the mode is not six octal digits"))
    }

    fn hunks(&mut self, file: &mut FileChange) -> Result<(), PatchProblem> {
        while let Some(line) = self.line().filter(|line| line.starts_with(b"@@ -")) {
            let (old_start, old_count, new_start, new_count) =
                ranges(line).ok_or_else(|| self.malformed("the hunk header is broken"))?;
            self.at += 1;
            let lines = self.hunk_lines(old_count, new_count)?;
            file.hunks.push(Hunk { old_start, new_start, lines });
        }
        // A line behind a full hunk that looks like one of its own means that its header counts wrong: taking it for
        // text between two files would lose a change in silence.
        match self.line() {
            Some(line)
                if matches!(line.first(), Some(b' ' | b'+' | b'-'))
                    && !file.hunks.is_empty()
                    && !self.stands_at_names()
                    && line != b"-- "
                    && line != b"--" =>
            {
                Err(self.malformed("the hunk has more lines than its header says"))
            }
            _ => Ok(()),
        }
    }

    fn hunk_lines(&mut self, mut old: u64, mut new: u64) -> Result<Vec<Line>, PatchProblem> {
        let mut lines: Vec<Line> = Vec::new();
        while old > 0 || new > 0 {
            let Some(line) = self.lines.get(self.at) else {
                return Err(self.malformed("the patch ends inside a hunk"));
            };
            let (kind, text) = match line.first() {
                Some(b' ') => (LineKind::Context, &line[1..]),
                Some(b'-') => (LineKind::Remove, &line[1..]),
                Some(b'+') => (LineKind::Add, &line[1..]),
                // Some tools cut the blank of an empty context line, as git accepts.
                Some(b'\n') => (LineKind::Context, &line[..]),
                Some(b'\\') => {
                    self.no_newline(&mut lines)?;
                    continue;
                }
                _ => return Err(self.malformed("neither context nor change, inside a hunk")),
            };
            let counts = match kind {
                LineKind::Context => old.checked_sub(1).zip(new.checked_sub(1)),
                LineKind::Remove => old.checked_sub(1).map(|old| (old, new)),
                LineKind::Add => new.checked_sub(1).map(|new| (old, new)),
            };
            (old, new) =
                counts.ok_or_else(|| self.malformed("the hunk has more lines than its header says"))?;
            lines.push(Line { kind, text: text.to_vec() });
            self.at += 1;
        }
        if self.peek(0).starts_with(b"\\ ") {
            self.no_newline(&mut lines)?;
        }
        Ok(lines)
    }

    /// The marker `\ No newline at end of file` speaks about the line before it.
    fn no_newline(&mut self, lines: &mut [Line]) -> Result<(), PatchProblem> {
        let last = lines.last_mut().ok_or_else(|| self.malformed("a marker without a line before it"))?;
        if last.text.pop() != Some(b'\n') {
            return Err(self.malformed("two markers behind one line"));
        }
        self.at += 1;
        Ok(())
    }
}

/// The one path of a `diff --git` line when both its names agree; `None` when they differ or cannot be told apart.
fn git_names(names: &[u8], line: usize) -> Result<Option<Vec<u8>>, PatchProblem> {
    if names.starts_with(b"\"") {
        let Some((first, rest)) = unquote(names) else { return Ok(None) };
        let second =
            rest.strip_prefix(b" ").map(|rest| unquote(rest).map_or(rest.to_vec(), |(name, _)| name));
        let (first, second) =
            (stripped(&first, line)?, second.map(|name| stripped(&name, line)).transpose()?);
        return Ok(second.filter(|second| *second == first));
    }
    // Names with blanks are not quoted: of all ways to cut the line in two, one gives equal paths.
    let mut candidates = names.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(cut, _)| cut);
    let tail = |name: &[u8]| name.iter().position(|&b| b == b'/').map(|cut| name[cut + 1..].to_vec());
    let cut = candidates.find(|&cut| {
        let (first, second) = (tail(&names[..cut]), tail(&names[cut + 1..]));
        first.is_some() && first == second
    });
    // The second name decides whether the line is worth refusing: `/etc/x /etc/x` has no prefix to strip.
    cut.map(|cut| stripped(&names[..cut], line)).transpose()
}

/// The four numbers of a hunk header; a count that is left out is 1.
fn ranges(line: &[u8]) -> Option<(u64, u64, u64, u64)> {
    let text = std::str::from_utf8(line.split(|&b| b == b'@').nth(2)?).ok()?;
    let (old, new) = text.trim().split_once(' ')?;
    let range = |text: &str, sign: char| {
        let text = text.strip_prefix(sign)?;
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
            if digits { text.parse::<u64>().ok() } else { None }
        };
        number(start).zip(number(count))
    };
    let ((old_start, old_count), (new_start, new_count)) = (range(old, '-')?, range(new.trim(), '+')?);
    Some((old_start, old_count, new_start, new_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> PatchProblem {
        Patch::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn empty_and_blank_patches_are_told_from_broken_ones() {
        assert_eq!(problem(""), PatchProblem::Empty);
        assert_eq!(problem(" \n\r\n"), PatchProblem::Empty);
        assert_eq!(problem("hello\n").name(), "patch_malformed");
        assert_eq!(problem("@@ -1 +1 @@\n-a\n+b\n").name(), "patch_malformed");
    }

    #[test]
    fn wrong_counts_are_refused_with_their_line() {
        let head = "--- a/f\n+++ b/f\n";
        for (body, line) in [
            ("@@ -1 +1 @@\n-a\n", 5),
            ("@@ -1 +1 @@\n-a\n+b\n+c\n", 6),
            ("@@ -1 +1 @@\n-a\n-b\n+c\n", 5),
            ("@@ -1 +x @@\n", 3),
            ("@@ -1 +1 @@\n\\ No newline\n", 4),
            ("@@ -1 +1 @@\n*\n", 4),
        ] {
            let found = problem(&format!("{head}{body}"));
            assert!(
                matches!(found, PatchProblem::Malformed { line: at, .. } if at == line),
                "{body:?}: {found}"
            );
        }
    }

    #[test]
    fn escapes_are_refused_wherever_they_stand() {
        for text in [
            "diff --git a/../../etc/x b/../../etc/x\n--- a/../../etc/x\n+++ b/../../etc/x\n@@ -1 +1 @@\n-a\n+b\n",
            "diff --git /etc/x /etc/x\n--- /etc/x\n+++ /etc/x\n@@ -1 +1 @@\n-a\n+b\n",
            "--- a/f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n",
            "diff --git a/f b/f\nrename from f\nrename to ../g\n",
            "--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n",
            "--- /dev/null\n+++ \"b/\\056\\056/x\"\n@@ -0,0 +1 @@\n+x\n",
        ] {
            assert_eq!(problem(text).name(), "patch_escapes", "{text}");
        }
    }

    #[test]
    fn binary_changes_are_refused_by_name() {
        let text = "diff --git a/x.png b/x.png\nindex 1..2 100644\nGIT binary patch\nliteral 3\n";
        assert_eq!(problem(text), PatchProblem::Binary { path: "x.png".into() });
        let text = "diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n";
        assert_eq!(problem(text), PatchProblem::Binary { path: "x.png".into() });
    }

    #[test]
    fn mail_around_a_patch_is_passed_over() {
        let text = "From 1 Mon\nSubject: x\n\n---\n f | 2 +-\n\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n\
                    @@ -1 +1 @@ fn x() {\n-a\n+b\n-- \n2.47\n\n";
        let patch = Patch::parse(text.as_bytes()).unwrap();
        assert_eq!(patch.paths().into_iter().collect::<Vec<_>>(), [b"f".to_vec()]);
    }

    #[test]
    fn names_with_blanks_are_found_in_the_header() {
        let text = "diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\n";
        let patch = Patch::parse(text.as_bytes()).unwrap();
        assert_eq!(patch.files[0].old.as_deref(), Some(&b"a b"[..]));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in "(diff --git a/f b/f\n|--- a/f\n|\\+\\+\\+ b/f\n|@@ -[0-3],[0-3] \\+[0-3] @@\n|[ +-][ab]\n|\\\\ x\n|\r\n|rename to g\n|[^\n]{0,4}){0,12}") {
            if let Ok(patch) = Patch::parse(text.as_bytes()) {
                proptest::prop_assert!(!patch.files.is_empty());
                drop(patch.apply_to_tree(&mut crate::tree::Tree::new()));
            }
        }
    }
}
