//! What only a cluster can do: take pods away, be full, be deaf, restart, and let everything through.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::kubernetes::{Kubernetes, KubernetesConfig};
use sandbox::{Engine, EngineImage, ExecSpec, ExitStatus, Limits, Network, Root, SandboxError, SandboxSpec};

use crate::conformance::{Cluster, Ground};
use crate::host::{sh, text};

/// Names the run whose sandbox is held, and thereby turns `hold` on.
const HOLD: &str = "SEATRIAL_TEST_HOLD_KUBERNETES";

fn spec(cluster: &Cluster, name: &str) -> SandboxSpec {
    SandboxSpec::new(Ground::name(name), Root::Image(cluster.base.clone()), std::env::temp_dir())
}

async fn connect(config: KubernetesConfig) -> Kubernetes {
    Kubernetes::connect(config).await.unwrap()
}

/// What the administrator of the cluster sees or does.
fn kubectl(cluster: &Cluster, arguments: &[&str]) -> String {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(cluster.place.join("kubeconfig")).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The pods of a run.
async fn pods(cluster: &Kubernetes) -> Vec<String> {
    cluster.look(Some(cluster.run())).await.unwrap().into_iter().flat_map(|found| found.pods).collect()
}

/// Everything of a run is gone, its lease and its policy too.
async fn leaves_nothing(kubernetes: Kubernetes) {
    let run = kubernetes.run().to_owned();
    let swept = kubernetes.sweep(Some(&run)).await.unwrap();
    assert!(swept.kept.is_empty());
    assert_eq!(kubernetes.look(Some(&run)).await.unwrap(), []);
    drop(kubernetes);
    assert!(sandbox::native::settle(Duration::from_secs(30)));
}

/// The node, by its number, on which the pod of a sandbox runs, and the pod.
async fn place(cluster: &Cluster, kubernetes: &Kubernetes) -> (String, String) {
    let pod = pods(kubernetes).await.remove(0);
    let node = kubectl(cluster, &["get", "pod", &pod, "-o", "jsonpath={.spec.nodeName}"]);
    (node[node.len() - 1..].to_owned(), pod)
}

fn nodes_are_ready(cluster: &Cluster) {
    wait_until("the nodes", || {
        kubectl(cluster, &["get", "nodes"]).lines().filter(|line| line.contains(" Ready")).count() == 2
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_deleted_behind_our_back_is_lost_and_no_result() {
    let Some(cluster) = Cluster::find() else { return };
    let kubernetes = connect(cluster.config("deleted")).await;
    let sandbox = kubernetes.start(&spec(&cluster, "deleted")).await.unwrap();
    let pod = pods(&kubernetes).await.remove(0);
    let command = sh("sleep 100");
    let killer = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        tokio::task::spawn_blocking(move || kubectl(&cluster, &["delete", "pod", &pod, "--wait=false"]))
            .await
            .unwrap()
    };
    let (outcome, _) = tokio::join!(sandbox.exec(&command), killer);
    let Err(SandboxError::Lost(reason)) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("deleted"), "{reason}");
    sandbox.destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_finds_no_room_hears_why() {
    let Some(cluster) = Cluster::find() else { return };
    let mut config = cluster.config("room");
    config.cluster.start_limit_sec = 5;
    let kubernetes = connect(config).await;
    let mut huge = spec(&cluster, "room");
    huge.limits = Limits { memory: Some(900 << 30), ..Limits::default() };
    let Err(SandboxError::Start { reason, .. }) = kubernetes.start(&huge).await else { panic!("it started") };
    assert!(reason.contains("after 5 s") && reason.contains("Insufficient memory"), "{reason}");
    leaves_nothing(kubernetes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_does_not_exist_is_named_with_the_nodes_words() {
    let Some(cluster) = Cluster::find() else { return };
    let mut config = cluster.config("image");
    config.cluster.start_limit_sec = 15;
    let kubernetes = connect(config).await;
    let digest = format!("sha256:{}", "0".repeat(64));
    let image = EngineImage { reference: format!("127.0.0.1:1/none@{digest}"), digest };
    let mut spec = spec(&cluster, "image");
    spec.root = Root::Image(image);
    let Err(SandboxError::Start { reason, .. }) = kubernetes.start(&spec).await else { panic!("it started") };
    assert!(reason.contains("ImagePull") && reason.contains("127.0.0.1:1/none"), "{reason}");
    leaves_nothing(kubernetes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_is_used_up_is_waited_for() {
    let Some(cluster) = Cluster::find() else { return };
    let namespace = format!("quota-{}", std::process::id());
    kubectl(&cluster, &["create", "namespace", &namespace]);
    kubectl(&cluster, &["-n", &namespace, "create", "quota", "few", "--hard=pods=1"]);
    let mut config = cluster.config("quota");
    // The namespace is of this test alone, so its administrator runs it.
    config.kubeconfig = Some(cluster.place.join("kubeconfig"));
    config.cluster.namespace = Some(namespace.clone());
    let kubernetes = connect(config).await;
    let first = kubernetes.start(&spec(&cluster, "quota-1")).await.unwrap();
    let waiting = spec(&cluster, "quota-2");
    let second = kubernetes.start(&waiting);
    let ending = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        first.destroy().await.unwrap();
    };
    let (second, ()) = tokio::join!(second, ending);
    second.unwrap().destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
    kubectl(&cluster, &["delete", "namespace", &namespace, "--wait=false"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_more_than_allowed_is_told_apart_from_a_loss() {
    let Some(cluster) = Cluster::find() else { return };
    let kubernetes = connect(cluster.config("evicted")).await;
    let mut small = spec(&cluster, "evicted");
    small.limits = Limits { storage: Some(20 << 20), ..Limits::default() };
    let sandbox = kubernetes.start(&small).await.unwrap();
    // Many files, since one alone is held at the limit by the kernel.
    let script = "for i in 1 2 3 4 5 6; do head -c 10000000 /dev/zero > /tmp/$i; done; sleep 120";
    let outcome = sandbox.exec(&ExecSpec { timeout: Some(Duration::from_secs(100)), ..sh(script) }).await;
    assert!(matches!(outcome, Err(SandboxError::TooLarge { limit, .. }) if limit == 20 << 20), "{outcome:?}");
    sandbox.destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_evicted_is_lost_and_no_result() {
    let Some(cluster) = Cluster::find() else { return };
    let kubernetes = connect(cluster.config("drained")).await;
    let sandbox = kubernetes.start(&spec(&cluster, "drained")).await.unwrap();
    let (_, pod) = place(&cluster, &kubernetes).await;
    let eviction =
        serde_json::json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod}});
    let file = cluster.place.join("eviction.json");
    fs_err::write(&file, eviction.to_string()).unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", kubernetes.namespace());
    let killing = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        kubectl(&cluster, &["create", "--raw", &path, "-f", file.to_str().unwrap()])
    };
    let command = sh("sleep 100");
    let (outcome, _) = tokio::join!(sandbox.exec(&command), killing);
    let Err(SandboxError::Lost(reason)) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("deleted") || reason.contains("disrupted"), "{reason}");
    sandbox.destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_is_told_from_the_memory_limit() {
    let Some(cluster) = Cluster::find() else { return };
    let kubernetes = connect(cluster.config("memory")).await;
    let mut small = spec(&cluster, "memory");
    small.limits = Limits { memory: Some(64 << 20), ..Limits::default() };
    let sandbox = kubernetes.start(&small).await.unwrap();
    let killed = ExitStatus::Signal(9);
    assert_eq!(sandbox.exec(&sh("kill -9 $$")).await.unwrap().status, killed);
    assert_eq!(sandbox.usage().await.unwrap().oom_kills, 0, "nobody was short of memory");
    let eats = "x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096])";
    let command =
        ExecSpec { argv: ["python3", "-c", eats].map(String::from).to_vec(), ..ExecSpec::default() };
    assert_eq!(sandbox.exec(&command).await.unwrap().status, killed);
    assert!(sandbox.usage().await.unwrap().oom_kills >= 1);
    sandbox.destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_lets_everything_through_is_refused_unless_it_is_accepted() {
    let Some(cluster) = Cluster::find() else { return };
    let mut config = cluster.config("network");
    config.cluster.accept_open_network = false;
    let kubernetes = connect(config).await;
    let refused = kubernetes.start(&spec(&cluster, "refused")).await.err();
    let Some(SandboxError::Unavailable { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("does not enforce network policies") && reason.contains(":6443"), "{reason}");
    let mut open = spec(&cluster, "open");
    open.network = Network::Public;
    kubernetes.start(&open).await.unwrap().destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_capabilities_a_pod_works_as_one_user() {
    let Some(cluster) = Cluster::find() else { return };
    let mut config = cluster.config("plain");
    config.cluster.capabilities.clear();
    let kubernetes = connect(config).await;
    let sandbox = kubernetes.start(&spec(&cluster, "plain")).await.unwrap();
    let outcome =
        sandbox.exec(&sh("grep CapEff /proc/self/status; id -u; echo x > /file; cat /file")).await.unwrap();
    assert_eq!(text(&outcome), "CapEff:\t0000000000000000\n0\nx\n");
    let other = ExecSpec { user: Some("app".into()), ..sh("true") };
    let Err(SandboxError::Spawn { reason, .. }) = sandbox.exec(&other).await else { panic!("it ran") };
    assert!(reason.contains("not permitted"), "{reason}");
    let archive = sandbox::Archive::pack(|tar| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o640);
        header.set_size(7);
        tar.append_data(&mut header, "a/b", &b"content"[..])
    });
    sandbox.upload(&archive.unwrap(), "/into").await.unwrap();
    assert_eq!(
        text(&sandbox.exec(&sh("cat /into/a/b; stat -c %a /into/a/b")).await.unwrap()),
        "content640\n"
    );
    sandbox.destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
}

/// Not a test of its own: the program that is killed below.
#[tokio::test]
async fn hold() {
    let Ok(run) = std::env::var(HOLD) else { return };
    let Some(cluster) = Cluster::find() else { return };
    let mut config = cluster.config("held");
    config.run = run;
    let kubernetes = connect(config).await;
    let sandbox = kubernetes.start(&spec(&cluster, "held")).await.unwrap();
    let _ = sandbox.exec(&sh("sleep 1000")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_program_leaves_no_running_pod_and_a_sweep_removes_the_rest() {
    let Some(cluster) = Cluster::find() else { return };
    let run = format!("it-{}-killed", std::process::id());
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kubernetes::hold", "--nocapture"])
        .env(HOLD, &run)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let phases = || {
        let selector = format!("dev.seatrial/run={run}");
        let path = "jsonpath={.items[*].status.phase}";
        kubectl(&cluster, &["get", "pods", "-l", &selector, "-o", path])
    };
    wait_until("the held pod", || phases() == "Running");
    tokio::time::sleep(Duration::from_secs(2)).await;
    program.kill().unwrap();
    program.wait().unwrap();
    // Nobody sweeps: the connection's end is the sandbox's end.
    wait_until("the end of the pod", || phases() != "Running");
    let kubernetes = connect(cluster.config("sweeper")).await;
    let swept = kubernetes.sweep(None).await.unwrap();
    assert!(swept.removed.iter().any(|found| found.run == run), "{swept:?}");
    assert_eq!(kubernetes.look(Some(&run)).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_living_are_left_alone() {
    let Some(cluster) = Cluster::find() else { return };
    let kubernetes = connect(cluster.config("living")).await;
    let sandbox = kubernetes.start(&spec(&cluster, "living")).await.unwrap();
    let other = connect(cluster.config("other")).await;
    let swept = other.sweep(None).await.unwrap();
    let kept = swept.kept.iter().find(|found| found.run == kubernetes.run()).expect("it is there");
    assert_eq!((kept.kept, kept.pods.len()), (Some("its process is running"), 1));
    assert_eq!(sandbox.exec(&sh("exit 3")).await.unwrap().status, ExitStatus::Code(3));
    sandbox.destroy().await.unwrap();
    leaves_nothing(kubernetes).await;
}

/// What happens to the whole cluster; these run alone.
mod faults {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_api_server_that_restarts_is_waited_for() {
        let Some(cluster) = Cluster::find() else { return };
        let kubernetes = connect(cluster.config("restart")).await;
        kubernetes.start(&spec(&cluster, "before")).await.unwrap().destroy().await.unwrap();
        let script = cluster.clone();
        let restart = tokio::task::spawn_blocking(move || script.script("restart-api", &[]));
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The server is away while this is asked for.
        let sandbox = kubernetes.start(&spec(&cluster, "after")).await.unwrap();
        restart.await.unwrap();
        assert_eq!(sandbox.exec(&sh("exit 3")).await.unwrap().status, ExitStatus::Code(3));
        sandbox.destroy().await.unwrap();
        leaves_nothing(kubernetes).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_node_that_is_cut_off_is_a_loss_with_its_reason() {
        let Some(cluster) = Cluster::find() else { return };
        let kubernetes = connect(cluster.config("cut")).await;
        let sandbox = kubernetes.start(&spec(&cluster, "cut")).await.unwrap();
        let (node, _) = place(&cluster, &kubernetes).await;
        cluster.script("cut", &[&node]);
        let outcome = sandbox.exec(&sh("sleep 300")).await;
        cluster.script("heal", &[&node]);
        let Err(SandboxError::Lost(reason)) = outcome else { panic!("{outcome:?}") };
        // Whichever is noticed first: that the node is away, or that nobody answers.
        assert!(
            reason.contains("node") || reason.contains("deleted") || reason.contains("did not answer"),
            "{reason}"
        );
        sandbox.destroy().await.unwrap();
        nodes_are_ready(&cluster);
        leaves_nothing(kubernetes).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_agent_of_a_node_that_is_killed_is_a_loss() {
        let Some(cluster) = Cluster::find() else { return };
        let kubernetes = connect(cluster.config("kubelet")).await;
        let sandbox = kubernetes.start(&spec(&cluster, "kubelet")).await.unwrap();
        let (node, _) = place(&cluster, &kubernetes).await;
        let script = cluster.clone();
        let killed = node.clone();
        let killing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            tokio::task::spawn_blocking(move || script.script("kubelet", &["kill", &killed])).await.unwrap()
        };
        let command = sh("sleep 300");
        let (outcome, _) = tokio::join!(sandbox.exec(&command), killing);
        cluster.script("kubelet", &["start", &node]);
        let Err(SandboxError::Lost(reason)) = outcome else { panic!("{outcome:?}") };
        assert!(reason.contains("ended") || reason.contains("node"), "{reason}");
        sandbox.destroy().await.unwrap();
        nodes_are_ready(&cluster);
        leaves_nothing(kubernetes).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_api_server_that_restarts_takes_the_connections_along_and_nothing_else() {
        let Some(cluster) = Cluster::find() else { return };
        let kubernetes = connect(cluster.config("broken")).await;
        let sandbox = kubernetes.start(&spec(&cluster, "broken")).await.unwrap();
        let script = cluster.clone();
        let restart = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            tokio::task::spawn_blocking(move || script.script("restart-api", &[])).await.unwrap()
        };
        let command = sh("sleep 300");
        let (outcome, _) = tokio::join!(sandbox.exec(&command), restart);
        assert!(matches!(outcome, Err(SandboxError::Lost(_))), "{outcome:?}");
        sandbox.destroy().await.unwrap();
        kubernetes.start(&spec(&cluster, "after")).await.unwrap().destroy().await.unwrap();
        leaves_nothing(kubernetes).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn policies_that_are_held_let_a_run_start_and_nothing_out() {
        let Some(cluster) = Cluster::find() else { return };
        cluster.script("enforce", &["on"]);
        let mut config = cluster.config("held");
        config.cluster.accept_open_network = false;
        let kubernetes = connect(config).await;
        let offline = kubernetes.start(&spec(&cluster, "offline")).await;
        let mut public = spec(&cluster, "public");
        public.network = Network::Public;
        let public = kubernetes.start(&public).await.unwrap();
        let reach = |host: &str| {
            let program =
                format!("import socket; socket.create_connection(({host:?}, 6443), 3); print('reached')");
            ExecSpec { argv: ["python3", "-c", &program].map(String::from).to_vec(), ..ExecSpec::default() }
        };
        let server = kubectl(&cluster, &["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
        let server = server.trim_start_matches("https://").split(':').next().unwrap().to_owned();
        let open = public.exec(&reach(&server)).await.unwrap();
        let offline = offline.unwrap();
        let closed = offline.exec(&reach(&server)).await.unwrap();
        cluster.script("enforce", &["off"]);
        assert_eq!(text(&open), "reached\n");
        assert!(!closed.success() && !text(&closed).contains("reached"), "{}", text(&closed));
        offline.destroy().await.unwrap();
        public.destroy().await.unwrap();
        leaves_nothing(kubernetes).await;
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(200));
    }
}
