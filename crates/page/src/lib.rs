//! Pages for people: one file each, which needs nothing else, on a screen or on paper.
//!
//! Text and numbers come in; HTML without scripts goes out, with plots as SVG inside. Whatever the text holds, nothing in it
//! becomes a mark. Pure.

mod html;
mod ranking;
mod svg;

pub use html::{escape, facts, page, table};
pub use ranking::{Part, Series, Width, key, ranking, skyline};
pub use svg::{Measured, bars, differences, histogram, intervals, lines, short};
