//! Made-up repositories and ids in the forms that the public collections use.

use crate::mix::{choice, mixed, suffix};

const WORDS: [&str; 37] = [
    "anchor", "bow", "brig", "buoy", "cable", "capstan", "chart", "clipper", "compass", "cutter", "deck",
    "dinghy", "dock", "ferry", "galley", "halyard", "hull", "jib", "keel", "kite", "ledger", "lock", "mast",
    "mooring", "oar", "pilot", "pontoon", "quay", "rigging", "rudder", "sail", "schooner", "sextant",
    "stern", "tide", "winch", "yawl",
];
const GUILDS: [&str; 6] = ["", "-works", "HQ", "-io", "guild", "-Yard"];
const TAILS: [&str; 8] = ["", "-core", ".py", "_kit", "lib", "2", ".six", "X"];
const KINDS: [(&str, usize); 12] = [
    ("func_basic", 29),
    ("lm_rewrite", 13),
    ("pr", 10),
    ("func_pm_ctrl_shuffle", 9),
    ("combine_file", 9),
    ("func_pm_remove_assign", 6),
    ("func_pm_ctrl_invert_if", 5),
    ("combine_module", 4),
    ("func_pm_remove_cond", 4),
    ("func_pm_class_rm_funcs", 3),
    ("func_pm_op_change", 2),
    ("func_pm_op_swap", 6),
];

/// How many repositories there are.
pub(crate) const REPOSITORIES: usize = GUILDS.len() * WORDS.len();

/// Repositories whose older tasks bear the name of a former owner.
const RENAMED: [usize; 2] = [3, 70];

/// `Owner__name.commit8` of a repository; some tasks of renamed ones bear the former owner.
pub(crate) fn profile(repository: usize, former: bool) -> String {
    let owner = owner(repository);
    let owner = if former { format!("former-{owner}") } else { owner };
    format!("{owner}__{}.{:08x}", name(repository), mixed(repository, 900) as u32)
}

/// The aliases that join the renamed repositories: former key and today's.
pub fn aliases() -> [(String, String); RENAMED.len()] {
    RENAMED.map(|repository| {
        let (owner, name) = (owner(repository), name(repository));
        (format!("former-{owner}/{name}"), format!("{owner}/{name}"))
    })
}

fn owner(repository: usize) -> String {
    format!("{}{}", WORDS[repository % WORDS.len()], GUILDS[repository / WORDS.len()])
}

fn name(repository: usize) -> String {
    format!("{}{}", WORDS[(repository * 11 + 5) % WORDS.len()], TAILS[repository % TAILS.len()])
}

/// The id of the `n`th task.
pub(crate) fn task_id(n: usize, repository: usize) -> String {
    let former = RENAMED.contains(&repository) && mixed(n, 901).is_multiple_of(3);
    let mut left = choice(n, 902, KINDS.iter().map(|(_, weight)| weight).sum());
    let kind = KINDS.iter().find(|(_, weight)| {
        let here = left < *weight;
        left = left.saturating_sub(*weight);
        here
    });
    let kind = kind.map_or("func_basic", |(kind, _)| *kind);
    let profile = profile(repository, former);
    if kind == "pr" { format!("{profile}.pr_{n}") } else { format!("{profile}.{kind}__{}", suffix(n)) }
}

/// The collection's image of a repository, in the form of one of its eras.
pub(crate) fn image(profile: &str, era: usize) -> String {
    match era {
        0 => format!("swesmith.x86_64.{}", profile.to_lowercase()),
        1 => format!("jyangballin/swesmith.x86_64.{}", profile.replacen("__", "_1776_", 1).to_lowercase()),
        _ => format!("swebench/swesmith.x86_64.{}", profile.replacen("__", "_1776_", 1).to_lowercase()),
    }
}

/// `words` made-up words.
pub(crate) fn prose(n: usize, question: u64, words: usize) -> String {
    let words = (0..words).map(|at| WORDS[choice(n * 31 + at, question, WORDS.len())]);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn repositories_and_ids_differ() {
        let repositories: HashSet<String> =
            (0..REPOSITORIES).map(|n| profile(n, false).to_lowercase()).collect();
        assert_eq!(repositories.len(), 222);
        let ids: HashSet<String> = (0..20_000).map(|n| task_id(n, n % REPOSITORIES)).collect();
        assert_eq!(ids.len(), 20_000);
        assert!(ids.iter().any(|id| id.contains(".pr_")) && ids.iter().any(|id| id.starts_with("former-")));
    }
}
