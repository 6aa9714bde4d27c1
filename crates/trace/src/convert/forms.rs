//! One conversation as a sample of each form.

use super::Form;
use super::clean::{merge_roles, system_turns};
use super::table::{Cell, Kind, Schema};
use crate::row::{Message, Role, Row};

/// Who a message comes from, as the forms name it.
pub(super) const MESSAGES: Kind = Kind::Messages("role", "content");

/// What every sample says about its trial, behind its own columns.
const ABOUT: [(&str, Kind); 7] = [
    ("task", Kind::Text),
    ("model", Kind::Text),
    ("agent", Kind::Text),
    ("run_id", Kind::Text),
    ("trial_name", Kind::Text),
    ("result", Kind::Text),
    ("reward", Kind::Number),
];

/// The columns of a form that has a sample a trial.
pub(super) fn schema(form: Form) -> Schema {
    let mut columns = match form {
        Form::Sft => vec![("messages", MESSAGES)],
        Form::Sharegpt => vec![("conversations", Kind::Messages("from", "value"))],
        Form::LlamaFactory => vec![("conversations", MESSAGES)],
        Form::Masked => vec![("prompt", MESSAGES), ("response", MESSAGES), ("loss_mask", Kind::Counts)],
        Form::Rl => vec![
            ("prompt", MESSAGES),
            ("response", MESSAGES),
            ("loss_mask", Kind::Counts),
            ("group_id", Kind::Text),
            ("sample_index", Kind::Count),
            ("group_size", Kind::Count),
            ("advantage", Kind::Number),
        ],
        Form::Preference | Form::Tokens | Form::Difficulty => Vec::new(),
    };
    columns.extend(ABOUT);
    columns
}

/// The cells about a trial.
pub(super) fn about(row: &Row) -> impl Iterator<Item = Cell> {
    [
        Cell::Text(row.task.clone()),
        Cell::Text(row.model.clone()),
        Cell::Text(row.agent.clone()),
        Cell::Text(row.run_id.clone()),
        Cell::Text(row.trial_name.clone()),
        Cell::Text(row.result.clone()),
        Cell::Number(row.reward()),
    ]
    .into_iter()
}

/// What the model is given before its first turn, and everything from there on.
pub(super) fn split(row: &Row) -> (Vec<Message>, Vec<Message>) {
    let first = row.conversations.iter().position(|message| message.role == Role::Assistant);
    let (prompt, response) = row.conversations.split_at(first.unwrap_or(row.conversations.len()));
    (prompt.to_vec(), response.to_vec())
}

/// The prompt, the response, and for each of its messages whether the agent speaks.
pub(super) fn masked(row: &Row) -> [Cell; 3] {
    let (prompt, response) = split(row);
    let mask = response.iter().map(|message| i32::from(message.role == Role::Assistant)).collect();
    [Cell::Messages(prompt), Cell::Messages(response), Cell::Counts(mask)]
}

/// The messages under the names of ShareGPT.
pub(super) fn sharegpt(row: &Row) -> Cell {
    let renamed = row.conversations.iter().map(|message| {
        let role = match &message.role {
            Role::User => Role::Other("human".into()),
            Role::Assistant => Role::Other("gpt".into()),
            Role::Other(name) => Role::Other(name.clone()),
        };
        Message { role, content: message.content.clone() }
    });
    Cell::Messages(renamed.collect())
}

/// Makes roles alternate strictly from user to assistant, as LLaMA-Factory asks, or says why that cannot be.
pub(super) fn alternating(row: &mut Row) -> Result<(), &'static str> {
    for message in &mut row.conversations {
        if matches!(&message.role, Role::Other(name) if &**name != "system") {
            message.role = Role::User;
        }
    }
    system_turns(row);
    merge_roles(&mut row.conversations);
    // What came back from the last turn is nobody's answer.
    if row.conversations.last().is_some_and(|last| last.role == Role::User) {
        row.conversations.pop();
    }
    match row.conversations.first().map(|first| &first.role) {
        None => Err("no turn of the agent"),
        Some(Role::User) => Ok(()),
        Some(_) => Err("begins with the agent"),
    }
}
