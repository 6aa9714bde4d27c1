//! The rules, one file a family.

mod alignment;
mod format;
mod history;
mod images;
mod instruction;
mod leaks;
mod limits;
mod links;
mod names;
mod patches;
mod scripts;
mod unapplied;
mod verifier;
mod workspace;

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
pub(crate) use links::LINK_ESCAPES;
pub use patches::check_patch;

use crate::facts::Facts;
use crate::report::Report;
use crate::rule::Rule;

/// The rules of one family and the function that applies them.
pub(crate) struct FamilyRules {
    /// Every rule that the function may report.
    pub(crate) rules: &'static [&'static Rule],
    /// Applies them to one task.
    pub(crate) check: fn(&Facts<'_>, &mut Report<'_>),
}

/// Every family; the order has no effect on the findings.
pub(crate) const FAMILIES: &[FamilyRules] = &[
    FamilyRules { rules: format::RULES, check: format::check },
    FamilyRules { rules: limits::RULES, check: limits::check },
    FamilyRules { rules: names::RULES, check: names::check },
    FamilyRules { rules: links::RULES, check: links::check },
    FamilyRules { rules: scripts::RULES, check: scripts::check },
    FamilyRules { rules: verifier::RULES, check: verifier::check },
    FamilyRules { rules: leaks::RULES, check: leaks::check },
    FamilyRules { rules: history::RULES, check: history::check },
    FamilyRules { rules: instruction::RULES, check: instruction::check },
    FamilyRules { rules: images::RULES, check: images::check },
    FamilyRules { rules: patches::RULES, check: patches::check },
    FamilyRules { rules: alignment::RULES, check: alignment::check },
    FamilyRules { rules: workspace::RULES, check: workspace::check },
    FamilyRules { rules: unapplied::RULES, check: unapplied::check },
];
