//! The card of a set: what a hub's viewer and `datasets` read to load it.

use std::fmt::Write as _;

use super::{Column, Columns};

/// Writes the card.
pub(super) fn card(columns: &Columns, rows: u64, text_bytes: u64, file_bytes: u64) -> String {
    let mut features = String::new();
    for column in columns.iter() {
        let _ = writeln!(features, "  - name: {}", column.name());
        let fields = match column {
            Column::Conversations if columns.is_harbor() => ["role", "content"],
            Column::Conversations => ["content", "role"],
            Column::Sharegpt => ["from", "value"],
            _ => {
                features.push_str("    dtype: string\n");
                continue;
            }
        };
        features.push_str("    list:\n");
        for field in fields {
            let _ = writeln!(features, "    - name: {field}\n      dtype: string");
        }
    }
    format!(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*.parquet\n\
         dataset_info:\n  features:\n{features}  splits:\n  - name: train\n    num_bytes: {text_bytes}\n    \
         num_examples: {rows}\n  download_size: {file_bytes}\n  dataset_size: {text_bytes}\n---\n\n\
         # Traces\n\n{rows} rows, sorted by run, trial, source and turn. A row holds the conversation of one trial up to one \
         turn of\nthe agent. `result` is the reward as text, or the name of what went wrong; it is null when neither is known.\n\
         `trace_source` is `main` for the agent's own conversation, and names the helper otherwise.\n"
    )
}
