//! What both inits know about processes: who descends from whom, and where a program may be.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// All descendants of a process, from the kernel's table of parents.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_in_stat(&stat) {
            parents.push((parent, pid));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(of, _)| *of == parent).map(|(_, pid)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// The parent in `/proc/<pid>/stat`. The program name before it stands in parentheses and may hold anything.
fn parent_in_stat(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Where a program may be: itself when it names a path, else below each directory of `PATH`.
pub(crate) fn candidates(program: &str, path: &str) -> Vec<Vec<u8>> {
    if program.contains('/') {
        return vec![program.as_bytes().to_vec()];
    }
    path.split(':')
        .map(|directory| if directory.is_empty() { "." } else { directory })
        .map(|directory| Path::new(directory).join(program).as_os_str().as_bytes().to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_program_name() {
        assert_eq!(parent_in_stat(b"12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in_stat(b"12 (a) S 1 (x) R 9 12"), Some(9));
        assert_eq!(parent_in_stat(b"12 (\xff)) ) S 3 1"), Some(3));
        assert_eq!(parent_in_stat(b"nonsense"), None);
    }

    #[test]
    fn programs_are_looked_for_as_execvp_does() {
        let texts = |program, path| -> Vec<String> {
            candidates(program, path).into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect()
        };
        assert_eq!(texts("ls", "/usr/bin:/bin"), ["/usr/bin/ls", "/bin/ls"]);
        assert_eq!(texts("./ls", "/usr/bin"), ["./ls"]);
        assert_eq!(texts("ls", ":/bin"), ["./ls", "/bin/ls"]);
    }
}
