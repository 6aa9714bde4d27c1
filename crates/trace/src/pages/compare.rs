//! A comparison as a page.

use std::fmt::Write as _;

use page::{Measured, bars, differences, escape, page, table};

use crate::stats::{Change, Comparison, Interval, TaskPair, Unpaired};

/// More tasks than these are not listed.
const TASKS: usize = 500;

/// More repositories than these are not drawn.
const DRAWN: usize = 9;

/// Makes the page. `first` and `second` say what A and B are.
pub fn compare_page(first: &str, second: &str, comparison: &Comparison) -> String {
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"soft\">A: {}<br>B: {}</p>\n{}<p>{}</p>\n",
        escape(&headline(comparison)),
        escape(first),
        escape(second),
        facts(comparison),
        escape(&basis(comparison))
    );
    body.push_str("<div class=\"plots\">\n");
    let drawn = |name: &str, difference: Option<f64>, interval: Option<Interval>| {
        let interval = interval.map(|interval| (interval.low, interval.high));
        difference.map(|value| Measured { name: name.to_owned(), value, interval })
    };
    let mut rows: Vec<_> =
        drawn("all tasks", comparison.difference, comparison.interval).into_iter().collect();
    if comparison.repositories.len() > 1 && comparison.repositories.len() <= DRAWN {
        let repositories = comparison.repositories.iter();
        rows.extend(repositories.filter_map(|one| drawn(&name(one), one.difference, one.interval)));
    }
    body.push_str(&differences("mean of B - A over tasks, with its 95 % interval", &rows));
    let equal = comparison.common - comparison.better - comparison.worse;
    let outcomes = [("A better", comparison.worse), ("equal", equal), ("B better", comparison.better)];
    let outcomes = outcomes.map(|(name, number)| (name.to_owned(), number as f64));
    body.push_str(&bars("common tasks by who did better", &outcomes));
    body.push_str("</div>\n");
    body.push_str(&changes("Models", &comparison.models));
    body.push_str(&changes("Repositories", &comparison.repositories));
    let mut tasks: Vec<_> = comparison.tasks.iter().collect();
    tasks.sort_by(|one, other| difference(other).total_cmp(&difference(one)));
    let (differ, equal): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|pair| difference(pair) != 0.0);
    if !differ.is_empty() {
        body.push_str("<h2>Tasks that differ</h2>\n");
        body.push_str(&pairs(&differ));
    }
    if !equal.is_empty() {
        let _ = write!(
            body,
            "<h2>Tasks that are equal</h2>\n<details><summary>{} with the same mean</summary>\n{}</details>\n",
            tasks_of(equal.len()),
            pairs(&equal)
        );
    }
    body.push_str(&unpaired(&comparison.unpaired));
    page(&format!("{first} and {second}"), &body)
}

/// What the comparison says in one line.
fn headline(comparison: &Comparison) -> String {
    let Some(difference) = comparison.difference else {
        return match comparison.common {
            0 => "A and B have no task with rewards in common".into(),
            _ => "the rewards are too large to be compared".into(),
        };
    };
    match comparison.interval {
        Some(interval) if interval.low > 0.0 => format!("B is better than A by {difference:.3}"),
        Some(interval) if interval.high < 0.0 => format!("B is worse than A by {:.3}", -difference),
        Some(_) => "B cannot be told from A".into(),
        None => "one common task cannot tell B from A".into(),
    }
}

/// Where the numbers come from.
fn basis(comparison: &Comparison) -> String {
    let interval = comparison.interval.map_or_else(String::new, |interval| {
        format!(" The 95 % interval of the difference is {}, by resampling tasks.", range(interval))
    });
    let [first, second] = comparison.dropped;
    format!(
        "Means are over the tasks that have rewards in both, each counted once.{interval} Trials without a reward that counts: {first} \
         of A, {second} of B."
    )
}

fn facts(comparison: &Comparison) -> String {
    page::facts(&[
        ("common tasks", comparison.common.to_string()),
        ("mean of A", number(comparison.first)),
        ("mean of B", number(comparison.second)),
        ("B - A", signed(comparison.difference)),
        ("B better on", comparison.better.to_string()),
        ("B worse on", comparison.worse.to_string()),
        ("p, exact McNemar test", number(comparison.p_value)),
    ])
}

fn changes(heading: &str, changes: &[Change]) -> String {
    if let [] | [Change { name: None, .. }] = changes {
        return String::new();
    }
    let rows: Vec<_> = changes
        .iter()
        .map(|change| {
            let [first, second] = change.tasks;
            vec![
                name(change),
                number(change.first),
                first.to_string(),
                number(change.second),
                second.to_string(),
                signed(change.difference),
                change.interval.map_or_else(|| "-".into(), range),
                change.better.to_string(),
                change.worse.to_string(),
            ]
        })
        .collect();
    let header = ["", "A", "tasks", "B", "tasks", "B - A, paired", "95 % interval", "B better", "B worse"];
    format!("<h2>{heading}</h2>\n{}", table(&header, &rows, true))
}

fn pairs(pairs: &[&TaskPair]) -> String {
    let rows: Vec<_> = pairs
        .iter()
        .take(TASKS)
        .map(|pair| {
            let difference = difference(pair);
            let better = match difference {
                more if more > 0.0 => "B",
                less if less < 0.0 => "A",
                _ => "-",
            };
            vec![
                pair.task.clone(),
                number(Some(pair.first.0)),
                pair.first.1.to_string(),
                number(Some(pair.second.0)),
                pair.second.1.to_string(),
                signed(Some(difference).filter(|difference| difference.is_finite())),
                better.to_owned(),
            ]
        })
        .collect();
    let header = ["task", "A", "trials", "B", "trials", "B - A", "better"];
    format!("{}{}", table(&header, &rows, true), more(pairs.len()))
}

fn unpaired(tasks: &[Unpaired]) -> String {
    if tasks.is_empty() {
        return String::new();
    }
    let side = |(trials, rewarded): (u64, u64)| match trials {
        0 => "no trial".to_owned(),
        _ => format!("{rewarded} of {trials} with a reward"),
    };
    let rows: Vec<_> = tasks
        .iter()
        .take(TASKS)
        .map(|task| vec![task.task.clone(), side(task.first), side(task.second)])
        .collect();
    format!(
        "<h2>Tasks without a pair</h2>\n<p class=\"soft\">A reward that counts is missing on one side or on both; they are in no \
         number above.</p>\n{}{}",
        table(&["task", "A", "B"], &rows, true),
        more(tasks.len())
    )
}

fn difference(pair: &TaskPair) -> f64 {
    pair.second.0 - pair.first.0
}

fn name(change: &Change) -> String {
    change.name.clone().unwrap_or_else(|| "not known".into())
}

fn number(number: Option<f64>) -> String {
    number.map_or_else(|| "-".into(), |number| format!("{number:.3}"))
}

fn signed(number: Option<f64>) -> String {
    // What is rounded to nothing has no sign.
    let text = number.map_or_else(|| "-".into(), |number| format!("{number:+.3}"));
    if text.ends_with("0.000") && text.len() == 6 { "0.000".into() } else { text }
}

fn range(interval: Interval) -> String {
    format!("{} to {}", signed(Some(interval.low)), signed(Some(interval.high)))
}

fn tasks_of(number: usize) -> String {
    if number == 1 { "1 task".into() } else { format!("{number} tasks") }
}

fn more(number: usize) -> String {
    match number.saturating_sub(TASKS) {
        0 => String::new(),
        more => format!("<p class=\"soft\">and {more} more</p>\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{TrialFacts, compare, fact};

    #[test]
    fn a_comparison_names_winners_and_unpaired_tasks_and_needs_nothing_from_outside() {
        let first: Vec<TrialFacts> =
            (0..8).map(|n| fact(&format!("o__r-{n}"), "1", Ok(f64::from(n % 2)))).collect();
        let mut second: Vec<_> = (0..8).map(|n| fact(&format!("o__r-{n}"), "1", Ok(1.0))).collect();
        second.push(fact("b<i>d", "1", Err("RuntimeError")));
        let html = compare_page("jobs/<a>", "jobs/b", &compare(&first, &second));
        for text in [
            "B is better than A by 0.500",
            "jobs/&lt;a&gt;",
            "<td>o/r</td>",
            "<td>o__r-0</td><td>0.000</td><td>1</td><td>1.000</td><td>1</td><td>+1.000</td><td>B</td>",
            "4 tasks with the same mean",
            "<td>b&lt;i&gt;d</td><td>no trial</td><td>0 of 1 with a reward</td>",
        ] {
            assert!(html.contains(text), "{text}");
        }
        for mark in ["http:", "https:", "<script", "src=", "NaN"] {
            assert!(!html.contains(mark), "{mark}");
        }
        let nothing = compare_page("a", "b", &compare(&first, &[]));
        assert!(nothing.contains("no task with rewards in common"));
        assert!(compare_page("a", "b", &compare(&first, &first)).contains("B cannot be told from A"));
    }

    #[test]
    fn signs_stand_before_what_is_not_nothing() {
        let shown: Vec<_> = [0.25, -0.25, -0.0001, 10.0].map(|number| signed(Some(number))).into();
        assert_eq!(shown, ["+0.250", "-0.250", "0.000", "+10.000"]);
    }
}
