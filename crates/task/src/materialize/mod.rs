//! From a candidate to a task: which files a task directory holds.
//!
//! An instance, its profile, the clean source tree and the settings come in; the files of a Harbor task directory go
//! out, or a refusal with a stable name. Nothing here touches a disk. Same input, same bytes.

mod config_file;
mod dockerfile;
mod hidden;
mod name;
mod plan;
mod refusal;
mod settings;

pub use name::{lower_name, package_name};
pub use plan::{MaterializeInput, TaskFile, TaskFiles, materialize};
pub use refusal::{Refusal, RefusalReason};
pub use settings::{BaseTree, SURFACE_ARCHIVE, Settings, SurfaceArchive, Verifier};
