//! Counts of trials by what came out, and the means over them.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::view::{TrialState, TrialView};

/// How many trials came out how.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    /// With a reward that counts.
    pub rewarded: usize,
    /// Failed, without a reward that counts.
    pub errored: usize,
    /// Ended without reward and without failure.
    pub ungraded: usize,
    /// With a directory and no result that can be read.
    pub incomplete: usize,
    /// At work.
    pub running: usize,
    sum: f64,
}

/// A mean and what it is over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// How many trials it is over.
    pub over: usize,
}

impl Tally {
    /// Counts one trial.
    pub fn add(&mut self, trial: &TrialView) {
        match trial.state {
            TrialState::Rewarded { reward, .. } => self.add_ended(Some(reward)),
            TrialState::Errored { .. } => self.add_ended(None),
            TrialState::Ungraded => self.ungraded += 1,
            TrialState::Incomplete { .. } => self.incomplete += 1,
            TrialState::Running => self.running += 1,
        }
    }

    /// Counts one trial that has ended: rewarded with the reward that counts, or errored.
    pub fn add_ended(&mut self, reward: Option<f64>) {
        match reward {
            Some(reward) => {
                self.rewarded += 1;
                self.sum += reward;
            }
            None => self.errored += 1,
        }
    }

    /// Trials that have a result.
    pub const fn ended(&self) -> usize {
        self.rewarded + self.errored + self.ungraded
    }

    /// Trials that have a directory.
    pub const fn seen(&self) -> usize {
        self.ended() + self.incomplete + self.running
    }

    /// The mean reward over the trials that have one; the errored ones are left out.
    pub fn graded(&self) -> Option<Mean> {
        self.mean(self.rewarded)
    }

    /// The mean reward over the rewarded and the errored trials, with 0 for the errored ones. It is the mean over all planned
    /// trials as soon as [`Mean::over`] is their number; what has no outcome yet is in no mean.
    pub fn errors_as_zero(&self) -> Option<Mean> {
        self.mean(self.rewarded + self.errored)
    }

    fn mean(&self, over: usize) -> Option<Mean> {
        (over > 0).then(|| Mean { mean: self.sum / over as f64, over })
    }
}

impl<'a> FromIterator<&'a TrialView> for Tally {
    fn from_iter<T: IntoIterator<Item = &'a TrialView>>(trials: T) -> Self {
        let mut tally = Self::default();
        trials.into_iter().for_each(|trial| tally.add(trial));
        tally
    }
}

impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tally = serializer.serialize_struct("Tally", 7)?;
        tally.serialize_field("rewarded", &self.rewarded)?;
        tally.serialize_field("errored", &self.errored)?;
        tally.serialize_field("ungraded", &self.ungraded)?;
        tally.serialize_field("incomplete", &self.incomplete)?;
        tally.serialize_field("running", &self.running)?;
        tally.serialize_field("mean_graded", &self.graded())?;
        tally.serialize_field("mean_errors_as_zero", &self.errors_as_zero())?;
        tally.end()
    }
}
