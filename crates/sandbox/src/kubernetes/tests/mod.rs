//! The engine through its real client against an API server that plays lives of pods: what the states of `state.rs` lead to, and
//! what a server that is busy, slow, forgetful or away does to a run.

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ident::Digest;
use serde_json::{Value, json};
use server::{ApiServer, Instead, Step, container, runs};

use crate::guest;
use crate::kubernetes::namespace::Namespace;
use crate::kubernetes::pod::NAME;
use crate::kubernetes::{Kubernetes, KubernetesConfig};
use crate::{
    Engine, EngineImage, ExecOutcome, ExecSpec, ExitStatus, Root, Sandbox, SandboxError, SandboxSpec,
};

/// How long nothing happens before something does.
const MOMENT: Duration = Duration::from_millis(300);

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A server and an engine that knows it; says what is skipped where the guest could not be linked.
async fn stage(change: impl FnOnce(&mut KubernetesConfig, &ApiServer)) -> Option<(ApiServer, Kubernetes)> {
    let server = ApiServer::start().await;
    let engine = connect(&server, |config| change(config, &server)).await?;
    Some((server, engine))
}

/// An engine that knows a server.
async fn connect(server: &ApiServer, change: impl FnOnce(&mut KubernetesConfig)) -> Option<Kubernetes> {
    if let Err(error) = guest::program(NAME) {
        eprintln!("skipped: the Kubernetes engine against a scripted server: {error}");
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", server.address)}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "trials"}}],
    });
    let path = place.path().join("kubeconfig");
    fs_err::write(&path, kubeconfig.to_string()).unwrap();
    let mut config = KubernetesConfig::new("r1");
    config.kubeconfig = Some(path);
    config.cluster.accept_open_network = true;
    config.cluster.start_limit_sec = 20;
    change(&mut config);
    Some(Kubernetes::connect(config).await.unwrap())
}

async fn usual() -> Option<(ApiServer, Kubernetes)> {
    stage(|_, _| {}).await
}

fn spec(name: &str) -> SandboxSpec {
    let digest = format!("sha256:{}", Digest::of(name).hex());
    let image = EngineImage { reference: format!("registry.invalid/x@{digest}"), digest };
    SandboxSpec::new(name, Root::Image(image), std::env::temp_dir())
}

fn command(name: &str) -> ExecSpec {
    ExecSpec { argv: vec![name.to_owned()], ..ExecSpec::default() }
}

/// What a command came to that would never end by itself.
async fn hang(sandbox: &dyn Sandbox) -> Result<ExecOutcome, SandboxError> {
    tokio::time::timeout(LONG, sandbox.exec(&command("hang"))).await.expect("the command goes on for ever")
}

async fn works(engine: &Kubernetes, name: &str) {
    let sandbox = engine.start(&spec(name)).await.unwrap();
    assert_eq!(sandbox.exec(&command("true")).await.unwrap().status, ExitStatus::Code(0));
    sandbox.destroy().await.unwrap();
}

/// Why a sandbox did not start.
async fn refused(engine: &Kubernetes, name: &str) -> SandboxError {
    match engine.start(&spec(name)).await {
        Ok(_) => panic!("{name} started"),
        Err(error) => error,
    }
}

fn reason(error: &SandboxError) -> &str {
    match error {
        SandboxError::Start { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// Waits until the server has no pod any more.
async fn emptied(server: &ApiServer) {
    let end = Instant::now() + LONG;
    while !server.pods().is_empty() {
        assert!(Instant::now() < end, "{:?}", server.pods());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn status(change: &Value) -> Step {
    Step::Becomes(json!({ "status": change }))
}

fn refuse(code: u16, reason: &'static str, message: &str, after: Option<u32>) -> Instead {
    Instead::Refuse(code, reason, message.to_owned(), after)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_costs_three_requests() {
    let Some((server, engine)) = usual().await else { return };
    let sandboxes = futures_util::future::join_all((0..40).map(|n| {
        let engine = engine.clone();
        async move {
            let sandbox = engine.start(&spec(&format!("s{n}"))).await.unwrap();
            for _ in 0..5 {
                sandbox.exec(&command("true")).await.unwrap();
            }
            sandbox.usage().await.unwrap();
            sandbox.destroy().await.unwrap();
        }
    }));
    sandboxes.await;
    let expected = [
        ("DELETE pods", 40),
        ("GET pods/attach", 40),
        ("GET version", 1),
        ("LIST pods", 1),
        ("POST leases", 1),
        ("POST networkpolicies", 1),
        ("POST pods", 40),
        ("WATCH pods", 1),
    ];
    assert_eq!(server.asked(), expected.map(|(request, count)| (request.to_owned(), count)).into());
    assert!(server.pods().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_of_the_protocol_for_containers_do() {
    let Some((server, engine)) = usual().await else { return };
    for protocol in ["v4.channel.k8s.io", "v5.channel.k8s.io"] {
        server.speak(protocol);
        works(&engine, protocol).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_cluster_takes_away_is_lost_with_its_reason() {
    let Some((server, engine)) = usual().await else { return };
    let disruption = json!({"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "taint",
    }]});
    let cases = [
        (
            "deleted",
            Step::Becomes(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            "somebody deleted",
        ),
        ("gone", Step::Goes, "was not deleted from here"),
        ("disrupted", status(&disruption), "DeletionByTaintManager"),
        (
            "node-lost",
            status(&json!({"reason": "NodeLost", "message": "node 1 is unresponsive"})),
            "NodeLost",
        ),
        ("unknown", status(&json!({"phase": "Unknown"})), "its node does not answer"),
        (
            "pressed",
            status(
                &json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}),
            ),
            "Evicted",
        ),
        ("preempted", status(&json!({"reason": "Preempting"})), "Preempting"),
        ("unseen", Step::Unseen(None), "was not deleted from here"),
        ("replaced", Step::Becomes(json!({"metadata": {"uid": "another"}})), "another pod"),
        ("cut", Step::HangsUp, "ended"),
    ];
    let outcomes = cases.map(|(name, step, words)| {
        server.life(name, [runs(), Step::Wait(MOMENT * 3), step]);
        let engine = engine.clone();
        async move {
            let sandbox = engine.start(&spec(name)).await.unwrap();
            let lost = hang(&*sandbox).await;
            assert!(
                matches!(&lost, Err(SandboxError::Lost(reason)) if reason.contains(words)),
                "{name}: {lost:?}"
            );
            // Whether or not its pod is there, its end is no error.
            sandbox.destroy().await.unwrap();
        }
    });
    futures_util::future::join_all(outcomes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_sandbox_did_itself_is_told_apart() {
    let Some((server, engine)) = usual().await else { return };
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    server.life("memory", [runs(), Step::Wait(MOMENT), Step::HangsUp, container(&killed)]);
    let sandbox = engine.start(&spec("memory")).await.unwrap();
    assert_eq!(hang(&*sandbox).await.unwrap().status, ExitStatus::Signal(libc::SIGKILL));
    assert_eq!(sandbox.usage().await.unwrap().oom_kills, 1);
    sandbox.destroy().await.unwrap();

    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi."});
    server.life("storage", [runs(), Step::Wait(MOMENT), status(&evicted)]);
    let mut small = spec("storage");
    small.limits.storage = Some(1 << 20);
    let sandbox = engine.start(&small).await.unwrap();
    let outcome = hang(&*sandbox).await;
    assert!(matches!(outcome, Err(SandboxError::TooLarge { limit, .. }) if limit == 1 << 20), "{outcome:?}");
    sandbox.destroy().await.unwrap();

    // Process 1 ended, and nothing says that memory did it.
    let ended = json!({"terminated": {"exitCode": 137, "reason": "Error"}});
    server.life("ended", [runs(), Step::Wait(MOMENT), Step::HangsUp, container(&ended)]);
    let sandbox = engine.start(&spec("ended")).await.unwrap();
    let outcome = hang(&*sandbox).await;
    assert!(
        matches!(&outcome, Err(SandboxError::Lost(reason)) if reason.contains("code 137")),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_start_hears_the_clusters_words() {
    let Some((server, engine)) = stage(|config, _| config.cluster.start_limit_sec = 2).await else { return };
    let waiting =
        |reason: &str, message: &str| container(&json!({"waiting": {"reason": reason, "message": message}}));
    let nowhere = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: Insufficient memory",
    }]});
    server.life(
        "pull",
        [waiting("ErrImagePull", "no route"), waiting("ImagePullBackOff", "Back-off pulling x")],
    );
    server.life("nowhere", [status(&nowhere)]);
    server.life("silent", []);
    server.life("never", [waiting("ErrImageNeverPull", "not there")]);
    let start = Instant::now();
    assert!(reason(&refused(&engine, "never").await).contains("ErrImageNeverPull"));
    assert!(start.elapsed() < Duration::from_secs(2), "what never comes is not waited for");
    let (pull, nowhere, silent) =
        tokio::join!(refused(&engine, "pull"), refused(&engine, "nowhere"), refused(&engine, "silent"));
    assert!(reason(&pull).contains("after 2 s") && reason(&pull).contains("Back-off pulling x"), "{pull}");
    assert!(
        reason(&nowhere).contains("after 2 s") && reason(&nowhere).contains("Insufficient memory"),
        "{nowhere}"
    );
    assert!(reason(&silent).contains("does not say why"), "{silent}");
    emptied(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_that_the_run_holds_itself_is_waited_for_without_a_limit() {
    let Some((server, engine)) = stage(|config, _| config.cluster.start_limit_sec = 3).await else { return };
    let nowhere = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: Too many pods",
    }]});
    let placed = json!({"conditions": [{"type": "PodScheduled", "status": "True"}]});
    let late = [status(&nowhere), Step::Wait(MOMENT * 15), status(&placed), Step::Wait(MOMENT), runs()];
    server.life("early", late.clone());
    let error = refused(&engine, "early").await;
    assert!(reason(&error).contains("Too many pods"), "nothing of the run would make room: {error}");

    let first = engine.start(&spec("first")).await.unwrap();
    server.life("late", late);
    works(&engine, "late").await;
    let full = || refuse(403, "Forbidden", "pods \"x\" is forbidden: exceeded quota: few", None);
    server.instead("POST pods", [full(), full(), full()]);
    works(&engine, "quota").await;
    first.destroy().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_before_it_ran_is_lost_and_no_failure() {
    let Some((server, engine)) = usual().await else { return };
    server.life("gone", [Step::Wait(MOMENT), Step::Goes]);
    server.life(
        "refused",
        [status(
            &json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource"}),
        )],
    );
    for name in ["gone", "refused"] {
        let error = refused(&engine, name).await;
        assert!(matches!(error, SandboxError::Lost(_)), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_waited_for_and_named_when_it_stays() {
    let Some((server, engine)) = stage(|config, _| config.cluster.start_limit_sec = 8).await else { return };
    let full = || {
        refuse(
            403,
            "Forbidden",
            "pods \"x\" is forbidden: exceeded quota: few, used: pods=1, limited: pods=1",
            None,
        )
    };
    server.instead("POST pods", [full(), full()]);
    works(&engine, "waits").await;
    assert_eq!(server.asked()["POST pods"], 3);
    server.instead("POST pods", std::iter::repeat_with(full).take(20));
    let error = refused(&engine, "stays").await;
    assert!(reason(&error).contains("exceeded quota: few"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_slow_or_away_is_asked_again() {
    let Some((server, engine)) = usual().await else { return };
    // A run's own objects, a sandbox's pod, and its end.
    server.instead("POST leases", [refuse(503, "ServiceUnavailable", "starting", None)]);
    server.instead("POST networkpolicies", [refuse(500, "InternalError", "etcd", None)]);
    server.instead("LIST pods", [refuse(429, "TooManyRequests", "busy", Some(1))]);
    server.instead("POST pods", [refuse(429, "TooManyRequests", "busy", Some(2)), Instead::Late(MOMENT * 3)]);
    server.instead("GET pods/attach", [refuse(500, "InternalError", "container not found", None)]);
    server.instead("DELETE pods", [refuse(429, "TooManyRequests", "busy", None), Instead::Late(MOMENT)]);
    let begin = Instant::now();
    works(&engine, "patient").await;
    assert!(begin.elapsed() > Duration::from_secs(2), "the server said when to come back");
    assert!(server.pods().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_lost_leaves_no_second_pod() {
    let Some((server, engine)) = usual().await else { return };
    // The pod is made and the answer does not arrive: the next try finds its own pod and makes a new one.
    server.instead("POST pods", [Instead::Swallow]);
    works(&engine, "twice").await;
    // The deletion is carried out and the answer does not arrive: that the pod is gone is what was wanted.
    server.instead("DELETE pods", [Instead::Swallow]);
    works(&engine, "gone").await;
    assert!(server.pods().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_while_the_watch_had_expired_is_seen_all_the_same() {
    let Some((server, engine)) = usual().await else { return };
    let running = json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "sandbox", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}},
    }]}});
    server.life("one", [Step::Wait(MOMENT), Step::Unseen(Some(running.clone()))]);
    server.life("two", [Step::Wait(MOMENT), Step::Unseen(Some(running))]);
    for name in ["one", "two"] {
        works(&engine, name).await;
    }
    assert!(server.asked()["LIST pods"] >= 3, "{:?}", server.asked());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_open_is_found_out_once_and_refused() {
    let closed = stage(|config, _| {
        config.cluster.accept_open_network = false;
        config.cluster.probe = vec!["192.0.2.1:443".into()];
    });
    let Some((server, engine)) = closed.await else { return };
    works(&engine, "closed").await;
    works(&engine, "again").await;
    drop((server, engine));
    let open = stage(|config, server| {
        config.cluster.accept_open_network = false;
        server.open(server.address.to_string());
    });
    let Some((server, engine)) = open.await else { return };
    let error = refused(&engine, "open").await;
    assert!(
        matches!(&error, SandboxError::Unavailable { reason, .. } if reason.contains("accept_open_network")),
        "{error}"
    );
    emptied(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_are_missing_are_named() {
    let Some((server, engine)) = usual().await else { return };
    let forbidden = || {
        refuse(403, "Forbidden", "leases is forbidden: User \"x\" cannot create resource \"leases\"", None)
    };
    server.instead("POST leases", std::iter::repeat_with(forbidden).take(100));
    let error = refused(&engine, "x").await;
    assert!(
        matches!(&error, SandboxError::Unavailable { reason, .. }
            if reason.contains("cannot create") && reason.contains("docs/kubernetes.md")),
        "{error}"
    );
}

#[test]
fn what_outlives_its_runtime_is_removed_all_the_same() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // The server goes on where the program's own runtime is at its end.
    let (of_server, of_engine) = (runtime(), runtime());
    let server = of_server.block_on(ApiServer::start());
    let Some(engine) = of_engine.block_on(connect(&server, |_| {})) else { return };
    let sandbox = of_engine.block_on(engine.start(&spec("left"))).unwrap();
    drop(of_engine);
    drop((sandbox, engine));
    assert!(crate::removal::settle(LONG));
    let asked = server.asked();
    assert_eq!((asked["DELETE pods"], asked["DELETE leases"]), (1, 1), "{asked:?}");
    assert!(server.pods().is_empty());
}

#[tokio::test]
async fn a_proxy_is_refused_and_not_gone_past() {
    let mut config = kube::Config::new("http://cluster.invalid".parse().unwrap());
    config.proxy_url = Some("http://user:secret@proxy.invalid:3128".parse().unwrap());
    let refused = Namespace::connect("trials".into(), Arc::new(config));
    let error = refused.err().expect("it did not connect").to_string();
    assert!(error.contains("proxy.invalid") && !error.contains("secret"), "{error}");
}
