//! What a pod's object says about its sandbox. Pure: from the object to a state.
//!
//! A phase alone cannot tell a pod that was lost: it stays `Running` while its node is gone. What happened to a sandbox because of
//! the cluster is never a result of what ran in it.

use crate::kubernetes::objects::{ContainerState, Pod, PodCondition, PodStatus};
use crate::kubernetes::pod::CONTAINER;

/// A sandbox as the cluster sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Not running yet, and why as far as the cluster says.
    Waiting(Waiting),
    /// Its container runs.
    Running,
    /// Its container ended by itself.
    Ended {
        /// The exit code of process 1.
        code: i32,
    },
    /// The kernel ended the whole container because of its memory limit.
    OutOfMemory,
    /// It wrote more than it may.
    TooMuchWritten(String),
    /// The cluster took it away, and why.
    Lost(String),
}

/// What a pod waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The next step of its node or of the scheduler.
    Turn,
    /// Room: no node can take it now.
    Room(String),
    /// Something that a later try of the node's may bring, such as an image.
    Retry(String),
    /// Something that will not come.
    Never(String),
}

/// Reasons of a pod's status that mean that the cluster took it away.
const TAKEN: [&str; 7] = [
    "Evicted",
    "NodeLost",
    "Shutdown",
    "NodeShutdown",
    "Preempting",
    "Terminated",
    "UnexpectedAdmissionError",
];

/// Reasons of a waiting container that no time heals.
const NEVER: [&str; 3] = ["ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError"];

/// Reasons of a waiting container that are steps on the way.
const STEPS: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Decides what a pod's object says.
pub(super) fn of(pod: &Pod) -> State {
    let status = &pod.status;
    let reason = status.reason.as_deref().unwrap_or_default();
    let message = status.message.as_deref().unwrap_or_default();
    if reason == "Evicted" && is_about_storage(message) {
        return State::TooMuchWritten(message.to_owned());
    }
    if let Some(disruption) = condition(status, "DisruptionTarget").filter(|found| found.status == "True") {
        let reason = disruption.reason.as_deref().unwrap_or_default();
        return State::Lost(said("its pod was disrupted", reason, disruption.message.as_deref()));
    }
    if TAKEN.contains(&reason) {
        return State::Lost(said("its pod was taken away", reason, Some(message)));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return State::Lost(said("somebody deleted its pod", reason, Some(message)));
    }
    if status.phase.as_deref() == Some("Unknown") {
        return State::Lost("its node does not answer".into());
    }
    let container = status.container_statuses.iter().flatten().find(|status| status.name == CONTAINER);
    match container.and_then(|container| container.state.as_ref()) {
        Some(ContainerState { terminated: Some(ended), .. }) => match ended.reason.as_deref() {
            Some("OOMKilled") => State::OutOfMemory,
            Some("ContainerCannotRun" | "StartError") => State::Waiting(Waiting::Never(said(
                "its container cannot run",
                ended.reason.as_deref().unwrap_or_default(),
                ended.message.as_deref(),
            ))),
            Some("ContainerStatusUnknown") => State::Lost("its node lost track of its container".into()),
            _ => State::Ended { code: ended.exit_code },
        },
        Some(ContainerState { running: Some(_), .. }) => State::Running,
        Some(ContainerState { waiting: Some(waiting), .. }) => {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            if reason.is_empty() || STEPS.contains(&reason) {
                return State::Waiting(Waiting::Turn);
            }
            let said = said("its container cannot start", reason, waiting.message.as_deref());
            let never = NEVER.contains(&reason);
            State::Waiting(if never { Waiting::Never(said) } else { Waiting::Retry(said) })
        }
        _ => before_a_container(status, reason, message),
    }
}

/// A pod of which no container is known.
fn before_a_container(status: &PodStatus, reason: &str, message: &str) -> State {
    match status.phase.as_deref() {
        Some("Failed") if reason == "DeadlineExceeded" => State::Lost("its pod reached its last end".into()),
        // A node refused what the scheduler gave it: there was no room after all.
        Some("Failed") => State::Lost(said("its node refused its pod", reason, Some(message))),
        Some("Succeeded") => State::Ended { code: 0 },
        _ => match condition(status, "PodScheduled") {
            Some(scheduled) if scheduled.status == "False" => State::Waiting(Waiting::Room(said(
                "no node can take its pod",
                scheduled.reason.as_deref().unwrap_or_default(),
                scheduled.message.as_deref(),
            ))),
            _ => State::Waiting(Waiting::Turn),
        },
    }
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.kind == kind)
}

/// Whether an eviction was for what the pod itself wrote, by the words of the kubelet.
fn is_about_storage(message: &str) -> bool {
    let message = message.to_lowercase();
    let exceeded =
        ["ephemeral", "emptydir"].iter().any(|what| message.contains(what)) && message.contains("exceed");
    exceeded && !message.contains("node was low")
}

fn said(what: &str, reason: &str, message: Option<&str>) -> String {
    let message = message.map(str::trim).unwrap_or_default();
    match (reason.is_empty(), message.is_empty()) {
        (true, true) => what.to_owned(),
        (false, true) => format!("{what} ({reason})"),
        (true, false) => format!("{what}: {message}"),
        (false, false) => format!("{what} ({reason}): {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(status: &Value) -> State {
        of(&serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap())
    }

    fn container(state: &Value) -> Value {
        json!({"phase": "Running", "containerStatuses": [
            {"name": CONTAINER, "image": "i", "imageID": "i", "ready": true, "restartCount": 0, "state": state}
        ]})
    }

    #[test]
    fn a_pod_waits_for_what_the_cluster_says() {
        assert_eq!(state(&json!({})), State::Waiting(Waiting::Turn));
        assert_eq!(
            state(&container(&json!({"waiting": {"reason": "ContainerCreating"}}))),
            State::Waiting(Waiting::Turn)
        );
        let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/2 nodes are available: 2 Insufficient memory."}]});
        let State::Waiting(Waiting::Room(reason)) = state(&unschedulable) else { panic!() };
        assert!(reason.contains("Insufficient memory"), "{reason}");
        let missing =
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""}});
        assert!(
            matches!(state(&container(&missing)), State::Waiting(Waiting::Retry(reason)) if reason.contains("ImagePullBackOff"))
        );
        for reason in NEVER {
            assert!(matches!(
                state(&container(&json!({"waiting": {"reason": reason}}))),
                State::Waiting(Waiting::Never(_))
            ));
        }
    }

    #[test]
    fn the_end_of_a_container_is_not_its_loss() {
        assert_eq!(state(&container(&json!({"running": {}}))), State::Running);
        assert_eq!(state(&container(&json!({"terminated": {"exitCode": 3}}))), State::Ended { code: 3 });
        let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        assert_eq!(state(&container(&killed)), State::OutOfMemory);
    }

    #[test]
    fn what_the_cluster_takes_away_is_lost_whatever_its_phase() {
        let mut deleted = container(&json!({"running": {}}));
        deleted["conditions"] =
            json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]);
        assert!(matches!(state(&deleted), State::Lost(reason) if reason.contains("DeletionByTaintManager")));
        let pod = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": container(&json!({"running": {}}))});
        assert!(
            matches!(of(&serde_json::from_value(pod).unwrap()), State::Lost(reason) if reason.contains("deleted"))
        );
        for reason in TAKEN {
            let status = json!({"phase": "Failed", "reason": reason, "message": "The node was low on resource: memory."});
            assert!(matches!(state(&status), State::Lost(said) if said.contains(reason)));
        }
        assert!(matches!(state(&json!({"phase": "Unknown"})), State::Lost(_)));
        assert!(matches!(state(&json!({"phase": "Failed", "reason": "OutOfcpu"})), State::Lost(_)));
    }

    #[test]
    fn who_writes_too_much_is_told_from_who_stood_on_a_full_node() {
        let evicted =
            |message: &str| state(&json!({"phase": "Failed", "reason": "Evicted", "message": message}));
        for own in [
            "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ",
            "Container sandbox exceeded its local ephemeral storage limit \"10Mi\". ",
            "Usage of EmptyDir volume \"guest\" exceeds the limit \"4Mi\". ",
        ] {
            assert!(matches!(evicted(own), State::TooMuchWritten(_)), "{own}");
        }
        let low = "The node was low on resource: ephemeral-storage. Container sandbox was using 9Mi, which exceeds its request of 0.";
        assert!(matches!(evicted(low), State::Lost(_)));
    }
}
