//! What a large set costs: choosing and splitting 10,000 candidates, freezing and verifying task directories against `sha256sum`, and
//! exporting and registering them.
//!
//! `cargo bench -p dataset --bench scale [-- TASKS]` prints medians of five rounds, of exports and of registering one, 5,000 tasks unless said otherwise. Reading is from
//! the page cache. `sha256sum` runs over the very files of the set, as many processes as there are processors.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints, and stops when it cannot measure"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use artifact::{Document, Inputs};
use dataset::resolve::{Candidate, PoolTarget, ResolveRules, SplitSizes, resolve};
use dataset::{
    ExportFormat, ExportInput, FreezeInput, ProofDemand, Registry, export, freeze, frozen_images, verify,
};
use ident::{AliasTable, Digest, RepoKey, TaskId};
use record::{
    CheckDocument, MaterializeDocument, MaterializedTask, PlanDocument, ProofDocument, ProvedTask,
    SelectedTask, Selection, Split, Status,
};
use task::digest_task;

const ROUNDS: usize = 5;
/// Bytes of the archive of each task: as much as the workspaces of small projects.
const ARCHIVE: usize = 150_000;

fn main() {
    let tasks = std::env::args().skip(1).find_map(|size| size.parse().ok()).unwrap_or(5_000);
    for (name, split) in [("an exact split", [3_500, 750, 750]), ("no exact split", [3_501, 750, 750])] {
        let took = median(|| choose(split));
        println!("resolve, 10,000 candidates of 1,000 repositories, {name}: {:.3} s", took.as_secs_f64());
    }
    let temp = tempfile::tempdir().unwrap();
    let set = Set::new(temp.path(), tasks);
    let frozen = temp.path().join("frozen");
    let freezing = median(|| {
        if frozen.exists() {
            std::fs::remove_dir_all(&frozen).unwrap();
        }
        timed(|| set.freeze(&frozen))
    });
    let directory = frozen.join(format!("scale-{tasks}-v1"));
    let sums = std::fs::read_to_string(directory.join("SHA256SUMS")).unwrap();
    let bytes: u64 = files(&directory, &sums).map(|path| std::fs::metadata(path).unwrap().len()).sum();
    let gigabytes = bytes as f64 / 1e9;
    println!("{tasks} tasks, {} files, {gigabytes:.2} GB", sums.lines().count());
    let verifying =
        median(|| timed(|| assert_eq!(verify(&directory, &AliasTable::default()).unwrap().problems, [])));
    let others = median(|| timed(|| sha256sum(&directory, &sums)));
    for (name, took) in
        [("freeze", freezing), ("freeze --check", verifying), ("sha256sum, all processors", others)]
    {
        let ratio = others.as_secs_f64() / took.as_secs_f64();
        let rate = gigabytes / took.as_secs_f64();
        println!("{name}: {:.2} s, {rate:.2} GB/s, {ratio:.2} of the rate of sha256sum", took.as_secs_f64());
    }
    let exports = temp.path().join("exports");
    let out = |format| {
        forget_peak();
        let took = timed(|| {
            let aliases = AliasTable::default();
            let (frozen, exports) = (directory.as_path(), exports.as_path());
            export(&ExportInput { frozen, exports, format, organisation: "acme", aliases: &aliases })
                .unwrap();
        });
        println!("export {}: {:.2} s, peak memory {} MiB", format.name(), took.as_secs_f64(), peak());
    };
    out(ExportFormat::TaskParquet);
    out(ExportFormat::Package);
    let package = exports.join(format!("scale-{tasks}-v1/package/scale-{tasks}-v1.tar.zst"));
    forget_peak();
    let registry = Registry::new(temp.path().join("registry"));
    let took = timed(|| assert!(!registry.register(&package, None, None).unwrap().existed));
    let rate = gigabytes / took.as_secs_f64();
    println!("register: {:.2} s, {rate:.2} GB/s, peak memory {} MiB", took.as_secs_f64(), peak());
}

/// Lets the highest memory be counted anew from here.
fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// The highest resident memory in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// The middle of some rounds.
fn median(mut round: impl FnMut() -> Duration) -> Duration {
    let mut rounds: Vec<Duration> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort();
    rounds[ROUNDS / 2]
}

/// Chooses 5,000 of 10,000 candidates whose repositories have very different sizes.
fn choose([train, validation, test]: [u64; 3]) -> Duration {
    let candidates: Vec<Candidate> = (0..10_000)
        .map(|n| {
            let repo = format!("o/r{:03}", (n * n / 7 + n % 13) % 1000);
            let task_id = TaskId::new(format!("{}.0123abcd.pr_{n}", repo.replace('/', "__"))).unwrap();
            Candidate {
                tree_digest: Digest::of(task_id.as_str()),
                task_id,
                stage: ["p", "q"][n % 2].into(),
                repo: RepoKey::parse(&repo).unwrap(),
                reserve: false,
                evidence_tier: None,
            }
        })
        .collect();
    let rules = ResolveRules {
        pools: ["p", "q"].map(|stage| PoolTarget { stage: stage.into(), target: 2_500 }).into(),
        repo_cap: 20,
        split: SplitSizes { train, validation, test },
        allow_shortfall: false,
    };
    let begun = Instant::now();
    // One of the two is refused, with the nearest sizes that are possible.
    let resolved = resolve(Inputs::new(), &rules, &candidates, &[]);
    let took = begun.elapsed();
    assert_eq!(resolved.is_ok(), train + validation + test == 5_000);
    took
}

/// Materialized tasks with the documents that belong to them.
struct Set {
    tasks: std::path::PathBuf,
    selection: Selection,
    materialized: MaterializeDocument,
    checks: CheckDocument,
    proofs: ProofDocument,
    plan: PlanDocument,
}

impl Set {
    fn new(root: &Path, count: usize) -> Self {
        let tasks = root.join("tasks");
        let mut set = Self {
            selection: Selection {
                schema: Selection::SCHEMA.into(),
                rules: dataset::resolve::RULES.into(),
                inputs: Inputs::new(),
                tasks: vec![],
                shortages: vec![],
            },
            materialized: MaterializeDocument {
                schema: MaterializeDocument::SCHEMA.into(),
                inputs: Inputs::new(),
                tasks: vec![],
                refused: vec![],
            },
            checks: CheckDocument {
                schema: CheckDocument::SCHEMA.into(),
                inputs: Inputs::new(),
                tasks: vec![],
                similar: vec![],
            },
            proofs: ProofDocument {
                schema: ProofDocument::SCHEMA.into(),
                inputs: Inputs::new(),
                tasks: vec![],
            },
            plan: PlanDocument {
                schema: PlanDocument::SCHEMA.into(),
                rules: "plan/1".into(),
                inputs: BTreeMap::new(),
                pools: vec![],
                tasks: vec![],
            },
            tasks,
        };
        for n in 0..count {
            set.add(n);
        }
        set
    }

    /// Writes a task in the form that `materialize` gives it.
    fn add(&mut self, n: usize) {
        let repo = format!("o/r{:03}", n % 500);
        let task_id = TaskId::new(format!("{}.0123abcd.pr_{n}", repo.replace('/', "__"))).unwrap();
        let directory = self.tasks.join(task_id.as_str());
        let write = |name: &str, bytes: &[u8]| {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let filler = |seed: &str, length: usize| seed.bytes().cycle().take(length).collect::<Vec<u8>>();
        let config = format!(
            "schema_version = \"1.4\"\n[task]\nname = \"acme/t{n}\"\n[verifier]\ntimeout_sec = 180.0\n"
        );
        write("task.toml", config.as_bytes());
        write("instruction.md", &filler(task_id.as_str(), 1_500));
        write("environment/Dockerfile", b"FROM registry.invalid/base:1\nADD workspace.tar /testbed\n");
        write("environment/workspace.tar", &filler(task_id.as_str(), ARCHIVE));
        write("solution/solve.sh", b"#!/bin/sh\ngit apply fix.patch\n");
        write("solution/fix.patch", &filler(&repo, 2_000));
        write("tests/config.json", &filler(&repo, 9_000));
        write("tests/surface.tar", &filler(&repo, ARCHIVE / 10));
        for part in ["test.sh", "verify.py", "seatrial_log.py", "seatrial_grade.py", "seatrial_surface.py"] {
            write(&format!("tests/{part}"), &filler(part, 12_000));
        }
        let digests = digest_task(&directory).unwrap();
        let repo = RepoKey::parse(&repo).unwrap();
        self.selection.tasks.push(SelectedTask {
            task_id: task_id.clone(),
            stage: "pool".into(),
            repo: repo.clone(),
            split: [Split::Train, Split::Validation, Split::Test][n % 500 % 3],
            reserve: false,
            evidence_tier: Some(1),
            tree_digest: digests.tree_digest,
        });
        self.materialized.tasks.push(MaterializedTask {
            task_id: task_id.clone(),
            stage: "pool".into(),
            repo,
            content_hash: digests.content_hash,
            task_checksum: digests.task_checksum,
            tree_digest: digests.tree_digest,
            verifier_digest: digests.verifier_digest,
            base_image: "registry.invalid/base:1".into(),
            copy_of: None,
            workspace_source: "sha256:0".into(),
            instance_digest: digests.tree_digest,
            quarantined: vec![],
        });
        self.proofs.tasks.push(ProvedTask {
            task_id,
            tree_digest: digests.tree_digest,
            verifier_digest: digests.verifier_digest,
            image_digest: "sha256:1".into(),
            engine: "native".into(),
            cheat_group: None,
            nop_runs: 3,
            oracle_runs: 3,
            cheats: vec![],
            flaky_tests: BTreeMap::new(),
            verdict: Status::Accepted,
        });
    }

    fn freeze(&self, frozen: &Path) {
        freeze(&FreezeInput {
            name: "scale",
            version: "v1",
            plan: &self.plan,
            selection: &self.selection,
            materialized: &self.materialized,
            checks: &self.checks,
            proofs: &self.proofs,
            proof_rule: ProofDemand {
                nop_runs: 3,
                oracle_runs: 3,
                confirm_runs: 10,
                flake_bound_permille: 632,
            },
            images: &frozen_images(&self.materialized.tasks, None).unwrap(),
            inputs: &Inputs::new(),
            aliases: &BTreeMap::new(),
            host_inventory: None,
            tasks: &self.tasks,
            frozen,
        })
        .unwrap();
    }
}

/// The files that sums name.
fn files<'a>(directory: &'a Path, sums: &'a str) -> impl Iterator<Item = std::path::PathBuf> + 'a {
    sums.lines().map(|line| directory.join(&line[66..]))
}

/// Hashes the files with the system's own program, some at a time in as many processes as there are processors.
fn sha256sum(directory: &Path, sums: &str) {
    let list = directory.parent().unwrap().join("list");
    let names: String = sums.lines().flat_map(|line| [&line[66..], "\0"]).collect();
    std::fs::write(&list, names).unwrap();
    let processors = std::thread::available_parallelism().unwrap().to_string();
    let status = Command::new("xargs")
        .args(["-0", "-n", "500", "-P", &processors, "sha256sum", "--"])
        .current_dir(directory)
        .stdin(std::fs::File::open(&list).unwrap())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::remove_file(list).unwrap();
}
