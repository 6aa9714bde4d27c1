//! Measures what a sandbox costs: start, `true`, end; paired with the same done by the system's own tools.
//!
//! Prints the median of wall-clock and of processor time, this process and its children together. On a machine that
//! does other things as well, processor time is the figure to compare.
//!
//! Usage: `start-times [ROUNDS]`. Needs `unshare`, `mount` and `chroot` for the comparison.

#![expect(clippy::print_stdout, reason = "a measurement prints what it found")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;
use image::{Layer, LayerStore, RootImage};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use sandbox::native::{INIT_ARGUMENT, Native, NativeConfig, init_main};
use sandbox::{Engine, ExecSpec, Limits, SandboxSpec};

/// The same sandbox by hand: the same namespaces, overlays and `/proc`, then `true` below the new root.
const BARE: &str = r#"
mount -t overlay -o "userxattr,volatile,lowerdir=$SKELETON,upperdir=$DIR/u0,workdir=$DIR/w0" none "$DIR/root"
n=1
for tree in $TREES; do
    mount -t overlay -o "userxattr,volatile,lowerdir=$tree,upperdir=$DIR/u$n,workdir=$DIR/w$n" none "$DIR/root$tree"
    n=$((n + 1))
done
mount -t proc proc "$DIR/root/proc"
exec chroot "$DIR/root" true
"#;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some(INIT_ARGUMENT) {
        init_main();
    }
    let rounds = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(rounds))
}

async fn measure(rounds: usize) -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir()?;
    let store = LayerStore::open(temp.path().join("store"))?;
    let image = image::host::prepare(&store, &[])?.image;
    let engine = Native::new(NativeConfig { init: std::env::current_exe()?, require_limits: false })?;
    let scratch = temp.path().join("scratch");
    fs::create_dir(&scratch)?;
    let mut spec = SandboxSpec::new("measured", image.clone().into(), scratch);
    let (mut plain, mut limited, mut bare, mut apart) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The first round warms caches and is not counted.
    for round in 0..=rounds {
        spec.limits = Limits::default();
        let a = native(&engine, &spec).await?;
        let b = by_hand(temp.path(), &image)?;
        spec.limits = Limits { cpus: Some(2.0), memory: Some(1 << 30), pids: Some(500), storage: None };
        let c = native(&engine, &spec).await?;
        let d = parts(&engine, &spec).await?;
        if round > 0 {
            plain.push(a);
            bare.push(b);
            limited.push(c);
            apart.push(d);
        }
    }
    let bare = Cost::median(&bare);
    println!("{rounds} rounds, medians{:>29} {:>13}", "wall", "processor");
    for (name, costs) in [("native", &plain), ("native, all limits", &limited)] {
        let cost = Cost::median(costs);
        let of_bare = |mine: Duration, other: Duration| mine.as_secs_f64() / other.as_secs_f64();
        println!(
            "{name:<34} {cost}   {:.2} and {:.2} of bare",
            of_bare(cost.wall, bare.wall),
            of_bare(cost.processor, bare.processor)
        );
    }
    println!("{:<34} {bare}", "bare unshare, mount, chroot");
    for (part, name) in
        ["of native: start", "of native: one command", "of native: end"].into_iter().enumerate()
    {
        let times = apart.iter().filter_map(|times| times.get(part)).copied().collect();
        println!("{name:<34} {:>8.2} ms", millis(median(times)));
    }
    Ok(())
}

/// What one round took.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: Duration,
    processor: Duration,
}

impl Cost {
    fn median(costs: &[Self]) -> Self {
        let middle = |pick: fn(&Self) -> Duration| median(costs.iter().map(pick).collect());
        Self { wall: middle(|cost| cost.wall), processor: middle(|cost| cost.processor) }
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>8.2} ms {:>10.2} ms", millis(self.wall), millis(self.processor))
    }
}

/// A running measurement.
struct Meter {
    started: Instant,
    processor: Duration,
}

impl Meter {
    fn start() -> Result<Self, Box<dyn Error>> {
        Ok(Self { processor: processor_time()?, started: Instant::now() })
    }

    fn stop(&self) -> Result<Cost, Box<dyn Error>> {
        Ok(Cost { wall: self.started.elapsed(), processor: processor_time()?.saturating_sub(self.processor) })
    }
}

/// Processor time of this process and of all children it has waited for.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let mut sum = Duration::ZERO;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        for time in [usage.user_time(), usage.system_time()] {
            sum += Duration::from_micros(u64::try_from(time.num_microseconds())?);
        }
    }
    Ok(sum)
}

async fn native(engine: &Native, spec: &SandboxSpec) -> Result<Cost, Box<dyn Error>> {
    let meter = Meter::start()?;
    let sandbox = engine.start(spec).await?;
    let outcome = sandbox.exec(&command()).await?;
    sandbox.destroy().await?;
    if outcome.success() { meter.stop() } else { Err("`true` failed".into()) }
}

/// Wall-clock times of the start, of the one command, and of the end.
async fn parts(engine: &Native, spec: &SandboxSpec) -> Result<[Duration; 3], Box<dyn Error>> {
    let started = Instant::now();
    let sandbox = engine.start(spec).await?;
    let start = started.elapsed();
    sandbox.exec(&command()).await?;
    let command = started.elapsed();
    sandbox.destroy().await?;
    let end = started.elapsed();
    Ok([start, command.saturating_sub(start), end.saturating_sub(command)])
}

fn command() -> ExecSpec {
    ExecSpec { argv: vec!["true".into()], ..ExecSpec::default() }
}

fn by_hand(temp: &Path, image: &RootImage) -> Result<Cost, Box<dyn Error>> {
    let [Layer::Host(host)] = image.layers.as_slice() else { return Err("not the host's image".into()) };
    let meter = Meter::start()?;
    let directory = temp.join("bare");
    fs::create_dir_all(directory.join("root"))?;
    for number in 0..=host.trees.len() {
        fs::create_dir(directory.join(format!("u{number}")))?;
        fs::create_dir(directory.join(format!("w{number}")))?;
    }
    let trees: Vec<_> = host.trees.iter().map(|tree: &PathBuf| tree.display().to_string()).collect();
    let status = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--ipc",
            "--uts",
            "--cgroup",
            "--net",
        ])
        .args(["sh", "-ec", BARE])
        .env("DIR", &directory)
        .env("SKELETON", &host.skeleton)
        .env("TREES", trees.join(" "))
        .stdin(Stdio::null())
        .status()?;
    fs::remove_dir_all(&directory)?;
    if status.success() { meter.stop() } else { Err("the bare sequence failed".into()) }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
