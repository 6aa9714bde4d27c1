//! Text to recipe.

use std::collections::BTreeMap;

use record::SourceRole;
use toml::de::DeTable;

use crate::keys::{section_header, unknown_keys};
use crate::{Mistake, Recipe, RecipeError};

/// Reads a recipe; `file` is its name for messages.
///
/// Unknown keys are all reported at once; then the first value of a wrong type; then everything that is wrong with the
/// values as a whole.
pub fn parse(file: &str, text: &str) -> Result<Recipe, RecipeError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fail = |mistakes| RecipeError::new(file, text, mistakes);
    let syntax = |error: &toml::de::Error| {
        let span = error.span().unwrap_or(0..text.len().min(1));
        let message = error.message().trim().to_owned();
        let help = missing(&message);
        vec![Mistake { span, message, help }]
    };
    let table = DeTable::parse(text).map_err(|error| fail(syntax(&error)))?;
    let unknown = unknown_keys(table.get_ref());
    if !unknown.is_empty() {
        return Err(fail(unknown));
    }
    let recipe: Recipe = toml::from_str(text).map_err(|error| fail(syntax(&error)))?;
    let mistakes = contradictions(&recipe, table.get_ref());
    if mistakes.is_empty() { Ok(recipe) } else { Err(fail(mistakes)) }
}

/// What to do where the message says that something is missing.
fn missing(message: &str) -> Option<String> {
    let name = message.strip_prefix("missing field `")?.strip_suffix('`')?;
    Some(section_header(name).map_or_else(
        || format!("add `{name} = ...`"),
        |header| {
            format!("add the section {header}; `seatrial init DIR` writes a recipe that has all of them")
        },
    ))
}

/// Reads a file of aliases: a table of old repository names and today's, in the form of `[aliases]`.
pub fn parse_aliases(file: &str, text: &str) -> Result<BTreeMap<String, String>, RecipeError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..text.len().min(1));
        let message = error.message().trim().to_owned();
        let help = Some("write one line a repository: \"old/name\" = \"new/name\"".to_owned());
        RecipeError::new(file, text, vec![Mistake { span, message, help }])
    })
}

/// What is wrong with a value of a pool, by the rules of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolMistake {
    /// Which pool, from 0.
    pub pool: usize,
    /// The key of the value.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

/// The error that points at mistakes in pools of a recipe which [`parse`] accepts.
pub fn pool_error(file: &str, text: &str, mistakes: Vec<PoolMistake>) -> RecipeError {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let table = DeTable::parse(text).ok();
    let span = |mistake: &PoolMistake| {
        let pools = table.as_ref()?.get_ref().iter().find(|(key, _)| key.get_ref() == "pool")?.1;
        let pool = pools.get_ref().as_array()?.get(mistake.pool)?;
        let value = pool.get_ref().as_table()?.iter().find(|(key, _)| key.get_ref() == mistake.key)?.1;
        Some(value.span())
    };
    let mistakes = mistakes.into_iter().map(|mistake| {
        let span = span(&mistake).unwrap_or(0..0);
        Mistake { span, message: mistake.message, help: mistake.help }
    });
    RecipeError::new(file, text, mistakes.collect())
}

/// What the types cannot say: names, limits, and parts that need each other.
fn contradictions(recipe: &Recipe, table: &DeTable<'_>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let mut wrong = |path: &[&str], message: String, help: Option<&str>| {
        mistakes.push(Mistake { span: span_of(table, path), message, help: help.map(str::to_owned) });
    };

    let portable = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
    };
    for (key, value) in [("name", &recipe.dataset.name), ("version", &recipe.dataset.version)] {
        if !portable(value) || value.len() > 80 {
            wrong(
                &["dataset", key],
                format!("`{value}` cannot be part of a directory name"),
                Some("use lower-case letters, digits, dots and dashes, at most 80"),
            );
        }
    }

    for (name, source) in &recipe.sources {
        for complaint in crate::sources::complaints(source) {
            wrong(&["sources", name, complaint.key], complaint.message, complaint.help);
        }
    }
    let count = |role| recipe.sources.values().filter(|source| source.role == role).count();
    if count(SourceRole::Instances) + count(SourceRole::Tasks) == 0 {
        wrong(
            &["sources"],
            "no source gives tasks".into(),
            Some("add one with as = \"instances\" or as = \"tasks\""),
        );
    }
    for name in recipe.sets.keys() {
        if recipe.sources.contains_key(name) {
            wrong(
                &["sets", name],
                format!("`{name}` names a source and a set"),
                Some("give one another name"),
            );
        }
    }

    if recipe.pools.is_empty() {
        wrong(&["pool"], "no pool".into(), Some("add a [[pool]]"));
    }
    let mut stages = std::collections::BTreeSet::new();
    for pool in &recipe.pools {
        if !stages.insert(&pool.stage) {
            wrong(&["pool"], format!("two pools are called `{}`", pool.stage), None);
        }
        if pool.target == 0 {
            wrong(&["pool"], format!("pool `{}` has the target 0", pool.stage), None);
        }
    }

    for name in recipe.bases.keys() {
        if name == "host" {
            let message = "`seatrial.local/host` is this machine's own system".to_owned();
            wrong(&["bases", name], message, Some("give the base another name"));
        } else if !portable(name) || name.len() > 80 || name.ends_with(['-', '.']) || name.contains("..") {
            wrong(
                &["bases", name],
                format!("`{name}` cannot be the name of an image"),
                Some("use lower-case letters, digits, single dots and dashes between them, at most 80"),
            );
        }
    }

    let materialize = &recipe.materialize;
    let local = materialize.base.as_deref().and_then(|base| base.strip_prefix("seatrial.local/"));
    if let Some(name) = local.filter(|name| *name != "host" && !recipe.bases.contains_key(*name)) {
        wrong(
            &["materialize", "base"],
            format!("no base is called `{name}`"),
            Some("name its directory under [bases]"),
        );
    }
    if !materialize.workdir.starts_with('/') || materialize.workdir.split('/').any(|part| part == "..") {
        wrong(
            &["materialize", "workdir"],
            format!("`{}` is not an absolute path", materialize.workdir),
            Some("write one such as \"/testbed\""),
        );
    }
    if materialize.agent_timeout_sec == 0 {
        wrong(&["materialize", "agent_timeout_sec"], "a time limit is above 0".into(), None);
    }
    if materialize.cpus == Some(0) {
        wrong(&["materialize", "cpus"], "a number of processors is above 0".into(), None);
    }
    if materialize.memory_mb == Some(0) {
        wrong(&["materialize", "memory_mb"], "a memory limit is above 0".into(), None);
    }

    let prove = &recipe.prove;
    for (key, runs) in [("oracle_runs", prove.oracle_runs), ("nop_runs", prove.nop_runs)] {
        if runs == 0 {
            wrong(&["prove", key], "nothing is proved by 0 runs".into(), Some("3 is usual"));
        }
        if prove.confirm_runs < runs {
            wrong(
                &["prove", "confirm_runs"],
                format!("confirm_runs is {}, less than {key} = {runs}", prove.confirm_runs),
                None,
            );
        }
    }
    if prove.timeout_sec == 0 {
        wrong(&["prove", "timeout_sec"], "a time limit is above 0".into(), None);
    }
    if recipe.resolve.repo_cap == 0 {
        wrong(&["resolve", "repo_cap"], "a cap of 0 leaves no task".into(), None);
    }
    mistakes
}

/// The place of a value, or of the nearest table around it, or the start of the text.
fn span_of(table: &DeTable<'_>, path: &[&str]) -> std::ops::Range<usize> {
    let mut span = 0..0;
    let mut table = table;
    for part in path {
        let Some((_, value)) = table.iter().find(|(key, _)| key.get_ref() == part) else { break };
        span = value.span();
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => break,
        }
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cap, Reserve};
    use crate::template::TEMPLATE;

    fn mistakes(text: &str) -> Vec<String> {
        let error = parse("seatrial.toml", text).expect_err("the recipe was accepted");
        error
            .mistakes()
            .iter()
            .map(|mistake| {
                let (line, column) = error.position(mistake);
                format!("{line}:{column} {} ({})", mistake.message, mistake.help.as_deref().unwrap_or("-"))
            })
            .collect()
    }

    #[test]
    fn the_template_is_a_recipe() {
        let recipe = parse("seatrial.toml", TEMPLATE).unwrap();
        assert!(matches!(recipe.pools[0].cap, Cap::Count(_) | Cap::Percent(_)));
    }

    #[test]
    fn all_unknown_keys_are_named_with_their_near_names() {
        let text = TEMPLATE.replace("target =", "taget =").replace("oracle_runs", "oracle_run");
        let found = mistakes(&text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("unknown key `pool.taget` (did you mean `target`?)"), "{found:?}");
        assert!(
            found[1].contains("unknown key `prove.oracle_run` (did you mean `oracle_runs`?)"),
            "{found:?}"
        );
    }

    #[test]
    fn aliases_stand_in_the_recipe_or_in_a_file() {
        let table = parse("seatrial.toml", &format!("{TEMPLATE}\n[aliases]\n\"a/b\" = \"c/d\"\n")).unwrap();
        let names = parse_aliases("aliases.toml", "\u{feff}\"a/b\" = \"c/d\"\n").unwrap();
        assert_eq!(table.aliases.names(), Some(&names));
        let file = parse("seatrial.toml", &format!("aliases = \"aliases.toml\"\n{TEMPLATE}")).unwrap();
        assert_eq!(file.aliases, crate::Aliases::File("aliases.toml".into()));
        assert!(parse_aliases("aliases.toml", "\"a/b\" = 1\n").is_err());
        let wrong = mistakes(&format!("{TEMPLATE}\n[aliases]\n\"a/b\" = 1\n"));
        assert!(wrong[0].contains("alias `a/b` points at `1`"), "{wrong:?}");
        assert!(mistakes(&format!("aliases = 1\n{TEMPLATE}"))[0].contains("is no alias table"));
    }

    #[test]
    fn held_out_repositories_stand_in_the_recipe_or_in_a_file() {
        let of = |value: &str| parse("seatrial.toml", &format!("{TEMPLATE}\n[check]\nheld_out = {value}\n"));
        assert_eq!(of("[\"a/b\"]").unwrap().check.held_out, crate::HeldOut::Names(vec!["a/b".into()]));
        assert_eq!(of("\"held.txt\"").unwrap().check.held_out, crate::HeldOut::File("held.txt".into()));
        assert_eq!(parse("seatrial.toml", TEMPLATE).unwrap().check, crate::CheckRecipe::default());
        let wrong = |value: &str| mistakes(&format!("{TEMPLATE}\n[check]\nheld_out = {value}\n")).remove(0);
        assert!(wrong("3").contains("is no list of repositories"));
        assert!(wrong("[3]").contains("is no text"));
    }

    #[test]
    fn a_canary_is_a_draw_with_a_budget() {
        let recipe = parse("r", &format!("{TEMPLATE}\n[canary]\nfrom = \"all\"\nsize = 5\n")).unwrap();
        assert_eq!((recipe.canary.from, recipe.canary.context_tokens), (Some(crate::CanarySplit::All), None));
        for (wrong, place) in [("size = 0", "0"), ("from = \"dev\"", "dev"), ("tasks = 30", "tasks")] {
            let found = mistakes(&format!("{TEMPLATE}\n[canary]\n{wrong}\n"));
            assert!(found[0].contains(place), "{found:?}");
        }
    }

    #[test]
    fn what_is_missing_is_told_with_what_to_add() {
        let without = |from: &str, to: &str| {
            let (before, rest) = TEMPLATE.split_once(from).unwrap();
            mistakes(&format!("{before}{}", &rest[rest.find(to).unwrap()..])).remove(0)
        };
        let section = without("[materialize]", "[prove]");
        assert!(section.contains("missing field `materialize` (add the section [materialize];"), "{section}");
        let key = without("target = 2", "cap = 2");
        assert!(key.contains("missing field `target` (add `target = ...`)"), "{key}");
    }

    #[test]
    fn wrong_values_are_refused_where_they_stand() {
        for (from, to, expected) in [
            ("cap = 2", "cap = 0.05", "no cap"),
            ("cap = 2", "cap = \"0%\"", "no cap"),
            ("cap = 2", "cap = -1", "no cap"),
            ("nop_runs = 3", "nop_runs = 0", "nothing is proved by 0 runs"),
            ("cheats = \"per-verifier\"", "cheats = \"some\"", "per-task"),
            ("flaky_tests = \"reject\"", "flaky_tests = \"keep\"", "quarantine"),
            ("workspace = \"sdist\"", "workspace = \"tarball\"", "no workspace"),
            ("name = \"my-set\"", "name = \"../x\"", "cannot be part of a directory name"),
            ("seatrial.local/host", "seatrial.local/site", "no base is called `site`"),
        ] {
            assert!(TEMPLATE.contains(from), "{from}");
            let found = mistakes(&TEMPLATE.replace(from, to));
            assert!(found[0].contains(expected), "{to}: {found:?}");
        }
    }

    #[test]
    fn bases_have_names_of_images() {
        let text = TEMPLATE.replace("seatrial.local/host", "seatrial.local/site");
        let recipe = parse("seatrial.toml", &format!("{text}\n[bases]\nsite = \"bases/site\"\n")).unwrap();
        assert_eq!(recipe.bases["site"], "bases/site");
        for (name, expected) in [
            ("host", "this machine's own system"),
            ("\"A b\"", "cannot be the name"),
            ("a-", "cannot be the name"),
        ] {
            let found = mistakes(&format!("{TEMPLATE}\n[bases]\n{name} = \"x\"\n"));
            assert!(found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn caps_and_reserves_have_two_forms() {
        let text =
            TEMPLATE.replace("\ncap = 2", "\ncap = \"5%\"").replace("reserve = \"rest\"", "reserve = 7");
        let recipe = parse("seatrial.toml", &text).unwrap();
        assert_eq!(recipe.pools[0].cap, Cap::Percent("5".into()));
        assert_eq!(recipe.pools[0].reserve, Reserve::Count(7));
    }

    #[test]
    fn broken_toml_shows_its_place() {
        let found = mistakes("[dataset\nname = 1\n");
        assert!(found[0].starts_with("1:"), "{found:?}");
    }
}
