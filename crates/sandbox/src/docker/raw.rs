//! Answers read as what they are, where the typed client refuses a whole list for one word that it does not know:
//! Podman has states of containers that Docker has not.

use std::path::Path;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::docker::connect::{LONG, Refusal};

/// Most bytes of an answer.
const MAX: u64 = 256 << 20;

/// Gets a JSON document. The path names no version of the API, as none of the typed client's does: daemons drop old ones.
/// Its query is encoded.
pub(super) async fn get(socket: &Path, path: &str) -> Result<Value, Refusal> {
    let silence = |reason: String| Refusal::Silence(format!("the daemon broke off: {reason}"));
    let answer = async {
        let mut stream = UnixStream::connect(socket).await?;
        // The older protocol ends an answer with the connection and has no other framing.
        let request = format!("GET {path} HTTP/1.0\r\nHost: docker\r\nAccept: application/json\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(LONG, answer).await;
    let answer = answer.map_err(|_| silence(format!("no answer within {} s", LONG.as_secs())))?;
    parse(&answer.map_err(|error| silence(error.to_string()))?).map_err(silence)?
}

/// Takes an answer apart. The outer error is an answer that is none.
fn parse(answer: &[u8]) -> Result<Result<Value, Refusal>, String> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or("it speaks no HTTP")?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let body = &answer[end + 4..];
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()).ok_or("it speaks no HTTP")?;
    let document: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if status == 200 {
        return Ok(Ok(document));
    }
    let message = document["message"].as_str().unwrap_or("the daemon does not say why").to_owned();
    Ok(Err(Refusal::Status(status, message)))
}

/// A value for a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded
                    .extend(char::from_digit(u32::from(digit), 16).map(|digit| digit.to_ascii_uppercase()));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let value = parse(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n[1]").unwrap().unwrap();
        assert_eq!(value, serde_json::json!([1]));
        let refusal = parse(b"HTTP/1.0 404 Not Found\r\n\r\n{\"message\":\"gone\"}").unwrap();
        assert!(matches!(refusal, Err(Refusal::Status(404, message)) if message == "gone"));
        for broken in [&b""[..], b"HTTP/1.0 200 OK\r\n", b"hello\r\n\r\n{}", b"HTTP/1.0 200 OK\r\n\r\n{"] {
            assert!(parse(broken).is_err());
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encode(r#"{"a":["b c"]}"#), "%7B%22a%22%3A%5B%22b%20c%22%5D%7D");
    }
}
