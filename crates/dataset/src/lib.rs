//! Resolve, split, freeze, export.

pub mod resolve;
