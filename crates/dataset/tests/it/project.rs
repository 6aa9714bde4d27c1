//! Small projects: task directories and the documents that belong to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use artifact::{Document, Inputs};
use dataset::{DatasetError, FreezeInput, Frozen, ProofDemand, freeze, frozen_images};
use ident::{Digest, RepoKey, TaskId};
use record::{
    CheckDocument, MaterializeDocument, MaterializedTask, PlanDocument, ProofDocument, ProvedTask,
    SelectedTask, Selection, SourceInput, Split, Status,
};
use task::{digest_task, tree_digest_of};

use crate::documents::about_nothing;

pub struct Project {
    pub directory: tempfile::TempDir,
    pub selection: Selection,
    pub materialized: MaterializeDocument,
    pub checks: CheckDocument,
    pub proofs: ProofDocument,
    pub inputs: Inputs,
    pub aliases: BTreeMap<String, String>,
}

pub fn task_id(repo: &str, n: usize) -> TaskId {
    TaskId::new(format!("{}.0123abcd.pr_{n}", repo.replace('/', "__"))).unwrap()
}

pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Writes a task that Harbor can read, with a link, an empty directory and an executable file.
pub fn write_task(path: &Path, id: &TaskId) {
    write(
        &path.join("task.toml"),
        &format!("schema_version = \"1.4\"\n[task]\nname = \"acme/{id}\"\n[verifier]\ntimeout_sec = 180.5\n"),
    );
    write(&path.join("instruction.md"), "Repair it.\n");
    write(&path.join("environment/Dockerfile"), "FROM registry.invalid/base:1\n");
    write(&path.join("environment/odd\nname"), "x\n");
    write(&path.join("tests/test.sh"), "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n");
    write(&path.join("solution/solve.sh"), "#!/bin/sh\ntrue\n");
    std::os::unix::fs::symlink("test.sh", path.join("tests/again.sh")).unwrap();
    std::fs::create_dir(path.join("environment/empty")).unwrap();
    set_mode(&path.join("tests/test.sh"), 0o755);
    set_mode(&path.join("solution/solve.sh"), 0o700);
}

impl Project {
    /// Writes one task for each repository and split.
    pub fn new(tasks: &[(&str, Split)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (materialized, checks, proofs) = about_nothing();
        let mut project = Self {
            selection: Selection {
                schema: Selection::SCHEMA.into(),
                rules: dataset::resolve::RULES.into(),
                inputs: Inputs::new(),
                tasks: vec![],
                shortages: vec![],
            },
            materialized,
            checks,
            proofs,
            inputs: [("seatrial.lock".to_owned(), Digest::of("lock"))].into(),
            aliases: BTreeMap::new(),
            directory,
        };
        for (n, (repo, split)) in tasks.iter().enumerate() {
            project.add(&task_id(repo, n), RepoKey::parse(repo).unwrap(), *split);
        }
        project
    }

    fn add(&mut self, id: &TaskId, repo: RepoKey, split: Split) {
        let path = self.tasks().join(id.as_str());
        write_task(&path, id);
        let digests = digest_task(&path).unwrap();
        let verifier_digest = tree_digest_of(&path.join("tests")).unwrap();
        self.selection.tasks.push(SelectedTask {
            task_id: id.clone(),
            stage: "pool".into(),
            repo: repo.clone(),
            split,
            reserve: false,
            evidence_tier: Some(1),
            tree_digest: digests.tree_digest,
        });
        self.materialized.tasks.push(MaterializedTask {
            task_id: id.clone(),
            stage: "pool".into(),
            repo,
            content_hash: digests.content_hash,
            task_checksum: digests.task_checksum,
            tree_digest: digests.tree_digest,
            verifier_digest,
            base_image: "registry.invalid/base:1".into(),
            copy_of: None,
            workspace_source: "sha256:0".into(),
            instance_digest: Digest::of(id.as_str()),
            quarantined: vec![],
        });
        self.proofs.tasks.push(ProvedTask {
            task_id: id.clone(),
            tree_digest: digests.tree_digest,
            verifier_digest,
            image_digest: "sha256:1".into(),
            engine: "native".into(),
            cheat_group: None,
            nop_runs: 3,
            oracle_runs: 3,
            cheats: vec!["skip-all".parse().unwrap()],
            flaky_tests: BTreeMap::new(),
            verdict: Status::Accepted,
        });
    }

    /// Makes the documents fit a task that was changed.
    pub fn redigest(&mut self, n: usize) {
        let path = self.task(n);
        let digests = digest_task(&path).unwrap();
        let verifier_digest = tree_digest_of(&path.join("tests")).unwrap();
        self.selection.tasks[n].tree_digest = digests.tree_digest;
        let materialized = &mut self.materialized.tasks[n];
        materialized.content_hash = digests.content_hash;
        materialized.task_checksum = digests.task_checksum;
        materialized.tree_digest = digests.tree_digest;
        materialized.verifier_digest = verifier_digest;
        let proof = &mut self.proofs.tasks[n];
        proof.tree_digest = digests.tree_digest;
        proof.verifier_digest = verifier_digest;
    }

    /// Three repositories in three splits, four tasks.
    pub fn sample() -> Self {
        Self::new(&[
            ("acme/widgets", Split::Train),
            ("acme/widgets", Split::Train),
            ("acme/gears", Split::Validation),
            ("other/x", Split::Test),
        ])
    }

    pub fn tasks(&self) -> PathBuf {
        self.directory.path().join("tasks")
    }

    pub fn task(&self, n: usize) -> PathBuf {
        self.tasks().join(self.selection.tasks[n].task_id.as_str())
    }

    pub fn freeze(&self) -> Result<Frozen, DatasetError> {
        let source = SourceInput {
            revision: Some("0123".into()),
            sha256: [("data.parquet".to_owned(), Digest::of("data"))].into(),
            rows: 4,
        };
        let plan = PlanDocument {
            schema: PlanDocument::SCHEMA.into(),
            rules: "plan/1".into(),
            inputs: [("swesmith".to_owned(), source)].into(),
            pools: vec![],
            tasks: vec![],
        };
        freeze(&FreezeInput {
            name: "sample",
            version: "v1",
            plan: &plan,
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
            images: &frozen_images(&self.materialized.tasks, None)?,
            inputs: &self.inputs,
            aliases: &self.aliases,
            host_inventory: Some(b"{}\n"),
            tasks: &self.tasks(),
            frozen: &self.directory.path().join("frozen"),
        })
    }
}

/// Everything below a directory: path, kind with mode, and content or link text.
pub fn contents(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(root).min_depth(1) {
        let entry = entry.unwrap();
        let path = entry.path();
        let data = if entry.path_is_symlink() {
            std::fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()
        } else if entry.file_type().is_file() {
            std::fs::read(path).unwrap()
        } else {
            vec![]
        };
        let mode = entry.metadata().unwrap().mode();
        found.insert(path.strip_prefix(root).unwrap().to_owned(), (mode, data));
    }
    found
}
