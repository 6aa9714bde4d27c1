//! Becoming another user.

use std::io;

use rustix::thread::{Gid, Uid};

use crate::shared::account::Identity;

/// Switches the current process over.
pub(super) fn assume(identity: &Identity) -> io::Result<()> {
    let groups: Vec<Gid> = identity.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    // A namespace with a single id refuses to change groups. It has no other group to be in either.
    match rustix::thread::set_thread_groups(&groups) {
        Err(rustix::io::Errno::PERM) => {}
        other => other?,
    }
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    let refused = |error: rustix::io::Errno| match error {
        rustix::io::Errno::INVAL => io::Error::other(format!(
            "user id {} or group id {} does not exist in this sandbox",
            identity.uid, identity.gid
        )),
        error => error.into(),
    };
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(refused)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refused)
}
