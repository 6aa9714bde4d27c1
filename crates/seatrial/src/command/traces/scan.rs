//! `seatrial traces scan`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use task::printable;
use trace::Hit;

use super::arguments::Scan;
use super::{failure, skipped};
use crate::failure::Result;
use crate::output::{Output, count, table};

/// So much of what was found is shown, in characters.
const SHOWN: usize = 60;

/// A scan that says which document it is.
#[derive(Serialize)]
struct Named {
    schema: &'static str,
    #[serde(flatten)]
    scan: trace::Scan,
}

/// Lists what should not be in training data.
pub fn run(output: Output, directory: &Path, arguments: &Scan) -> Result {
    let paths: Vec<_> = arguments.paths.iter().map(|path| directory.join(path)).collect();
    let scan = trace::scan(&paths).map_err(|error| failure(&error))?;
    let rows: Vec<_> = scan.hits.iter().map(row).collect();
    if !rows.is_empty() {
        output.print(table(["trial", "message", "byte", "", "what", "there"], rows))?;
        output.print("")?;
        let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for hit in &scan.hits {
            *kinds.entry((hit.class, hit.kind)).or_default() += 1;
        }
        let kinds =
            kinds.into_iter().map(|((class, kind), number)| [class.into(), kind.into(), number.to_string()]);
        output.print(table(["", "what", "times"], kinds))?;
        output.print("")?;
    }
    output.print(format_args!(
        "{}: {} with secrets, {} with signs, of which {} have a reward above 0",
        count(scan.trials as usize, "trial"),
        scan.trials_with_secrets,
        scan.trials_with_signs,
        scan.successes_with_signs
    ))?;
    super::export::named(output, "malformed", &scan.reading.quarantined);
    super::export::named(output, "odd", &scan.reading.odd);
    skipped(output, &scan.reading.read);
    output.json(&Named { schema: "seatrial.traces-scan/1", scan })
}

fn row(hit: &Hit) -> [String; 6] {
    let text: String = hit.text.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
    [
        printable(hit.trial_name.as_deref().unwrap_or("-").as_bytes()),
        hit.message.to_string(),
        hit.byte.to_string(),
        hit.class.into(),
        hit.kind.into(),
        printable(text.as_bytes()),
    ]
}
