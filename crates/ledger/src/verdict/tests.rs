use proptest::prelude::*;
use proptest::sample::subsequence;
use record::{FailureClass, Outcome};

use super::*;

fn rule() -> ProofRule {
    ProofRule::default()
}

fn observation(kind: TrialKind, outcome: Outcome) -> Observation {
    Observation {
        task_id: TaskId::new("a.1").unwrap(),
        kind,
        tree_digest: Digest::of("tree"),
        verifier_digest: Digest::of("tests"),
        image_digest: "image".into(),
        limits: Limits { verifier_sec: 180, memory_mb: None, millicpus: None },
        engine: "native".into(),
        outcome,
        tests: std::collections::BTreeMap::new(),
        wall_ms: 1,
        trial: "jobs/j/a.1__x".into(),
        ended_at: "2026-01-01T00:00:00Z".into(),
        cheat_group: None,
    }
}

fn nop(reward: f64) -> Observation {
    observation(TrialKind::Nop, Outcome::Reward(reward))
}

fn oracle(reward: f64) -> Observation {
    observation(TrialKind::Oracle, Outcome::Reward(reward))
}

fn failed(kind: TrialKind, reason: Reason, retryable: bool) -> Observation {
    let class = if retryable { FailureClass::Infrastructure } else { FailureClass::Task };
    observation(kind, Outcome::Failed { reason, class, retryable, detail: "what happened".into() })
}

fn with_tests(mut observation: Observation, tests: &[(&str, &str)]) -> Observation {
    observation.tests =
        tests.iter().map(|(test, status)| ((*test).to_owned(), (*status).to_owned())).collect();
    observation
}

fn decided(observations: &[Observation]) -> Decision {
    decide(&ProofKey::of(&nop(0.0)), observations, &rule())
}

fn repeated(observation: &Observation, times: usize) -> Vec<Observation> {
    vec![observation.clone(); times]
}

fn needs(nop: u32, oracle: u32) -> (Status, Needed) {
    (Status::Pending, Needed { nop, oracle })
}

fn reason_of(decision: &Decision) -> (&str, &str) {
    match &decision.status {
        Status::Rejected { reason, detail } | Status::Error { reason, detail, .. } => (reason, detail),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_of_each_comes_first_and_then_the_rest() {
    let first = decided(&[]);
    assert_eq!((first.status, first.next), needs(1, 1));
    let second = decided(&[nop(0.0)]);
    assert_eq!((second.status, second.next), needs(0, 1));
    let third = decided(&[nop(0.0), oracle(1.0)]);
    assert_eq!((third.status, third.next), needs(2, 2));
    let proved = decided(&[repeated(&nop(0.0), 3), repeated(&oracle(1.0), 3)].concat());
    assert_eq!((proved.status, proved.nop_runs, proved.oracle_runs), (Status::Accepted, 3, 3));
    let short = decided(&[repeated(&nop(0.0), 9), repeated(&oracle(1.0), 2)].concat());
    assert_eq!((short.status, short.next), needs(0, 1));
}

#[test]
fn a_rule_of_no_runs_still_asks_for_one_of_each() {
    let rule = ProofRule { nop_runs: 0, oracle_runs: 0, confirm_runs: 0, retries: 0, ..rule() };
    let key = ProofKey::of(&nop(0.0));
    assert_eq!(decide(&key, &[], &rule).next, Needed { nop: 1, oracle: 1 });
    assert_eq!(decide(&key, &[nop(0.0), oracle(1.0)], &rule).status, Status::Accepted);
}

#[test]
fn a_nop_that_passes_is_run_again_before_it_is_believed() {
    let first = decided(&[nop(1.0), oracle(1.0)]);
    assert_eq!((first.status, first.next), needs(2, 0));
    let all = decided(&repeated(&nop(1.0), 3));
    assert_eq!(reason_of(&all), (reason::NOP_PASSED, "the untouched task gets the reward (nop: 1 x 3)"));
    let mixed = decided(&[nop(1.0), nop(0.0)]);
    assert_eq!((mixed.status, mixed.next), needs(8, 10));
    let enough = [repeated(&nop(1.0), 4), repeated(&nop(0.0), 6), repeated(&oracle(1.0), 10)].concat();
    assert_eq!(reason_of(&decided(&enough)), (reason::FLAKY, "nop: 0 x 6, 1 x 4; oracle: 1 x 10"));
}

#[test]
fn an_oracle_that_fails_is_terminal_and_names_the_tests() {
    let first = decided(&[nop(0.0), oracle(0.0)]);
    assert_eq!((first.status, first.next), needs(0, 2));
    let run = with_tests(
        oracle(0.0),
        &[("t::a", "passed"), ("t::b", "skipped"), ("t::c", "failed"), ("t::d", "error"), ("t::e", "xpass")],
    );
    let all = decided(&repeated(&run, 3));
    let (reason, detail) = reason_of(&all);
    assert_eq!(reason, reason::ORACLE_FAILED);
    assert_eq!(
        detail,
        "the gold solution does not get the reward (oracle: 0 x 3); tests that did not pass: t::c (failed x 3), \
         t::d (error x 3), t::b (skipped x 3)"
    );
    assert!(all.next.is_nothing());
    let near = decided(&repeated(&oracle(0.999_999_999_999_999_9), 3));
    assert_eq!(reason_of(&near).0, reason::ORACLE_FAILED);
    assert_eq!(reason_of(&decided(&repeated(&oracle(f64::NAN), 3))).0, reason::ORACLE_FAILED);
    assert_eq!(reason_of(&decided(&repeated(&nop(f64::NAN), 3))).0, reason::NOP_PASSED);
}

#[test]
fn tests_that_no_run_saw_are_counted_not_named() {
    let broken = with_tests(oracle(0.0), &[("t::a", "missing"), ("t::b", "missing")]);
    let decision = decided(&repeated(&broken, 3));
    let (reason, detail) = reason_of(&decision);
    assert_eq!(reason, reason::ORACLE_FAILED);
    assert_eq!(
        detail,
        "the gold solution does not get the reward (oracle: 0 x 3); none of its 2 tests was seen: wrong ids, or a \
         suite that broke down, see suite.log of a trial"
    );
    let partly = with_tests(oracle(0.0), &[("t::a", "missing"), ("t::b", "passed")]);
    assert!(reason_of(&decided(&repeated(&partly, 3))).1.contains("t::a (missing x 3)"));
}

#[test]
fn one_lucky_oracle_does_not_accept() {
    let coin = [repeated(&oracle(1.0), 7), repeated(&oracle(0.0), 3), repeated(&nop(0.0), 10)].concat();
    assert_eq!(reason_of(&decided(&coin)), (reason::FLAKY, "nop: 0 x 10; oracle: 1 x 7, 0 x 3"));
    assert_eq!(decided(&coin[6..9]).next, Needed { nop: 10, oracle: 7 });
}

#[test]
fn a_test_that_varies_is_flaky_even_when_the_reward_is_not() {
    let tests: Vec<String> = (0..7).map(|number| format!("t::{number}")).collect();
    let run = |status| {
        let all: Vec<_> = tests.iter().map(|test| (test.as_str(), status)).collect();
        with_tests(nop(0.0), &all)
    };
    let two = [run("failed"), run("error")];
    assert_eq!(decided(&two).next, Needed { nop: 8, oracle: 10 });
    let all = [repeated(&two[0], 9), repeated(&two[1], 1), repeated(&oracle(1.0), 10)].concat();
    let decision = decided(&all);
    let (reason, detail) = reason_of(&decision);
    assert_eq!(reason, reason::FLAKY);
    let wanted = "nop: 0 x 10; oracle: 1 x 10; tests that varied under nop: t::0 (failed x 9, error x 1), ";
    assert!(
        detail.starts_with(wanted) && detail.ends_with("t::4 (failed x 9, error x 1) and 2 more"),
        "{detail}"
    );
}

#[test]
fn a_run_that_reports_no_tests_contradicts_nobody() {
    let reported = with_tests(nop(0.0), &[("t::a", "failed")]);
    let all = [vec![nop(0.0), reported.clone(), reported], repeated(&oracle(1.0), 3)].concat();
    assert_eq!(decided(&all).status, Status::Accepted);
    let signs = [vec![nop(0.0), nop(-0.0), nop(0.0)], repeated(&oracle(1.0), 3)].concat();
    assert_eq!(decided(&signs).status, Status::Accepted);
}

#[test]
fn passing_failures_are_made_good_a_few_times() {
    let lost = failed(TrialKind::Oracle, Reason::EngineLost, true);
    let some = [vec![nop(0.0), oracle(1.0)], repeated(&lost, 2)].concat();
    let decision = decided(&some);
    assert_eq!((decision.status, decision.next), needs(2, 2));
    let many = [vec![nop(0.0), oracle(1.0)], repeated(&lost, 3)].concat();
    let decision = decided(&many);
    assert_eq!(
        decision.status,
        Status::Error {
            reason: "engine_lost".into(),
            retryable: true,
            detail: "oracle, 3 times: what happened".into()
        }
    );
    assert_eq!((decision.passing_failures, decision.next), (3, Needed::default()));
    let more = ProofRule { retries: rule().retries + decision.passing_failures, ..rule() };
    assert_eq!(decide(&ProofKey::of(&nop(0.0)), &many, &more).next, Needed { nop: 2, oracle: 2 });
    // What is proved is proved, however often the machine failed on the way.
    let proved = [repeated(&nop(0.0), 3), repeated(&oracle(1.0), 3), repeated(&lost, 9)].concat();
    assert_eq!(decided(&proved).status, Status::Accepted);
}

#[test]
fn lasting_failures_end_it_and_cancelled_runs_do_not_count() {
    let missing = failed(TrialKind::Nop, Reason::RewardMissing, false);
    let decision = decided(&[missing, oracle(1.0)]);
    assert!(
        matches!(&decision.status, Status::Error { retryable: false, reason, .. } if reason == "reward_missing")
    );
    let timeout = failed(TrialKind::Nop, Reason::VerifierTimeout, true);
    assert_eq!(decided(&repeated(&timeout, 2)).next, Needed { nop: 1, oracle: 1 });
    assert_eq!(reason_of(&decided(&repeated(&timeout, 3))).0, "verifier_timeout");
    let cancelled = failed(TrialKind::Nop, Reason::Cancelled, false);
    assert_eq!(decided(&repeated(&cancelled, 5)).next, Needed { nop: 1, oracle: 1 });
}

#[test]
fn another_tree_verifier_image_limit_or_engine_says_nothing() {
    let proved = [repeated(&nop(0.0), 3), repeated(&oracle(1.0), 3)].concat();
    let changes: [fn(&mut ProofKey); 6] = [
        |key| key.task_id = TaskId::new("a.2").unwrap(),
        |key| key.tree_digest = Digest::of("other"),
        |key| key.verifier_digest = Digest::of("other"),
        |key| key.image_digest = "other".into(),
        |key| key.limits.verifier_sec = 900,
        |key| key.engine = "docker".into(),
    ];
    for change in changes {
        let mut key = ProofKey::of(&nop(0.0));
        change(&mut key);
        let decision = decide(&key, &proved, &rule());
        assert_eq!((decision.status, decision.next), needs(1, 1));
        assert_eq!((decision.nop_runs, decision.oracle_runs), (0, 0));
    }
}

fn any_kind() -> impl Strategy<Value = TrialKind> {
    prop_oneof![Just(TrialKind::Nop), Just(TrialKind::Oracle)]
}

#[expect(clippy::needless_pass_by_value, reason = "used as a mapper")]
fn any_outcome(kind: TrialKind) -> impl Strategy<Value = Observation> {
    let good = match kind {
        TrialKind::Nop => 0.0,
        TrialKind::Oracle | TrialKind::Cheat(_) => 1.0,
    };
    let rewarded = kind.clone();
    let status = prop_oneof![6 => Just("passed"), 1 => Just("failed")];
    let reward = prop_oneof![8 => Just(good), 1 => Just(1.0 - good), 1 => Just(0.5)];
    prop_oneof![
        12 => (reward, status).prop_map(move |(reward, status)| {
            with_tests(observation(rewarded.clone(), Outcome::Reward(reward)), &[("t::a", status)])
        }),
        1 => Just(failed(kind.clone(), Reason::EngineLost, true)),
        1 => Just(failed(kind.clone(), Reason::DiskFull, true)),
        1 => Just(failed(kind.clone(), Reason::Cancelled, true)),
        1 => Just(failed(kind.clone(), Reason::RewardMissing, false)),
    ]
}

fn any_observations() -> impl Strategy<Value = Vec<Observation>> {
    prop::collection::vec(any_kind().prop_flat_map(any_outcome), 0..30)
}

fn any_rule() -> impl Strategy<Value = ProofRule> {
    (0_u32..5, 0_u32..5, 0_u32..12, 0_u32..4).prop_map(|(nop_runs, oracle_runs, confirm_runs, retries)| {
        ProofRule { nop_runs, oracle_runs, confirm_runs, retries, ..rule() }
    })
}

proptest! {
    #[test]
    fn order_never_matters((observations, shuffled) in any_observations().prop_flat_map(|all| {
        (Just(all.clone()), Just(all).prop_shuffle())
    }), rule in any_rule()) {
        let key = ProofKey::of(&nop(0.0));
        prop_assert_eq!(decide(&key, &observations, &rule), decide(&key, &shuffled, &rule));
    }

    #[test]
    fn counts_close_and_only_pending_tasks_ask_for_runs(all in any_observations(), rule in any_rule()) {
        let decision = decide(&ProofKey::of(&nop(0.0)), &all, &rule);
        let rewards = all.iter().filter(|run| matches!(run.outcome, Outcome::Reward(_))).count();
        prop_assert_eq!((decision.nop_runs + decision.oracle_runs) as usize, rewards);
        prop_assert_eq!(decision.status == Status::Pending, !decision.next.is_nothing());
    }

    #[test]
    fn nothing_is_accepted_without_enough_clean_runs(all in any_observations(), rule in any_rule()) {
        let decision = decide(&ProofKey::of(&nop(0.0)), &all, &rule);
        if decision.status == Status::Accepted {
            prop_assert!(decision.nop_runs >= rule.nop_runs.max(1));
            prop_assert!(decision.oracle_runs >= rule.oracle_runs.max(1));
            for run in &all {
                match (&run.outcome, &run.kind) {
                    (Outcome::Reward(reward), TrialKind::Nop) => prop_assert!(*reward < 1.0),
                    (Outcome::Reward(reward), TrialKind::Oracle) => prop_assert!(*reward >= 1.0),
                    (Outcome::Reward(_), TrialKind::Cheat(_)) => {}
                    (Outcome::Failed { retryable, .. }, _) => prop_assert!(*retryable),
                }
            }
        }
    }

    #[test]
    fn what_spoke_against_a_task_is_never_outvoted(
        (part, all) in any_observations().prop_flat_map(|all| (subsequence(all.clone(), 0..=all.len()), Just(all))),
        rule in any_rule(),
    ) {
        let key = ProofKey::of(&nop(0.0));
        let before = decide(&key, &part, &rule);
        let after = decide(&key, &all, &rule);
        prop_assert!(before.nop_runs <= after.nop_runs && before.oracle_runs <= after.oracle_runs);
        if matches!(before.status, Status::Rejected { .. } | Status::Error { retryable: false, .. }) {
            prop_assert_ne!(&after.status, &Status::Accepted);
        }
        if matches!(&before.status, Status::Rejected { reason, .. } if reason == reason::FLAKY) {
            let still = matches!(&after.status, Status::Rejected { reason, .. } if reason == reason::FLAKY);
            let lasting = matches!(after.status, Status::Error { retryable: false, .. });
            prop_assert!(still || lasting);
        }
    }

    #[test]
    fn the_loop_of_deciding_and_running_ends(
        nops in prop::collection::vec(any_outcome(TrialKind::Nop), 60),
        oracles in prop::collection::vec(any_outcome(TrialKind::Oracle), 60),
        rule in any_rule(),
    ) {
        // Cancelled runs are left out: who cancels a run ends the loop.
        let useful = |run: &Observation| !matches!(run.outcome, Outcome::Failed { reason: Reason::Cancelled, .. });
        let mut nops = nops.into_iter().filter(useful);
        let mut oracles = oracles.into_iter().filter(useful);
        let key = ProofKey::of(&nop(0.0));
        let most = rule.nop_runs.max(rule.oracle_runs).max(rule.confirm_runs).max(1);
        let mut ledger: Vec<Observation> = Vec::new();
        for _ in 0..40 {
            let decision = decide(&key, &ledger, &rule);
            if decision.next.is_nothing() {
                prop_assert_ne!(decision.status, Status::Pending);
                prop_assert!(decision.nop_runs <= most && decision.oracle_runs <= most);
                return Ok(());
            }
            ledger.extend(nops.by_ref().take(decision.next.nop as usize));
            ledger.extend(oracles.by_ref().take(decision.next.oracle as usize));
        }
        prop_assert!(false, "the loop goes on");
    }
}
