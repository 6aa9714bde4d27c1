//! Values of foreign rows turned into ours.

use job::python_float;

use super::ReadReport;
use crate::conversation::tool_call;
use crate::json::{Json, compact};
use crate::row::{Message, Role, Text};
use crate::trajectory::{ToolCall, content};

/// Reads a list of messages. Each becomes a role and a text: parts are joined by a line break, calls of tools follow the text.
pub(super) fn messages(value: Json<'_>, report: &mut ReadReport) -> Result<Vec<Message>, String> {
    match value {
        Json::Null => Ok(Vec::new()),
        Json::List(items) => items.into_iter().map(|item| message(item, report)).collect(),
        other => Err(format!("the messages are {} instead of a list", other.kind())),
    }
}

fn message(mut value: Json<'_>, report: &mut ReadReport) -> Result<Message, String> {
    if !value.is_object() {
        return Err(format!("a message is {} instead of an object", value.kind()));
    }
    let role = value.take_text("role").or_else(|| value.take_text("from"));
    let role = role.ok_or("a message has no role")?;
    let found = value.take("content").or_else(|| value.take("value"));
    let calls: Vec<_> = value.take_list("tool_calls").unwrap_or_default().into_iter().map(call).collect();
    match &found {
        None => report.empty_contents += 1,
        Some(Json::List(_)) => report.parts += 1,
        Some(_) => {}
    }
    report.tool_calls += calls.len() as u64;
    let content = content(found, &mut report.media);
    let mut text = content.text().into_owned();
    for call in &calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&tool_call(call));
    }
    Ok(Message { role: role_of(&role), content: text.into() })
}

/// ShareGPT's names of roles are read as those of the field.
pub(super) fn role_of(name: &str) -> Role {
    match name {
        "human" => Role::User,
        "gpt" => Role::Assistant,
        name => Role::named(name),
    }
}

/// A call as chat services write it; the arguments are JSON in a text there.
pub(crate) fn call(mut value: Json<'_>) -> ToolCall {
    let id = value.take_text("id");
    let mut function = value.take("function").unwrap_or(value);
    let arguments = match function.take("arguments") {
        Some(Json::Text(text)) => normalised(&text),
        Some(other) => written(&other),
        None => "{}".into(),
    };
    ToolCall { id, name: function.take_text("name").unwrap_or_default(), arguments }
}

/// Arguments that are JSON, written anew; anything else as the text that it is.
fn normalised(text: &str) -> String {
    match crate::json::parse(text, &mut crate::json::Mended::default()) {
        Ok(value) => written(&value),
        Err(_) => written(&Json::Text(text.into())),
    }
}

fn written(value: &Json<'_>) -> String {
    let mut text = String::new();
    compact(value, &mut text);
    text
}

/// The text of a cell that should hold one.
pub(super) fn cell(value: &Json<'_>) -> Option<Text> {
    match value {
        Json::Null => None,
        Json::Text(text) => Some(text.as_ref().into()),
        Json::Bool(value) => Some(truth(*value).into()),
        Json::Number(_) => match value.as_number() {
            Some(number) => Some(python_float(number).into()),
            None => Some(written(value).into()),
        },
        other => Some(written(other).into()),
    }
}

/// Sets that say whether a task was solved mean a reward of 1 or 0.
pub(super) const fn truth(value: bool) -> &'static str {
    if value { "1.0" } else { "0.0" }
}
