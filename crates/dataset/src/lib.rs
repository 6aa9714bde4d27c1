//! Resolve, split, freeze, export.
