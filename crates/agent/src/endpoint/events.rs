//! Streams of events, and the answer that they add up to.

use super::answer::{Document, Draft};

/// What a stream came to.
#[derive(Debug)]
pub(super) enum Streamed {
    /// A whole answer.
    Ended(Box<Draft>),
    /// A refusal in the middle.
    Refused(String),
    /// No whole answer, and why.
    Cut(String),
}

/// Reads a stream that has come in: `data:` lines, blank lines between events, any other field and comments left out.
pub(super) fn read(bytes: &[u8]) -> Streamed {
    let text = String::from_utf8_lossy(bytes);
    let mut draft = Box::<Draft>::default();
    for event in events(&text) {
        if event == "[DONE]" {
            return Streamed::Ended(draft);
        }
        let document: Document = match serde_json::from_str(&event) {
            Ok(document) => document,
            Err(error) => return Streamed::Cut(format!("an event of the stream cannot be read: {error}")),
        };
        if let Some(error) = &document.error {
            return Streamed::Refused(serde_json::json!({ "error": error }).to_string());
        }
        draft.add(document);
    }
    // Some servers end without the last mark, but none without saying why the answer ends.
    if draft.is_ended() {
        Streamed::Ended(draft)
    } else {
        Streamed::Cut("the stream ends in the middle of the answer".into())
    }
}

/// The data of each event; several lines of one event are joined by line breaks.
fn events(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        if line.is_empty() {
            found.extend(open.take());
        } else if let Some(data) = line.strip_prefix("data:") {
            let data = data.strip_prefix(' ').unwrap_or(data);
            match &mut open {
                Some(event) => {
                    event.push('\n');
                    event.push_str(data);
                }
                None => open = Some(data.to_owned()),
            }
        }
    }
    found.extend(open);
    found
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn pieces_add_up_whatever_stands_between_them() {
        let text = ": hello\r\nevent: x\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n\
            data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"bash\",\"arguments\":\"{\\\"com\"}}]}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"mand\\\":1}\"}}]}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: junk\n";
        let Streamed::Ended(draft) = read(text.as_bytes()) else { panic!("a whole answer") };
        let answer = draft.finish(&Settings::new("http://x/v1", "m"));
        assert_eq!((answer.text.as_str(), answer.finish.as_deref()), ("ab", Some("stop")));
        assert_eq!(answer.calls[0].arguments, "{\"command\":1}");
    }

    #[test]
    fn a_stream_that_is_cut_is_no_answer() {
        let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        assert!(matches!(read(cut.as_bytes()), Streamed::Cut(_)));
        assert!(matches!(read(b"data: {\"choi"), Streamed::Cut(_)));
        assert!(matches!(read(b""), Streamed::Cut(_)));
        let refused = "data: {\"error\":{\"message\":\"no\"}}\n\n";
        assert!(matches!(read(refused.as_bytes()), Streamed::Refused(text) if text.contains("no")));
    }
}
