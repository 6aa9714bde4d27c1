//! Packages: a frozen set as one archive.
//!
//! `<set>.tar.zst` holds the directory `<set>/` and what `SHA256SUMS` and the manifest name below it, in ascending order of paths, with
//! modes 0755 and 0644 and no times or owners. The same set gives the same bytes; reports beside the set are no part of it.

mod pack;
mod unpack;

pub(crate) use pack::pack;
pub(crate) use unpack::{PackageFault, UnpackLimits, unpack};

/// The ending of a package's name.
pub(crate) const SUFFIX: &str = ".tar.zst";
/// The ending of the file beside a package that holds its SHA-256, after the package's own name.
pub(crate) const SUM_SUFFIX: &str = ".sha256";
