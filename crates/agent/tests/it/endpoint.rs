//! Answers, refusals and faults.

use std::time::{Duration, Instant};

use agent::endpoint::{Ask, Client, EndpointError, Key, Settings, TokenFormat, Wire};
use agent::shell::Protocol;
use agent::{Answer, Message, Role, Usage};
use scripted::Server;
use tokio_util::sync::CancellationToken;

use crate::{client, serve, settings};

fn hello() -> Vec<Message> {
    vec![Message::text(Role::System, "Work."), Message::text(Role::User, "Grüße, fix it")]
}

async fn ask(client: &Client, messages: &[Message]) -> Result<Answer, EndpointError> {
    let tools = Protocol::ToolCalls.tools();
    let ask = Ask { session: "s1", turn: 1, messages, tools: &tools, seed: Some(7), wire: None };
    client.complete(ask, &CancellationToken::new()).await
}

async fn once(server: &Server) -> Result<Answer, EndpointError> {
    ask(&client(settings(server)), &hello()).await
}

const CALLS: &str = r#"[{"turns": [
    {"text": "Ich sehe nach 😀.", "reasoning": "hm", "commands": ["ls -l", "pwd"]},
    {"text": "done", "commands": ["submit"]}]}]"#;

#[tokio::test]
async fn whole_and_streamed_answers_are_the_same() {
    let server = serve("", CALLS).await;
    for tokens in [None, Some(TokenFormat::Vllm)] {
        let whole = client(Settings { tokens, ..settings(&server) });
        let stream = client(Settings { tokens, stream: true, ..settings(&server) });
        let (mut whole, mut stream) =
            (ask(&whole, &hello()).await.unwrap(), ask(&stream, &hello()).await.unwrap());
        // Calls are named after the request, which differs.
        for call in whole.calls.iter_mut().chain(&mut stream.calls) {
            call.id.clear();
        }
        (whole.wall_ms, stream.wall_ms) = (0, 0);
        assert_eq!(whole, stream);
        assert_eq!(whole.text, "Ich sehe nach 😀.");
        assert_eq!(whole.calls[1].arguments, r#"{"command":"pwd"}"#);
        assert_eq!((whole.reasoning.as_deref(), whole.finish.as_deref()), (Some("hm"), Some("tool_calls")));
        let usage = whole.usage.unwrap();
        assert!(usage.prompt > 10 && usage.completion > 5, "{usage:?}");
        if let Some(tokens) = &whole.tokens {
            assert_eq!(tokens.prompt.len() as u64, usage.prompt);
            assert_eq!(tokens.completion.len() as u64, usage.completion);
            assert_eq!(tokens.logprobs.len(), tokens.completion.len());
        }
        assert_eq!(whole.tokens.is_some(), tokens.is_some());
    }
}

#[tokio::test]
async fn the_next_prompt_begins_with_everything_before_it() {
    for (engine, tokens) in [("vllm", TokenFormat::Vllm), ("sglang", TokenFormat::Sglang)] {
        let server = serve(&format!(r#""engine": "{engine}","#), CALLS).await;
        let client = client(Settings { tokens: Some(tokens), stream: true, ..settings(&server) });
        let mut messages = hello();
        let first = ask(&client, &messages).await.unwrap();
        messages.push(first.message());
        messages.push(Message::result(first.calls[0].id.clone(), "a\nb"));
        messages.push(Message::result(first.calls[1].id.clone(), "/"));
        let second = ask(&client, &messages).await.unwrap();
        let (first, second) = (first.tokens.unwrap(), second.tokens.unwrap());
        let before = [first.prompt, first.completion].concat();
        assert!(second.prompt.starts_with(&before), "{engine}");
        assert_eq!(second.logprobs.len(), second.completion.len());
    }
}

#[tokio::test]
async fn a_server_without_token_numbers_gives_no_record_and_a_reason() {
    let server = serve(r#""engine": "openai","#, CALLS).await;
    let answer =
        ask(&client(Settings { tokens: Some(TokenFormat::Vllm), ..settings(&server) }), &hello()).await;
    let answer = answer.unwrap();
    assert_eq!(answer.tokens, None);
    assert!(answer.no_tokens.unwrap().contains("no numbers of tokens"));
}

#[tokio::test]
async fn faults_that_pass_are_tried_again() {
    for (fault, stream) in [
        (r#"{"status": {"status": 429, "retry_after": {"seconds": 0}}}"#, false),
        (r#"{"status": {"status": 429, "retry_after": {"date": 0}}}"#, false),
        (r#"{"status": {"status": 500}}"#, true),
        (r#""cut""#, false),
        (r#""cut""#, true),
        (r#""garbage""#, false),
    ] {
        let server =
            serve("", &format!(r#"[{{"turns": [{{"text": "ok", "faults": [{fault}, {fault}]}}]}}]"#)).await;
        let answer = ask(&client(Settings { stream, ..settings(&server) }), &hello()).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.tries), ("ok", 3), "{fault}");
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_it_and_one_that_asks_for_too_much_is_given_up() {
    let wait = |seconds: u64| {
        format!(
            r#"[{{"turns": [{{"text": "ok", "faults": [{{"status": {{"status": 503, "retry_after": {{"seconds": {seconds}}}}}}}]}}]}}]"#
        )
    };
    let server = serve("", &wait(1)).await;
    let begun = Instant::now();
    assert_eq!(once(&server).await.unwrap().tries, 2);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let server = serve("", &wait(100_000)).await;
    let error = once(&server).await.unwrap_err();
    assert!(matches!(&error, EndpointError::Exhausted { tries: 1, .. }), "{error}");
    assert!(error.to_string().contains("100000 s"), "{error}");
}

#[tokio::test]
async fn tries_end() {
    let fault = r#"{"status": {"status": 500, "message": "out of order"}}"#;
    let faults = [fault; 9].join(",");
    let server = serve("", &format!(r#"[{{"turns": [{{"faults": [{faults}]}}]}}]"#)).await;
    let error = once(&server).await.unwrap_err();
    assert!(
        matches!(&error, EndpointError::Exhausted { tries: 3, detail } if detail.contains("out of order"))
    );
}

#[tokio::test]
async fn refusals_have_their_own_errors() {
    let server = serve(r#""key": "sk-made-up-4711","#, CALLS).await;
    assert!(matches!(once(&server).await.unwrap_err(), EndpointError::Auth { status: 401, .. }));
    let server = serve("", CALLS).await;
    let other = client(Settings { model: "other".into(), ..settings(&server) });
    let error = ask(&other, &hello()).await.unwrap_err();
    assert!(
        matches!(&error, EndpointError::NoModel { .. }) && error.to_string().contains("`other`"),
        "{error}"
    );
    for engine in ["vllm", "sglang", "openai", "llama_cpp", "tgi"] {
        for (head, faults) in [(r#""context": 5,"#, ""), ("", r#", "faults": ["overflow"]"#)] {
            let head = format!(r#""engine": "{engine}", {head}"#);
            let server = serve(&head, &format!(r#"[{{"turns": [{{"text": "x"{faults}}}]}}]"#)).await;
            let error = once(&server).await.unwrap_err();
            assert!(matches!(&error, EndpointError::Overflow(_)), "{engine}: {error}");
            assert_eq!(server.requests().len(), 1, "nothing is tried again");
        }
    }
    let nobody = client(Settings::new("http://127.0.0.1:1/v1", "m"));
    let quick = Settings { retry: settings(&server).retry, ..nobody.settings().clone() };
    assert!(matches!(ask(&client(quick), &hello()).await.unwrap_err(), EndpointError::Exhausted { .. }));
}

#[tokio::test]
async fn an_answer_that_never_ends_is_broken_off_and_a_stop_is_heard() {
    let server = serve("", r#"[{"turns": [{"text": "ok", "faults": ["stall"]}]}]"#).await;
    let impatient = Settings { answer_limit: Duration::from_millis(100), ..settings(&server) };
    assert_eq!(ask(&client(impatient), &hello()).await.unwrap().tries, 2);
    let server = serve("", r#"[{"turns": [{"text": "ok", "faults": [{"slow": {"ms": 60000}}]}]}]"#).await;
    let (client, stop) = (client(settings(&server)), CancellationToken::new());
    let messages = hello();
    let ask = Ask { session: "s", turn: 1, messages: &messages, tools: &[], seed: None, wire: None };
    let asked = client.complete(ask, &stop);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.cancel();
    };
    let begun = Instant::now();
    let (answer, ()) = tokio::join!(asked, stopping);
    assert!(matches!(answer.unwrap_err(), EndpointError::Cancelled));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn usage_is_what_the_server_says_and_unknown_where_it_says_nothing() {
    let turns = r#"[{"turns": [{"text": "x", "usage": {"wrong": {"prompt": 1, "completion": 2}}}]}]"#;
    let server = serve("", turns).await;
    let prices = agent::endpoint::Prices { prompt: Some(1e6), cached: None, completion: Some(2e6) };
    let answer = ask(&client(Settings { prices, ..settings(&server) }), &hello()).await.unwrap();
    assert_eq!(answer.usage, Some(Usage { prompt: 1, completion: 2, cached: Some(0) }));
    assert_eq!(answer.cost_usd, Some(5.0));
    let server = serve("", r#"[{"turns": [{"text": "x", "usage": "missing"}]}]"#).await;
    let answer = ask(&client(Settings { prices, ..settings(&server) }), &hello()).await.unwrap();
    assert_eq!((answer.usage, answer.cost_usd), (None, None));
}

#[tokio::test]
async fn the_bytes_of_the_wire_are_kept_and_the_key_is_not() {
    const KEY: &str = "sk-made-up-0815-4711";
    let fault = format!(r#"{{"status": {{"status": 500, "message": "wrong: {KEY}"}}}}"#);
    let scenes = format!(r#"[{{"turns": [{{"text": "ok", "faults": [{fault}]}}]}}]"#);
    let server = serve(&format!(r#""key": "{KEY}","#), &scenes).await;
    let directory = tempfile::tempdir().unwrap();
    let wire = Wire::new(directory.path().join("wire")).unwrap();
    let key = Key::new("K", Some(KEY)).unwrap();
    let client = Client::new(settings(&server), Some(key), || 0.0).unwrap();
    let messages = hello();
    let ask = Ask { session: "s9", turn: 3, messages: &messages, tools: &[], seed: None, wire: Some(&wire) };
    let answer = client.complete(ask, &CancellationToken::new()).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.tries), ("ok", 2));
    let seen = server.requests();
    assert_eq!(seen[0].session.as_deref(), Some("s9"));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory.path().join("wire")).unwrap() {
        let entry = entry.unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{:?}", entry.path());
        names.push(entry.file_name().into_string().unwrap());
        if names.last().unwrap().ends_with("request.json") {
            assert_eq!(bytes, seen[0].bytes);
        }
    }
    names.sort();
    assert_eq!(names, ["0003.1.answer", "0003.1.request.json", "0003.2.answer", "0003.2.request.json"]);
    assert!(!format!("{client:?}").contains(KEY));
}
