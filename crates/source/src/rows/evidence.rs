//! Public evidence: agent runs, mean rewards, states of images. Ids are kept as given, known or not.

use record::{ImageState, ImageStatus, RewardMean, Trajectory};

use super::table::{Columns, Notes, uncompared};
use crate::read::{FieldFault, Row, RowProblem, Spot, Surrogates};

/// How trajectories are read; their messages are skipped.
pub(crate) const TRAJECTORIES: Columns<Trajectory> = Columns {
    wanted: &["instance_id", "model", "resolved", "traj_id"],
    id: "traj_id",
    bare: false,
    surrogates: Surrogates::Mend,
    fatal: |_| false,
    parse: trajectory,
    compare: uncompared,
};

/// How mean rewards are read.
pub(crate) const REWARD_MEANS: Columns<RewardMean> = Columns {
    wanted: &["instance_id_or_commit_hash", "reward_mean"],
    id: "instance_id_or_commit_hash",
    bare: false,
    surrogates: Surrogates::Mend,
    // A mean that is no number from 0 to 1 says that the whole list was computed wrongly.
    fatal: |problem| {
        matches!(problem, RowProblem::NonFinite(_) | RowProblem::TooLarge | RowProblem::Value(_))
    },
    parse: reward_mean,
    compare: uncompared,
};

/// How states of images are read.
pub(crate) const IMAGE_STATES: Columns<ImageState> = Columns {
    wanted: &["task_id", "status"],
    id: "task_id",
    bare: false,
    surrogates: Surrogates::Mend,
    fatal: |_| false,
    parse: image_state,
    compare: uncompared,
};

fn trajectory(row: &mut Row, notes: &mut Notes, spot: &Spot) -> Result<Trajectory, FieldFault> {
    let traj_id = row.text("traj_id")?;
    let instance_id = row.text("instance_id")?;
    let resolved = row.boolean("resolved")?;
    let model = row.optional_text("model")?;
    if model.is_none() {
        notes.count("rows without a model", 1, spot);
    }
    Ok(Trajectory { instance_id, model, resolved, traj_id })
}

fn reward_mean(row: &mut Row, _: &mut Notes, _: &Spot) -> Result<RewardMean, FieldFault> {
    let instance_id_or_commit_hash = row.text("instance_id_or_commit_hash")?;
    let reward_mean = row.number("reward_mean")?;
    if !(0.0..=1.0).contains(&reward_mean) {
        return Err(FieldFault::value(
            "reward_mean",
            format!("is {reward_mean}; expected a number from 0 to 1"),
        ));
    }
    Ok(RewardMean { instance_id_or_commit_hash, reward_mean })
}

fn image_state(row: &mut Row, _: &mut Notes, _: &Spot) -> Result<ImageState, FieldFault> {
    let task_id = row.text("task_id")?;
    let status = match row.text("status")?.as_str() {
        "completed" => ImageStatus::Completed,
        "skipped" => ImageStatus::Skipped,
        "pending" => ImageStatus::Pending,
        other => {
            let detail = format!("is {other:?}; expected completed, skipped or pending");
            return Err(FieldFault::value("status", detail));
        }
    };
    Ok(ImageState { task_id, status })
}
