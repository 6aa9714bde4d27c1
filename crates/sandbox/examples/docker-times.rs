//! Measures what a trial's containers cost: start, two commands, end; paired with the same requests made by `curl` on
//! the same socket.
//!
//! Prints the medians of wall-clock time. Usage: `docker-times [ROUNDS]`, with `DOCKER_HOST` and an image
//! `seatrial.test/base:1`; `scripts/docker-engine` makes both.

#![expect(clippy::print_stdout, reason = "a measurement prints what it found")]

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::docker::{Docker, DockerConfig};
use sandbox::{Engine, ExecSpec, Limits, Root, SandboxSpec};
use serde_json::{Value, json};

const IMAGE: &str = "seatrial.test/base:1";

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(rounds))
}

async fn measure(rounds: usize) -> Result<(), Box<dyn Error>> {
    let host = std::env::var("DOCKER_HOST")?;
    let socket = host.strip_prefix("unix://").ok_or("DOCKER_HOST names no socket")?.to_owned();
    let docker = Docker::connect(&DockerConfig::default()).await?;
    let image = docker.find(IMAGE).await?.ok_or("the daemon does not hold the image")?;
    let temp = tempfile::tempdir()?;
    let mut spec = SandboxSpec::new("measured", Root::Image(image), temp.path());
    spec.limits = Limits { cpus: Some(2.0), memory: Some(1 << 30), pids: Some(500), storage: None };
    let (mut ours, mut bare, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    // The first round warms caches and is not counted.
    for round in 0..=rounds {
        let times = by_engine(&docker, &spec).await?;
        let started = Instant::now();
        by_curl(&socket)?;
        if round > 0 {
            bare.push(started.elapsed());
            ours.push(times.iter().sum());
            parts.push(times);
        }
    }
    let (ours, bare) = (median(ours), median(bare));
    println!("{rounds} rounds, medians of wall-clock time");
    println!(
        "docker engine: start, two commands, end {:>8.1} ms   {:.2} of curl",
        millis(ours),
        ours.as_secs_f64() / bare.as_secs_f64()
    );
    println!("curl: create, start, exec, exec, remove {:>8.1} ms", millis(bare));
    for (part, name) in ["start", "first command", "second command", "end"].into_iter().enumerate() {
        let times = parts.iter().filter_map(|times| times.get(part)).copied().collect();
        println!("of the engine: {name:<24} {:>8.1} ms", millis(median(times)));
    }
    Ok(())
}

async fn by_engine(docker: &Docker, spec: &SandboxSpec) -> Result<[Duration; 4], Box<dyn Error>> {
    let command = ExecSpec { argv: vec!["true".into()], ..ExecSpec::default() };
    let mut times = [Duration::ZERO; 4];
    let mut last = Instant::now();
    let mut lap = |part: usize| {
        times[part] = last.elapsed();
        last = Instant::now();
    };
    let sandbox = docker.start(spec).await?;
    lap(0);
    for part in [1, 2] {
        if !sandbox.exec(&command).await?.success() {
            return Err("`true` failed".into());
        }
        lap(part);
    }
    sandbox.destroy().await?;
    lap(3);
    Ok(times)
}

/// The same container as a script would have it.
fn by_curl(socket: &str) -> Result<(), Box<dyn Error>> {
    let body = json!({
        "Image": IMAGE,
        "Cmd": ["sleep", "1000"],
        "HostConfig": {
            "NetworkMode": "none", "Init": true, "Memory": 1 << 30, "MemorySwap": 1 << 30, "PidsLimit": 500,
            "CpuPeriod": 100_000, "CpuQuota": 200_000,
        },
    });
    let made = curl(socket, "POST", "/containers/create", &body)?;
    let made: Value = serde_json::from_str(&made)?;
    let id = made["Id"].as_str().ok_or("no container")?;
    curl(socket, "POST", &format!("/containers/{id}/start"), &json!({}))?;
    for _ in 0..2 {
        let body = json!({ "Cmd": ["true"], "AttachStdout": true, "AttachStderr": true });
        let exec: Value =
            serde_json::from_str(&curl(socket, "POST", &format!("/containers/{id}/exec"), &body)?)?;
        let exec = exec["Id"].as_str().ok_or("no exec")?;
        curl(socket, "POST", &format!("/exec/{exec}/start"), &json!({}))?;
    }
    curl(socket, "DELETE", &format!("/containers/{id}?force=1&v=1"), &json!({}))?;
    Ok(())
}

fn curl(socket: &str, method: &str, path: &str, body: &Value) -> Result<String, Box<dyn Error>> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--unix-socket", socket, "-X", method])
        .args(["-H", "Content-Type: application/json", "-d", &body.to_string()])
        .arg(format!("http://docker{path}"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{method} {path} failed").into())
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
