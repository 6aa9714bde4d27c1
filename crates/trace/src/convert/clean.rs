//! Cleaning of conversations: each step by name, each change counted.

use std::sync::LazyLock;

use regex::Regex;

use super::ConvertReport;
use crate::export::LeftOut;
use crate::row::{Message, Role, Row};
use crate::scan::mask;

/// A step of cleaning, in the order in which steps are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// U+FFFD, which readers put in place of halves of surrogate pairs and of bytes that are not UTF-8, becomes a blank.
    Replacements,
    /// Control characters but line feeds and tabs, and the sequences that colour a terminal, are taken out.
    Controls,
    /// The lines by which a shell without a terminal says that it has no job control are taken out.
    JobControl,
    /// Secrets become marks.
    Secrets,
    /// Turns of the agent without any text are taken out.
    EmptyTurns,
    /// Messages of the system are put in front of the user's next message.
    SystemTurns,
    /// Neighbours of one role become one message, a blank line between them.
    MergeRoles,
}

impl Step {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::Replacements,
        Self::Controls,
        Self::JobControl,
        Self::Secrets,
        Self::EmptyTurns,
        Self::SystemTurns,
        Self::MergeRoles,
    ];

    /// Its name, as it is asked for and counted.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replacements => "replacements",
            Self::Controls => "controls",
            Self::JobControl => "job-control",
            Self::Secrets => "secrets",
            Self::EmptyTurns => "empty-turns",
            Self::SystemTurns => "system-turns",
            Self::MergeRoles => "merge-roles",
        }
    }
}

/// Sequences that a terminal obeys, and control characters.
static CONTROLS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f\u{80}-\u{9f}]",
    )
    .expect("the pattern is well formed")
});

/// What shells say that are started without a terminal.
static JOB_CONTROL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^(?:[a-z]*sh: (?:\d+: )?(?:cannot set terminal process group[^\n]*|no job control in (?:this shell|background)[^\n]*)\n?)",
    )
    .expect("the pattern is well formed")
});

/// Does the steps that are asked for.
pub(super) fn clean(row: &mut Row, place: &str, steps: &[Step], report: &mut ConvertReport) {
    let mut steps = steps.to_vec();
    steps.sort_unstable();
    steps.dedup();
    for step in steps {
        let changes = match step {
            Step::Replacements => texts(row, |text| {
                let found = text.matches('\u{fffd}').count();
                (found > 0).then(|| (text.replace('\u{fffd}', " "), found))
            }),
            Step::Controls => texts(row, |text| {
                let text = text.replace("\r\n", "\n");
                let found = CONTROLS.find_iter(&text).count();
                (found > 0).then(|| (CONTROLS.replace_all(&text, "").into_owned(), found))
            }),
            Step::JobControl => texts(row, |text| {
                let found = JOB_CONTROL.find_iter(text).count();
                (found > 0).then(|| (JOB_CONTROL.replace_all(text, "").into_owned(), found))
            }),
            Step::Secrets => secrets(row, place, report),
            Step::EmptyTurns => {
                let before = row.conversations.len();
                row.conversations
                    .retain(|message| message.role != Role::Assistant || !message.content.trim().is_empty());
                before - row.conversations.len()
            }
            Step::SystemTurns => system_turns(row),
            Step::MergeRoles => merge_roles(&mut row.conversations),
        };
        *report.cleaned.entry(step.name()).or_default() += changes as u64;
    }
}

/// Changes texts; `change` gives the new text and the number of changes.
fn texts(row: &mut Row, change: impl Fn(&str) -> Option<(String, usize)>) -> usize {
    let mut changes = 0;
    for message in &mut row.conversations {
        if let Some((text, found)) = change(&message.content) {
            message.content = text.into();
            changes += found;
        }
    }
    changes
}

fn secrets(row: &mut Row, place: &str, report: &mut ConvertReport) -> usize {
    let mut found = 0;
    for (index, message) in row.conversations.iter_mut().enumerate() {
        let (masked, kinds) = mask(&message.content);
        if kinds.is_empty() {
            continue;
        }
        found += kinds.len();
        for kind in kinds {
            let why = format!("message {index}: {kind}");
            report.masked.push(LeftOut { path: place.to_owned(), why });
        }
        message.content = masked.into();
    }
    found
}

/// Puts what the system says in front of what the user says next; behind the last message of the user it becomes one.
pub(super) fn system_turns(row: &mut Row) -> usize {
    let system = Role::named("system");
    let mut changes = 0;
    let mut kept: Vec<Message> = Vec::with_capacity(row.conversations.len());
    let mut held: Option<String> = None;
    for mut message in row.conversations.drain(..) {
        if message.role == system {
            changes += 1;
            held = Some(match held {
                Some(held) => format!("{held}\n\n{}", message.content),
                None => message.content.to_string(),
            });
            continue;
        }
        if let Some(text) = held.take() {
            if message.role == Role::User {
                message.content = format!("{text}\n\n{}", message.content).into();
            } else {
                kept.push(Message { role: Role::User, content: text.into() });
            }
        }
        kept.push(message);
    }
    kept.extend(held.map(|text| Message { role: Role::User, content: text.into() }));
    row.conversations = kept;
    changes
}

/// Makes one message of neighbours of one role.
pub(super) fn merge_roles(messages: &mut Vec<Message>) -> usize {
    let before = messages.len();
    let mut kept: Vec<Message> = Vec::with_capacity(before);
    for message in messages.drain(..) {
        match kept.last_mut() {
            Some(last) if last.role == message.role => {
                last.content = format!("{}\n\n{}", last.content, message.content).into();
            }
            _ => kept.push(message),
        }
    }
    *messages = kept;
    before - messages.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(messages: &[(&str, &str)]) -> Row {
        let message =
            |(role, content): &(&str, &str)| Message { role: Role::named(role), content: (*content).into() };
        Row { conversations: messages.iter().map(message).collect(), ..Row::default() }
    }

    fn texts(row: &Row) -> Vec<(&str, &str)> {
        row.conversations.iter().map(|message| (message.role.name(), &*message.content)).collect()
    }

    #[test]
    fn every_step_is_counted() {
        let noise = "bash: cannot set terminal process group (7): Inappropriate ioctl for device\n\
                     bash: no job control in this shell\nroot#";
        let mut row = row(&[
            ("system", "be good"),
            ("user", "a\u{0}b\u{1b}[31mred\u{1b}[0m\u{fffd}\tc"),
            ("assistant", " \n"),
            ("user", noise),
            ("assistant", "done"),
            ("system", "late"),
        ]);
        let mut report = ConvertReport::default();
        clean(&mut row, "here", &Step::ALL, &mut report);
        let counts: Vec<_> = report.cleaned.into_iter().collect();
        assert_eq!(
            counts,
            [
                ("controls", 3),
                ("empty-turns", 1),
                ("job-control", 2),
                ("merge-roles", 1),
                ("replacements", 1),
                ("secrets", 0),
                ("system-turns", 2)
            ]
        );
        assert_eq!(
            texts(&row),
            [("user", "be good\n\nabred \tc\n\nroot#"), ("assistant", "done"), ("user", "late")]
        );
    }
}
