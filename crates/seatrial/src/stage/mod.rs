//! The stages of a recipe, one file each, in the order of the work.
//!
//! A stage has two faces: the command, and a function that `seatrial up` calls. Each reads artifacts, refuses stale ones, and
//! writes its own.

pub mod check;
pub mod explain;
pub mod export;
pub mod freeze;
pub mod images;
pub mod life;
pub mod materialize;
pub mod plan;
pub mod prove;
pub mod quarantine;
pub mod resolve;
pub mod source;
pub mod status;
pub mod up;
