//! An agent that is a program of the image: started in the sandbox, with the model behind a door.

use std::collections::BTreeMap;
use std::io;

use agent::installed::{DOOR, Spec};
use record::Reason;
use sandbox::{Capture, Door, ExecOutcome, ExecSpec, ExitStatus, HostService};

use super::access::{Access, disk};
use super::round::Round;
use super::{Failure, LOG_LIMIT, Life};
use crate::Agent;

/// What the agent printed, in its trial's directory.
pub(super) const OUTPUT: &str = "output.txt";
/// How it was started, with the place and the form of its trajectory.
pub(super) const SPEC: &str = "spec.json";
/// What it was told, which not every program writes down.
pub(super) const INSTRUCTION: &str = "instruction.md";

impl Life<'_> {
    /// The door to the model, for an agent that asks it from within the sandbox.
    pub(super) fn doors(&self) -> Result<Vec<Door>, Failure> {
        let (Agent::Installed(_), Some(model)) = (self.agent, self.model) else { return Ok(Vec::new()) };
        let port = model.client.loopback_port().ok_or_else(|| {
            let detail = "an agent inside of the sandbox reaches endpoints on this machine only, by an address of 127.0.0.1";
            (Reason::AgentSetupFailed, detail.to_owned())
        })?;
        Ok(vec![Door { port: DOOR, to: HostService::Loopback(port) }])
    }

    /// Makes the agent ready.
    pub(super) async fn install(
        &self,
        spec: &Spec,
        access: &Access<'_>,
        round: &Round<'_>,
    ) -> Result<(), Failure> {
        let Some(setup) = &spec.setup else { return Ok(()) };
        let command = ExecSpec {
            env: self.variables(spec, round)?,
            capture: Capture { limit: 4 << 10, merge: true },
            ..ExecSpec::default()
        };
        let ran = access.shell(setup, command, Reason::AgentSetupFailed).await?;
        if ran.success() {
            return Ok(());
        }
        let said: String = String::from_utf8_lossy(&ran.stdout.bytes).trim().chars().take(400).collect();
        let detail = format!("{} is not ready in this image ({:?}): {said}", spec.name, ran.status);
        Err((Reason::AgentSetupFailed, detail))
    }

    /// Lets the agent work.
    pub(super) async fn operate(
        &self,
        spec: &Spec,
        access: &Access<'_>,
        round: &Round<'_>,
    ) -> Result<(), Failure> {
        let told = self.instruction(round)?;
        let text = ident::to_canonical_json(spec).map_err(|error| disk(io::Error::other(error)))?;
        self.files.write(&round.place(&format!("agent/{SPEC}")), text.as_bytes()).map_err(disk)?;
        self.files.write(&round.place(&format!("agent/{INSTRUCTION}")), told.as_bytes()).map_err(disk)?;
        let before = access.usage().await?.oom_kills;
        let limit = self.budgets.limit(&self.budgets.agent, round.agent_sec);
        let command = ExecSpec {
            env: self.variables(spec, round)?,
            user: round.agent_user.clone(),
            timeout: limit,
            capture: Capture { limit: LOG_LIMIT, merge: true },
            ..ExecSpec::default()
        };
        let ExecOutcome { status, stdout, .. } =
            access.shell(&spec.command, command, Reason::AgentSetupFailed).await?;
        self.files.log(&format!("agent: {status:?}, {} bytes of output", stdout.total));
        self.files.write(&round.place(&format!("agent/{OUTPUT}")), &stdout.bytes).map_err(disk)?;
        let how = match status {
            ExitStatus::Code(0) => return Ok(()),
            ExitStatus::Timeout => {
                let seconds = limit.unwrap_or_default().as_secs_f64();
                let detail = format!("{} was stopped at its limit of {seconds} s", spec.name);
                return Err((Reason::AgentTimeout, detail));
            }
            ExitStatus::Code(code) => format!("{} ended with code {code}", spec.name),
            ExitStatus::Signal(signal) => format!("signal {signal} ended {}", spec.name),
        };
        match access.usage().await?.oom_kills.saturating_sub(before) {
            0 => Err((Reason::AgentError, how)),
            kills => {
                Err((Reason::OutOfMemory, format!("the memory limit ended {kills} process(es), and {how}")))
            }
        }
    }

    fn variables(&self, spec: &Spec, round: &Round<'_>) -> Result<BTreeMap<String, String>, Failure> {
        let usual = Reason::AgentSetupFailed;
        let Some(model) = self.model else { return Err((usual, "the run has no model".to_owned())) };
        let instruction = self.instruction(round)?;
        let base_url = format!("http://127.0.0.1:{DOOR}{}", model.client.base_path());
        spec.variables(model.name(), &base_url, &instruction).map_err(|error| (usual, error.to_string()))
    }

    fn instruction(&self, round: &Round<'_>) -> Result<String, Failure> {
        self.task.instruction(round.name()).map_err(|error| (Reason::AgentSetupFailed, error.to_string()))
    }
}
