//! Real sandboxes over the host's own `/usr`.

mod commands;
mod deadlines;
mod host;
mod isolation;
mod layers;
mod lifetime;
mod limits;
mod rootless;
mod streams;
mod transfer;
