//! What the loop of the agent `shell` takes for one turn besides its command and the model's server: request, answer, decision,
//! trajectory. Model and commands answer at once. The very bytes of the loop's requests are then sent again by themselves, and what
//! that takes is taken off.
//!
//! Usage: `cargo bench -p agent --bench turns [-- TURNS [BYTES]]`, with BYTES of output a command.

#![expect(clippy::print_stdout, reason = "a measurement prints what it found")]

use std::error::Error;
use std::time::{Duration, Instant};

use agent::endpoint::{Client, Settings, TokenFormat};
use agent::shell::{Commands, Conversation, Limits, Rules, Session, work};
use agent::{Head, Trajectory};
use sandbox::{ExecOutcome, ExecSpec, ExitStatus, Output};
use scripted::{Script, Server};
use tokio_util::sync::CancellationToken;

/// Every command gives so many bytes at once.
struct Instantly(usize);

impl Commands for Instantly {
    type Error = std::io::Error;

    async fn run(&self, _: &str, _: ExecSpec) -> Result<ExecOutcome, Self::Error> {
        let stdout = Output { bytes: vec![b'x'; self.0], total: self.0 as u64 };
        let (status, wall) = (ExitStatus::Code(0), Duration::ZERO);
        Ok(ExecOutcome { status, stdout, stderr: Output::default(), wall })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<u32>().ok());
    let turns = numbers.next().unwrap_or(50);
    let bytes = numbers.next().unwrap_or(1024) as usize;
    let script = r#"{"model": "m", "context": 100000000, "scenes": [{"turns": [{"text": "On and on.", "commands": ["true"]}]}]}"#;
    let server = Server::start(Script::from_json(script)?).await?;
    for tokens in [None, Some(TokenFormat::Vllm)] {
        let client = Client::new(Settings { tokens, ..Settings::new(server.url(), "m") }, None, || 0.5)?;
        let mut rounds = Vec::new();
        for _ in 0..5 {
            let before = server.requests().len();
            let whole = round(&client, turns, bytes).await?;
            let bodies: Vec<Vec<u8>> =
                server.requests().split_off(before).into_iter().map(|seen| seen.bytes).collect();
            rounds.push(whole - again(&server.url(), &bodies).await?);
        }
        rounds.sort_by(f64::total_cmp);
        let with = if tokens.is_some() { "with token numbers" } else { "without token numbers" };
        println!(
            "{turns} turns, {bytes} bytes of output each, {with}: {:.3} ms a turn",
            rounds[rounds.len() / 2]
        );
    }
    Ok(())
}

/// Milliseconds a request, of requests that are sent again one after the other.
async fn again(url: &str, bodies: &[Vec<u8>]) -> Result<f64, Box<dyn Error>> {
    let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
    let begun = Instant::now();
    for body in bodies {
        http.post(format!("{url}/chat/completions")).body(body.clone()).send().await?.bytes().await?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1000.0 / bodies.len() as f64)
}

/// Milliseconds a turn.
async fn round(client: &Client, turns: u32, bytes: usize) -> Result<f64, Box<dyn Error>> {
    let rules = Rules { limits: Limits { steps: Some(turns), ..Limits::default() }, ..Rules::default() };
    let mut conversation = Conversation::new(rules, "Go on.")?;
    let tools = conversation.rules().protocol.tools();
    let head = Head { session: "s", agent: "shell", version: "1", model: "m", tools: &tools };
    let file = tempfile::tempfile()?;
    let mut trajectory = Trajectory::create(file, head, conversation.messages(), jiff::Timestamp::now())?;
    let stop = CancellationToken::new();
    let session =
        Session { client, name: "s", seed: None, user: None, deadline: None, stop: &stop, wire: None };
    let begun = Instant::now();
    let worked = work(&session, &mut conversation, &Instantly(bytes), &mut trajectory).await;
    worked.end?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0 / f64::from(worked.totals.steps))
}
