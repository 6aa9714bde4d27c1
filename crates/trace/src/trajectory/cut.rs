//! Trajectories whose last write was cut: what a killed run left.
//!
//! The agent `shell` writes a step as a line that is still open, then what was heard in reply to it as another one, then what
//! closes both. A kill in the middle of a write leaves whole lines, and one that is not.

use crate::json::{Mended, parse};

/// What a line begins with that belongs to the step before it.
const HEARD: &str = ",\"observation\":";

/// The document of all that is whole; `None` where the text is no such trajectory, or has no whole step.
pub(crate) fn whole_part(text: &str) -> Option<String> {
    let (head, lines) = text.split_once('\n')?;
    if !head.starts_with("{\"schema_version\":\"ATIF-") || !head.ends_with(",\"steps\":[") {
        return None;
    }
    let mut whole = head.to_owned();
    let mut steps = 0;
    for line in lines.split('\n') {
        if is_object(&format!("{line}}}")) {
            whole.push_str(if steps > 0 { "}," } else { "" });
            whole.push_str(line);
            steps += 1;
        } else if steps > 0 && line.starts_with(HEARD) && is_object(&format!("{{{}}}", &line[1..])) {
            whole.push_str(line);
        } else if line != "}," {
            // What closes the document, or a line that is not whole.
            break;
        }
    }
    (steps > 0).then(|| whole + "}]}")
}

fn is_object(text: &str) -> bool {
    parse(text, &mut Mended::default()).is_ok_and(|value| value.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "{\"schema_version\":\"ATIF-v1.8\",\"session_id\":\"s\",\"agent\":{},\"steps\":[\n";
    const CLOSE: &str = "}],\"final_metrics\":{\"total_steps\":2}}\n";

    /// What the file may hold when the write of `new` at `at` was cut after `kept` bytes.
    fn cut(old: &str, at: usize, new: &str, kept: usize) -> String {
        let mut bytes = old.as_bytes().to_vec();
        let end = (at + kept).max(bytes.len());
        bytes.resize(end, 0);
        bytes[at..at + kept].copy_from_slice(&new.as_bytes()[..kept]);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn wherever_a_write_is_cut_every_step_before_it_is_read() {
        let first = "{\"step_id\":1,\"source\":\"user\",\"message\":\"a }\\n],\\\"observation\\\": b\"\n";
        let second = "},\n{\"step_id\":2,\"source\":\"agent\",\"message\":\"x\",\"tool_calls\":[{\"observation\":1}]\n";
        let heard = ",\"observation\":{\"results\":[{\"content\":\"{\\\"observation\\\":\"}]}";
        let mut seen = std::collections::BTreeSet::new();
        let mut whole = format!("{HEAD}{first}");
        for new in [second, heard, second] {
            let old = format!("{whole}{CLOSE}");
            let before = old.matches("step_id").count();
            for kept in 0..=new.len() + CLOSE.len() {
                let file = cut(&old, whole.len(), &format!("{new}{CLOSE}"), kept);
                let read = match serde_json::from_str::<serde_json::Value>(&file) {
                    Ok(read) => read,
                    Err(_) => serde_json::from_str(&whole_part(&file).unwrap()).unwrap(),
                };
                let steps = read["steps"].as_array().unwrap();
                assert!(steps.len() == before || steps.len() == before + 1, "{kept}: {file}");
                assert_eq!(steps[0]["message"], "a }\n],\"observation\": b");
                seen.insert((before, steps.len(), steps.last().unwrap().get("observation").is_some()));
            }
            whole.push_str(new);
        }
        let expected =
            [(1, 1, false), (1, 2, false), (2, 2, false), (2, 2, true), (2, 3, false), (2, 2, true)];
        assert_eq!(seen, expected.into());
    }

    #[test]
    fn other_documents_are_not_taken_for_one() {
        for text in ["", "{}", "{\"steps\":[\n{}", HEAD, "{\"schema_version\":\"ATIF-v1.8\",\"steps\":[{}"] {
            assert_eq!(whole_part(text), None, "{text}");
        }
    }
}
