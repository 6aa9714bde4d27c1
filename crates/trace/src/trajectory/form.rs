//! The forms of trajectories, by name.

use super::foreign::any;
use super::lines::{self, Lines};
use super::{Trajectory, cut};
use crate::json::{Mended, parse};

/// Names of the forms that are read, as specifications of agents name them.
pub const TRAJECTORY_FORMS: [&str; 8] =
    ["atif", "chat", "claude-code", "codex", "gemini-cli", "mini-swe-agent", "openhands", "swe-agent"];

/// Reads the text of a trajectory, whose form may be named; otherwise it shows it. Of one that a killed run left everything
/// that is whole is read.
pub(crate) fn read(text: &str, form: Option<&str>, mended: &mut Mended) -> Result<Trajectory, String> {
    match form {
        Some("claude-code") => return lines::read(text, Lines::ClaudeCode, mended),
        Some("codex") => return lines::read(text, Lines::Codex, mended),
        Some("gemini-cli") => return lines::read(text, Lines::GeminiCli, mended),
        Some(other) if !TRAJECTORY_FORMS.contains(&other) => {
            let other: String = other.chars().take(40).collect();
            return Err(format!(
                "has the form `{other}`, which is not known; there are {}",
                TRAJECTORY_FORMS.join(", ")
            ));
        }
        _ => {}
    }
    match parse(text, mended) {
        Ok(document) => any(document),
        Err(error) => {
            let whole = cut::whole_part(text).ok_or_else(|| error.to_string())?;
            mended.cut += 1;
            any(parse(&whole, mended).map_err(|error| error.to_string())?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_nobody_knows_is_named() {
        let error = read("{}", Some("morse"), &mut Mended::default()).unwrap_err();
        assert!(error.contains("`morse`") && error.contains("gemini-cli"), "{error}");
        let lines = "{\"type\":\"message\",\"role\":\"user\",\"content\":\"x\"}";
        assert!(read(lines, Some("gemini-cli"), &mut Mended::default()).is_ok());
        assert!(read(lines, Some("atif"), &mut Mended::default()).is_err());
    }
}
