//! Jobs and trials as they are found on disk, whatever wrote them.
//!
//! There are three generations of documents:
//!
//! | generation | job | trial | told by |
//! |---|---|---|---|
//! | present | `result.json` with `stats.n_completed_trials` and its kin; `lock.json` of version 3 | `result.json`, with the policy beside an exception and `reward_valid` | `schema_version` in each document |
//! | older | `result.json` with `stats.n_trials` and `stats.n_errors`, sometimes `trial_results` or `status`; later the present counts; `lock.json` from late on | the same without these keys; first without `config.artifacts`, later with `step_results` | no `schema_version` |
//! | Terminal-Bench | `run_metadata.json`, and `results.json` with all results when the run ended | `<task>/<trial>/results.json`: `is_resolved`, `failure_mode`, `parser_results` | the names of the files |
//!
//! The mean of a job counts trials without a valid reward as 0 in the older generations and leaves them out in the present
//! one. A trial's `reward` counts unless the policy of its exception says otherwise; older results have no policies, and the
//! present table is used. Terminal-Bench counted a trial as resolved or not whatever its failure mode was.
//!
//! Nothing stops at an odd file: it becomes an [`Oddity`], and the rest is read. Nothing is made up: what no document says
//! is `None`, and a trial without a readable result is incomplete. No link is followed, and no document of more than 256 MiB
//! is read.

mod claims;
mod document;
mod field;
mod harbor;
mod head;
mod job;
mod job_documents;
mod list;
mod moment;
mod oddity;
mod outcome;
mod places;
mod python_json;
mod tally;
mod terminal_bench;
mod trial;
mod view;

pub use claims::LostTrial;
pub use document::{Directory, Entries};
pub use job::{AgentName, AgentTally, JobHead, JobState, JobView, TaskTally, read_job, trials};
pub use list::{Listing, is_job, list_jobs};
pub use moment::{Moment, TimeError};
pub use oddity::{Oddity, What};
pub use tally::{Mean, Tally};
pub use trial::{TrialEntry, Trials, is_marked, read_trial};
pub use view::{Failure, Generation, Incomplete, PhaseView, StepView, Tokens, TrialState, TrialView};
