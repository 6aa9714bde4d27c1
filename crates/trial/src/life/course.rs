//! What happened so far: the phases of a trial with their begin, end and outcome.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use job::{ModelWork, PhaseOutcome, PhaseRecord, Span};
use record::Reason;

use super::{Failure, Phase};
use crate::budget::Cut;
use crate::files::TrialFiles;

/// The trial's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    begun: Instant,
    trial: Option<Duration>,
    /// Microseconds that do not count.
    excused: AtomicU64,
}

impl Clock {
    /// Starts it. `trial` is the limit of the whole.
    pub(crate) fn start(trial: Option<Duration>) -> Self {
        Self { begun: Instant::now(), trial, excused: AtomicU64::new(0) }
    }

    /// The limit that comes first from now on.
    pub(crate) fn cut(&self, own: Option<Duration>) -> Cut {
        let excused = Duration::from_micros(self.excused.load(Ordering::Relaxed));
        let spent = self.begun.elapsed().saturating_sub(excused);
        Cut::of(own, self.trial.map(|trial| trial.saturating_sub(spent)))
    }

    /// Takes time out that the trial spent waiting for others.
    pub(crate) fn excuse(&self, waited: Duration) {
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.excused.fetch_add(micros, Ordering::Relaxed);
    }

    /// The failure of a trial whose own limit came first.
    pub(crate) fn over(&self) -> Failure {
        let seconds = self.trial.unwrap_or_default().as_secs_f64();
        (Reason::TrialTimeout, format!("the trial was stopped at its limit of {seconds} s"))
    }
}

/// Everything that a trial has come to, phase by phase.
#[derive(Debug)]
pub(crate) struct Course<'a> {
    files: &'a TrialFiles,
    pub(crate) records: Vec<PhaseRecord>,
    begun: Instant,
    /// The phase of the first failure.
    pub(crate) failed_in: Option<Phase>,
    pub(crate) image_digest: Option<String>,
    pub(crate) tests: BTreeMap<String, String>,
    pub(crate) usage: job::Usage,
    /// What was done with a model, by round.
    pub(crate) work: Vec<(Option<String>, ModelWork)>,
}

impl<'a> Course<'a> {
    pub(crate) fn new(files: &'a TrialFiles) -> Self {
        Self {
            files,
            records: Vec::new(),
            begun: Instant::now(),
            failed_in: None,
            image_digest: None,
            tests: BTreeMap::new(),
            usage: job::Usage::default(),
            work: Vec::new(),
        }
    }

    /// What was done with a model in one round.
    pub(super) fn work_of(&self, step: Option<&str>) -> Option<&ModelWork> {
        self.work.iter().find(|(of, _)| of.as_deref() == step).map(|(_, work)| work)
    }

    /// What was done with a model in all rounds; the end is that of the last one.
    pub(super) fn model_work(&self) -> Option<ModelWork> {
        fn both<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
            a.zip(b).map(|(a, b)| a + b)
        }
        let mut rounds = self.work.iter().map(|(_, work)| work.clone());
        let first = rounds.next()?;
        Some(rounds.fold(first, |sum, round| ModelWork {
            turns: sum.turns + round.turns,
            input_tokens: both(sum.input_tokens, round.input_tokens),
            cache_tokens: both(sum.cache_tokens, round.cache_tokens),
            output_tokens: both(sum.output_tokens, round.output_tokens),
            cost_usd: both(sum.cost_usd, round.cost_usd),
            ..round
        }))
    }

    /// Begins a phase. Phases do not overlap.
    pub(crate) fn begin(&mut self, phase: Phase, step: Option<&str>) {
        self.begun = Instant::now();
        self.records.push(PhaseRecord {
            phase,
            step: step.map(str::to_owned),
            started_at: job::utc(Timestamp::now()),
            finished_at: None,
            outcome: PhaseOutcome::Stopped,
        });
    }

    /// Ends the phase that was begun last, and hands its result on.
    pub(crate) fn end<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if let Some(record) = self.records.last_mut() {
            record.finished_at = Some(job::utc(Timestamp::now()));
            let place = match &record.step {
                Some(step) => format!("{} of {step}", record.phase.name()),
                None => record.phase.name().to_owned(),
            };
            let ended = match &result {
                Ok(_) => {
                    record.outcome = PhaseOutcome::Done;
                    "ok".to_owned()
                }
                Err((reason, detail)) => {
                    record.outcome = PhaseOutcome::Failed(*reason);
                    self.failed_in.get_or_insert(record.phase);
                    format!("{reason} ({detail})")
                }
            };
            self.files.log(&format!("{place}: {ended} in {} ms", self.begun.elapsed().as_millis()));
        }
        result
    }

    /// Adds what a sandbox used.
    pub(crate) fn used(&mut self, usage: &sandbox::Usage) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a + b),
            (one, other) => one.or(other),
        };
        let total = &mut self.usage;
        total.peak_memory = total.peak_memory.max(usage.peak_memory);
        total.oom_kills = sum(total.oom_kills, Some(usage.oom_kills));
        total.cpu_ms =
            sum(total.cpu_ms, usage.cpu_time.and_then(|time| u64::try_from(time.as_millis()).ok()));
    }
}

/// Begin and end of a phase as Harbor's results show it. The start has the image before it and the healthcheck behind it.
pub(super) fn span(records: &[PhaseRecord], phase: Phase) -> Option<Span> {
    let start = [Phase::Build, Phase::Start, Phase::Healthcheck];
    let mut found = records.iter().filter(|record| match phase {
        Phase::Start => record.step.is_none() && start.contains(&record.phase),
        phase => record.phase == phase,
    });
    let first = found.next()?;
    let last = found.next_back().filter(|_| phase == Phase::Start).unwrap_or(first);
    Some(Span { started_at: Some(first.started_at.clone()), finished_at: last.finished_at.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_recorded_in_order_and_the_first_failure_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let files = TrialFiles::create(directory.path().join("trial")).unwrap();
        let mut course = Course::new(&files);
        course.begin(Phase::Build, None);
        course.end(Ok(())).unwrap();
        course.begin(Phase::Start, None);
        course.end(Ok(())).unwrap();
        course.begin(Phase::Agent, Some("one"));
        let failure = (Reason::AgentTimeout, "late".to_owned());
        assert_eq!(course.end::<()>(Err(failure.clone())), Err(failure.clone()));
        course.begin(Phase::Verifier, Some("one"));
        let _ = course.end::<()>(Err((Reason::RewardMissing, String::new())));
        course.begin(Phase::Destroy, None);

        let outcomes: Vec<_> = course.records.iter().map(|record| (record.phase, record.outcome)).collect();
        let expected = [
            (Phase::Build, PhaseOutcome::Done),
            (Phase::Start, PhaseOutcome::Done),
            (Phase::Agent, PhaseOutcome::Failed(Reason::AgentTimeout)),
            (Phase::Verifier, PhaseOutcome::Failed(Reason::RewardMissing)),
            (Phase::Destroy, PhaseOutcome::Stopped),
        ];
        assert_eq!(outcomes, expected);
        assert_eq!(course.failed_in, Some(Phase::Agent));

        let environment = span(&course.records, Phase::Start).unwrap();
        assert_eq!(environment.started_at.as_ref(), Some(&course.records[0].started_at));
        assert_eq!(environment.finished_at, course.records[1].finished_at);
        let agent = span(&course.records, Phase::Agent).unwrap();
        assert_eq!(agent.started_at.as_ref(), Some(&course.records[2].started_at));
        assert_eq!(span(&course.records, Phase::Destroy).unwrap().finished_at, None);
        assert!(span(&course.records, Phase::Collect).is_none());
    }

    #[test]
    fn waiting_for_others_is_excused() {
        let clock = Clock::start(Some(Duration::from_secs(100)));
        clock.excuse(Duration::from_secs(1000));
        let cut = clock.cut(None);
        assert!(cut.whole && cut.left.unwrap() == Duration::from_secs(100), "{cut:?}");
        assert_eq!(Clock::start(None).cut(None), Cut { left: None, whole: false });
        assert_eq!(Clock::start(Some(Duration::ZERO)).cut(None).left, Some(Duration::ZERO));
    }

    #[test]
    fn what_is_unknown_stays_unknown_in_sums() {
        let directory = tempfile::tempdir().unwrap();
        let files = TrialFiles::create(directory.path().join("trial")).unwrap();
        let mut course = Course::new(&files);
        course.used(&sandbox::Usage { oom_kills: 1, ..sandbox::Usage::default() });
        assert_eq!(course.usage, job::Usage { peak_memory: None, oom_kills: Some(1), cpu_ms: None });
        course.used(&sandbox::Usage {
            peak_memory: Some(7),
            oom_kills: 2,
            cpu_time: Some(Duration::from_millis(5)),
        });
        assert_eq!(course.usage, job::Usage { peak_memory: Some(7), oom_kills: Some(3), cpu_ms: Some(5) });
    }
}
