//! Accounts and groups without people.

/// Users and groups below this number belong to the system.
const FIRST_PERSON: u32 = 1000;
/// `nobody` and `nogroup`.
const NOBODY: u32 = 65_534;

fn belongs_to_system(id: &str) -> bool {
    id.parse::<u32>().is_ok_and(|id| id < FIRST_PERSON || id == NOBODY)
}

/// Keeps the system's accounts of a passwd file, without real names and passwords.
pub(super) fn passwd(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [name, _, uid, gid, _, home, shell] = fields[..]
            && belongs_to_system(uid)
        {
            out.extend([name, ":x:", uid, ":", gid, "::", home, ":", shell, "\n"]);
        }
    }
    out
}

/// Keeps the system's groups of a group file, with those members that `accounts`, a passwd file, has.
pub(super) fn group(text: &str, accounts: &str) -> String {
    let known: Vec<&str> = accounts.lines().filter_map(|line| line.split(':').next()).collect();
    let mut out = String::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [name, _, gid, members] = fields[..]
            && belongs_to_system(gid)
        {
            let members: Vec<&str> = members.split(',').filter(|member| known.contains(member)).collect();
            out.extend([name, ":x:", gid, ":", &members.join(","), "\n"]);
        }
    }
    out
}
