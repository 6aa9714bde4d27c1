//! `seatrial traces show`.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::arguments::Show;
use super::failure;
use crate::failure::{Exit, OrExit, Result};
use crate::output::{Output, harmless};

/// Shows what the agent of one trial did.
pub fn run(output: Output, directory: &Path, arguments: &Show) -> Result {
    let page = trace::read_trial_page(&directory.join(&arguments.trial)).map_err(|error| failure(&error))?;
    if let Some(path) = &arguments.html {
        let path = directory.join(path);
        artifact::write_atomic(&path, page.html().as_bytes()).or_exit(Exit::Failed)?;
        output.json(&serde_json::json!({
            "schema": "seatrial.traces-show/1",
            "html": path.display().to_string(),
        }))?;
        output.say(format_args!("wrote {}", path.display()));
        return Ok(());
    }
    let text = page.text();
    output.json(&serde_json::json!({ "schema": "seatrial.traces-show/1", "text": text }))?;
    if !output.json && !arguments.no_pager && io::stdout().is_terminal() && paged(&harmless(&text)) {
        return Ok(());
    }
    output.print(text.trim_end())
}

/// Hands the text to the program that PAGER names; says whether it ran.
fn paged(text: &str) -> bool {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".into());
    let Some(words) = shlex::split(&pager) else { return false };
    let Some((program, arguments)) = words.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    if let (true, None) = (program.ends_with("less"), std::env::var_os("LESS")) {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A reader that quits early closes the pipe.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok()
}
