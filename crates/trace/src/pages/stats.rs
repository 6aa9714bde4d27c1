//! Statistics as a page.

use page::{bars, escape, histogram, lines, page, short, table};

use crate::stats::{Breakdown, Distribution, MeanOver, Method, Stage, Stats};

/// Bars of a histogram.
const BARS: usize = 24;

/// More tasks than these are not listed.
const TASKS: usize = 500;

/// Makes the page.
pub fn stats_page(title: &str, stats: &Stats) -> String {
    let mut body = format!("<h1>Traces</h1>\n<p class=\"soft\">{}</p>\n", escape(title));
    body.push_str(&facts(stats));
    body.push_str(&means(stats));
    body.push_str("<h2>Spread</h2>\n<div class=\"plots\">\n");
    let rewards: Vec<f64> =
        stats.tasks.iter().filter_map(|task| task.tally.graded.map(|mean| mean.mean)).collect();
    if let Some(spread) = Distribution::of(rewards) {
        body.push_str(&histogram("mean reward of tasks", &spread.sorted, 20));
    }
    let spreads = [
        ("turns of a trial", &stats.turns),
        ("prompt tokens of a trial", &stats.prompt_tokens),
        ("completion tokens of a trial", &stats.completion_tokens),
    ];
    for (name, spread) in spreads {
        if let Some(spread) = spread {
            let caption =
                format!("{name}: half are at most {}, 90 % at most {}", short(spread.p50), short(spread.p90));
            body.push_str(&histogram(&caption, &spread.sorted, BARS));
        }
    }
    if let Some(wall) = &stats.wall_ms {
        let minutes: Vec<_> = wall.sorted.iter().map(|wall| wall / 60_000.0).collect();
        let (half, most) = (short(wall.p50 / 60_000.0), short(wall.p90 / 60_000.0));
        let caption =
            format!("wall time of a trial in minutes: half are at most {half}, 90 % at most {most}");
        body.push_str(&histogram(&caption, &minutes, BARS));
    }
    if stats.pass_at.len() > 1 {
        let names: Vec<_> = stats.pass_at.iter().map(|at| at.k.to_string()).collect();
        let any = stats.pass_at.iter().map(|at| at.any).collect();
        let all = stats.pass_at.iter().map(|at| at.all).collect();
        body.push_str(&lines("k trials of a task", &names, &[("pass@k", any), ("pass^k", all)]));
    }
    let groups = &stats.groups;
    let kinds = [
        ("mixed", groups.mixed),
        ("all 0", groups.all_zero),
        ("all 1", groups.all_one),
        ("all equal", groups.all_equal),
        ("too few", groups.too_few),
    ];
    let kinds: Vec<_> = kinds.into_iter().map(|(name, number)| (name.to_owned(), number as f64)).collect();
    body.push_str(&bars("groups by their rewards", &kinds));
    body.push_str("</div>\n");
    if !stats.exceptions.is_empty() {
        body.push_str("<h2>What went wrong</h2>\n");
        let rows: Vec<_> = stats
            .exceptions
            .iter()
            .map(|count| {
                let rewards: Vec<_> =
                    count.rewards.iter().map(|(reward, times)| format!("{reward}: {times}")).collect();
                vec![
                    count.exception.clone(),
                    count.stage.map_or("-", Stage::name).to_owned(),
                    count.trials.to_string(),
                    count.rewarded.to_string(),
                    rewards.join(", "),
                ]
            })
            .collect();
        body.push_str(&table(&["exception", "stage", "trials", "reward counts", "rewards"], &rows, true));
    }
    for (name, lines) in [
        ("Models", &stats.models),
        ("Runs", &stats.runs),
        ("Repositories", &stats.repositories),
        ("Tasks", &stats.tasks),
    ] {
        body.push_str(&breakdown(name, lines));
    }
    page(&format!("Traces: {title}"), &body)
}

fn facts(stats: &Stats) -> String {
    let all = &stats.all;
    let groups = &stats.groups;
    let graded = groups.groups - groups.too_few;
    let facts = [
        ("trials", all.trials.to_string()),
        ("rewarded", all.rewarded.to_string()),
        ("errored", all.errored.to_string()),
        ("neither", (all.ungraded + all.incomplete).to_string()),
        ("mean reward", all.graded.map_or_else(|| "-".into(), |mean| format!("{:.3}", mean.mean))),
        ("solved", all.solved.to_string()),
        ("groups to learn from", format!("{} of {graded}", groups.mixed)),
        ("context or answer full", stats.truncation.trials.to_string()),
    ];
    let idle = ("no turn of the agent", stats.without_turn.trials.to_string());
    let facts: Vec<_> = facts.into_iter().chain((stats.without_turn.trials > 0).then_some(idle)).collect();
    page::facts(&facts)
}

fn means(stats: &Stats) -> String {
    let row = |name: &str, mean: Option<MeanOver>| {
        let cells = mean.map(|mean| {
            let interval = mean.interval.map(|interval| {
                let method = match interval.method {
                    Method::Wilson => "Wilson",
                    Method::BootstrapOverTasks => "bootstrap over tasks",
                };
                (format!("{:.4} to {:.4}", interval.low, interval.high), method.to_owned())
            });
            let (interval, method) = interval.unwrap_or(("-".into(), "-".into()));
            vec![name.to_owned(), format!("{:.4}", mean.mean), mean.over.to_string(), interval, method]
        });
        cells.unwrap_or_else(|| vec![name.to_owned(), "-".into(), "0".into(), "-".into(), "-".into()])
    };
    let all = &stats.all;
    let rows = [
        row("rewarded trials", all.graded),
        row("errored trials as 0", all.errors_as_zero),
        row("without trials that hit a limit", all.unlimited),
    ];
    format!(
        "<h2>Mean reward</h2>\n{}",
        table(&["over", "mean", "trials", "95 % interval", "by"], &rows, true)
    )
}

fn breakdown(name: &str, lines: &[Breakdown]) -> String {
    if lines.len() < 2 && lines.first().is_none_or(|line| line.name.is_none()) {
        return String::new();
    }
    let number = |number: Option<f64>| number.map_or_else(|| "-".into(), |number| format!("{number:.3}"));
    let rows: Vec<_> = lines
        .iter()
        .take(TASKS)
        .map(|line| {
            let tally = &line.tally;
            vec![
                line.name.clone().unwrap_or_else(|| "not known".into()),
                tally.trials.to_string(),
                tally.rewarded.to_string(),
                tally.errored.to_string(),
                tally.solved.to_string(),
                number(tally.graded.map(|mean| mean.mean)),
                number(line.pass_at.first().map(|at| at.any)),
            ]
        })
        .collect();
    let more = match lines.len().saturating_sub(TASKS) {
        0 => String::new(),
        more => format!("<p class=\"soft\">and {more} more</p>\n"),
    };
    let header = ["", "trials", "rewarded", "errored", "solved", "mean", "pass@1"];
    format!("<h2>{name}</h2>\n{}{more}", table(&header, &rows, true))
}
