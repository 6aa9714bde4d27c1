use std::collections::BTreeMap;

use ident::{Digest, TaskId};
use proptest::prelude::*;
use record::{CheatName, FailureClass, Limits, Observation, Outcome, Reason, Status, TrialKind};

use crate::{AskedCheat, Decision, ProofKey, ProofRule, decide, reason};

const NAMES: [&str; 3] = ["first", "second", "third"];

fn name(text: &str) -> CheatName {
    text.parse().unwrap()
}

fn group() -> Digest {
    Digest::of("group")
}

fn observation(task: &str, kind: &str, outcome: Outcome) -> Observation {
    let kind: TrialKind = kind.parse().unwrap();
    let cheat_group = matches!(kind, TrialKind::Cheat(_)).then(group);
    Observation {
        task_id: TaskId::new(task).unwrap(),
        kind,
        tree_digest: Digest::of(task),
        verifier_digest: Digest::of("tests"),
        image_digest: "image".into(),
        limits: Limits { verifier_sec: 180, memory_mb: None, millicpus: None },
        engine: "native".into(),
        outcome,
        tests: BTreeMap::new(),
        wall_ms: 1,
        trial: "jobs/j/x".into(),
        ended_at: "2026-01-01T00:00:00Z".into(),
        cheat_group,
    }
}

fn rewarded(task: &str, kind: &str, reward: f64) -> Observation {
    observation(task, kind, Outcome::Reward(reward))
}

fn failed(task: &str, kind: &str, reason: Reason, retryable: bool) -> Observation {
    let class = if retryable { FailureClass::Infrastructure } else { FailureClass::Task };
    observation(task, kind, Outcome::Failed { reason, class, retryable, detail: "what happened".into() })
}

fn key(task: &str) -> ProofKey {
    ProofKey { cheat_group: Some(group()), ..ProofKey::of(&rewarded(task, "nop", 0.0)) }
}

/// One run of each kind, and three cheats; the third is never shared.
fn rule() -> ProofRule {
    let cheats = NAMES.map(|text| AskedCheat { name: name(text), shared: text != "third" });
    ProofRule { nop_runs: 1, oracle_runs: 1, confirm_runs: 2, retries: 1, cheats: cheats.into() }
}

/// The decision on a task whose nop and oracle are as they should be, and on more observations.
fn decided(task: &str, more: &[Observation]) -> Decision {
    let mut all = vec![rewarded(task, "nop", 0.0), rewarded(task, "oracle", 1.0)];
    all.extend_from_slice(more);
    decide(&key(task), &all, &rule())
}

fn wanted(decision: &Decision) -> Option<&str> {
    decision.next_cheat.as_ref().map(CheatName::as_str)
}

#[test]
fn cheats_come_in_order_and_only_when_the_rest_is_proved() {
    let early = decide(&key("a"), &[rewarded("a", "nop", 0.0)], &rule());
    assert_eq!((early.next_cheat, early.next.oracle), (None, 1));
    let nop_passed = decide(&key("a"), &[rewarded("a", "nop", 1.0)], &rule());
    assert!(nop_passed.is_settled() && nop_passed.cheats.is_empty());
    let mut seen = Vec::new();
    for text in NAMES {
        let decision = decided("a", &seen);
        assert_eq!((decision.status.clone(), wanted(&decision)), (Status::Pending, Some(text)));
        seen.push(rewarded("a", &format!("cheat:{text}"), 0.0));
    }
    let proved = decided("a", &seen);
    assert!(proved.is_settled());
    assert_eq!((proved.status, proved.cheats), (Status::Accepted, NAMES.map(name).to_vec()));
}

#[test]
fn the_first_cheat_that_is_rewarded_ends_the_proof() {
    let seen = [rewarded("a", "cheat:first", 0.5), rewarded("a", "cheat:second", 1.0)];
    let decision = decided("a", &seen);
    let Status::Rejected { reason, detail } = &decision.status else { panic!("{decision:?}") };
    assert_eq!((reason.as_str(), decision.is_settled()), (reason::CHEATABLE, true));
    assert_eq!(detail, "the cheat second gets the reward: reward 1");
    assert_eq!(decision.cheats, [name("first")]);
    // Nothing outvotes it, and an odd reward is no better than 1.
    for reward in [1.0, 7.0, f64::NAN] {
        let seen = [rewarded("a", "cheat:first", 0.0), rewarded("a", "cheat:first", reward)];
        assert!(matches!(decided("a", &seen).status, Status::Rejected { .. }), "{reward}");
    }
    // Another reader would have taken the planted one.
    let conflict = [failed("a", "cheat:first", Reason::RewardConflict, false)];
    assert!(matches!(decided("a", &conflict).status, Status::Rejected { .. }));
}

#[test]
fn a_cheat_that_breaks_the_verifier_got_nothing_and_a_broken_machine_says_nothing() {
    for reason in [Reason::RewardMissing, Reason::VerifierTimeout, Reason::RewardUnsafe, Reason::ToolNotFound]
    {
        let decision = decided("a", &[failed("a", "cheat:first", reason, false)]);
        assert_eq!(wanted(&decision), Some("second"), "{reason}");
    }
    let lost = failed("a", "cheat:first", Reason::EngineLost, true);
    assert_eq!(wanted(&decided("a", std::slice::from_ref(&lost))), Some("first"));
    let worn_out = decided("a", &[lost.clone(), lost]);
    assert!(matches!(worn_out.status, Status::Error { retryable: true, .. }), "{worn_out:?}");
    assert_eq!(worn_out.passing_failures, 2);
    let lasting = decided("a", &[failed("a", "cheat:first", Reason::EnvironmentBuildFailed, false)]);
    assert!(matches!(lasting.status, Status::Error { retryable: false, .. }), "{lasting:?}");
    let cancelled = decided("a", &[failed("a", "cheat:first", Reason::Cancelled, true)]);
    assert_eq!((wanted(&cancelled), cancelled.passing_failures), (Some("first"), 0));
}

#[test]
fn what_another_task_of_the_group_withstood_is_shared_and_what_it_fell_to_is_not() {
    let all = |task: &str| NAMES.map(|text| rewarded(task, &format!("cheat:{text}"), 0.0));
    assert_eq!(wanted(&decided("a", &all("b"))), Some("third"), "only its own workspace answers the third");
    let mut fell = all("b").to_vec();
    fell.push(rewarded("c", "cheat:second", 1.0));
    assert_eq!(wanted(&decided("a", &fell)), Some("second"), "one that fell makes each be tried by itself");
    let elsewhere = all("b").map(|other| Observation { cheat_group: Some(Digest::of("other")), ..other });
    assert_eq!(wanted(&decided("a", &elsewhere)), Some("first"));
    let groupless = all("b").map(|other| Observation { cheat_group: None, ..other });
    let alone = ProofKey { cheat_group: None, ..key("a") };
    let mut seen = vec![rewarded("a", "nop", 0.0), rewarded("a", "oracle", 1.0)];
    seen.extend(groupless);
    assert_eq!(wanted(&decide(&alone, &seen, &rule())), Some("first"));
}

proptest! {
    #[test]
    fn the_order_does_not_matter_and_no_task_is_accepted_that_ever_fell(
        seen in prop::collection::vec((0..3_usize, 0..2_usize, 0..4_usize), 0..12),
        turn in 0..12_usize,
    ) {
        let outcomes = |kind: &str, task: &str, came: usize| match came {
            0 => rewarded(task, kind, 0.0),
            1 => rewarded(task, kind, 1.0),
            2 => failed(task, kind, Reason::RewardMissing, false),
            _ => failed(task, kind, Reason::EngineLost, true),
        };
        let mut observations: Vec<_> = seen
            .iter()
            .map(|(cheat, task, came)| outcomes(&format!("cheat:{}", NAMES[*cheat]), ["a", "b"][*task], *came))
            .collect();
        let one = decided("a", &observations);
        let many = observations.len().max(1);
        observations.rotate_left(turn % many);
        prop_assert_eq!(&one, &decided("a", &observations));
        let fell = seen.iter().any(|(_, task, came)| (*task, *came) == (0, 1));
        if one.status == Status::Accepted {
            prop_assert!(!fell);
            prop_assert_eq!(one.cheats.len(), 3);
        }
        prop_assert_eq!(one.status == Status::Pending, !one.is_settled());
    }
}
