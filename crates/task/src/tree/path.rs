//! Which paths may stand in a tree.

/// Why a path may not stand in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// Nothing at all.
    #[error("it is empty")]
    Empty,
    /// It begins at the root of the system.
    #[error("it is absolute")]
    Absolute,
    /// It climbs out of the tree.
    #[error("it holds `..`")]
    Climbs,
    /// It has an empty or a `.` part.
    #[error("it holds an empty or a `.` part")]
    NotPlain,
    /// It reaches into a repository's own files.
    #[error("it reaches into `.git`")]
    Git,
    /// A NUL byte.
    #[error("it holds a NUL byte")]
    Nul,
}

/// Checks that `path` is a plain relative path: no empty, `.`, `..` or `.git` part in any spelling of its case.
pub(crate) fn check_path(path: &[u8]) -> Result<(), PathFault> {
    if path.is_empty() {
        return Err(PathFault::Empty);
    }
    if path.starts_with(b"/") {
        return Err(PathFault::Absolute);
    }
    if path.contains(&0) {
        return Err(PathFault::Nul);
    }
    for part in path.split(|&b| b == b'/') {
        match part {
            b".." => return Err(PathFault::Climbs),
            b"" | b"." => return Err(PathFault::NotPlain),
            part if part.eq_ignore_ascii_case(b".git") => return Err(PathFault::Git),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_pass() {
        assert_eq!(check_path(b"a/b c/.gitignore"), Ok(()));
        for (path, fault) in [
            (&b""[..], PathFault::Empty),
            (b"/etc/x", PathFault::Absolute),
            (b"a/../../x", PathFault::Climbs),
            (b"a//b", PathFault::NotPlain),
            (b"./a", PathFault::NotPlain),
            (b"a/", PathFault::NotPlain),
            (b"x/.GIT/config", PathFault::Git),
            (b"a\0b", PathFault::Nul),
        ] {
            assert_eq!(check_path(path), Err(fault), "{path:?}");
        }
    }
}
