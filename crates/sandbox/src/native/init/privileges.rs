//! What a command may do: capabilities, resource limits, no new privileges, the system call filter.

use std::io;

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::native::init::syscalls::Filters;
use crate::native::init::user;
use crate::shared::account::Identity;

/// What root keeps inside: enough to install packages, own files and switch users, nothing that reaches the kernel's
/// configuration. Docker's default set without `MKNOD`, `NET_RAW` and `AUDIT_WRITE`.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SETFCAP);

/// What holds for every command of a sandbox.
pub(super) struct Policy {
    /// The system call filter.
    filters: Filters,
    /// Most bytes of one file.
    largest_file: Option<u64>,
    /// The scheduling priority of commands, which is the engine's own.
    nice: i32,
}

impl Policy {
    pub(super) fn new(largest_file: Option<u64>, nice: i32) -> io::Result<Self> {
        Ok(Self { filters: Filters::compile()?, largest_file, nice })
    }
}

/// Takes every capability outside the kept set out of the bounding set, for this process and all its children.
pub(super) fn limit_bounding_set() -> io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if KEPT.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The first number this kernel does not know: there are no higher ones.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Gives up the init's own priority, for what is not there to end others.
pub(super) fn calm_down(policy: &Policy) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, policy.nice)?)
}

/// Turns the current process into one that is ready to become the command of `identity`. There is no way back.
pub(super) fn drop_to(identity: &Identity, policy: &Policy) -> io::Result<()> {
    let bound = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    // One byte, not none: with none the kernel still hands a crash to the host's handler when it has one.
    rustix::process::setrlimit(Resource::Core, bound(1))?;
    if let Some(bytes) = policy.largest_file {
        rustix::process::setrlimit(Resource::Fsize, bound(bytes))?;
    }
    calm_down(policy)?;
    user::assume(identity)?;
    let kept = if identity.uid == 0 { KEPT } else { CapabilitySet::empty() };
    rustix::thread::clear_ambient_capability_set()?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    policy.filters.apply()
}
