//! Endpoints and the agent `shell` over real HTTP on loopback.

mod endpoint;
mod shell;

use std::time::Duration;

use agent::endpoint::{Client, RetryRules, Settings};
use scripted::{Script, Server};

/// A server that plays scenes. `head` are further keys of the script.
async fn serve(head: &str, scenes: &str) -> Server {
    let script = format!(r#"{{"model": "m", {head} "scenes": {scenes}}}"#);
    Server::start(Script::from_json(&script).expect("a script")).await.expect("a port is free")
}

/// Settings with short waits.
fn settings(server: &Server) -> Settings {
    let retry = RetryRules { tries: 3, first_wait: Duration::from_millis(2), ..RetryRules::default() };
    Settings { retry, ..Settings::new(server.url(), "m") }
}

fn client(settings: Settings) -> Client {
    Client::new(settings, None, || 0.5).expect("a client")
}
