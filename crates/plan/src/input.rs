//! What a plan is made from.

use std::collections::BTreeMap;
use std::str::FromStr;

use ident::AliasTable;
use record::{ImageState, RewardMean, SourceInput, Trajectory};

use crate::{Candidate, ModelTable, SetExpr};

/// Everything that decides a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanInput {
    /// What was read, by source name; copied into the documents.
    pub inputs: BTreeMap<String, SourceInput>,
    /// Every row of every source of instances.
    pub instances: Vec<Candidate>,
    /// Every row of the published agent runs.
    pub trajectories: Vec<Trajectory>,
    /// Every row of the reward means.
    pub reward_means: Vec<RewardMean>,
    /// Every known state of an image.
    pub image_states: Vec<ImageState>,
    /// Named id lists. Every source with ids is one of them, under its own name.
    pub sets: BTreeMap<String, Vec<String>>,
    /// How names of models are mapped to families.
    pub models: ModelTable,
    /// What counts as success in both kinds of evidence.
    pub cross_source: CrossSource,
    /// Renames, forks and mirrors.
    pub aliases: AliasTable,
    /// The pools in the order in which they are filled.
    pub pools: Vec<PoolRules>,
}

/// When a task counts as solved in both kinds of evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CrossSource {
    /// A reward mean above 0 is enough.
    #[default]
    Any,
    /// The reward mean must be exactly 1.
    Full,
}

/// One pool of the recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRules {
    /// The pool's name.
    pub stage: String,
    /// Which ids belong to it.
    pub members: SetExpr,
    /// How many tasks are wanted.
    pub target: u64,
    /// Most tasks of one repository.
    pub cap: Cap,
    /// Members that must be kept.
    pub retain: Option<SetExpr>,
    /// Members that must be taken.
    pub force: Option<SetExpr>,
    /// Whether new picks need an image that is there.
    pub require_image: bool,
    /// Whether the cap may grow when the target is not reached.
    pub relax: bool,
    /// How many replacements are kept ready.
    pub reserve: Reserve,
}

/// How many replacements a pool keeps ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// At most that many, by the rules of the pool.
    Count(u64),
    /// Everything that is left.
    Rest,
}

/// Most tasks of one repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// That many.
    Tasks(u64),
    /// A share of the pool's target, rounded up.
    Share(Percent),
}

impl Cap {
    /// The cap in tasks for a pool of `target` tasks.
    pub fn of(self, target: u64) -> u64 {
        match self {
            Self::Tasks(tasks) => tasks,
            Self::Share(percent) => percent.of(target),
        }
    }
}

/// An exact decimal percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent {
    /// The digits without the point.
    digits: u64,
    /// How many of the digits stand behind the point.
    scale: u32,
}

/// Why a text is no percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no share: write a plain decimal with at most 18 digits and a percent sign, such as 5% or 2.5%"
)]
pub struct CapError(String);

impl Percent {
    /// That share of `whole`, rounded up; a share beyond the range of the type is the largest number.
    pub fn of(self, whole: u64) -> u64 {
        // At most 64 bits times 60 bits, so the product is exact.
        let share = u128::from(whole) * u128::from(self.digits);
        u64::try_from(share.div_ceil(100 * 10u128.pow(self.scale))).unwrap_or(u64::MAX)
    }
}

impl FromStr for Percent {
    type Err = CapError;

    /// Reads `5%`, `2.5%`, or the digits alone.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || CapError(text.chars().take(40).collect());
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        if !plain(whole) || !plain(fraction) || whole.len() + fraction.len() > 18 {
            return Err(wrong());
        }
        let digits = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        Ok(Self { digits, scale: u32::try_from(fraction.len()).map_err(|_| wrong())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str, whole: u64) -> u64 {
        Cap::Share(text.parse().unwrap()).of(whole)
    }

    #[test]
    fn shares_are_rounded_up_exactly() {
        assert_eq!(share("5%", 350), 18);
        assert_eq!(share("5", 350), 18);
        assert_eq!(share("5%", 340), 17);
        assert_eq!(share("5%", 0), 0);
        // 0.07 * 100 is 7.000000000000001 in binary arithmetic, which would round up to 8.
        assert_eq!(share("7%", 100), 7);
        assert_eq!(share("0.1%", 1000), 1);
        assert_eq!(share("0.1%", 1001), 2);
        assert_eq!(share("2.50%", 40), 1);
        assert_eq!(share("100%", u64::MAX), u64::MAX);
        assert_eq!(share("99999999999999999%", u64::MAX), u64::MAX);
    }

    #[test]
    fn other_texts_are_no_share() {
        for text in [
            "",
            "%",
            "5%%",
            " 5%",
            "-5%",
            "+5%",
            "5e1%",
            ".5%",
            "5.%",
            "1.2.3%",
            "٥%",
            "1234567890123456789%",
        ] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
