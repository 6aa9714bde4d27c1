//! How the tests of public repositories are run and how their logs are read.
//!
//! `data/profiles.json` holds facts about the repositories of one public collection: commands, limits, forms of logs,
//! names of tool chains. A recipe's own profiles come first; these are asked where it has none.

mod data;
mod key;
mod repository;

pub use data::{PROFILES_JSON, known_profiles, profile_for};
pub use key::{ProfileKey, ProfileKeyError};
pub use repository::{Language, ProfileError, RepositoryProfile, Unverifiable};
