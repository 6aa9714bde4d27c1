//! What the reference solution does: its patches, and the lines that it puts into the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use task::patch::{LineKind, Patch, PatchProblem};

use crate::instance::{Direction, Instance};
use crate::lines::{file_name, is_program_name, numbered, squeezed};
use crate::shell::{Command, Script};
use crate::view::TaskView;

/// A patch of the task's own.
#[derive(Debug)]
pub(crate) struct GoldPatch {
    /// The file that it is, or stands in.
    pub(crate) file: Vec<u8>,
    /// The line of that file on which it begins; 0 for a text inside JSON.
    pub(crate) line: u32,
    /// What it does to the workspace.
    pub(crate) direction: Direction,
    /// The patch itself, or why it cannot be read.
    pub(crate) parsed: Result<Patch, PatchProblem>,
}

/// A line that the solution brings into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoldLine {
    /// The line, white space normalised.
    pub(crate) text: String,
    /// Where it comes from.
    pub(crate) file: Vec<u8>,
    /// The line there, counted from 1; 0 for a text inside JSON.
    pub(crate) line: u32,
}

/// Everything that the solution shows.
#[derive(Debug, Default)]
pub(crate) struct Gold {
    /// Patches in order of file and line.
    pub(crate) patches: Vec<GoldPatch>,
    /// Lines that it adds, each text once.
    pub(crate) lines: Vec<GoldLine>,
}

impl Gold {
    /// Collects the patches below `solution/`, those in here-documents of its scripts and the one in
    /// `tests/config.json`, and the lines that patches add and that here-documents, `printf` and `echo` write into
    /// programs.
    pub(crate) fn of(
        view: &TaskView,
        scripts: &BTreeMap<&[u8], Arc<Script<'_>>>,
        instance: Option<&Instance<'_>>,
    ) -> Self {
        let mut gold = Self::default();
        let mut lines = Vec::new();
        for root in view.roots() {
            let folder = [root.as_slice(), b"solution"].concat();
            let texts = || {
                view.files_below(&folder).filter_map(|(path, file)| Some((path, file.content.as_deref()?)))
            };
            let scripts: Vec<(&[u8], &Script<'_>)> =
                texts().filter_map(|(path, _)| Some((path, &**scripts.get(path)?))).collect();
            let reversed = scripts.iter().any(|(_, script)| applies_backwards(script));
            let direction = if reversed { Direction::Breaks } else { Direction::Repairs };
            for (path, content) in texts() {
                if is_patch_name(file_name(path)) {
                    gold.patches.push(GoldPatch::new(path, 1, content, direction));
                }
            }
            for (path, script) in &scripts {
                for heredoc in &script.heredocs {
                    if looks_like_patch(&heredoc.body) {
                        gold.patches.push(GoldPatch::new(
                            path,
                            heredoc.line,
                            heredoc.body.as_bytes(),
                            direction,
                        ));
                    } else if script.commands.get(heredoc.command).is_some_and(writes_a_program) {
                        let body =
                            numbered(&heredoc.body).map(|(number, text)| (heredoc.line + number - 1, text));
                        lines.extend(body.map(|(line, text)| GoldLine::new(path, line, text)));
                    }
                }
                lines.extend(printed(path, script));
            }
        }
        if let Some((patch, direction)) = instance.and_then(|instance| instance.patch.as_ref()) {
            gold.patches.push(GoldPatch::new(crate::instance::PATH, 0, patch.as_bytes(), *direction));
        }
        lines.extend(gold.patches.iter().flat_map(GoldPatch::added));
        lines.sort();
        lines.dedup_by(|a, b| a.text == b.text);
        gold.lines = lines;
        gold
    }
}

impl GoldPatch {
    fn new(file: &[u8], line: u32, bytes: &[u8], direction: Direction) -> Self {
        Self { file: file.to_vec(), line, direction, parsed: Patch::parse(bytes) }
    }

    /// The lines that are in the repaired workspace and not in the broken one, by this patch.
    fn added(&self) -> Vec<GoldLine> {
        let Ok(patch) = &self.parsed else { return Vec::new() };
        let (comes, stays) = match self.direction {
            Direction::Repairs => (LineKind::Add, LineKind::Remove),
            Direction::Breaks => (LineKind::Remove, LineKind::Add),
        };
        let all = || patch.files.iter().flat_map(|file| &file.hunks).flat_map(|hunk| &hunk.lines);
        let text = |bytes: &[u8]| squeezed(&crate::lines::text(bytes));
        // A line that the broken workspace shows as well gives nothing away.
        let visible: BTreeSet<String> = all()
            .filter(|line| line.kind == stays || line.kind == LineKind::Context)
            .map(|line| text(&line.text))
            .collect();
        all()
            .filter(|line| line.kind == comes)
            .map(|line| GoldLine { text: text(&line.text), file: self.file.clone(), line: 0 })
            .filter(|line| !visible.contains(&line.text))
            .collect()
    }
}

impl GoldLine {
    fn new(file: &[u8], line: u32, text: &str) -> Self {
        Self { text: squeezed(text), file: file.to_vec(), line }
    }
}

fn is_patch_name(name: &[u8]) -> bool {
    name.ends_with(b".patch") || name.ends_with(b".diff")
}

/// Whether a here-document is a patch: it has the header lines of one.
fn looks_like_patch(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("diff --git ") || line.starts_with("--- "))
        && text.lines().any(|line| line.starts_with("@@ -") || line.starts_with("rename from "))
}

/// Whether a script applies its patches the other way round.
fn applies_backwards(script: &Script<'_>) -> bool {
    script.commands.iter().any(|command| {
        let words = command.program();
        let applies = match command.name() {
            "git" => words.iter().any(|word| word.text == "apply"),
            "patch" => true,
            _ => false,
        };
        applies && words.iter().any(|word| matches!(&*word.text, "-R" | "--reverse"))
    })
}

/// Whether a command writes a file that is a program by its name. Data that a solution writes often repeats the
/// examples of the instruction, and programs that only compute an answer are not part of it.
fn writes_a_program(command: &Command<'_>) -> bool {
    let tee = command.name() == "tee";
    let named = command.program().iter().skip(1).filter(|_| tee).map(|word| &*word.text);
    let mut files = command.outputs.iter().map(|file| &**file).chain(named);
    files.any(|file| is_program_name(file_name(file.as_bytes())))
}

/// The lines that `printf` and `echo` print from quoted text.
fn printed(path: &[u8], script: &Script<'_>) -> Vec<GoldLine> {
    let prints = script
        .commands
        .iter()
        .filter(|command| matches!(command.name(), "printf" | "echo") && writes_a_program(command));
    prints
        .flat_map(|command| {
            let quoted = command.program().iter().skip(1).filter(|word| word.quoted);
            quoted.flat_map(|word| {
                // Both a written line end and a real one part lines.
                let lines: Vec<_> = word.text.split('\n').flat_map(|text| text.split("\\n")).collect();
                lines.into_iter().map(|text| GoldLine::new(path, command.line, text)).collect::<Vec<_>>()
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::scripts;
    use crate::rules::testing::{task_with, view_of};

    const FIX: &str =
        "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n total = 0\n-count = total - 1\n+count = total + 1\n";

    fn texts(gold: &Gold) -> Vec<&str> {
        gold.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn patches_are_found_wherever_they_stand() {
        let script = format!("cat > /tmp/p <<'EOF'\n{FIX}EOF\ngit apply --reverse /tmp/p\n");
        let row =
            serde_json::json!({ "repo": "swesmith/a", "patch": FIX, "FAIL_TO_PASS": ["a"] }).to_string();
        let view = task_with(&[
            ("solution/solve.sh", &script),
            ("tests/config.json", &row),
            ("solution/a.diff", FIX),
        ]);
        let instance = Instance::read(row.as_bytes()).unwrap();
        let gold = Gold::of(&view, &scripts(&view), instance.as_ref());
        let places: Vec<_> = gold.patches.iter().map(|patch| (patch.file.as_slice(), patch.line)).collect();
        assert_eq!(
            places,
            [(&b"solution/a.diff"[..], 1), (b"solution/solve.sh", 2), (b"tests/config.json", 0)]
        );
        assert!(
            gold.patches.iter().all(|patch| patch.direction == Direction::Breaks && patch.parsed.is_ok())
        );
        assert_eq!(texts(&gold), ["count = total - 1"]);
    }

    #[test]
    fn printed_and_written_lines_count() {
        let script = "printf '#!/bin/sh\\necho $(( $1 + $2 ))\\n' > f.sh\ncat > g.py <<EOF\n  a  = 1\nEOF\n\
                      echo 'a = 2'\ncat > data.csv <<EOF\na = 3\nEOF\npython3 - <<EOF\na = 4\nEOF\n";
        let view = view_of("x", &[("solution/solve.sh", script)]);
        let gold = Gold::of(&view, &scripts(&view), None);
        assert_eq!(texts(&gold), ["", "#!/bin/sh", "a = 1", "echo $(( $1 + $2 ))"]);
        assert_eq!(gold.lines[2].line, 3);
    }
}
