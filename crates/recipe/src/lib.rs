//! `seatrial.toml`: parse, validate, point at the line that is wrong.
//!
//! The text of a recipe comes in; a [`Recipe`] with checked values goes out, or a [`RecipeError`] that shows every
//! mistake with its place and a suggestion. Nothing here touches the files that a recipe names.

mod error;
mod keys;
mod model;
mod parse;
mod sources;
mod template;

pub use error::{Mistake, RecipeError};
pub use model::{
    AgentsRecipe, Aliases, CanaryRecipe, CanarySplit, Cap, CheatPolicy, CheckRecipe, CrossSource,
    DatasetRecipe, EngineName, EvidenceRecipe, ExportFormat, ExportRecipe, FlakyPolicy, HeldOut,
    MaterializeRecipe, PoolRecipe, ProveRecipe, Recipe, Reserve, ResolveRecipe, SourceRecipe, SplitSizes,
    Texts, Workspace,
};
pub use parse::{PoolMistake, parse, parse_aliases, pool_error};
pub use template::TEMPLATE;
