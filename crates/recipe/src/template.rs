//! The recipe that `seatrial init` writes.

/// A small recipe with comments; the files it names are written beside it by `seatrial init`.
pub const TEMPLATE: &str = include_str!("template.toml");
