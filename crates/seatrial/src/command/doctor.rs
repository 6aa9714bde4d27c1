//! `seatrial doctor`: which engines can run here, and what to do when they cannot.

use sandbox::SandboxError;
use sandbox::docker::{Docker, DockerConfig};
use sandbox::native::Probe;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::Output;
use crate::workbench::run_alone;

/// What was found out about one engine.
struct Findings {
    name: &'static str,
    usable: bool,
    probes: Vec<Probe>,
}

/// Looks at the machine; exits with 1 when no engine can run.
pub fn run(output: Output) -> Result {
    let engines = [native()?, docker()?];
    output.json(&json!({ "engines": engines.iter().map(Findings::json).collect::<Vec<_>>() }))?;
    for engine in &engines {
        let verdict = if engine.usable { "usable" } else { "cannot run here" };
        output.print(format_args!("{}: {verdict}", engine.name))?;
        for probe in &engine.probes {
            let mark = if probe.ok { "ok" } else { "missing" };
            output.print(format_args!("  {mark:8} {}: {}", probe.name, probe.detail))?;
            if let Some(remedy) = &probe.remedy {
                output.print(format_args!("           {remedy}"))?;
            }
        }
    }
    if engines.iter().any(|engine| engine.usable) {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failed, "no engine can run on this machine").silent())
    }
}

fn native() -> Result<Findings> {
    let init = std::env::current_exe().or_exit(Exit::Failed)?;
    let probes = run_alone(async { Ok(sandbox::native::probe(&init).await) })?;
    // The last word has a real sandbox that was started; the other facts explain.
    let usable = probes.iter().any(|probe| probe.name == "sandbox" && probe.ok);
    Ok(Findings { name: "native", usable, probes })
}

fn docker() -> Result<Findings> {
    let connected = run_alone(async { Ok(Docker::connect(&DockerConfig::default()).await) })?;
    let usable = connected.is_ok();
    let mut probes = Vec::new();
    let mut probe = |name, ok, detail: String, remedy: Option<&str>| {
        probes.push(Probe { name, ok, detail, remedy: remedy.map(str::to_owned) });
    };
    match connected {
        Ok(docker) => {
            probe(
                "daemon",
                true,
                "it answers and speaks a version of the API that is new enough".into(),
                None,
            );
            let (held, cannot) = (docker.cannot_hold().is_empty(), docker.cannot_hold().join(", "));
            let detail =
                if held { "all limits can be held".into() } else { format!("{cannot} cannot be held") };
            let remedy = "enable the control groups that are missing on the daemon's machine";
            probe("limits", held, detail, (!held).then_some(remedy));
        }
        Err(error) => {
            let remedy = "start Docker or Podman's service as a user who may use it, or set DOCKER_HOST to its unix:// address";
            let detail = match error {
                SandboxError::Unavailable { reason, .. } => reason,
                other => other.to_string(),
            };
            probe("daemon", false, detail, Some(remedy));
        }
    }
    Ok(Findings { name: "docker", usable, probes })
}

impl Findings {
    fn json(&self) -> Value {
        let probe = |probe: &Probe| json!({ "name": probe.name, "ok": probe.ok, "detail": probe.detail, "remedy": probe.remedy });
        json!({
            "name": self.name,
            "usable": self.usable,
            "probes": self.probes.iter().map(probe).collect::<Vec<_>>(),
        })
    }
}
