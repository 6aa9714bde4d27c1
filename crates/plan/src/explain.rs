//! Why one task is in a plan or is not, step by step.

use record::{ImageStatus, SweMaster};
use serde::Serialize;

use crate::evidence::tier;
use crate::outcome::Planner;
use crate::pool::{Filled, Member, Moment, Pool};
use crate::{CrossSource, InputErrors, ModelFamily, PlanInput, Reserve, SetExpr, Tier};

/// What decided about one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The task as asked for.
    pub task_id: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What was looked at, in order.
    pub steps: Vec<Step>,
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// It is selected.
    Primary {
        /// The pool.
        stage: String,
        /// Its place in the pool, counted from 1.
        place: u64,
    },
    /// It is a replacement.
    Reserve {
        /// The pool.
        stage: String,
        /// Its place among the pool's replacements, counted from 1.
        place: u64,
    },
    /// It belongs to a pool, which does not take it.
    Left {
        /// The pool.
        stage: String,
    },
    /// It belongs to no pool.
    InNoPool,
    /// No instance has this id.
    NoInstance,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What it is about: `instance`, `repository`, `sets`, `runs`, `rollouts`, `tier`, `image`, or a pool's name.
    pub about: String,
    /// What was found, as a phrase.
    pub finding: String,
}

/// Explains what a plan of `input` does with the task `id`. A shortage of a pool does not keep it from an answer.
pub fn explain(input: &PlanInput, id: &str) -> Result<Explanation, InputErrors> {
    let (planner, pools) = Planner::prepare(input)?;
    let mut explainer = Explainer { input, id, planner: &planner, steps: Vec::new() };
    let outcome = explainer.outcome(&pools);
    Ok(Explanation { task_id: id.to_owned(), outcome, steps: explainer.steps })
}

struct Explainer<'e, 'a> {
    input: &'a PlanInput,
    id: &'e str,
    planner: &'e Planner<'a>,
    steps: Vec<Step>,
}

impl<'a> Explainer<'_, 'a> {
    fn say(&mut self, about: &str, finding: impl Into<String>) {
        self.steps.push(Step { about: about.to_owned(), finding: finding.into() });
    }

    fn outcome(&mut self, pools: &[Pool<'a>]) -> Outcome {
        let known = self.instance();
        self.sets();
        if known {
            self.evidence();
        } else {
            self.unknown_evidence();
        }
        let mut outcome = if known { Outcome::InNoPool } else { Outcome::NoInstance };
        for pool in pools {
            let stage = pool.rules.stage.as_str();
            let Some(member) = pool.members.iter().find(|member| member.id.as_str() == self.id) else {
                self.say(stage, self.outside(&pool.rules.members));
                continue;
            };
            self.say(stage, format!("belongs to `{}`", pool.rules.members));
            outcome = self.in_pool(pool, member);
        }
        outcome
    }

    /// Whether there is an instance, and what its row and its id say.
    fn instance(&mut self) -> bool {
        let Some(candidate) = self.planner.catalog.get(self.id) else {
            self.say("instance", "no row of any source of instances has this id");
            return false;
        };
        let rows = self.input.instances.iter().filter(|row| row.id == self.id).count();
        let rows = if rows == 1 { "one row".to_owned() } else { format!("{rows} identical rows") };
        let image = match candidate.image.as_str() {
            "" => "which names no image".to_owned(),
            image => format!("image `{image}`"),
        };
        self.say("instance", format!("{rows}, {image}"));
        let named = ident::TaskId::new(self.id).ok().and_then(|id| candidate.repo_key(&id).ok());
        self.say(
            "repository",
            match named {
                None => "neither the id nor the row names one".to_owned(),
                Some(named) => match self.input.aliases.canonical(named.clone()) {
                    today if today == named => format!("`{named}`"),
                    today => format!("`{today}`, by an alias of `{named}`"),
                },
            },
        );
        true
    }

    /// The sets that list the task.
    fn sets(&mut self) {
        let sets = self.planner.sets.iter().filter(|(_, ids)| ids.contains(self.id));
        let names: Vec<String> = sets.map(|(name, _)| format!("`{name}`")).collect();
        self.say("sets", if names.is_empty() { "none lists it".to_owned() } else { names.join(", ") });
    }

    /// Evidence about a task that is no instance: it is reported, and counts for nothing.
    fn unknown_evidence(&mut self) {
        let runs = self.input.trajectories.iter().filter(|row| row.instance_id == self.id).count();
        let means = self.input.reward_means.iter();
        let means = means.filter(|row| row.instance_id_or_commit_hash == self.id).count();
        if runs + means > 0 {
            let finding = format!("{}, {means} of reward means, which count for nothing", of_rows(runs));
            self.say("evidence", finding);
        }
    }

    fn evidence(&mut self) {
        let evidence = &self.planner.evidence;
        let (official, rollouts) = (evidence.official(self.id), evidence.rollouts(self.id));
        let image = evidence.image(self.id);
        let rows = self.input.trajectories.iter().filter(|row| row.instance_id == self.id).count();
        let solved: Vec<&str> = official.iter().map(ModelFamily::name).collect();
        self.say(
            "runs",
            match (rows, solved.as_slice()) {
                (0, _) => "no published run".to_owned(),
                (rows, []) => format!("no published success in {}", of_rows(rows)),
                (rows, solved) => format!("solved by {} ({})", solved.join(", "), of_rows(rows)),
            },
        );
        let mean = self.input.reward_means.iter().find(|row| row.instance_id_or_commit_hash == self.id);
        self.say(
            "rollouts",
            match (mean, rollouts) {
                (Some(row), SweMaster::Full) => format!("reward mean {:?}: always solved", row.reward_mean),
                (Some(row), SweMaster::Partial) => {
                    format!("reward mean {:?}: sometimes solved", row.reward_mean)
                }
                (Some(row), _) => format!("reward mean {:?}: never solved", row.reward_mean),
                (None, _) => "no reward mean".to_owned(),
            },
        );
        let rule = self.input.cross_source;
        let tier = tier(official, rollouts, rule);
        self.say(
            "tier",
            tier.map_or_else(
                || "none: no success in either kind of evidence".to_owned(),
                |tier| format!("{} ({}): {}", tier.number(), tier.name(), reason(tier, rule)),
            ),
        );
        self.say("image", state(image));
    }

    /// Why the id is not in a set expression: which of its sets have it.
    fn outside(&self, expression: &SetExpr) -> String {
        let has = |name: &&str| self.planner.sets.get(*name).is_some_and(|ids| ids.contains(self.id));
        let (inside, outside): (Vec<&str>, Vec<&str>) = expression.names().into_iter().partition(has);
        let listed =
            |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let mut finding = format!("does not belong to `{expression}`:");
        if !inside.is_empty() {
            finding = format!("{finding} it is in {}", listed(&inside));
        }
        if !outside.is_empty() {
            let and = if inside.is_empty() { " it is" } else { " and" };
            finding = format!("{finding}{and} not in {}", listed(&outside));
        }
        finding
    }

    fn in_pool(&mut self, pool: &Pool<'a>, member: &Member<'a>) -> Outcome {
        let filled = pool.fill();
        let (rules, stage) = (pool.rules, pool.rules.stage.clone());
        let place = |list: &[&Member]| list.iter().position(|other| other.id == member.id);
        if let Some(at) = place(&filled.primaries) {
            let how = match filled.moments.get(at) {
                Some(Moment::Round { number, cap }) => format!(
                    "taken in round {number} of its tier, when `{}` had fewer than {cap} tasks here",
                    member.repo
                ),
                _ => forced(member, pool),
            };
            self.say(&stage, how);
            let place = at as u64 + 1;
            self.say(&stage, format!("selected: number {place} of {}", rules.target));
            return Outcome::Primary { stage, place };
        }
        self.say(&stage, passed_over(pool, &filled, member));
        if let Some(at) = place(&filled.reserves) {
            let place = at as u64 + 1;
            self.say(&stage, format!("kept ready: number {place} of {} reserves", filled.reserves.len()));
            return Outcome::Reserve { stage, place };
        }
        self.say(
            &stage,
            match rules.reserve {
                Reserve::Count(0) => "the pool keeps no reserves".to_owned(),
                Reserve::Count(_) if member.tier.is_none() => {
                    "no reserve: reserves need evidence too".to_owned()
                }
                Reserve::Count(wanted) if (filled.reserves.len() as u64) < wanted => {
                    format!("no reserve: `{}` already has {} of them", member.repo, pool.cap)
                }
                Reserve::Count(_) => {
                    let held =
                        filled.reserves.iter().filter(|other| other.repo == member.repo).count() as u64;
                    if held >= pool.cap {
                        format!("no reserve: `{}` already has {held} of them", member.repo)
                    } else {
                        format!("no reserve: all {} were found before its turn", filled.reserves.len())
                    }
                }
                Reserve::Rest => "no reserve".to_owned(),
            },
        );
        Outcome::Left { stage }
    }
}

/// Which expression of the pool forces a task.
fn forced(member: &Member, pool: &Pool) -> String {
    let by = match (&pool.rules.retain, &pool.rules.force) {
        (Some(retain), _) if member.retained => format!("retain = `{retain}`"),
        (_, Some(force)) => format!("force = `{force}`"),
        _ => "the recipe".to_owned(),
    };
    format!("forced by {by}: taken before all rounds, whatever its evidence, its image and the cap")
}

/// Why a member is no primary.
fn passed_over(pool: &Pool, filled: &Filled, member: &Member) -> String {
    let Some(tier) = member.tier else {
        return "not eligible: it has no tier".to_owned();
    };
    if pool.rules.require_image && member.image != ImageStatus::Completed {
        return format!("not eligible: the pool asks for an image, and {}", state(member.image));
    }
    let queue: Vec<&Member> = pool.members.iter().filter(|other| waits(other, pool, member)).collect();
    let before = queue.iter().filter(|other| other.key < member.key).count();
    let taken = |repo| filled.primaries.iter().filter(|other| other.repo == repo).count() as u64;
    let (held, cap) = (taken(member.repo.clone()), pool.cap + filled.relaxed);
    let place = format!(
        "number {} of {} in its repository's queue of tier {}",
        before + 1,
        queue.len(),
        tier.number()
    );
    // The target ends the filling; until then nothing but the cap keeps a waiting task out.
    let last =
        filled.primaries.iter().zip(&filled.moments).rev().find(|(_, moment)| **moment != Moment::Forced);
    let last = last.and_then(|(member, _)| member.tier);
    let short = filled.counts.have < filled.counts.want;
    if short || (held >= cap && last.is_some_and(|last| last >= tier)) {
        format!("{place}; `{}` has {held} selected tasks, and the cap is {cap}", member.repo)
    } else {
        match last {
            Some(last) if last < tier => format!("{place}; the target was reached in tier {}", last.number()),
            Some(_) => format!("{place}; the target was reached before its turn"),
            None => format!("{place}; the forced tasks fill the pool"),
        }
    }
}

/// Whether `other` stands in the same queue as `member`.
fn waits(other: &Member, pool: &Pool, member: &Member) -> bool {
    let usable = !pool.rules.require_image || other.image == ImageStatus::Completed;
    !other.forced && usable && other.repo == member.repo && other.tier == member.tier
}

fn reason(tier: Tier, rule: CrossSource) -> &'static str {
    match (tier, rule) {
        (Tier::CrossSource, CrossSource::Any) => "a published success, and a reward mean above 0",
        (Tier::CrossSource, CrossSource::Full) => "a published success, and a reward mean of exactly 1",
        (Tier::OfficialOnly, CrossSource::Any) => "a published success, and no reward mean above 0",
        (Tier::OfficialOnly, CrossSource::Full) => "a published success, and no reward mean of exactly 1",
        (Tier::SweMasterFull, _) => "no published success, and a reward mean of exactly 1",
        (Tier::SweMasterPartial, _) => "no published success, and a reward mean between 0 and 1",
    }
}

fn state(image: ImageStatus) -> String {
    match image {
        ImageStatus::Completed => "its image is there".to_owned(),
        ImageStatus::Skipped => "its image was left out on purpose".to_owned(),
        ImageStatus::Pending => "nothing is known of its image yet".to_owned(),
    }
}

fn of_rows(rows: usize) -> String {
    if rows == 1 { "1 row of runs".to_owned() } else { format!("{rows} rows of runs") }
}

#[cfg(test)]
mod tests {
    use record::{ImageState, RewardMean, Trajectory};

    use super::*;
    use crate::{Candidate, Cap, PoolRules};

    fn id(repo: &str, n: usize) -> String {
        format!("o__{repo}.0123abcd.pr_{n}")
    }

    /// Six tasks of `o/a` and two of `o/b`, all solved, three places, a cap of two.
    fn sample() -> PlanInput {
        let ids: Vec<String> = (0..6).map(|n| id("a", n)).chain((0..2).map(|n| id("b", n))).collect();
        let candidate = |id: &String| Candidate {
            id: id.clone(),
            repo: String::new(),
            image: "org/image".into(),
            row: None,
        };
        let run = |id: &String| Trajectory {
            instance_id: id.clone(),
            model: Some("gpt-4o".into()),
            resolved: true,
            traj_id: id.clone(),
        };
        PlanInput {
            instances: ids.iter().map(candidate).collect(),
            trajectories: ids.iter().map(run).collect(),
            sets: [("all".to_owned(), ids.clone()), ("none".to_owned(), vec![])].into(),
            pools: vec![PoolRules {
                stage: "main".into(),
                members: "all - none".parse().unwrap(),
                target: 3,
                cap: Cap::Tasks(2),
                retain: None,
                force: None,
                require_image: false,
                relax: false,
                reserve: Reserve::Count(1),
            }],
            ..PlanInput::default()
        }
    }

    fn explained(input: &PlanInput, id: &str) -> (Outcome, String) {
        let explanation = explain(input, id).unwrap();
        let steps = explanation.steps.iter().map(|step| format!("{}: {}", step.about, step.finding));
        (explanation.outcome, steps.collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn every_task_of_a_plan_is_explained_as_it_is_planned() {
        let input = sample();
        let planned = crate::plan(&input).unwrap();
        let stage = || "main".to_owned();
        for (at, task) in planned.plan.tasks.iter().enumerate() {
            let (outcome, text) = explained(&input, task.task_id.as_str());
            assert_eq!(outcome, Outcome::Primary { stage: stage(), place: at as u64 + 1 });
            assert!(text.contains("had fewer than 2 tasks here"), "{text}");
        }
        let reserve = &planned.reserves.tasks[0].task_id;
        assert_eq!(explained(&input, reserve.as_str()).0, Outcome::Reserve { stage: stage(), place: 1 });
        let listed = |id: &str| {
            let mut all = planned.plan.tasks.iter().chain(&planned.reserves.tasks);
            all.any(|task| task.task_id.as_str() == id)
        };
        for row in input.instances.iter().filter(|row| !listed(&row.id)) {
            let (outcome, text) = explained(&input, &row.id);
            assert_eq!(outcome, Outcome::Left { stage: stage() });
            assert!(text.contains("in its repository's queue of tier 2"), "{text}");
        }
    }

    #[test]
    fn the_cap_and_the_target_are_told_apart() {
        let mut input = sample();
        input.pools[0].target = 4;
        input.pools[0].reserve = Reserve::Count(0);
        let left = |input: &PlanInput| {
            let left = input
                .instances
                .iter()
                .find(|row| matches!(explained(input, &row.id).0, Outcome::Left { .. }));
            explained(input, &left.unwrap().id).1
        };
        assert!(left(&input).contains("`o/a` has 2 selected tasks, and the cap is 2"), "{}", left(&input));
        input.pools[0].cap = Cap::Tasks(9);
        assert!(left(&input).contains("the target was reached before its turn"), "{}", left(&input));
        // A shortage is explained too.
        input.pools[0].target = 99;
        input.pools[0].cap = Cap::Tasks(1);
        assert!(crate::plan(&input).is_err());
        assert!(left(&input).contains("the cap is 1"), "{}", left(&input));
    }

    #[test]
    fn what_keeps_a_task_out_before_all_rounds_is_said() {
        let mut input = sample();
        let bare = id("c", 0);
        input.instances.push(Candidate {
            id: bare.clone(),
            repo: String::new(),
            image: String::new(),
            row: None,
        });
        let (outcome, text) = explained(&input, &bare);
        assert_eq!(outcome, Outcome::InNoPool);
        assert!(text.contains("does not belong to `all - none`: it is not in `all`, `none`"), "{text}");
        input.sets.get_mut("all").unwrap().push(bare.clone());
        assert!(explained(&input, &bare).1.contains("not eligible: it has no tier"));
        input.reward_means = vec![RewardMean { instance_id_or_commit_hash: bare.clone(), reward_mean: 0.5 }];
        input.pools[0].require_image = true;
        let text = explained(&input, &bare).1;
        assert!(text.contains("reward mean 0.5") && text.contains("nothing is known of its image"), "{text}");
        input.image_states = vec![ImageState { task_id: bare.clone(), status: ImageStatus::Skipped }];
        assert!(explained(&input, &bare).1.contains("left out on purpose"));
        input.pools[0].force = Some("all & kept".parse().unwrap());
        input.sets.insert("kept".into(), vec![bare.clone()]);
        let (outcome, text) = explained(&input, &bare);
        assert!(matches!(outcome, Outcome::Primary { place: 1, .. }), "{outcome:?}");
        assert!(text.contains("forced by force = `all & kept`"), "{text}");
    }

    #[test]
    fn aliases_and_strangers_are_named() {
        let mut input = sample();
        input.aliases = ident::AliasTable::new([("o/a", "today/a")]).unwrap();
        let (_, text) = explained(&input, &id("a", 0));
        assert!(text.contains("repository: `today/a`, by an alias of `o/a`"), "{text}");
        let (outcome, text) = explained(&input, "gone");
        assert_eq!(outcome, Outcome::NoInstance);
        assert!(text.contains("no row of any source of instances"), "{text}");
    }
}
