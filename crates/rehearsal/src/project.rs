//! The universe as a project directory.

use std::fmt::Write;
use std::io;
use std::ops::Range;
use std::path::Path;

use fs_err as fs;

use crate::mix::{choice, mixed, shuffled};
use crate::names::{aliases, image, prose};
use crate::table::{Cells, write_table};
use crate::universe::{MODELS, Run, Task, Universe};

/// How much text the rows carry beside what a plan asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Length of the messages of one trajectory row, in words.
    pub message_words: usize,
    /// Most tests of one instance.
    pub tests: usize,
}

impl Default for Options {
    /// Rows of a size that is common in the public collections' smaller half.
    fn default() -> Self {
        Self { message_words: 600, tests: 40 }
    }
}

/// Names of the splits, which hold the same runs in other encodings, and how many runs each lacks.
const SPLITS: [(&str, usize); 3] = [("tool", 2_382), ("xml", 797), ("ticks", 1_221)];

const INSTANCE_GROUP: usize = 8_192;
const RUN_GROUP: usize = 4_096;

/// Writes the project into `directory`.
pub fn write_project(directory: &Path, universe: &Universe, options: Options) -> io::Result<()> {
    for part in ["data", "lists"] {
        fs::create_dir_all(directory.join(part))?;
    }
    let half = universe.tasks.len() / 2;
    let (old, new) = universe.tasks.split_at(half);
    write_table(&directory.join("data/instances-0.parquet"), old.len(), INSTANCE_GROUP, |range| {
        instances(&old[range.clone()], range, options, true)
    })?;
    write_table(&directory.join("data/instances-1.parquet"), new.len(), INSTANCE_GROUP, |range| {
        instances(&new[range.clone()], half + range.start..half + range.end, options, false)
    })?;
    splits(directory, universe, options)?;
    lists(directory, &universe.tasks)?;
    rewards(directory, universe)?;
    fs::write(directory.join("seatrial.toml"), recipe())
}

fn instances(tasks: &[Task], range: Range<usize>, options: Options, old: bool) -> Vec<(&'static str, Cells)> {
    let texts = |of: &dyn Fn(&Task, usize) -> String| {
        Cells::Texts(tasks.iter().zip(range.clone()).map(|(task, n)| Some(of(task, n))).collect())
    };
    let own =
        |task: &Task| task.id.rsplit_once('.').map_or(task.id.clone(), |(profile, _)| profile.to_owned());
    let tests = |question, least: usize, most: usize| {
        let lists = range.clone().map(|n| {
            let count = least + choice(n, question, most + 1 - least);
            (0..count).map(|at| format!("tests/test_{}.py::test_{at}", prose(n + at, question, 1))).collect()
        });
        Cells::Lists(lists.collect())
    };
    let era = |n| if old { 0 } else { 1 + choice(n, 60, 2) };
    let mut columns = vec![
        ("instance_id", texts(&|task, _| task.id.clone())),
        ("patch", texts(&|_, n| patch(n))),
        ("FAIL_TO_PASS", tests(61, 1, 4.min(options.tests))),
        ("PASS_TO_PASS", tests(62, 0, options.tests)),
        ("image_name", texts(&|task, n| image(&own(task), era(n)))),
        ("repo", texts(&|task, _| format!("swesmith/{}", own(task)))),
        (
            "problem_statement",
            texts(&|_, n| if choice(n, 63, 1000) < 68 { String::new() } else { prose(n, 64, 60) }),
        ),
    ];
    if old {
        // Columns of earlier revisions, which nobody reads any more.
        columns.push(("created_at", texts(&|_, n| format!("2025-03-21T08:{:02}:31.701599", n % 60))));
        columns.push(("base_commit", texts(&|_, n| format!("{:024x}{:016x}", mixed(n, 65), mixed(n, 66)))));
        columns.rotate_left(2);
    }
    columns
}

fn patch(n: usize) -> String {
    let file = format!("src/{}.py", prose(n, 70, 1));
    let mut text = format!("diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -1,4 +1,3 @@\n");
    for (at, sign) in [' ', '-', '-', '+', ' '].into_iter().enumerate() {
        let _ = writeln!(text, "{sign}    {}", prose(n * 5 + at, 71, 6));
    }
    text
}

/// Writes the runs of every split. Each run stands in two splits at least, and its model in one of them.
fn splits(directory: &Path, universe: &Universe, options: Options) -> io::Result<()> {
    let order = shuffled(universe.runs.len(), 80);
    let mut begun = 0;
    for (question, (split, lacking)) in (81..).zip(SPLITS) {
        let (before, after) = (begun, begun + lacking);
        begun = after;
        let mut rows: Vec<usize> = order[..before].iter().chain(&order[after..]).copied().collect();
        rows.sort_by_key(|n| (mixed(*n, question), *n));
        let path = directory.join(format!("data/trajectories-{split}.parquet"));
        // One split forgets the models of some runs that another one tells.
        let forgets = |n: usize| split == "tool" && mixed(n, 84).is_multiple_of(180);
        write_table(&path, rows.len(), RUN_GROUP, |range| {
            let rows = &rows[range];
            let texts = |of: &dyn Fn(&Run) -> String| {
                Cells::Texts(rows.iter().map(|n| Some(of(&universe.runs[*n]))).collect())
            };
            let models =
                rows.iter().map(|n| (!forgets(*n)).then(|| MODELS[universe.runs[*n].model].to_owned()));
            let messages = rows.iter().map(|n| messages(*n, options.message_words));
            vec![
                ("messages", Cells::Messages(messages.collect())),
                ("instance_id", texts(&|run| run.task.clone())),
                ("resolved", Cells::Booleans(rows.iter().map(|n| universe.runs[*n].resolved).collect())),
                ("model", Cells::Texts(models.collect())),
                ("traj_id", texts(&|run| run.id.clone())),
                ("patch", texts(&|run| if run.resolved { patch(run.id.len()) } else { String::new() })),
            ]
        })?;
    }
    Ok(())
}

fn messages(n: usize, words: usize) -> Vec<(String, &'static str)> {
    let turn = |at: usize, role| (prose(n * 4 + at, 90, words / 4), role);
    vec![turn(0, "system"), turn(1, "user"), turn(2, "assistant"), turn(3, "user")]
}

fn lists(directory: &Path, tasks: &[Task]) -> io::Result<()> {
    for (name, belongs) in [
        ("filtered", (|task| task.filtered) as fn(&Task) -> bool),
        ("filter-pro", |task| task.pro),
        ("freeze-pro", |task| task.retained),
        ("canary-30", |task| task.canary),
    ] {
        let ids: String =
            tasks.iter().filter(|task| belongs(task)).flat_map(|task| [&task.id, "\n"]).collect();
        fs::write(directory.join("lists").join(name).with_extension("txt"), ids)?;
    }
    let former: String =
        aliases().iter().flat_map(|(former, today)| ["\"", former, "\" = \"", today, "\"\n"]).collect();
    fs::write(directory.join("lists/aliases.toml"), former)?;
    let states: String = tasks
        .iter()
        .filter_map(|task| {
            let state = task.image?;
            Some(format!("{{\"task_id\": \"{}\", \"status\": \"{state}\"}}\n", task.id))
        })
        .collect();
    fs::write(directory.join("lists/base-images.jsonl"), states)
}

fn rewards(directory: &Path, universe: &Universe) -> io::Result<()> {
    let own = universe.tasks.iter().filter_map(|task| Some((task.id.as_str(), task.reward?)));
    let strange = universe.strange_rewards.iter().map(|(id, reward)| (id.as_str(), *reward));
    let rows: Vec<_> = own.chain(strange).collect();
    let mut text = String::new();
    for n in shuffled(rows.len(), 95) {
        let (id, reward) = rows[n];
        let _ = writeln!(text, "{{\"instance_id_or_commit_hash\": \"{id}\", \"reward_mean\": {reward:?}}}");
    }
    fs::write(directory.join("data/reward-means.jsonl"), text)
}

fn recipe() -> String {
    let mut text = String::from(
        "# A synthetic universe of public data at full scale; every name in it is made up.\n\n\
         aliases = \"lists/aliases.toml\"\n\n[dataset]\nname = \"rehearsal\"\nversion = \"v1\"\n",
    );
    let mut source = |name: &str, role: &str, path: &str| {
        let _ = write!(text, "\n[sources.{name}]\nkind = \"file\"\nas = \"{role}\"\npath = {path}\n");
    };
    source("swesmith", "instances", "[\"data/instances-0.parquet\", \"data/instances-1.parquet\"]");
    let splits = SPLITS.map(|(split, _)| format!("\"data/trajectories-{split}.parquet\""));
    source("trajectories", "trajectories", &format!("[{}]", splits.join(", ")));
    source("swe_master", "reward_means", "\"data/reward-means.jsonl\"");
    source("images", "image_states", "\"lists/base-images.jsonl\"");
    text.push_str("\n[sets]\n");
    for (name, file) in [
        ("filtered", "filtered"),
        ("freeze_pro", "freeze-pro"),
        ("filter_pro", "filter-pro"),
        ("canary", "canary-30"),
    ] {
        let _ = writeln!(text, "{name} = \"lists/{file}.txt\"");
    }
    text.push_str(
        "\n[[pool]]\nstage = \"filter_pro\"\nmembers = \"filter_pro & filtered\"\ntarget = 350\ncap = \"5%\"\n\
         retain = \"freeze_pro\"\nforce = \"canary\"\nrequire_image = true\nreserve = \"rest\"\n\
         \n[[pool]]\nstage = \"outside_filtered\"\nmembers = \"swesmith - filtered\"\n\
         target = 350\ncap = \"5%\"\nreserve = 350\n\
         \n[materialize]\nworkspace = \"image:/testbed\"\n\
         \n[resolve]\nrepo_cap = 20\nsplit = { train = 490, validation = 105, test = 105 }\n",
    );
    text
}
