//! The agent `shell` with real commands in a directory of this machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use agent::endpoint::{Settings, TokenFormat};
use agent::shell::{Broken, Commands, Conversation, End, Limits, Protocol, Rules, Session, Totals, work};
use agent::{Head, Trajectory};
use sandbox::{ExecOutcome, ExecSpec, ExitStatus, Output};
use scripted::Server;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{client, serve, settings};

/// Runs commands in a directory.
struct Here(PathBuf);

impl Commands for Here {
    type Error = std::io::Error;

    async fn run(&self, script: &str, command: ExecSpec) -> Result<ExecOutcome, Self::Error> {
        let begun = Instant::now();
        let child = tokio::process::Command::new("bash")
            .args(["-c", script])
            .envs(&command.env)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let (status, mut bytes) = match tokio::time::timeout(command.timeout.expect("a limit"), child).await {
            Ok(output) => {
                let output = output?;
                let code = output.status.code().unwrap_or(-1);
                (ExitStatus::Code(code), [output.stdout, output.stderr].concat())
            }
            Err(_) => (ExitStatus::Timeout, Vec::new()),
        };
        let total = bytes.len() as u64;
        bytes.truncate(command.capture.limit);
        let stdout = Output { bytes, total };
        Ok(ExecOutcome { status, stdout, stderr: Output::default(), wall: begun.elapsed() })
    }
}

struct Ran {
    end: Result<End, String>,
    totals: Totals,
    trajectory: Value,
}

async fn attempt(server: &Server, place: &Path, rules: Rules, deadline: Option<Duration>) -> Ran {
    let settings = Settings { tokens: Some(TokenFormat::Vllm), ..settings(server) };
    let client = client(settings);
    let mut conversation = Conversation::new(rules, "Write 2 into `a`.").expect("templates");
    let path = place.join("trajectory.json");
    let tools = conversation.rules().protocol.tools();
    let head = Head { session: "s", agent: "shell", version: "1", model: "m", tools: &tools };
    let file = std::fs::File::create(&path).expect("a file");
    let now = jiff::Timestamp::now();
    let mut trajectory = Trajectory::create(file, head, conversation.messages(), now).expect("a trajectory");
    let stop = CancellationToken::new();
    let session = Session {
        client: &client,
        name: "s",
        seed: None,
        user: None,
        deadline: deadline.map(|deadline| Instant::now() + deadline),
        stop: &stop,
        wire: None,
    };
    let worked = work(&session, &mut conversation, &Here(place.to_owned()), &mut trajectory).await;
    let text = std::fs::read_to_string(&path).expect("a trajectory");
    Ran {
        end: worked.end.map_err(|broken| match broken {
            Broken::Endpoint(error) => error.to_string(),
            other => format!("{other:?}"),
        }),
        totals: worked.totals,
        trajectory: serde_json::from_str(&text).expect("a whole document"),
    }
}

/// Only keys that the format has, in the steps and below; ids from 1 on without a gap.
fn check(trajectory: &Value) {
    let keys = |value: &Value, known: &str| {
        for key in value.as_object().expect("a table").keys() {
            assert!(known.split(' ').any(|name| name == key), "{key} is no key of ATIF");
        }
    };
    keys(trajectory, "schema_version session_id agent steps final_metrics");
    keys(&trajectory["agent"], "name version model_name tool_definitions");
    let steps = trajectory["steps"].as_array().expect("a list");
    for (index, step) in steps.iter().enumerate() {
        keys(
            step,
            "step_id timestamp source model_name message reasoning_content tool_calls observation metrics llm_call_count extra",
        );
        assert_eq!(step["step_id"], index + 1);
        if step["source"] != "agent" {
            for key in ["model_name", "tool_calls", "metrics", "llm_call_count"] {
                assert!(step.get(key).is_none(), "{key}");
            }
            continue;
        }
        keys(
            &step["metrics"],
            "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs",
        );
        let length = |key: &str| step["metrics"][key].as_array().map(Vec::len);
        assert_eq!(length("completion_token_ids"), length("logprobs"));
        let ids: Vec<_> =
            step["tool_calls"].as_array().into_iter().flatten().map(|call| &call["tool_call_id"]).collect();
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            assert!(result.get("source_call_id").is_none_or(|id| ids.contains(&id)), "{result}");
        }
    }
    assert_eq!(trajectory["final_metrics"]["total_steps"], steps.len());
}

const SOLVES: &str = r#"[{"when": ["Write 2"], "turns": [
    {"text": "I look.", "commands": ["cat a; cd /; export X=5"]},
    {"text": "Now in vain.", "arguments": "{\"comm"},
    {"text": "Again.", "commands": ["pwd; echo x=$X; test -d d || mkdir d; cd d 2>/dev/null; false"]},
    {"text": "I write.", "commands": ["pwd; echo 2 >a"]},
    {"commands": ["submit"]}]}]"#;

#[tokio::test]
async fn a_scripted_model_solves_the_task_in_both_protocols() {
    let server = serve("", SOLVES).await;
    for protocol in [Protocol::ToolCalls, Protocol::Fenced] {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a"), "1\n").unwrap();
        let ran = attempt(&server, place.path(), Rules { protocol, ..Rules::default() }, None).await;
        assert_eq!(ran.end, Ok(End::Submitted));
        assert_eq!(std::fs::read_to_string(place.path().join("a")).unwrap(), "2\n");
        assert_eq!((ran.totals.steps, ran.totals.cost_usd), (5, None), "nobody said what it costs");
        check(&ran.trajectory);
        let steps = ran.trajectory["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 7);
        let heard = |step: usize| steps[step]["observation"]["results"][0]["content"].as_str().unwrap();
        assert_eq!(heard(2), "exit status 0\noutput:\n1\n");
        assert!(heard(3).starts_with("Nothing was run:"), "{}", heard(3));
        let here = std::fs::canonicalize(place.path()).unwrap();
        assert_eq!(heard(4), format!("exit status 1\noutput:\n{}\nx=\n", here.display()));
        assert_eq!(steps[6].get("observation"), None);
        assert_eq!(
            ran.trajectory["final_metrics"]["total_completion_tokens"].as_u64(),
            ran.totals.completion
        );
    }
}

#[tokio::test]
async fn directory_and_environment_persist_where_that_is_wanted() {
    let scenes = r#"[{"turns": [
        {"commands": ["mkdir -p 'a b'; cd 'a b'; export X=\"1 '2'\"; f() { :; }; exit 3"]},
        {"commands": ["pwd; echo \"$X\"; echo \"${SEATRIAL_COMMAND:-none}\""]},
        {"commands": ["submit"]}]}]"#;
    let server = serve("", scenes).await;
    let place = tempfile::tempdir().unwrap();
    let ran = attempt(&server, place.path(), Rules { persistent: true, ..Rules::default() }, None).await;
    let _ = std::fs::remove_file("/tmp/.seatrial-shell");
    assert_eq!(ran.end, Ok(End::Submitted));
    let heard = |step: usize| ran.trajectory["steps"][step]["observation"]["results"][0]["content"].clone();
    assert_eq!(heard(2), "exit status 3\nno output");
    let seen = heard(3);
    let seen = seen.as_str().unwrap();
    assert!(seen.contains("/a b\n1 '2'\n"), "{seen}");
}

#[tokio::test]
async fn what_ends_the_work_is_named() {
    let endless = r#"[{"turns": [{"text": "on and on", "commands": ["echo"]}]}]"#;
    let server = serve("", endless).await;
    let place = tempfile::tempdir().unwrap();
    let rules = |limits| Rules { limits, ..Rules::default() };
    let usual = Limits::default();
    let end = |limits, deadline| {
        let (server, place) = (&server, place.path());
        async move {
            let ran = attempt(server, place, rules(limits), deadline).await;
            check(&ran.trajectory);
            (ran.end.unwrap(), ran.totals.steps)
        }
    };
    assert_eq!(end(Limits { steps: Some(3), ..usual }, None).await, (End::StepLimit, 3));
    let (reason, steps) = end(Limits { context: Some(700), ..usual }, None).await;
    assert!(reason == End::ContextOverflow && steps > 1, "{reason:?} after {steps}");
    let late = Some(Duration::from_millis(300));
    assert_eq!(end(usual, late).await.0, End::Timeout);
    // The server's own limit ends the work by the same name as the budget.
    let small = serve(r#""context": 700,"#, endless).await;
    let ran = attempt(&small, place.path(), rules(usual), None).await;
    assert_eq!(ran.end, Ok(End::ContextOverflow));
    let slow = serve("", r#"[{"turns": [{"commands": ["sleep 60"]}]}]"#).await;
    let begun = Instant::now();
    let ran = attempt(&slow, place.path(), rules(usual), late).await;
    assert_eq!(ran.end, Ok(End::Timeout));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_broken_endpoint_leaves_what_was_written_before() {
    let fault = r#"{"status": {"status": 500}}"#;
    let faults = [fault; 9].join(",");
    let scenes = format!(r#"[{{"turns": [{{"commands": ["echo hi"]}}, {{"faults": [{faults}]}}]}}]"#);
    let server = serve("", &scenes).await;
    let place = tempfile::tempdir().unwrap();
    let ran = attempt(&server, place.path(), Rules::default(), None).await;
    assert!(ran.end.unwrap_err().contains("no answer after 3 tries"));
    check(&ran.trajectory);
    assert_eq!(ran.trajectory["steps"].as_array().unwrap().len(), 3);
    assert_eq!(ran.totals.steps, 1);
}
