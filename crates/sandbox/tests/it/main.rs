//! Real sandboxes over the host's own `/usr`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops at what it did not expect, and says what it skips"
)]

mod conformance;
mod docker;
mod host;
mod isolation;
mod kubernetes;
mod layers;
mod lifetime;
mod limits;
mod rootless;
