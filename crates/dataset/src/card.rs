//! The data set card: what people read first.

use std::collections::{BTreeMap, BTreeSet};

use ident::RepoKey;
use record::{CheatName, Split};

use crate::{FrozenTask, ImageForm, Manifest};

const SPLITS: [Split; 3] = [Split::Train, Split::Validation, Split::Test];

/// Writes the card: a YAML header that hubs read, tables of splits, pools and repositories, and how the tasks were
/// proved.
pub(crate) fn card(manifest: &Manifest) -> String {
    [
        header(manifest),
        overview(manifest),
        sizes(manifest),
        proofs(manifest),
        images(manifest),
        shortages(manifest),
        repositories(&manifest.tasks),
        CHECKING.to_owned(),
    ]
    .concat()
}

const CHECKING: &str = "## Checking a copy

```
sha256sum --check --quiet SHA256SUMS
seatrial freeze --check .
```

The first command compares every file; the second also executable bits, links, the semantic digest and the isolation
of the splits, with `--online` the images, and with `--pubkey` who signed the attestation that lies beside the set.
";

fn header(manifest: &Manifest) -> String {
    let size = match manifest.counts.tasks {
        0..1_000 => "n<1K",
        1_000..10_000 => "1K<n<10K",
        _ => "10K<n<100K",
    };
    // A JSON string is a YAML string, whatever it holds.
    let name = serde_json::Value::from(format!("{} {}", manifest.name, manifest.version));
    format!(
        "---\npretty_name: {name}\ntask_categories:\n- reinforcement-learning\ntags:\n- code\n- agents\n- harbor\n\
         size_categories:\n- {size}\n---\n\n"
    )
}

fn overview(manifest: &Manifest) -> String {
    let Manifest { name, version, counts, semantic_digest, .. } = manifest;
    format!(
        "# {name} {version}\n\n{} tasks from {} repositories. Each task is a Harbor task directory below `tasks/`; \
         `manifest.json` names its split, its origin and its digests, and `SHA256SUMS` the digest of every file. No \
         repository stands in two splits.\n\nSemantic digest: `{semantic_digest}`\n\n",
        counts.tasks, counts.repositories,
    )
}

fn sizes(manifest: &Manifest) -> String {
    let mut rows = Vec::new();
    for (stage, all) in &manifest.counts.pools {
        let count = |split| {
            let tasks = manifest.tasks.iter();
            tasks.filter(|task| task.stage == *stage && task.split == split).count() as u64
        };
        rows.push((cell(stage), SPLITS.map(count), *all));
    }
    let split = |split| manifest.counts.splits.get(&split).copied().unwrap_or(0);
    rows.push(("all".to_owned(), SPLITS.map(split), manifest.counts.tasks));
    let rows = rows.into_iter().map(|(stage, [train, validation, test], all)| {
        format!("| {stage} | {train} | {validation} | {test} | {all} |\n")
    });
    section(
        "Splits and pools",
        "| pool | train | validation | test | all |\n|---|---:|---:|---:|---:|\n",
        rows,
    )
}

fn proofs(manifest: &Manifest) -> String {
    let range = |value: fn(&FrozenTask) -> u64| {
        let values: BTreeSet<u64> = manifest.tasks.iter().map(value).collect();
        match (values.first(), values.last()) {
            (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
            (Some(only), _) => only.to_string(),
            _ => "0".into(),
        }
    };
    let engines: BTreeSet<&str> = manifest.tasks.iter().map(|task| task.proof.engine.as_str()).collect();
    let engines: Vec<String> = engines.into_iter().map(cell).collect();
    let mut text = format!(
        "## How the tasks were proved\n\nEvery task passed the static rules. Of every task, {} trials that did nothing \
         all failed and {} trials that applied the solution all passed, each in a fresh sandbox. Engine: {}. Time \
         limit of the verifier in seconds: {}.\n\n",
        range(|task| task.proof.nop_runs.into()),
        range(|task| task.proof.oracle_runs.into()),
        engines.join(", "),
        range(|task| task.proof.verifier_sec),
    );
    let bound = manifest.proof_rule.flake_bound_permille;
    text = format!(
        "{text}A task that varies in more than {}.{} % of its runs would have shown it with a probability of 95 %.\n\n",
        bound / 10,
        bound % 10
    );
    let cheats: BTreeSet<&[CheatName]> =
        manifest.tasks.iter().map(|task| task.proof.cheats.as_slice()).collect();
    match cheats.into_iter().collect::<Vec<_>>().as_slice() {
        [] | [[]] => text.push_str("No cheats were tried on them.\n\n"),
        [same] => {
            let names: Vec<String> = same.iter().map(|name| cell(name.as_str())).collect();
            text.push_str("Fixed cheats were tried and got nothing, each on the task itself or on another with the same \
                           verifier program, profile and repository: ");
            text = format!("{text}{}.\n\n", names.join(", "));
        }
        _ => text.push_str("Fixed cheats were tried, not the same ones on all tasks: see `proof.cheats` in the manifest.\n\n"),
    }
    let quarantined =
        manifest.tasks.iter().filter(|task| !task.provenance.quarantined_tests.is_empty()).count();
    if quarantined > 0 {
        text = format!(
            "{text}From {quarantined} of the tasks tests were left out that had varied; `provenance.quarantined_tests` in \
             the manifest names them.\n\n"
        );
    }
    let local = manifest.tasks.iter().filter(|task| !task.portable).count();
    if local > 0 {
        let those = if local == 1 { "1 task starts".to_owned() } else { format!("{local} tasks start") };
        text = format!(
            "{text}{those} from the system of the machine that proved them and cannot be run elsewhere as they are.\n\n"
        );
    }
    text
}

fn images(manifest: &Manifest) -> String {
    let mut forms: BTreeMap<ImageForm, [u64; 2]> = BTreeMap::new();
    for task in &manifest.tasks {
        let [all, verified] = forms.entry(task.image.form).or_default();
        *all += 1;
        *verified += u64::from(task.image.verified);
    }
    let rows = forms.into_iter().map(|(form, [all, verified])| {
        let what = match form {
            ImageForm::Task => "the whole environment, ready made",
            ImageForm::Base => "a base in a registry, on which the environment is built",
            ImageForm::Project => "a base that the project builds for itself",
            ImageForm::Host => "the system of the machine that proved the task",
            ImageForm::Empty => "none: the environment is built from scratch",
        };
        format!("| {form} | {what} | {all} | {verified} |\n")
    });
    section("Images", "| form | what it is | tasks | seen in a registry |\n|---|---|---:|---:|\n", rows)
}

fn shortages(manifest: &Manifest) -> String {
    if manifest.shortages.is_empty() {
        return String::new();
    }
    let rows = manifest
        .shortages
        .iter()
        .map(|short| format!("| {} | {} | {} |\n", cell(&short.what), short.wanted, short.have));
    section("Shortages", "| what | wanted | there are |\n|---|---:|---:|\n", rows)
}

fn repositories(tasks: &[FrozenTask]) -> String {
    let mut counts: BTreeMap<(&RepoKey, Split), u64> = BTreeMap::new();
    for task in tasks {
        *counts.entry((&task.repo, task.split)).or_default() += 1;
    }
    let rows = counts
        .into_iter()
        .map(|((repo, split), count)| format!("| {} | {split} | {count} |\n", cell(repo.as_str())));
    section("Repositories", "| repository | split | tasks |\n|---|---|---:|\n", rows)
}

fn section(title: &str, head: &str, rows: impl Iterator<Item = String>) -> String {
    format!("## {title}\n\n{head}{}\n", rows.collect::<String>())
}

/// Makes `text` safe inside a table.
fn cell(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain
        .flat_map(|c| matches!(c, '|' | '\\' | '`' | '<' | '*').then_some('\\').into_iter().chain([c]))
        .collect()
}
