//! Test logs to test statuses to rewards; the same logic vendored into tasks.
//!
//! What comes in: the bytes of a recorded log ([`parse_log`]) or of the report the pytest plugin writes
//! ([`read_report`]), the tests a task requires, the exit status of the suite, and on the host the bytes of the
//! reward files. What goes out: a [`Verdict`] ([`decide`]) and a [`Reward`] ([`read_reward`]). Everything here is a
//! function from values to values; files, processes and time belong to the callers. [`vendored`] holds the Python
//! twin that runs inside a task and knows the formats of [`Framework`]; tests keep the two equal. [`profile_for`] says
//! how the suite of a public repository is run and which [`LogFormat`] its log has.
//!
//! Invariants: a run that does not count never gets reward 1; an unreadable reward is an error and never 0; the
//! same input gives the same verdict, byte for byte.
//!
//! ```
//! use grade::{Framework, Required, decide, parse_log, read_reward};
//!
//! let log = b"tests/test_shop.py::test_total PASSED   [ 50%]\ntests/test_shop.py::test_till FAILED   [100%]\n";
//! let run = parse_log(Framework::Pytest, log, None);
//! let fail_to_pass = ["tests/test_shop.py::test_total".to_owned()];
//! let required = Required { fail_to_pass: &fail_to_pass, pass_to_pass: &[], pass_to_pass_only: false };
//! let verdict = decide(required, &run, Some(1));
//! assert_eq!(verdict.reward, Some(1));
//!
//! let reward = read_reward(Some(b"1.0\n"), None, None)?;
//! assert!(reward.is_full());
//! # Ok::<(), grade::RewardError>(())
//! ```

mod config;
mod json;
mod log;
mod profiles;
mod report;
mod reward;
mod run;
mod status;
mod suite;
mod surface;
pub mod vendored;
mod verdict;

pub use config::{CONFIG_SCHEMA, ConfigError, VerifierConfig};
pub use log::{
    Framework, LogFormat, Marks, SWE_SMITH_MARKS, TestNames, UnknownFormat, parse_harness_log, parse_log,
    parse_log_named,
};
pub use profiles::{
    Language, PROFILES_JSON, ProfileError, ProfileKey, ProfileKeyError, RepositoryProfile, Unverifiable,
    known_profiles, profile_for,
};
pub use report::{MAX_REPORT_BYTES, REPORT_SCHEMA, read_report};
pub use reward::{Reward, RewardError, RewardSource, read_reward};
pub use run::{Completion, SuiteRun};
pub use status::{StatusMap, TestStatus};
pub use surface::{Surface, SurfacePatterns};
pub use verdict::{
    Outcome, Reason, Required, RestoredSurface, Tally, VERDICT_SCHEMA, Verdict, VerifierReport, decide,
};
