//! What this crate and the guest, a program without any dependency, have in common. The guest includes these files as
//! they are, so they use the standard library alone.

#[cfg(target_os = "linux")]
pub(crate) mod account;
pub(crate) mod capture;
#[cfg(target_os = "linux")]
pub(crate) mod process;
pub(crate) mod wire;
