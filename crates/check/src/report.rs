//! Collects findings while rules run.

use std::collections::BTreeMap;

use record::{Finding, Severity};
use task::printable;

use crate::options::{CheckOptions, Profile};
use crate::rule::Rule;

/// Findings of one rule on one task beyond this many are counted instead of listed.
const MAX_PER_RULE: usize = 50;
/// Quoted text is cut to this many characters.
const MAX_QUOTE: usize = 120;

/// A file inside the task, and a line of it where one can be named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    file: &'a [u8],
    line: Option<u32>,
}

impl<'a> Place<'a> {
    /// The whole file.
    pub(crate) fn file(file: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { file: file.as_ref(), line: None }
    }

    /// One line of it, counted from 1.
    pub(crate) fn line(file: &'a (impl AsRef<[u8]> + ?Sized), line: u32) -> Self {
        Self { file: file.as_ref(), line: Some(line) }
    }
}

/// The findings so far.
pub(crate) struct Report<'a> {
    options: &'a CheckOptions,
    findings: Vec<Finding>,
    counts: BTreeMap<&'static str, (usize, &'static Rule)>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(options: &'a CheckOptions) -> Self {
        Self { options, findings: Vec::new(), counts: BTreeMap::new() }
    }

    /// Whether the task is one of this program's own.
    pub(crate) fn materialized(&self) -> bool {
        self.options.profile == Profile::Materialized
    }

    /// Adds a finding with the rule's own remedy.
    pub(crate) fn add(&mut self, rule: &'static Rule, place: Place<'_>, message: impl Into<String>) {
        self.add_with_fix(rule, place, message, rule.fix);
    }

    /// Adds a finding with a remedy for this very place.
    pub(crate) fn add_with_fix(
        &mut self,
        rule: &'static Rule,
        place: Place<'_>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let severity = rule.severity_in(self.options.profile);
        self.push(rule, severity, place, message.into(), fix.into());
    }

    /// Adds a finding that weighs no more than a warning, because this one is less certain than others of its rule.
    pub(crate) fn add_doubtful(&mut self, rule: &'static Rule, place: Place<'_>, message: impl Into<String>) {
        let severity = rule.severity_in(self.options.profile).min(Severity::Warning);
        self.push(rule, severity, place, message.into(), rule.fix.into());
    }

    fn push(
        &mut self,
        rule: &'static Rule,
        severity: Severity,
        place: Place<'_>,
        message: String,
        fix: String,
    ) {
        if self.options.skip.contains(rule.name) {
            return;
        }
        let count = self.counts.entry(rule.name).or_insert((0, rule));
        count.0 += 1;
        if count.0 > MAX_PER_RULE {
            return;
        }
        self.findings.push(Finding {
            file: printable(place.file),
            line: place.line,
            rule: rule.name.to_owned(),
            severity,
            message,
            fix,
        });
    }

    /// Everything that was found, in order of file, line and rule, each finding once.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        for (count, rule) in self.counts.values().filter(|(count, _)| *count > MAX_PER_RULE) {
            self.findings.push(Finding {
                file: String::new(),
                line: None,
                rule: rule.name.to_owned(),
                severity: rule.severity_in(self.options.profile),
                message: format!("{} more findings of this rule are not listed", count - MAX_PER_RULE),
                fix: rule.fix.to_owned(),
            });
        }
        self.findings.sort();
        self.findings.dedup();
        self.findings
    }
}

/// Foreign text for a message: control characters escaped, white space at the ends removed, cut to a readable length.
pub(crate) fn quoted(text: impl AsRef<[u8]>) -> String {
    let text = printable(text.as_ref().trim_ascii());
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    #[test]
    fn findings_are_ordered_single_and_bounded() {
        let options = CheckOptions::default();
        let mut report = Report::new(&options);
        let rule = &rules::LINK_ESCAPES;
        report.add(rule, Place::line("b", 2), "x");
        report.add(rule, Place::line("b", 1), "x");
        report.add(rule, Place::line("b", 1), "x");
        report.add(rule, Place::file("a"), "x");
        let places: Vec<_> = report.finish().into_iter().map(|found| (found.file, found.line)).collect();
        assert_eq!(places, [("a".into(), None), ("b".into(), Some(1)), ("b".into(), Some(2))]);

        let mut report = Report::new(&options);
        for number in 0..MAX_PER_RULE + 7 {
            report.add(rule, Place::file(&format!("{number:03}")), "x");
        }
        let findings = report.finish();
        assert_eq!(findings.len(), MAX_PER_RULE + 1);
        assert!(findings[0].message.starts_with("7 more"));
    }

    #[test]
    fn skipped_rules_are_silent() {
        let mut options = CheckOptions::default();
        options.skip.insert("link-escapes".into());
        let mut report = Report::new(&options);
        report.add(&rules::LINK_ESCAPES, Place::file("a"), "x");
        assert_eq!(report.finish(), []);
    }

    #[test]
    fn quotes_are_short_and_printable() {
        assert_eq!(quoted(" a\tb\n"), "`a\\tb`");
        assert_eq!(quoted("é".repeat(200)).chars().count(), MAX_QUOTE + 3);
        assert_eq!(quoted(b"x\xff"), "`x\\xff`");
    }
}
