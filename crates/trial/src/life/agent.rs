//! The agent: made ready, at work, and dead before anything is graded.

use std::collections::BTreeMap;

use record::Reason;
use sandbox::{Capture, ExecSpec, ExitStatus};

use super::access::{Access, disk};
use super::course::Course;
use super::round::Round;
use super::{Failure, LOG_LIMIT, Life};
use crate::Agent;
use crate::files::{log_directories, pack_script};
use crate::trial_task::resolved;

/// Seconds for making an agent ready where the run says nothing else, as in Harbor.
pub(super) const SETUP_SEC: f64 = 360.0;

impl Life<'_> {
    /// The directories that agents expect, and the solution where it is wanted.
    pub(super) async fn set_up(&self, access: &Access<'_>, round: &Round<'_>) -> Result<(), Failure> {
        let usual = Reason::AgentSetupFailed;
        access.upload(&log_directories(), "/logs", usual).await?;
        let program = match self.agent {
            Agent::Nop | Agent::Shell => return Ok(()),
            Agent::Installed(spec) => return self.install(spec, access, round).await,
            Agent::Oracle => self
                .task
                .pack(&[&round.solution])
                .map_err(|error| (usual, format!("{}: {error}", round.solution.display())))?,
            Agent::Cheat(script) => pack_script("solve.sh", script.text)
                .map_err(|error| (usual, format!("packing {}: {error}", script.agent)))?,
        };
        access.upload(&program, "/solution", usual).await
    }

    /// Lets the agent work. What it does wrong is a failure that may still be graded.
    pub(super) async fn work(
        &self,
        access: &Access<'_>,
        round: &Round<'_>,
        course: &mut Course<'_>,
    ) -> Result<(), Failure> {
        match self.agent {
            Agent::Nop => Ok(()),
            Agent::Shell => self.converse(access, round, course).await,
            Agent::Installed(spec) => self.operate(spec, access, round).await,
            Agent::Oracle | Agent::Cheat(_) => self.solve(access, round).await,
        }
    }

    async fn solve(&self, access: &Access<'_>, round: &Round<'_>) -> Result<(), Failure> {
        let before = access.usage().await?.oom_kills;
        // What the task tells its solution is nothing for others.
        let mut env = match self.agent {
            Agent::Oracle => resolved("solution.env", &self.task.config.solution_env)?,
            Agent::Nop | Agent::Shell | Agent::Installed(_) | Agent::Cheat(_) => BTreeMap::new(),
        };
        env.insert("DEBIAN_FRONTEND".into(), "noninteractive".into());
        let limit = self.budgets.limit(&self.budgets.agent, round.agent_sec);
        let command = ExecSpec {
            env,
            user: round.agent_user.clone(),
            timeout: limit,
            capture: Capture { limit: LOG_LIMIT, merge: true },
            ..ExecSpec::default()
        };
        let outcome = access.shell("/solution/solve.sh", command, Reason::AgentSetupFailed).await?;
        self.files.log(&format!("agent: {:?}, {} bytes of output", outcome.status, outcome.stdout.total));
        let log = if self.agent == Agent::Oracle { "agent/oracle.txt" } else { "agent/cheat.txt" };
        self.files.write(&round.place(log), &outcome.stdout.bytes).map_err(disk)?;
        let code = match outcome.status {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => 128 + signal,
            ExitStatus::Timeout => {
                let seconds = limit.unwrap_or_default().as_secs_f64();
                let detail = format!("the {} was stopped at its limit of {seconds} s", self.agent);
                return Err((Reason::AgentTimeout, detail));
            }
        };
        if code == 0 {
            return Ok(());
        }
        // The verifier decides about a solution that ends badly, as in Harbor; the code is kept. One that the memory limit ended
        // has not been tried.
        self.files.write(&round.place("agent/exit-code.txt"), code.to_string().as_bytes()).map_err(disk)?;
        match access.usage().await?.oom_kills.saturating_sub(before) {
            0 => Ok(()),
            kills => Err((
                Reason::OutOfMemory,
                format!(
                    "the memory limit ended {kills} process(es) of the agent, which ended with code {code}"
                ),
            )),
        }
    }
}
