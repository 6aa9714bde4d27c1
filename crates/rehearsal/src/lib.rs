//! A complete synthetic universe of public data, as large as the collections that the planning rules were written for.
//!
//! Nothing comes in but how much text each row carries; a project directory goes out: a recipe, Parquet files of
//! instances and trajectories, reward means, image states and id lists. The same options give the same bytes on every
//! machine. Names, patches and texts are made up; the numbers are tuned so that a plan by the rules `plan/1` reproduces
//! every number of the full-scale run that can be checked from public inputs. Tests and measurements use this crate;
//! the program never does.

mod mix;
mod names;
mod project;
mod table;
mod universe;

pub use names::aliases;
pub use project::{Options, write_project};
pub use universe::{MODELS, Run, Task, Universe};
