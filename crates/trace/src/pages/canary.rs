//! A canary as a page.

use std::fmt::Write as _;

use page::{Measured, bars, escape, intervals, page, table};

use crate::canary::{CanaryComparison, CanaryDocument, CanaryReport, CanaryRow, CanaryVerdict};
use crate::stats::Method;

/// Makes the page.
pub fn canary_page(
    document: &CanaryDocument,
    report: &CanaryReport,
    comparison: Option<(&CanaryReport, &CanaryComparison)>,
) -> String {
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"soft\">{} of {}, {} at each; job {}</p>\n",
        escape(&document.model),
        plural(report.tasks, "task"),
        escape(&document.tasks_from),
        plural(document.repeats.into(), "attempt"),
        escape(&document.job)
    );
    body.push_str(&facts(report));
    body.push_str("<div class=\"plots\">\n");
    let place = |name: &str, report: &CanaryReport| {
        let value = report.mean_with_errored_as_0?;
        let interval = report.interval.map(|interval| (interval.low, interval.high));
        Some(Measured { name: name.to_owned(), value, interval })
    };
    let mut means = Vec::new();
    if let Some((earlier, comparison)) = comparison {
        means.extend(place(&comparison.earlier_model, earlier));
    }
    means.extend(place(&document.model, report));
    body.push_str(&intervals("mean reward, errors as 0, with its 95 % interval", &means));
    let rate = |row: &CanaryRow| Some((shown(&row.name), row.mean?));
    let rates: Vec<_> = report.by_repository.iter().filter_map(rate).collect();
    body.push_str(&bars("mean reward by repository", &rates));
    body.push_str("</div>\n");
    if let Some((_, comparison)) = comparison {
        body.push_str(&compared(comparison));
    }
    if !report.exceptions.is_empty() {
        body.push_str("<h2>What went wrong</h2>\n");
        let rows: Vec<_> = report
            .exceptions
            .iter()
            .map(|found| vec![found.exception.clone(), found.trials.to_string(), found.rewarded.to_string()])
            .collect();
        body.push_str(&table(&["exception", "trials", "with a reward"], &rows, true));
    }
    body.push_str("<h2>Repositories</h2>\n");
    body.push_str(&rows(&report.by_repository));
    body.push_str("<h2>Tasks</h2>\n");
    body.push_str(&rows(&report.by_task));
    body.push_str("<h2>Settings</h2>\n");
    let settings: Vec<_> =
        document.settings.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    body.push_str(&table(&["setting", "value"], &settings, false));
    page(&format!("{}: {} of {}", document.model, report.solved, report.planned), &body)
}

fn facts(report: &CanaryReport) -> String {
    let number = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{value:.3}"));
    let interval = report.interval.map_or("none".to_owned(), |interval| {
        let method = match interval.method {
            Method::Wilson => "Wilson",
            Method::BootstrapOverTasks => "by resampling tasks",
        };
        format!("{:.3} to {:.3}, {method}", interval.low, interval.high)
    });
    let facts = [
        ("solved", format!("{} of {}", report.solved, report.planned)),
        ("mean, errors as 0", number(report.mean_with_errored_as_0)),
        ("95 % interval", interval),
        ("mean of rewarded", number(report.mean_of_rewarded.map(|mean| mean.mean))),
        ("without a reward", report.errored.to_string()),
        ("not ended", report.pending.to_string()),
    ];
    page::facts(&facts)
}

fn compared(comparison: &CanaryComparison) -> String {
    let mut out = format!(
        "<h2>Compared with {}</h2>\n<p>{}</p>\n",
        escape(&comparison.earlier),
        escape(&comparison.sentence())
    );
    if !comparison.differences.is_empty() {
        let rows: Vec<_> = comparison
            .differences
            .iter()
            .map(|(name, a, b)| vec![name.clone(), a.clone(), b.clone()])
            .collect();
        out.push_str("<p>Other settings differ too, so the model alone does not explain a difference.</p>\n");
        out.push_str(&table(&["setting", "before", "after"], &rows, false));
    }
    let rows: Vec<_> = [("better", &comparison.better), ("worse", &comparison.worse)]
        .into_iter()
        .flat_map(|(what, tasks)| tasks.iter().map(move |task| vec![what.to_owned(), task.clone()]))
        .collect();
    if !rows.is_empty() {
        out.push_str(&table(&["", "task"], &rows, false));
    }
    out
}

impl CanaryComparison {
    /// What the comparison says, for people.
    pub fn sentence(&self) -> String {
        let (better, worse) = (self.better.len(), self.worse.len());
        let verdict = match self.verdict {
            CanaryVerdict::Better => "better than",
            CanaryVerdict::Worse => "worse than",
            CanaryVerdict::CannotBeToldApart => "cannot be told from",
        };
        let mut text = format!(
            "{:.3} {verdict} {:.3}: better on {better} and worse on {worse} of {} common tasks, p = {:.3}",
            self.after, self.before, self.common, self.p_value
        );
        if self.verdict == CanaryVerdict::CannotBeToldApart {
            let _ = match self.better_needed {
                Some(needed) => write!(text, "; with {worse} worse, {needed} better would be needed"),
                None => write!(text, "; there are too few tasks to tell them apart"),
            };
        }
        if self.left_out > 0 {
            let _ = write!(
                text,
                "; {} left out, not in both, changed or not ended",
                plural(self.left_out, "task")
            );
        }
        text
    }
}

fn rows(rows: &[CanaryRow]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            vec![
                shown(&row.name),
                row.tasks.to_string(),
                format!("{} of {}", row.solved, row.trials),
                row.mean.map_or("none".to_owned(), |mean| format!("{mean:.3}")),
                row.errored.to_string(),
                row.exceptions.join(", "),
            ]
        })
        .collect();
    table(&["", "tasks", "solved", "mean, errors as 0", "errored", "exceptions"], &rows, true)
}

fn shown(name: &str) -> String {
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}

fn plural(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::{compare_canaries, report};

    #[test]
    fn a_page_holds_the_numbers_and_nothing_of_the_outside() {
        let mut document: CanaryDocument = serde_json::from_value(serde_json::json!({
            "schema": "seatrial.canary/1", "job": "j<1>", "model": "m&m", "tasks_from": "set", "settings": {"context": "64"},
            "repeats": 1, "tasks": [
                {"id": "a", "repository": null, "tree_digest": ident::Digest::of("a")},
                {"id": "b", "repository": "o/r", "tree_digest": ident::Digest::of("b")}],
            "trials": [{"task": "a", "attempt": 0, "trial": "a__1", "reward": 1.0, "exception": null, "wall_ms": 3},
                {"task": "b", "attempt": 0, "trial": "b__1", "reward": null, "exception": "ApiError", "wall_ms": 3}],
        }))
        .unwrap();
        let earlier = document.clone();
        document.trials[1].reward = Some(1.0);
        let (before, after) = (report(&earlier), report(&document));
        let comparison = compare_canaries(&earlier, &document).unwrap();
        let html = canary_page(&document, &after, Some((&before, &comparison)));
        for text in
            ["2 of 2", "m&amp;m", "j&lt;1&gt;", "1.000 cannot be told from 0.500", "too few tasks", "unknown"]
        {
            assert!(html.contains(text), "{text}");
        }
        for mark in ["http:", "https:", "<script", "src="] {
            assert!(!html.contains(mark), "{mark}");
        }
        assert!(!html.contains("NaN"));
    }
}
