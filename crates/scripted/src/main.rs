//! Serves a script: `scripted SCRIPT.json [PORT]`.

use std::process::ExitCode;

use scripted::{Script, Server};

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("scripted: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name a script: scripted SCRIPT.json [PORT]")?;
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let server = Server::start_at(Script::from_json(&text)?, port).await?;
    say(&server.url());
    tokio::signal::ctrl_c().await?;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "the only place of the program that tells anything")]
fn say(line: &str) {
    eprintln!("{line}");
}
