//! Task candidates as the public collections give them.

use std::collections::BTreeMap;

use ident::TaskId;
use serde::{Deserialize, Serialize};

/// One row of an instance collection (SWE-smith columns). `patch` introduces the bug; its reverse is the gold fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// The task's id.
    pub instance_id: TaskId,
    /// Unified diff that introduces the bug into the clean tree.
    pub patch: String,
    /// Tests that fail with the bug and pass without it.
    #[serde(rename = "FAIL_TO_PASS")]
    pub fail_to_pass: Vec<String>,
    /// Tests that pass either way.
    #[serde(rename = "PASS_TO_PASS")]
    pub pass_to_pass: Vec<String>,
    /// The collection's image for the repository, as given.
    pub image_name: String,
    /// The collection's name for the repository, as given.
    pub repo: String,
    /// What an agent is told; may be empty in public collections.
    pub problem_statement: String,
}

/// How the tests of one repository are run, and where its sources come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The collection's name for the repository, equal to [`Instance::repo`].
    pub repo: String,
    /// Name of the package on the package index, for fetched source distributions.
    #[serde(default)]
    pub package: Option<String>,
    /// Version of the package.
    #[serde(default)]
    pub version: Option<String>,
    /// File name of the source distribution.
    #[serde(default)]
    pub sdist: Option<String>,
    /// SHA-256 of the source distribution, 64 hexadecimal digits.
    #[serde(default)]
    pub sha256: Option<String>,
    /// What runs the tests, by the verifier's name of it (`pytest`, `go`, `mocha`, ...); told from the command when absent.
    #[serde(default)]
    pub framework: Option<String>,
    /// The suite's command, split as a shell splits words; no other shell syntax is read.
    pub test_cmd: String,
    /// Environment of the suite.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Shell globs, relative to the root of the tree, of files that belong to the tests, beside those with the
    /// framework's conventional names.
    #[serde(default)]
    pub test_files: Vec<String>,
    /// Time limit of one suite run, in seconds.
    #[serde(default)]
    pub timeout_sec: Option<u64>,
}
