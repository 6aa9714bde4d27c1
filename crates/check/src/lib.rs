//! Static rules over task directories: everything that can be refused without running anything.
//!
//! What comes in is a directory, read once into a [`TaskView`] under bounds and without following a link out of it;
//! what goes out is one list of [`Finding`](record::Finding)s in order of file, line and rule. Rules are functions
//! from the view to findings: they read no file, know no clock and run nothing, so the same tree always gives the
//! same list. Every rule has a name, a severity and a written explanation ([`rules`], [`explain`]).
//!
//! A finding of severity error means that the task cannot be used as it is. A rule that cannot be that sure says
//! warning, or is an error only for tasks that this program wrote itself ([`Profile::Materialized`]).

mod check;
mod facts;
mod gold;
mod history;
mod instance;
mod lines;
mod options;
mod report;
mod rule;
mod rules;
mod sarif;
mod set;
mod shell;
mod view;

pub use check::{CheckError, Checked, accepted, check_all, check_path, check_task};
pub use options::{CheckOptions, Profile};
pub use rule::{Family, Rule, explain, rules};
pub use rules::check_patch;
pub use sarif::sarif;
pub use set::{SetOptions, TaskDigest, check_set};
pub use view::{Archive, ConfigState, Entry, FileEntry, Member, MemberKind, TaskView};
