//! Writes a patch in git's form.

use super::model::{FileChange, Hunk, LineKind, Patch};
use super::path::quote;

impl Patch {
    /// The patch in git's form without `index` lines, ready for `git apply`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for file in &self.files {
            write_file(file, &mut bytes);
        }
        bytes
    }
}

fn write_file(file: &FileChange, into: &mut Vec<u8>) {
    let mut line = |parts: &[&[u8]]| {
        into.extend(parts.concat());
        into.push(b'\n');
    };
    let mode = |mode: Option<u32>| format!("{:06o}", mode.unwrap_or(0o100_644)).into_bytes();
    let either = file.old.as_ref().or(file.new.as_ref()).map_or(&b""[..], Vec::as_slice);
    let old = file.old.as_deref().unwrap_or(either);
    let new = file.new.as_deref().unwrap_or(either);
    line(&[b"diff --git ", &quote("a/", old), b" ", &quote("b/", new)]);
    match (&file.old, &file.new) {
        (None, _) => line(&[b"new file mode ", &mode(file.new_mode)]),
        (_, None) => line(&[b"deleted file mode ", &mode(file.old_mode)]),
        (Some(_), Some(_)) => {
            if file.old_mode != file.new_mode {
                line(&[b"old mode ", &mode(file.old_mode)]);
                line(&[b"new mode ", &mode(file.new_mode)]);
            }
            if old != new {
                let verb: &[u8] = if file.keeps_old { b"copy" } else { b"rename" };
                line(&[verb, b" from ", &quote("", old)]);
                line(&[verb, b" to ", &quote("", new)]);
            }
        }
    }
    if file.hunks.is_empty() {
        return;
    }
    // A name with a blank is followed by a tab, which keeps readers from taking the rest for a time.
    let tab = |path: &[u8]| if path.contains(&b' ') { &b"\t"[..] } else { b"" };
    match &file.old {
        Some(old) => line(&[b"--- ", &quote("a/", old), tab(old)]),
        None => line(&[b"--- /dev/null"]),
    }
    match &file.new {
        Some(new) => line(&[b"+++ ", &quote("b/", new), tab(new)]),
        None => line(&[b"+++ /dev/null"]),
    }
    for hunk in &file.hunks {
        write_hunk(hunk, into);
    }
}

fn write_hunk(hunk: &Hunk, into: &mut Vec<u8>) {
    let range = |start: u64, count: usize| {
        if count == 1 { start.to_string() } else { format!("{start},{count}") }
    };
    let old = range(hunk.old_start, hunk.count(LineKind::Remove));
    let new = range(hunk.new_start, hunk.count(LineKind::Add));
    into.extend(format!("@@ -{old} +{new} @@\n").as_bytes());
    for line in &hunk.lines {
        into.push(match line.kind {
            LineKind::Context => b' ',
            LineKind::Remove => b'-',
            LineKind::Add => b'+',
        });
        into.extend_from_slice(&line.text);
        if !line.text.ends_with(b"\n") {
            into.extend(b"\n\\ No newline at end of file\n");
        }
    }
}
