//! One reader a role: rows become records or faults.

mod evidence;
mod ids;
mod instances;
mod profiles;
mod table;
mod task_dirs;

pub(crate) use evidence::{IMAGE_STATES, REWARD_MEANS, TRAJECTORIES};
pub(crate) use ids::IDS;
pub use instances::InstanceKey;
pub(crate) use instances::{INSTANCE_KEYS, INSTANCES};
pub(crate) use profiles::PROFILES;
pub(crate) use table::{Columns, TableReader};
pub use task_dirs::TaskDirectory;
pub(crate) use task_dirs::{are_as_locked, hash_task_directories, hash_tree, list_task_directories};
