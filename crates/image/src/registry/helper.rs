//! Credential helpers: programs that keep names and passwords for Docker and others.
//!
//! Source: the protocol of `docker-credential-helpers`. The program `docker-credential-NAME` is started with the argument `get`,
//! reads the address of a registry from standard input and answers with JSON on standard output.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::credentials::Login;

/// Longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 64 << 10;
/// Longest time for an answer; some helpers ask a person.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The user name that stands for a token in place of a password.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Asks the helper called `name` for the credentials of `server`; `None` when it has none.
///
/// The error is a sentence without any secret.
pub(super) async fn ask(name: &str, server: &str) -> Result<Option<Login>, String> {
    if !is_name(name) {
        return Err(format!("`{}` is no name of a credential helper", name.escape_debug()));
    }
    let program = format!("docker-credential-{name}");
    match tokio::time::timeout(ANSWER_LIMIT, get(&program, server)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("{program} gave no answer within {} seconds", ANSWER_LIMIT.as_secs())),
    }
}

async fn get(program: &str, server: &str) -> Result<Option<Login>, String> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{program} does not start: {error}"))?;
    let failed = |error: std::io::Error| format!("{program}: {error}");
    if let Some(mut input) = child.stdin.take() {
        // A helper that answers without reading is none of our business.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let mut answer = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_ANSWER).read_to_end(&mut answer).await.map_err(failed)?;
    }
    let status = child.wait().await.map_err(failed)?;
    if !status.success() {
        let text = String::from_utf8_lossy(&answer);
        if text.contains("credentials not found") {
            return Ok(None);
        }
        let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        return Err(format!("{program} ended with {status}: {text}"));
    }
    // The parser's own message could repeat a piece of the secret.
    let answer: Answer =
        serde_json::from_slice(&answer).map_err(|_| format!("{program} gave an answer that is none"))?;
    Ok(Some(match answer.username.as_str() {
        TOKEN_USER => Login::Identity(answer.secret),
        _ => Login::Basic(answer.username, answer.secret),
    }))
}

/// A name becomes part of a program's name, so nothing that leads elsewhere is taken.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        assert!(is_name("ecr-login") && is_name("osxkeychain") && is_name("a.b_c"));
        for name in ["", "../x", "a/b", "a b", "$(x)", ".x", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
