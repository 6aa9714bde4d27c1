//! Links that lead out of the task or nowhere, and entries that are no files at all.

use std::collections::BTreeSet;

use record::Severity;
use task::printable;

use crate::facts::Facts;
use crate::report::{Place, Report};
use crate::rule::{Family, Rule};
use crate::view::{Archive, Entry, MemberKind, TaskView};

/// Links are followed this far before they count as a circle.
const MAX_STEPS: usize = 40;

pub(super) const RULES: &[&Rule] =
    &[&LINK_ESCAPES, &LINK_DANGLING, &LINK_CYCLE, &SPECIAL_FILE, &ARCHIVE_ESCAPES];

/// A link that leads out.
pub(crate) const LINK_ESCAPES: Rule = Rule {
    name: "link-escapes",
    family: Family::Links,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A symbolic link is absolute or climbs out of the task.",
    explanation: "What such a link shows depends on the machine: a digest would cover the host's files, and packing or \
                  uploading would carry them along. The text of the link decides, whatever stands at its end here; \
                  links are never followed.",
    fix: "replace the link by a copy of what it points at, or make it relative and keep it inside the task",
};

const LINK_DANGLING: Rule = Rule {
    name: "link-dangling",
    family: Family::Links,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A symbolic link points at nothing inside the task.",
    explanation: "A link without an end has no content that a digest or an upload could take. Links are followed \
                  within the task only, by the entries that were read.",
    fix: "remove the link or add what it points at",
};

const LINK_CYCLE: Rule = Rule {
    name: "link-cycle",
    family: Family::Links,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A symbolic link leads back to itself or to a directory that holds it.",
    explanation: "Programs that follow links, Harbor's upload and checksum among them, never come to an end in such a \
                  directory or give up with an error.",
    fix: "remove the link",
};

const SPECIAL_FILE: Rule = Rule {
    name: "special-file",
    family: Family::Links,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "An entry is a pipe, a socket or a device.",
    explanation: "Such an entry cannot be hashed, packed or uploaded, and reading it may wait for ever. The check does \
                  not open it.",
    fix: "remove it",
};

const ARCHIVE_ESCAPES: Rule = Rule {
    name: "archive-escapes",
    family: Family::Links,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A member of an archive would be unpacked outside the place where the archive is unpacked.",
    explanation: "Members with `..` in their path, hard links to such a path, and devices are refused by every careful \
                  program and obeyed by others. A symbolic link in an archive belongs to the image and may lead \
                  anywhere in it; but nothing may be unpacked through one that climbs out.",
    fix: "write the archive anew from inside the directory that it holds",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    for (path, archive) in facts.view.files().filter_map(|(path, file)| Some((path, file.archive.as_ref()?)))
    {
        members(path, archive, report);
    }
    for (path, entry) in &facts.view.entries {
        match entry {
            Entry::Special { kind } => {
                report.add(&SPECIAL_FILE, Place::file(path), format!("it is a {kind}"));
            }
            Entry::Link { target } => {
                let shown = printable(target);
                match end_of(facts.view, path, target) {
                    End::Found => {}
                    End::Outside => report.add(
                        &LINK_ESCAPES,
                        Place::file(path),
                        format!("the link leads out of the task, to `{shown}`"),
                    ),
                    End::Nowhere => report.add(
                        &LINK_DANGLING,
                        Place::file(path),
                        format!("the link points at `{shown}`, which is not in the task"),
                    ),
                    End::Circle => report.add(
                        &LINK_CYCLE,
                        Place::file(path),
                        format!("following the link to `{shown}` never ends"),
                    ),
                }
            }
            Entry::Directory | Entry::File(_) => {}
        }
    }
}

fn members(path: &[u8], archive: &Archive, report: &mut Report<'_>) {
    let climbs = |path: &[u8]| path.split(|&b| b == b'/').any(|part| part == b"..");
    let mut out: BTreeSet<&[u8]> = BTreeSet::new();
    for member in &archive.members {
        let shown = || printable(&member.path);
        let through = || {
            let ends = member.path.iter().enumerate().filter(|(_, b)| **b == b'/');
            !out.is_empty() && ends.map(|(end, _)| &member.path[..end]).any(|above| out.contains(above))
        };
        let what = match &member.kind {
            _ if climbs(&member.path) => format!("its member `{}` climbs out of it", shown()),
            _ if through() => {
                format!("its member `{}` is unpacked through a link that leads out of it", shown())
            }
            MemberKind::Hardlink(target) if climbs(target) => {
                format!("its member `{}` is a hard link to `{}`", shown(), printable(target))
            }
            MemberKind::Special => format!("its member `{}` is a device or a pipe", shown()),
            MemberKind::Symlink(target) => {
                if target.starts_with(b"/") || depth(&member.path, target).is_none() {
                    out.insert(&member.path);
                }
                continue;
            }
            _ => continue,
        };
        report.add(&ARCHIVE_ESCAPES, Place::file(path), what);
    }
}

/// How deep the text of a link leads, counted from the root of the archive; `None` when it leads above it on the way.
fn depth(link: &[u8], target: &[u8]) -> Option<usize> {
    let above = link.split(|&b| b == b'/').count() - 1;
    target.split(|&b| b == b'/').try_fold(above, |depth, part| match part {
        b"" | b"." => Some(depth),
        b".." => depth.checked_sub(1),
        _ => Some(depth + 1),
    })
}

/// Where a link ends.
enum End {
    Found,
    Outside,
    Nowhere,
    Circle,
}

/// Follows the text of a link through the entries of the view.
fn end_of(view: &TaskView, link: &[u8], target: &[u8]) -> End {
    let mut at: Vec<Vec<u8>> = components(link);
    at.pop();
    let above = at.clone();
    // Components still to walk, the next one last.
    let mut ahead: Vec<Vec<u8>> = components(target).into_iter().rev().collect();
    if target.is_empty() || target.starts_with(b"/") {
        return End::Outside;
    }
    let mut steps = 0;
    while let Some(part) = ahead.pop() {
        match part.as_slice() {
            b"." => continue,
            b".." => {
                if at.pop().is_none() {
                    return End::Outside;
                }
                continue;
            }
            _ => at.push(part),
        }
        match view.entries.get(&at.join(&b'/')) {
            Some(Entry::Link { target }) => {
                steps += 1;
                if target.starts_with(b"/") || target.is_empty() {
                    return End::Outside;
                }
                if steps > MAX_STEPS {
                    return End::Circle;
                }
                at.pop();
                ahead.extend(components(target).into_iter().rev());
            }
            Some(Entry::Directory) => {}
            Some(_) if ahead.is_empty() => {}
            None | Some(_) => return End::Nowhere,
        }
    }
    let directory = at.is_empty() || view.entries.get(&at.join(&b'/')) == Some(&Entry::Directory);
    if directory && above.starts_with(&at) { End::Circle } else { End::Found }
}

fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&b| b == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::testing::{changed_task, findings, places, tar_of};

    fn found(links: &[(&str, &str)]) -> Vec<String> {
        let view = changed_task(|root| {
            for (path, target) in links {
                symlink(target, root.join(path)).unwrap();
            }
        });
        places(&findings(&view))
    }

    #[test]
    fn links_inside_the_task_are_kept() {
        assert_eq!(
            found(&[("environment/run.sh", "sum.sh"), ("solution/a", "../environment/./run.sh")]),
            [""; 0]
        );
        assert_eq!(
            found(&[("environment/t", "../tests"), ("environment/u", "t/../solution/solve.sh")]),
            [""; 0]
        );
    }

    #[test]
    fn links_out_of_the_task_are_errors() {
        assert_eq!(
            found(&[
                ("environment/p", "/etc/passwd"),
                ("tests/shared", "../../../outside"),
                ("tests/via", "shared/x")
            ]),
            [
                "link-escapes environment/p",
                "link-escapes tests/shared",
                // The one link of the task leads on through the other.
                "link-escapes tests/via",
            ]
        );
    }

    #[test]
    fn links_to_nothing_and_in_circles_are_errors() {
        assert_eq!(
            found(&[
                ("tests/a", "b"),
                ("tests/b", "a"),
                ("tests/c", "none"),
                ("tests/d", "."),
                ("tests/e", "test.sh/x")
            ]),
            [
                "link-cycle tests/a",
                "link-cycle tests/b",
                "link-dangling tests/c",
                "link-cycle tests/d",
                "link-dangling tests/e",
            ]
        );
    }

    #[test]
    fn special_files_are_named_and_not_opened() {
        let view = changed_task(|root| {
            std::os::unix::net::UnixListener::bind(root.join("environment/s")).unwrap();
        });
        let found = findings(&view);
        assert_eq!(places(&found), ["special-file environment/s"]);
        assert_eq!(found[0].message, "it is a socket");
    }

    /// A tar archive with one member of any kind and path, and a file behind it.
    fn odd_archive(kind: tar::EntryType, path: &str, target: &str, behind: &str) -> Vec<u8> {
        let mut archive = Vec::new();
        for (kind, path, target) in [(kind, path, target), (tar::EntryType::Regular, behind, "")] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
            header.set_cksum();
            archive.extend(header.as_bytes());
        }
        archive.extend([0; 1024]);
        archive
    }

    #[test]
    fn archives_that_unpack_elsewhere_are_errors() {
        use tar::EntryType::{Char, Link, Regular, Symlink};

        let found = |kind, path: &str, target: &str, behind: &str| {
            let archive = odd_archive(kind, path, target, behind);
            let view = changed_task(|root| std::fs::write(root.join("environment/x.tar"), archive).unwrap());
            places(&findings(&view))
        };
        let place = ["archive-escapes environment/x.tar"];
        assert_eq!(found(Regular, "a/../../b", "", "c"), place);
        assert_eq!(found(Link, "a", "../b", "c"), place);
        assert_eq!(found(Char, "a", "", "c"), place);
        assert_eq!(found(Symlink, "a/b", "../../..", "a/b/c"), place);
        assert_eq!(found(Symlink, "a", "/etc", "a/c"), place);
        assert_eq!(found(Symlink, "a", "/etc", "ab/c"), [""; 0]);
        assert_eq!(found(Symlink, "a/b", "../c", "a/b/d"), [""; 0]);
        assert_eq!(found(Link, "a", "b/..c", "c"), [""; 0]);
        let fine = tar_of(&[("a/b", b"x")]);
        let view = changed_task(|root| std::fs::write(root.join("environment/x.tar"), &fine).unwrap());
        assert_eq!(places(&findings(&view)), [""; 0]);
    }
}
