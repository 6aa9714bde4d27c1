//! Tasks of several steps: one sandbox, one round after the other, one reward in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use job::{StepResult, VerifierResult};
use record::Reason;
use sandbox::{Capture, ExecSpec, ExitStatus};
use serde_json::Number;
use task::config::{MinReward, RewardStrategy, Step};

use super::access::Access;
use super::agent::SETUP_SEC;
use super::course::{Clock, Course, span};
use super::round::Round;
use super::start::{Started, healthy, working_directory};
use super::{Ended, Failure, Life, Phase};
use crate::files::pack;
use crate::jobs::{agent_context, exception_info};
use crate::rewards::Graded;

impl Life<'_> {
    /// Lives all steps, until one fails without a reward or stays below its gate.
    pub(super) async fn steps(&self, started: Started, clock: &Clock, course: &mut Course<'_>) -> Ended {
        let steps = &self.task.config.steps;
        let mut place = Some(started);
        let (mut graded, mut results) = (Vec::new(), Vec::new());
        let mut exception: Option<Failure> = None;
        for (at, step) in steps.iter().enumerate() {
            let round = Round::of_step(self.task, step);
            self.files.log(&format!("step {} of {}: {}", at + 1, steps.len(), step.name));
            let last = at + 1 == steps.len();
            let prepared = self.prepare(place.as_ref(), &round, at > 0, clock, course).await;
            let ended = match prepared {
                Ok(()) => self.round(&mut place, &round, last, clock, course).await,
                Err(failure) => Ended::failed(failure),
            };
            let stop = stop(step, &ended);
            exception = exception.or_else(|| {
                let (reason, detail) = ended.exception.clone()?;
                Some((reason, format!("step {}: {detail}", step.name)))
            });
            results.push(result(step, &ended, course));
            graded.push(ended.graded);
            if let Some(why) = stop.filter(|_| !last) {
                self.files.log(&format!("no further step: {why}"));
                break;
            }
        }
        if let Some(started) = place {
            self.destroy(started.sandbox, course).await;
        }
        let graded = total(self.task.config.multi_step_reward_strategy, &graded);
        Ended { exception, graded, steps: Some(results) }
    }

    /// Makes a step ready: clean logs, its files, its setup script, its healthcheck.
    async fn prepare(
        &self,
        place: Option<&Started>,
        round: &Round<'_>,
        again: bool,
        clock: &Clock,
        course: &mut Course<'_>,
    ) -> Result<(), Failure> {
        let Some(started) = place else {
            return Err((Reason::EngineLost, "the sandbox is gone before the last step".to_owned()));
        };
        let access = Access { sandbox: started.sandbox.as_ref(), clock };
        course.begin(Phase::Setup, round.name());
        let staged = async {
            if again {
                let old = ["/logs/agent", "/logs/artifacts", "/logs/verifier", "/solution"];
                access.remove(&old, Reason::AgentSetupFailed).await?;
            }
            self.stage(&access, started, round).await
        };
        let staged = staged.await;
        course.end(staged)?;
        if let Some(healthcheck) = round.step.and_then(|step| step.healthcheck.as_ref()) {
            course.begin(Phase::Healthcheck, round.name());
            let healthy = healthy(&access, healthcheck, round.agent_user.as_ref()).await;
            course.end(healthy)?;
        }
        Ok(())
    }

    /// Brings in `steps/<name>/workdir/` and runs its `setup.sh`.
    async fn stage(&self, access: &Access<'_>, started: &Started, round: &Round<'_>) -> Result<(), Failure> {
        let Some(step) = round.step else { return Ok(()) };
        let files = self.task.directory.join("steps").join(&step.name).join("workdir");
        if !files.is_dir() {
            return Ok(());
        }
        let usual = Reason::AgentSetupFailed;
        let archive = pack(&[&files]).map_err(|error| (usual, format!("{}: {error}", files.display())))?;
        let workdir = working_directory(access, started).await?;
        access.upload(&archive, &workdir, usual).await?;
        if !files.join("setup.sh").is_file() {
            return Ok(());
        }
        // What `setup.sh` publishes is an artifact of its step.
        access.upload(&crate::files::log_directories(), "/logs", usual).await?;
        let limit = self.budgets.limit(&self.budgets.setup, Some(SETUP_SEC));
        let command = ExecSpec {
            // The path is an argument of its own and no part of a line.
            argv: vec!["bash".into(), format!("{}/setup.sh", workdir.trim_end_matches('/'))],
            workdir: Some(workdir.clone()),
            user: round.agent_user.clone(),
            timeout: limit.or(Some(Duration::from_secs(3600))),
            capture: Capture { limit: 4 << 10, merge: true },
            ..ExecSpec::default()
        };
        let ran = access.exec(command, usual).await?;
        let how = match ran.status {
            ExitStatus::Code(0) => return Ok(()),
            ExitStatus::Code(code) => format!("ended with code {code}"),
            ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
            ExitStatus::Timeout => "was stopped at its limit".to_owned(),
        };
        let said = String::from_utf8_lossy(&ran.stdout.bytes);
        let said: String = said.trim().chars().take(400).collect();
        Err((Reason::TaskInvalid, format!("steps/{}/workdir/setup.sh {how}: {said}", step.name)))
    }
}

/// A step as Harbor's results show it.
fn result(step: &Step, ended: &Ended, course: &Course<'_>) -> StepResult {
    let own: Vec<_> =
        course.records.iter().filter(|record| record.step.as_ref() == Some(&step.name)).cloned().collect();
    let agent_execution = span(&own, Phase::Agent);
    StepResult {
        step_name: step.name.clone(),
        agent_result: agent_execution.is_some().then(|| agent_context(course.work_of(Some(&step.name)))),
        verifier_result: ended.graded.as_ref().map(|graded| VerifierResult::numbers(graded.numbers.clone())),
        exception_info: ended
            .exception
            .as_ref()
            .map(|(reason, detail)| exception_info(*reason, detail, Timestamp::now())),
        agent_execution,
        verifier: span(&own, Phase::Verifier),
    }
}

/// Why no further step is run, if so.
fn stop(step: &Step, ended: &Ended) -> Option<String> {
    let Some(graded) = &ended.graded else {
        return Some(format!("step {} has no reward", step.name));
    };
    let gates = match step.min_reward.as_ref()? {
        MinReward::Single(least) => BTreeMap::from([("reward".to_owned(), *least)]),
        MinReward::ByKey(gates) => gates.clone(),
    };
    gates.into_iter().find_map(|(key, least)| match graded.rewards.get(&key) {
        Some(reward) if *reward >= least => None,
        Some(reward) => Some(format!("{key} = {reward} in step {}, below {least}", step.name)),
        None => Some(format!("no reward called {key} in step {}", step.name)),
    })
}

/// One reward of several steps: the mean by key over the steps that have any, or the last one as it is.
fn total(strategy: Option<RewardStrategy>, steps: &[Option<Graded>]) -> Option<Graded> {
    if strategy == Some(RewardStrategy::Final) {
        return steps.last()?.clone();
    }
    let graded: Vec<_> = steps.iter().flatten().collect();
    let first = graded.first()?;
    let mut sums: BTreeMap<String, f64> = first.rewards.keys().map(|key| (key.clone(), 0.0)).collect();
    for (key, reward) in graded.iter().flat_map(|graded| &graded.rewards) {
        *sums.entry(key.clone()).or_default() += reward;
    }
    let rewards: BTreeMap<_, _> =
        sums.into_iter().map(|(key, sum)| (key, sum / graded.len() as f64)).collect();
    let number = |(key, reward): (&String, &f64)| Some((key.clone(), Number::from_f64(*reward)?));
    let numbers = rewards.iter().filter_map(number).collect();
    let flags = graded.iter().flat_map(|graded| graded.flags.clone()).collect();
    Some(Graded { rewards, numbers, flags })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graded(rewards: &[(&str, f64)]) -> Graded {
        let rewards: BTreeMap<_, _> =
            rewards.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        Graded { rewards, ..Graded::default() }
    }

    #[test]
    fn rewards_of_steps_become_one() {
        let total = |strategy, steps: &[Option<Graded>]| total(strategy, steps).map(|graded| graded.rewards);
        let map = |pairs: &[(&str, f64)]| {
            Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect::<BTreeMap<_, _>>())
        };
        let two = [Some(graded(&[("reward", 1.0), ("q", 0.5)])), Some(graded(&[("reward", 0.0)]))];
        assert_eq!(total(None, &two), map(&[("q", 0.25), ("reward", 0.5)]));
        assert_eq!(total(Some(RewardStrategy::Mean), &two), map(&[("q", 0.25), ("reward", 0.5)]));
        assert_eq!(total(Some(RewardStrategy::Final), &two), map(&[("reward", 0.0)]));
        // A step without a result is in no denominator; the trial is marked by its failure.
        let half = [Some(graded(&[("reward", 1.0)])), None];
        assert_eq!(total(None, &half), map(&[("reward", 1.0)]));
        assert_eq!(total(Some(RewardStrategy::Final), &half), None);
        assert_eq!(total(None, &[None]), None);
        assert_eq!(total(None, &[]), None);
    }

    #[test]
    fn gates_stop_what_follows() {
        let step = |min_reward| Step {
            name: "s".into(),
            agent: task::config::AgentConfig::default(),
            verifier: task::config::VerifierConfig::default(),
            min_reward,
            healthcheck: None,
            artifacts: Vec::new(),
        };
        let half = Ended { graded: Some(graded(&[("reward", 0.5), ("q", 1.0)])), ..Ended::default() };
        assert_eq!(stop(&step(None), &half), None);
        assert_eq!(stop(&step(Some(MinReward::Single(0.5))), &half), None);
        assert!(stop(&step(Some(MinReward::Single(0.6))), &half).unwrap().contains("below 0.6"));
        let keys = |key: &str, least| Some(MinReward::ByKey(BTreeMap::from([(key.to_owned(), least)])));
        assert_eq!(stop(&step(keys("q", 1.0)), &half), None);
        assert!(stop(&step(keys("other", 0.0)), &half).unwrap().contains("no reward called other"));
        // Without a reward there is nothing to go on from, gate or not.
        assert!(stop(&step(None), &Ended::failed((Reason::RewardMissing, String::new()))).is_some());
    }
}
