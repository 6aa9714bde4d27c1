//! Where control groups are mounted and which of them this process is in.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

/// This process's own group directories.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The mount point and our directory of the unified hierarchy.
    pub(super) unified: Option<(PathBuf, PathBuf)>,
    /// Our directory by version 1 controller.
    pub(super) controllers: BTreeMap<String, PathBuf>,
}

impl Places {
    /// Reads both tables of the kernel.
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self::parse(
            &fs::read_to_string("/proc/self/mountinfo")?,
            &fs::read_to_string("/proc/self/cgroup")?,
        ))
    }

    /// Joins the mount table (`proc(5)`, mountinfo) with the membership table (`cgroups(7)`).
    fn parse(mountinfo: &str, membership: &str) -> Self {
        let mut places = Self::default();
        for mount in mountinfo.lines().filter_map(Mount::parse) {
            let own = |wanted: &dyn Fn(&str) -> bool| {
                membership.lines().find_map(|line| {
                    let mut fields = line.splitn(3, ':').skip(1);
                    let (controllers, path) = (fields.next()?, fields.next()?);
                    wanted(controllers).then(|| mount.directory(path)).flatten()
                })
            };
            if mount.kind == "cgroup2" {
                if let Some(directory) = own(&str::is_empty) {
                    places.unified.get_or_insert((mount.point.clone(), directory));
                }
            } else {
                for controller in &mount.options {
                    if let Some(directory) =
                        own(&|names: &str| names.split(',').any(|name| name == *controller))
                    {
                        places.controllers.entry((*controller).to_owned()).or_insert(directory);
                    }
                }
            }
        }
        places
    }
}

struct Mount<'a> {
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    options: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        if kind != "cgroup" && kind != "cgroup2" {
            return None;
        }
        Some(Self {
            root: unescape(root),
            point: unescape(point),
            kind,
            options: options.split(',').collect(),
        })
    }

    /// The directory of a group path under this mount; none when the mount does not show it.
    fn directory(&self, path: &str) -> Option<PathBuf> {
        Path::new(path).strip_prefix(&self.root).ok().map(|below| self.point.join(below))
    }
}

/// Undoes the octal escapes of the mount table.
fn unescape(text: &str) -> PathBuf {
    PathBuf::from(
        text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_and_2_side_by_side() {
        let mounts = "\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:4 - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
";
        let membership = "4:memory:/job/7\n1:cpu,cpuacct:/\n0::/\n";
        let places = Places::parse(mounts, membership);
        assert_eq!(places.controllers["memory"], Path::new("/sys/fs/cgroup/memory/job/7"));
        assert_eq!(places.controllers["cpu"], Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(places.unified, Some(("/sys/fs/cgroup/unified".into(), "/sys/fs/cgroup/unified".into())));
    }

    #[test]
    fn a_container_sees_its_own_part() {
        let mounts = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
        let places = Places::parse(mounts, "0::/docker/abc/inner\n");
        assert_eq!(places.unified.unwrap().1, Path::new("/sys/fs/cgroup/inner"));
        let elsewhere = Places::parse(mounts, "0::/other\n");
        assert_eq!(elsewhere.unified, None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(mounts in "[ -~\\n]{0,200}", membership in "[ -~\\n]{0,100}") {
            let _ = Places::parse(&mounts, &membership);
        }
    }

    #[test]
    fn odd_lines_are_passed_over() {
        assert_eq!(Places::parse("nonsense\n\n1 2 3 - cgroup\n", "x\n::\n"), Places::default());
    }
}
