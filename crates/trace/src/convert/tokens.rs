//! Tokens of every turn, where jobs recorded them: in the steps of a trajectory, or in the result of a trial.

use std::path::{Path, PathBuf};

use super::table::{Cell, Kind, Table};
use super::{ConvertOptions, ConvertReport};
use crate::TraceError;
use crate::export::{ExportOptions, ExportReport, Index, LeftOut};
use crate::input::Input;
use crate::json::{Json, Mended};
use crate::trajectory::{TokenRecord, numbers};
use crate::trial::{Fault, load, sources};

/// Writes a row a turn. A trial without tokens is left out; one whose turns do not fit together is an error that names the turn.
pub(super) fn tokens(
    paths: &[PathBuf],
    options: &ConvertOptions,
    out: &Path,
    report: &mut ConvertReport,
) -> Result<(), TraceError> {
    for path in paths {
        if let Input::Set(_) = Input::of(path)? {
            let detail = "is a set of rows, which hold no tokens; name the job".to_owned();
            return Err(TraceError::NotTraces { path: path.clone(), detail });
        }
    }
    let schema = vec![
        ("rollout_id", Kind::Text),
        ("task", Kind::Text),
        ("turn", Kind::Count),
        ("prompt_token_ids", Kind::Counts),
        ("completion_token_ids", Kind::Counts),
        ("logprobs", Kind::Numbers),
        ("reward", Kind::Number),
        ("run_id", Kind::Text),
        ("trial_name", Kind::Text),
    ];
    let mut table = Table::create(out, schema)?;
    let mut found = ExportReport::default();
    let index =
        Index::new(paths, ExportOptions { filter: options.filter, ..ExportOptions::default() }, &mut found)?;
    report.quarantined.append(&mut found.quarantined);
    report.odd.append(&mut found.odd);
    report.trials = found.trials;
    if found.filtered > 0 {
        report.left_out.insert("filter", found.filtered);
    }
    for trial in &index.trials {
        let Ok(directory) = index.roots[trial.place.root].below(&trial.place.names) else { continue };
        if trial.place.file.is_some() {
            report.leave_out("no tokens");
            continue;
        }
        let mut faults = Vec::new();
        let turns = turns(&directory, &mut faults);
        let path = index.path_of(&trial.place).display().to_string();
        report
            .odd
            .extend(faults.into_iter().map(|fault| LeftOut { path: path.clone(), why: fault.to_string() }));
        let turns = match turns {
            Ok(turns) => turns,
            Err(why) => {
                report.quarantined.push(LeftOut { path, why });
                continue;
            }
        };
        if turns.iter().all(Option::is_none) {
            report.leave_out("no tokens");
            continue;
        }
        let wrong = |turn: usize, detail: String| TraceError::Tokens {
            trial: trial.trial_name.to_string(),
            turn,
            detail,
        };
        let mut before: Vec<u32> = Vec::new();
        for (turn, record) in turns.into_iter().enumerate() {
            let record = record.ok_or_else(|| wrong(turn, "has no tokens, while other turns have".into()))?;
            let part = |part: Option<Vec<u32>>, name: &str| {
                part.ok_or_else(|| {
                    wrong(turn, format!("has no `{name}`, or one that holds no token numbers"))
                })
            };
            let prompt = part(record.prompt, "prompt_token_ids")?;
            let completion = part(record.completion, "completion_token_ids")?;
            let logprobs = record.logprobs.unwrap_or_default();
            if !logprobs.is_empty() && logprobs.len() != completion.len() {
                let (tokens, numbers) = (completion.len(), logprobs.len());
                return Err(wrong(turn, format!("has {tokens} tokens and {numbers} log probabilities")));
            }
            report.prefix_breaks += u64::from(turn > 0 && !prompt.starts_with(&before));
            before.clone_from(&prompt);
            before.extend(&completion);
            let ids = |ids: Vec<u32>| {
                ids.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>().map(Cell::Counts)
            };
            let too_large = |_| wrong(turn, "has a token number above 2147483647".into());
            table.write(vec![
                Cell::Text(Some(format!("{}/{}", trial.run_id, trial.trial_name).into())),
                Cell::Text(trial.head.task.as_deref().map(crate::Text::from)),
                Cell::Count(i64::try_from(turn).ok()),
                ids(prompt).map_err(too_large)?,
                ids(completion).map_err(too_large)?,
                Cell::Numbers(logprobs),
                Cell::Number(trial.head.counted_reward()),
                Cell::Text(Some(trial.run_id.clone())),
                Cell::Text(Some(trial.trial_name.clone())),
            ])?;
        }
        report.kept += 1;
    }
    report.samples = table.written;
    table.finish()
}

/// The tokens of every turn; `None` for a turn without.
fn turns(directory: &job::Directory, faults: &mut Vec<Fault>) -> Result<Vec<Option<TokenRecord>>, String> {
    let found =
        sources(directory, false, &mut Mended::default(), faults).map_err(|fault| fault.to_string())?;
    let steps = found.into_iter().flat_map(|source| source.chain).flat_map(|document| document.steps);
    let turns: Vec<_> =
        steps.filter(crate::Step::is_turn).map(|step| step.tokens.map(|tokens| *tokens)).collect();
    if turns.iter().any(Option::is_some) {
        return Ok(turns);
    }
    let recorded = load(directory, "result.json", &mut Mended::default(), |result| {
        let details = result.get("agent_result").and_then(|agent| agent.list("rollout_details"));
        Ok(details.unwrap_or_default().iter().flat_map(segment).collect())
    });
    let recorded: Vec<Option<TokenRecord>> = recorded.map_err(|fault| fault.to_string())?.unwrap_or_default();
    Ok(if recorded.is_empty() { turns } else { recorded })
}

/// The turns of one segment of `rollout_details`: an inner list a turn.
fn segment(details: &Json<'_>) -> Vec<Option<TokenRecord>> {
    let lists = |key: &str| details.list(key).unwrap_or_default();
    let (prompts, completions, logprobs) =
        (lists("prompt_token_ids"), lists("completion_token_ids"), lists("logprobs"));
    (0..prompts.len().max(completions.len()))
        .map(|turn| {
            let ids = |of: &[Json<'_>]| of.get(turn).and_then(|list| numbers(list.items()));
            let logprobs = logprobs.get(turn).map(|list| {
                list.items().iter().filter_map(Json::as_number).map(|number| number as f32).collect()
            });
            Some(TokenRecord { prompt: ids(prompts), completion: ids(completions), logprobs })
        })
        .collect()
}
