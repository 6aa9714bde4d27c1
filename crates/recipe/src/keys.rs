//! Which keys a recipe knows, so that all unknown ones are found in one pass with their near names.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Mistake;

/// The keys of one table, or a table whose keys are names given by the user.
enum Shape {
    Table(&'static [(&'static str, Shape)]),
    Named(&'static Shape),
    List(&'static Shape),
    Value,
}

use Shape::{List, Named, Table, Value};

const RECIPE: Shape = Table(&[
    ("dataset", Table(&[("name", Value), ("version", Value), ("signing_key", Value)])),
    (
        "sources",
        Named(&Table(&[
            ("kind", Value),
            ("as", Value),
            ("path", Value),
            ("repo", Value),
            ("revision", Value),
            ("files", Value),
            ("dataset", Value),
            ("columns", Value),
            ("expect_rows", Value),
        ])),
    ),
    ("sets", Named(&Value)),
    ("evidence", Table(&[("cross_source", Value), ("models", Named(&Value))])),
    ("aliases", Named(&Value)),
    ("bases", Named(&Value)),
    (
        "pool",
        List(&Table(&[
            ("stage", Value),
            ("members", Value),
            ("target", Value),
            ("cap", Value),
            ("retain", Value),
            ("force", Value),
            ("require_image", Value),
            ("relax", Value),
            ("reserve", Value),
        ])),
    ),
    (
        "materialize",
        Table(&[
            ("workspace", Value),
            ("base", Value),
            ("workdir", Value),
            ("organisation", Value),
            ("from", Value),
            ("layout", Value),
            ("agent_timeout_sec", Value),
            ("cpus", Value),
            ("memory_mb", Value),
        ]),
    ),
    ("check", Table(&[("held_out", Value)])),
    (
        "kubernetes",
        Table(&[
            ("context", Value),
            ("namespace", Value),
            ("start_limit_sec", Value),
            ("accept_open_network", Value),
            ("probe", Value),
            ("node_selector", Value),
            ("tolerations", Value),
            ("runtime_class", Value),
            ("priority_class", Value),
            ("annotations", Value),
            ("image_pull_secrets", Value),
            ("capabilities", Value),
        ]),
    ),
    (
        "images",
        Table(&[
            ("registry", Value),
            ("namespace", Value),
            ("shard_template", Value),
            ("shards", Value),
            ("tag_limit", Value),
            ("placement", Value),
            ("overflow", Value),
            ("create_repositories", Value),
            ("overwrite", Value),
            ("hash_version", Value),
            ("platform", Value),
            ("sources", Value),
        ]),
    ),
    (
        "prove",
        Table(&[
            ("oracle_runs", Value),
            ("nop_runs", Value),
            ("confirm_runs", Value),
            ("timeout_sec", Value),
            ("engine", Value),
            ("cheats", Value),
            ("flaky_tests", Value),
        ]),
    ),
    (
        "resolve",
        Table(&[
            ("repo_cap", Value),
            ("split", Table(&[("train", Value), ("validation", Value), ("test", Value)])),
            ("allow_shortfall", Value),
        ]),
    ),
    ("export", List(&Table(&[("format", Value)]))),
    ("agents", Table(&[("prompts", Value)])),
    ("canary", Table(&[("from", Value), ("size", Value), ("context_tokens", Value)])),
]);

/// How a section of the recipe is headed; none for what is no section.
pub(crate) fn section_header(name: &str) -> Option<String> {
    let Table(sections) = RECIPE else { return None };
    sections.iter().find(|(section, _)| *section == name).and_then(|(_, shape)| match shape {
        Table(_) => Some(format!("[{name}]")),
        Named(_) => Some(format!("[{name}.NAME]")),
        List(_) => Some(format!("[[{name}]]")),
        Value => None,
    })
}

/// Every unknown key of the recipe.
pub(crate) fn unknown_keys(recipe: &DeTable<'_>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    walk(recipe, &RECIPE, "", &mut mistakes);
    mistakes
}

fn walk(table: &DeTable<'_>, shape: &Shape, path: &str, mistakes: &mut Vec<Mistake>) {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let inner = match shape {
            Table(keys) => match keys.iter().find(|(known, _)| *known == name) {
                Some((_, inner)) => inner,
                None => {
                    mistakes.push(unknown(key, &full, path, keys));
                    continue;
                }
            },
            Named(inner) => *inner,
            List(_) | Value => continue,
        };
        descend(value, inner, &full, mistakes);
    }
}

fn descend(value: &Spanned<DeValue<'_>>, shape: &Shape, path: &str, mistakes: &mut Vec<Mistake>) {
    match (value.get_ref(), shape) {
        (DeValue::Table(table), Table(_) | Named(_)) => walk(table, shape, path, mistakes),
        (DeValue::Array(items), List(inner)) => {
            for item in items {
                descend(item, inner, path, mistakes);
            }
        }
        _ => {}
    }
}

fn unknown(
    key: &Spanned<std::borrow::Cow<'_, str>>,
    full: &str,
    path: &str,
    keys: &[(&'static str, Shape)],
) -> Mistake {
    let name: &str = key.get_ref();
    let near = keys
        .iter()
        .map(|(known, _)| (strsim::damerau_levenshtein(name, known), *known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .min();
    let help = match near {
        Some((_, known)) => format!("did you mean `{known}`?"),
        None => {
            let mut known: Vec<_> = keys.iter().map(|(known, _)| format!("`{known}`")).collect();
            known.sort();
            let place = if path.is_empty() { "a recipe".into() } else { format!("`{path}`") };
            format!("{place} knows {}", known.join(", "))
        }
    };
    Mistake { span: key.span(), message: format!("unknown key `{full}`"), help: Some(help) }
}
