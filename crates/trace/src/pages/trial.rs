//! One trial, step after step, for a terminal and as a page.

use std::fmt::Write as _;
use std::path::Path;

use page::{escape, page};

use crate::TraceError;
use crate::json::{Json, Mended, compact, parse};
use crate::stats::{Outcome, TrialFacts};
use crate::trajectory::{Speaker, Step, ToolCall, Trajectory};
use crate::trial::{Head, Root, Source, lone, sources, steps_of, verifier_output};

/// Longer outputs of commands are cut on a terminal, in lines.
const OUTPUT_LINES: usize = 40;

/// What is shown of a trial.
#[derive(Debug)]
pub struct TrialPage {
    facts: TrialFacts,
    failure: Option<String>,
    started: Option<String>,
    sources: Vec<Source>,
    faults: Vec<String>,
    verifier: Option<String>,
}

/// Reads the trial in a directory, or a trajectory that is named itself.
pub fn read_trial_page(path: &Path) -> Result<TrialPage, TraceError> {
    let root = Root::open(path).map_err(TraceError::io(path))?;
    let opened = root.below(&[]).map_err(TraceError::io(path))?;
    if path.is_file() {
        return read_file_page(path, &opened);
    }
    let view = job::read_trial(path)?;
    if !job::is_marked(&opened) {
        let detail =
            "is no trial: it holds neither a result nor anything else that a trial leaves".to_owned();
        return Err(TraceError::NotTraces { path: path.to_owned(), detail });
    }
    let mut faults = Vec::new();
    let mut found = Vec::new();
    let mut read = |directory: &job::Directory, step: Option<&str>, faults: &mut Vec<_>| match sources(
        directory,
        true,
        &mut Mended::default(),
        faults,
    ) {
        Ok(read) => found.extend(read.into_iter().map(|source| match step {
            Some(step) => Source { name: format!("step {step}: {}", source.name), ..source },
            None => source,
        })),
        Err(fault) => faults.push(fault),
    };
    read(&opened, None, &mut faults);
    for (name, step) in steps_of(&opened, &mut faults) {
        read(&step, Some(&name.to_string_lossy()), &mut faults);
    }
    let verifier = verifier_output(&opened, &mut faults);
    let main = found.iter().find(|source| source.is_main()).map(|source| source.chain.as_slice());
    Ok(TrialPage {
        facts: TrialFacts::of_trial(&view, "", main.unwrap_or_default()),
        failure: view.state.failure().map(|failure| failure.message.clone()).filter(|text| !text.is_empty()),
        started: view.started_at.map(|at| {
            let zone = if at.assumed_utc { "" } else { "Z" };
            format!("{}{zone}", at.at.strftime("%Y-%m-%d %H:%M:%S"))
        }),
        sources: found,
        faults: faults.iter().map(ToString::to_string).collect(),
        verifier,
    })
}

/// Reads a trajectory that no trial is around.
fn read_file_page(path: &Path, above: &job::Directory) -> Result<TrialPage, TraceError> {
    let source = lone(above, path.file_name().unwrap_or_default(), &mut Mended::default())
        .map_err(|fault| TraceError::NotTraces { path: path.to_owned(), detail: fault.detail })?;
    Ok(TrialPage {
        facts: TrialFacts::of_file(&Head::of_file(path), &source.chain),
        failure: None,
        started: None,
        sources: vec![source],
        faults: Vec::new(),
        verifier: None,
    })
}

impl TrialPage {
    /// What is known of the trial in words, as names and values.
    fn words(&self) -> Vec<(&'static str, String)> {
        let facts = &self.facts;
        let mut words = Vec::new();
        let mut add = |name, value: Option<String>| words.extend(value.map(|value| (name, value)));
        let text = |text: &Option<crate::Text>| text.as_deref().map(str::to_owned);
        add("task", text(&facts.task));
        add("agent", text(&facts.agent));
        add("model", text(&facts.model));
        add(
            "outcome",
            Some(match &facts.outcome {
                Outcome::Rewarded { reward, exception: None } => format!("reward {reward}"),
                Outcome::Rewarded { reward, exception: Some(exception) } => {
                    format!("reward {reward}, and {exception}")
                }
                Outcome::Errored { exception, .. } => exception.to_string(),
                Outcome::Ungraded => "neither a reward nor a failure".into(),
                Outcome::Incomplete => "no readable result".into(),
            }),
        );
        add("what went wrong", self.failure.clone());
        add("started", self.started.clone());
        words
    }

    /// What is known of it in numbers.
    fn numbers(&self) -> Vec<(&'static str, String)> {
        let facts = &self.facts;
        let mut numbers = Vec::new();
        let mut add = |name, value: Option<String>| numbers.extend(value.map(|value| (name, value)));
        add("wall time", facts.wall_ms.map(|wall| format!("{:.1} s", wall as f64 / 1000.0)));
        add("turns", facts.turns.map(|turns| turns.to_string()));
        add("prompt tokens", facts.usage.prompt.map(|tokens| tokens.to_string()));
        add("completion tokens", facts.usage.completion.map(|tokens| tokens.to_string()));
        add("cost in dollars", facts.usage.cost_usd.map(|cost| cost.to_string()));
        numbers
    }

    /// The page for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("trial {}\n", self.facts.trial);
        for (name, value) in self.words().into_iter().chain(self.numbers()) {
            let _ = writeln!(out, "{name:>17}  {}", value.lines().next().unwrap_or_default());
        }
        for fault in &self.faults {
            let _ = writeln!(out, "{:>17}  {fault}", "malformed");
        }
        for source in &self.sources {
            if !source.is_main() {
                let _ = writeln!(out, "\n==== {} ====", source.name);
            }
            for step in steps(source) {
                step_text(step, &mut out);
            }
        }
        if let Some(verifier) = &self.verifier {
            out.push_str("\n---- verifier\n");
            indent(verifier, OUTPUT_LINES, &mut out);
        }
        out
    }

    /// The page for a browser.
    pub fn html(&self) -> String {
        let mut body = format!("<h1>{}</h1>\n", escape(&self.facts.trial));
        for (name, value) in self.words() {
            let _ = writeln!(body, "<p><span class=\"soft\">{name}</span> {}</p>", escape(&value));
        }
        body.push_str(&page::facts(&self.numbers()));
        for fault in &self.faults {
            let _ = writeln!(body, "<p>malformed: {}</p>", escape(fault));
        }
        for source in &self.sources {
            if !source.is_main() {
                let _ = writeln!(body, "<h2>{}</h2>", escape(&source.name));
            }
            for step in steps(source) {
                step_html(step, &mut body);
            }
        }
        if let Some(verifier) = &self.verifier {
            let _ = writeln!(body, "<h2>Verifier</h2>\n<pre class=\"seen\">{}</pre>", escape(verifier));
        }
        page(&self.facts.trial, &body)
    }
}

fn steps(source: &Source) -> impl Iterator<Item = &Step> {
    source.chain.iter().flat_map(|document: &Trajectory| &document.steps)
}

fn speaker(step: &Step) -> &'static str {
    match step.source {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Agent => "agent",
    }
}

/// Who, when, and with how many tokens.
fn heading(step: &Step) -> String {
    let mut parts = vec![speaker(step).to_owned()];
    parts.extend(step.timestamp.clone());
    if let (Some(prompt), Some(completion)) = (step.usage.prompt, step.usage.completion) {
        parts.push(format!("{prompt} + {completion} tokens"));
    }
    if step.copied {
        parts.push("repeated from before".into());
    }
    parts.join("  ")
}

fn step_text(step: &Step, out: &mut String) {
    let _ = writeln!(out, "\n---- {}", heading(step));
    if let Some(thought) = step.reasoning.as_deref().filter(|thought| !thought.is_empty()) {
        for line in thought.lines() {
            let _ = writeln!(out, "  ~ {line}");
        }
    }
    let message = step.message.text();
    if !message.is_empty() {
        indent(&message, usize::MAX, out);
    }
    for call in &step.calls {
        let text = call_text(call);
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let _ = writeln!(out, "  > {first}");
        indent(rest, usize::MAX, out);
    }
    for content in step.results.iter().filter_map(|result| result.content.as_ref()) {
        indent(&content.text(), OUTPUT_LINES, out);
    }
}

/// A call on one line; texts of several lines among its arguments stand below it as they are.
fn call_text(call: &ToolCall) -> String {
    let mut mended = Mended::default();
    match parse(&call.arguments, &mut mended) {
        Ok(Json::Object(arguments)) if call.arguments.contains("\\n") => {
            let mut text = call.name.clone();
            for (name, value) in &arguments {
                let _ = match value {
                    Json::Text(value) if value.contains('\n') => write!(text, "\n{name}:\n{value}"),
                    value => {
                        let mut written = String::new();
                        compact(value, &mut written);
                        write!(text, "\n{name}: {written}")
                    }
                };
            }
            text
        }
        _ => format!("{} {}", call.name, call.arguments),
    }
}

/// Adds a text line by line; of a long one the beginning and the end.
fn indent(text: &str, most: usize, out: &mut String) {
    let lines: Vec<_> = text.lines().collect();
    let cut = lines.len() > most;
    let (head, tail) = if cut { (most / 2, most / 2) } else { (lines.len(), 0) };
    for line in &lines[..head] {
        let _ = writeln!(out, "  {line}");
    }
    if cut {
        let _ = writeln!(out, "  … {} lines …", lines.len() - head - tail);
        for line in &lines[lines.len() - tail..] {
            let _ = writeln!(out, "  {line}");
        }
    }
}

fn step_html(step: &Step, out: &mut String) {
    let _ = writeln!(out, "<section class=\"step {}\"><h3>{}</h3>", speaker(step), escape(&heading(step)));
    let mut block = |class: &str, text: &str| {
        if !text.is_empty() {
            let _ = writeln!(out, "<pre class=\"{class}\">{}</pre>", escape(text));
        }
    };
    block("thought", step.reasoning.as_deref().unwrap_or_default());
    block("said", &step.message.text());
    for call in &step.calls {
        block("call", &call_text(call));
    }
    for content in step.results.iter().filter_map(|result| result.content.as_ref()) {
        block("seen", &content.text());
    }
    out.push_str("</section>\n");
}
