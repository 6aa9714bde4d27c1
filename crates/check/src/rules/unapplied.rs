//! Bugs that nobody puts in: patches of the build context that fit and are not applied.

use std::collections::BTreeMap;

use image::dockerfile::{Command, Dockerfile, Instruction};
use memchr::memmem;
use record::Severity;
use task::patch::Patch;
use task::tree::{Entry, Tree};

use crate::facts::{DOCKERFILE, Facts};
use crate::lines::{file_name, holds};
use crate::report::{Place, Report};
use crate::rule::{Family, Rule};
use crate::view::TaskView;

/// More patches are not looked at.
const MAX_PATCHES: usize = 16;
/// What lies below the build context.
const CONTEXT: &[u8] = b"environment/";

pub(super) const RULES: &[&Rule] = &[&BUG_NOT_APPLIED];

const BUG_NOT_APPLIED: Rule = Rule {
    name: "bug-not-applied",
    family: Family::Alignment,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A patch in the build context fits the files beside it, and nothing applies it.",
    explanation: "Where the image holds the sound project and a patch brings the bug, a Dockerfile that forgets the patch \
                  gives a task that is solved before anybody begins: every nop gets the reward. Looked at are `*.patch` and \
                  `*.diff` below `environment/` that apply to the files or archives there as they are, when no `RUN` line and \
                  no script of the context applies patches, and nothing else in the task names the file.",
    fix: "apply the patch in the Dockerfile, or take it out of the build context",
};

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let view = facts.view;
    let patches = view.files_below(b"environment").filter(|(path, _)| is_patch(path)).take(MAX_PATCHES);
    let patches: Vec<_> = patches.collect();
    let Some(Ok(dockerfile)) = facts.dockerfile.as_ref().filter(|_| !patches.is_empty()) else { return };
    if applies_patches(dockerfile, view) {
        return;
    }
    for (path, file) in patches {
        let Some(content) = &file.content else { continue };
        if let Ok(patch) = Patch::parse(content)
            && !is_named(view, path)
            && fits(&patch, facts)
        {
            report.add(
                &BUG_NOT_APPLIED,
                Place::file(path),
                "it fits the files of the build context as they are",
            );
        }
    }
}

fn is_patch(path: &[u8]) -> bool {
    path.ends_with(b".patch") || path.ends_with(b".diff")
}

/// Whether the image is made with any patch; which one is not asked.
fn applies_patches(dockerfile: &Dockerfile, view: &TaskView) -> bool {
    let applies =
        |text: &[u8]| ["git apply", "git am", "patch -", "patch <"].iter().any(|word| holds(text, word));
    let in_run = dockerfile.steps.iter().any(|step| match &step.instruction {
        Instruction::Run { command: Command::Shell(text), .. } => applies(text.as_bytes()),
        Instruction::Run { command: Command::Exec(words), .. } => applies(words.join(" ").as_bytes()),
        Instruction::Run { command: Command::Script(script), .. } => applies(script.content.as_bytes()),
        _ => false,
    });
    in_run
        || view.files_below(b"environment").any(|(path, file)| {
            !is_patch(path) && path != DOCKERFILE && file.content.as_deref().is_some_and(applies)
        })
}

/// Whether anything but the Dockerfile, which may only copy it, names the file.
fn is_named(view: &TaskView, patch: &[u8]) -> bool {
    view.files().any(|(path, file)| {
        path != DOCKERFILE
            && path != patch
            && file.content.as_deref().is_some_and(|text| memmem::find(text, file_name(patch)).is_some())
    })
}

/// Whether a patch applies to the files of the build context, or to those of an archive in it, from any directory.
fn fits(patch: &Patch, facts: &Facts<'_>) -> bool {
    let own = facts.view.files_below(b"environment");
    let own = own.filter_map(|(path, file)| Some((path.strip_prefix(CONTEXT)?, file.content.as_deref()?)));
    let archives = facts.context_archives().map(|(_, archive)| {
        let members = archive.members.iter();
        members.filter_map(|member| Some((member.path.as_slice(), member.content.as_deref()?))).collect()
    });
    std::iter::once(own.collect()).chain(archives).any(|files| fits_files(patch, &files))
}

fn fits_files(patch: &Patch, files: &BTreeMap<&[u8], &[u8]>) -> bool {
    let paths = patch.paths();
    // Of a patch that only adds files nobody can say whether it was applied.
    let Some(anchor) = patch.files.iter().find_map(|file| file.old.as_deref()) else { return false };
    let roots = files.keys().filter_map(|path| path.strip_suffix(anchor));
    roots.filter(|root| root.is_empty() || root.ends_with(b"/")).any(|root| {
        let mut tree = Tree::new();
        for path in &paths {
            if let Some(content) = files.get([root, path].concat().as_slice())
                && tree.insert(path.clone(), Entry::file(*content)).is_err()
            {
                return false;
            }
        }
        patch.apply_to_tree(&mut tree).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{changed_task, found_with, tar_of};
    use crate::check::check_task;
    use crate::options::CheckOptions;

    const BUG: &str = "--- a/sum.sh\n+++ b/sum.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo $(( $1 - $2 ))\n+echo $(( $2 - $1 ))\n";
    const FOUND: &str = "bug-not-applied environment/bug.patch";
    const COPIED: &str = "FROM debian:bookworm\nCOPY . /app/\n";

    fn named(files: &[(&str, &str)]) -> bool {
        found_with(files).contains(&FOUND.to_owned())
    }

    #[test]
    fn a_patch_that_fits_and_that_nothing_applies_is_named() {
        assert!(named(&[("environment/bug.patch", BUG)]));
        assert!(named(&[("environment/bug.patch", BUG), ("environment/Dockerfile", COPIED)]));
        let below =
            [("environment/sum.sh", "-"), ("environment/src/sum.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n")];
        assert!(named(&[
            below[0],
            below[1],
            ("environment/bug.patch", BUG),
            ("environment/Dockerfile", COPIED)
        ]));
    }

    #[test]
    fn patches_that_are_applied_or_fit_nothing_are_none_of_it() {
        let applied = format!("{COPIED}RUN cd /app && git apply bug.patch\n");
        assert!(!named(&[("environment/bug.patch", BUG), ("environment/Dockerfile", &applied)]));
        let script = "#!/bin/sh\nfor p in /app/*.patch; do patch -p1 < $p; done\n";
        assert!(!named(&[("environment/bug.patch", BUG), ("environment/set-up.sh", script)]));
        let solution = "#!/bin/sh\ncd /app && git apply /app/bug.patch\n";
        assert!(!named(&[("environment/bug.patch", BUG), ("solution/solve.sh", solution)]));
        assert!(!named(&[("environment/bug.patch", &BUG.replace("$1 - $2", "$1 * $2"))]));
        let new = "--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+echo\n";
        assert!(!named(&[("environment/bug.patch", new)]));
    }

    #[test]
    fn archives_are_looked_into() {
        let view = changed_task(|task| {
            let context = task.join("environment");
            std::fs::remove_file(context.join("sum.sh")).unwrap();
            std::fs::write(context.join("Dockerfile"), "FROM debian:bookworm\nADD app.tar /app/\n").unwrap();
            let sum = tar_of(&[("src/sum.sh", b"#!/bin/sh\necho $(( $1 - $2 ))\n")]);
            std::fs::write(context.join("app.tar"), sum).unwrap();
            std::fs::write(context.join("bug.patch"), BUG).unwrap();
        });
        let found = check_task(&view, &CheckOptions::default()).findings;
        assert!(found.iter().any(|found| found.rule == "bug-not-applied"), "{found:?}");
    }
}
