//! Users by name or number, looked up in the sandbox's own `/etc/passwd` and `/etc/group`.
//!
//! Both files belong to the sandbox, so they may be anything: they are opened without waiting, must be regular
//! files, and are read up to a bound.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// Largest account file that is read.
const MAX_FILE: u64 = 4 << 20;

/// `O_NONBLOCK` and `O_NOCTTY` of the architectures that Linux programs are built for here.
const DO_NOT_WAIT: i32 = 0o4000 | 0o400;

/// Who a command runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Further groups.
    pub(crate) groups: Vec<u32>,
    /// Home directory, `/` when the account has none.
    pub(crate) home: String,
}

/// Looks `user[:group]` up.
pub(crate) fn look_up(spec: &str) -> io::Result<Identity> {
    let (passwd, group) = (read_bounded("/etc/passwd"), read_bounded("/etc/group"));
    // Numbers need no names: whatever a command did to the files, root can still be had.
    let number = |part: &str| part.is_empty() || part.parse::<u32>().is_ok();
    if spec.split(':').all(number) {
        return resolve(spec, &passwd.unwrap_or_default(), &group.unwrap_or_default())
            .map_err(io::Error::other);
    }
    resolve(spec, &passwd?, &group?).map_err(io::Error::other)
}

/// Reads a file of the sandbox; a missing one is empty.
fn read_bounded(path: &str) -> io::Result<String> {
    let file = match OpenOptions::new().read(true).custom_flags(DO_NOT_WAIT).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(io::Error::other(format!("cannot read {path} of the sandbox: {error}"))),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{path} of the sandbox is not a file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("{path} of the sandbox is larger than {MAX_FILE} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Decides who `user[:group]` is, from the text of the two files.
fn resolve(spec: &str, passwd: &str, group: &str) -> Result<Identity, String> {
    let (user, wanted_group) = match spec.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (spec, None),
    };
    let user = if user.is_empty() { "0" } else { user };
    let number = user.parse::<u32>().ok();
    let account = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
        let (uid, gid) = (uid.parse::<u32>().ok()?, gid.parse::<u32>().ok()?);
        // A number is never taken for a name: the files are the sandbox's to forge.
        number
            .map_or(name == user, |number| number == uid)
            .then(|| (name.to_owned(), uid, gid, home.to_owned()))
    });
    let (name, uid, own_gid, home) = match (account, number) {
        (Some(found), _) => found,
        (None, Some(uid)) => (String::new(), uid, 0, String::new()),
        (None, None) => return Err(format!("no user `{user}` in /etc/passwd of the sandbox")),
    };
    let gid = match wanted_group {
        None | Some("") => own_gid,
        Some(wanted) => match wanted.parse::<u32>().ok().or_else(|| group_id(group, wanted)) {
            Some(gid) => gid,
            None => return Err(format!("no group `{wanted}` in /etc/group of the sandbox")),
        },
    };
    let groups =
        if wanted_group.is_some() || name.is_empty() { Vec::new() } else { memberships(group, &name) };
    let home = if home.is_empty() { "/".to_owned() } else { home };
    Ok(Identity { uid, gid, groups, home })
}

fn group_id(group: &str, wanted: &str) -> Option<u32> {
    group.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(wanted)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

fn memberships(group: &str, user: &str) -> Vec<u32> {
    let mut found: Vec<u32> = group
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [_, _, gid, members, ..] = fields[..] else { return None };
            members.split(',').any(|member| member == user).then(|| gid.parse().ok()).flatten()
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken line\napp:x:1000:1001::/home/app:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:app,other\napp:x:1001:\naudio:x:29:other,app\n";

    fn id(spec: &str) -> Result<Identity, String> {
        resolve(spec, PASSWD, GROUP)
    }

    #[test]
    fn names_and_numbers_resolve_to_the_same_account() {
        let app = Identity { uid: 1000, gid: 1001, groups: vec![29, 50], home: "/home/app".into() };
        assert_eq!(id("app").unwrap(), app);
        assert_eq!(id("1000").unwrap(), app);
    }

    #[test]
    fn an_explicit_group_replaces_the_memberships() {
        let expected = Identity { uid: 1000, gid: 50, groups: vec![], home: "/home/app".into() };
        assert_eq!(id("app:staff").unwrap(), expected);
        assert_eq!(id("app:50").unwrap(), expected);
        assert_eq!(id("1000:staff").unwrap(), expected);
    }

    #[test]
    fn a_number_without_account_is_taken_as_it_is() {
        assert_eq!(id("4242").unwrap(), Identity { uid: 4242, gid: 0, groups: vec![], home: "/".into() });
        assert_eq!(id("4242:7").unwrap().gid, 7);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(spec in "[a-z0-9:]{0,12}", passwd in "[a-z0-9:\\n]{0,120}", group in "[a-z0-9:,\\n]{0,120}") {
            if let Ok(identity) = resolve(&spec, &passwd, &group) {
                proptest::prop_assert!(identity.home.starts_with('/') || !passwd.is_empty());
            }
        }

        #[test]
        fn numbers_always_resolve(uid: u32, gid: u32, passwd in "[a-z0-9:\\n]{0,120}", group in "[a-z0-9:,\\n]{0,120}") {
            let forged = format!("{uid}:x:1:1::/:\n{passwd}");
            let identity = resolve(&format!("{uid}:{gid}"), &forged, &format!("{gid}:x:1:\n{group}")).unwrap();
            proptest::prop_assert_eq!((identity.uid, identity.gid), (uid, gid));
        }
    }

    #[test]
    fn empty_means_root_and_unknown_names_are_refused() {
        assert!(id("").unwrap().uid == 0);
        assert!(id("nobody-here").unwrap_err().contains("no user `nobody-here`"));
        assert!(id("app:no-such").unwrap_err().contains("no group `no-such`"));
    }
}
