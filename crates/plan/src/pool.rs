//! Filling one pool: forced tasks first, then rounds over the repositories, tier by tier, under the cap.

use std::collections::{BTreeMap, HashSet, VecDeque};

use ident::{RepoKey, TaskId};
use record::{ImageStatus, SweMaster};

use crate::evidence::Families;
use crate::order::OrderKey;
use crate::{PoolRules, PoolShortage, Reserve, Tier};

/// A member of a pool that is an instance, with everything that decides its place.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) id: TaskId,
    pub(crate) repo: RepoKey,
    pub(crate) base_image: &'a str,
    pub(crate) official: Families,
    pub(crate) rollouts: SweMaster,
    pub(crate) image: ImageStatus,
    pub(crate) tier: Option<Tier>,
    pub(crate) key: OrderKey,
    pub(crate) forced: bool,
    pub(crate) retained: bool,
    pub(crate) canary: bool,
}

impl Member<'_> {
    /// The tier's place, with none behind all others.
    fn rank(&self) -> (usize, OrderKey) {
        (self.tier.map_or(Tier::ALL.len(), |tier| tier as usize), self.key)
    }
}

/// A pool whose expressions are evaluated and checked.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    pub(crate) rules: &'a PoolRules,
    /// The initial cap in tasks.
    pub(crate) cap: u64,
    /// Ids in the membership set that are not instances.
    pub(crate) not_instances: u64,
    /// The others, in any order.
    pub(crate) members: Vec<Member<'a>>,
}

/// What became of a pool.
#[derive(Debug)]
pub(crate) struct Filled<'p, 'a> {
    /// Primaries in order of selection.
    pub(crate) primaries: Vec<&'p Member<'a>>,
    /// When each of them was selected.
    pub(crate) moments: Vec<Moment>,
    /// Replacements in the order in which they are taken.
    pub(crate) reserves: Vec<&'p Member<'a>>,
    /// How often the cap was raised by one.
    pub(crate) relaxed: u64,
    /// Members with a tier that are neither primaries nor reserves.
    pub(crate) eligible_left: u64,
    /// How the members divide.
    pub(crate) counts: PoolShortage,
}

/// When a task was selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before all rounds.
    Forced,
    /// In a round of its tier.
    Round {
        /// The round, counted from 1 anew for every tier and cap.
        number: u64,
        /// The cap that held.
        cap: u64,
    },
}

impl<'a> Pool<'a> {
    /// Selects primaries and reserves.
    pub(crate) fn fill<'p>(&'p self) -> Filled<'p, 'a> {
        let rules = self.rules;
        let target = usize::try_from(rules.target).unwrap_or(usize::MAX);
        let (mut forced, free): (Vec<_>, Vec<_>) = self.members.iter().partition(|member| member.forced);
        forced.sort_unstable_by_key(|member| member.rank());

        let usable = |member: &&&Member| !rules.require_image || member.image == ImageStatus::Completed;
        let mut queues = Queues::new(free.iter().filter(usable).copied());
        let mut counts = RepoCounts::default();
        for member in &forced {
            counts.add(&member.repo);
        }
        let forced_count = forced.len() as u64;
        let mut moments = vec![Moment::Forced; forced.len()];
        let mut primaries = forced;
        let mut cap = self.cap;
        queues.take(cap, target, &mut counts, &mut primaries, &mut moments);
        while rules.relax && primaries.len() < target && !queues.is_empty() {
            cap = cap.saturating_add(1);
            queues.take(cap, target, &mut counts, &mut primaries, &mut moments);
        }

        let taken: HashSet<&TaskId> = primaries.iter().map(|member| &member.id).collect();
        let left: Vec<&Member> = free.iter().filter(|member| !taken.contains(&member.id)).copied().collect();
        let reserves = self.reserves(&left);

        let short = primaries.len() < target;
        let waiting = queues.len();
        let no_evidence = free.iter().filter(|member| member.tier.is_none()).count() as u64;
        let eligible_left = left.iter().filter(|member| member.tier.is_some()).count() as u64;
        let eligible_reserves = reserves.iter().filter(|member| member.tier.is_some()).count() as u64;
        let counts = PoolShortage {
            stage: rules.stage.clone(),
            have: primaries.len() as u64,
            want: rules.target,
            members: self.not_instances + self.members.len() as u64,
            not_instances: self.not_instances,
            forced: forced_count,
            no_evidence,
            no_image: eligible_left - waiting,
            over_cap: if short { waiting } else { 0 },
            left: if short { 0 } else { waiting },
        };
        let eligible_left = eligible_left - eligible_reserves;
        Filled { primaries, moments, reserves, relaxed: cap - self.cap, eligible_left, counts }
    }

    /// Chooses replacements from what is left.
    fn reserves<'p>(&self, left: &[&'p Member<'a>]) -> Vec<&'p Member<'a>> {
        match self.rules.reserve {
            Reserve::Count(count) => {
                let mut reserves = Vec::new();
                let want = usize::try_from(count).unwrap_or(usize::MAX);
                let mut queues = Queues::new(left.iter().copied());
                queues.take(self.cap, want, &mut RepoCounts::default(), &mut reserves, &mut Vec::new());
                reserves
            }
            Reserve::Rest => {
                let mut reserves = left.to_vec();
                reserves
                    .sort_unstable_by_key(|member| (member.image != ImageStatus::Completed, member.rank()));
                reserves
            }
        }
    }
}

/// How many tasks of each repository a pool holds.
#[derive(Debug, Default)]
struct RepoCounts<'p>(BTreeMap<&'p RepoKey, u64>);

impl<'p> RepoCounts<'p> {
    fn of(&self, repo: &RepoKey) -> u64 {
        self.0.get(repo).copied().unwrap_or(0)
    }

    fn add(&mut self, repo: &'p RepoKey) {
        *self.0.entry(repo).or_default() += 1;
    }
}

/// For every tier, the waiting candidates of each repository in order.
#[derive(Debug)]
struct Queues<'p, 'a>([BTreeMap<&'p RepoKey, VecDeque<&'p Member<'a>>>; Tier::ALL.len()]);

impl<'p, 'a> Queues<'p, 'a> {
    /// Queues every candidate that has a tier.
    fn new(members: impl Iterator<Item = &'p Member<'a>>) -> Self {
        let mut sorted: Vec<&Member> = members.collect();
        sorted.sort_unstable_by_key(|member| member.key);
        let mut queues = Self(std::array::from_fn(|_| BTreeMap::new()));
        for member in sorted {
            if let Some(tier) = member.tier {
                queues.0[tier as usize].entry(&member.repo).or_default().push_back(member);
            }
        }
        queues
    }

    fn len(&self) -> u64 {
        self.0.iter().flat_map(BTreeMap::values).map(|queue| queue.len() as u64).sum()
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeMap::is_empty)
    }

    /// Moves candidates to `picked` until it holds `target`, in rounds, tier after tier.
    ///
    /// A round visits the repositories in the order of their heads at its start and takes at most one task of each; a
    /// tier ends with a round that takes nothing.
    fn take(
        &mut self,
        cap: u64,
        target: usize,
        counts: &mut RepoCounts<'p>,
        picked: &mut Vec<&'p Member<'a>>,
        moments: &mut Vec<Moment>,
    ) {
        for tier in &mut self.0 {
            for number in 1.. {
                let mut heads: Vec<(OrderKey, &'p RepoKey)> = tier
                    .iter()
                    .filter_map(|(repo, queue)| Some((queue.front()?.key, *repo)))
                    .filter(|(_, repo)| counts.of(repo) < cap)
                    .collect();
                if heads.is_empty() || picked.len() >= target {
                    break;
                }
                heads.sort_unstable();
                heads.truncate(target - picked.len());
                for (_, repo) in heads {
                    if let Some(queue) = tier.get_mut(repo)
                        && let Some(member) = queue.pop_front()
                    {
                        counts.add(repo);
                        picked.push(member);
                        moments.push(Moment::Round { number, cap });
                        if queue.is_empty() {
                            tier.remove(repo);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cap, ModelFamily};

    fn rules(target: u64, cap: u64) -> PoolRules {
        PoolRules {
            stage: "p".into(),
            members: "x".parse().unwrap(),
            target,
            cap: Cap::Tasks(cap),
            retain: None,
            force: None,
            require_image: false,
            relax: false,
            reserve: Reserve::Count(0),
        }
    }

    fn member(repo: &str, n: usize, tier: Option<Tier>) -> Member<'static> {
        let id = TaskId::new(format!("o__{repo}.00000000.pr_{n}")).unwrap();
        let official = Families::default();
        Member {
            repo: RepoKey::of_task(&id).unwrap(),
            key: OrderKey::new(&id, official),
            id,
            base_image: "",
            official,
            rollouts: SweMaster::None,
            image: ImageStatus::Completed,
            tier,
            forced: false,
            retained: false,
            canary: false,
        }
    }

    fn pool<'a>(rules: &'a PoolRules, members: Vec<Member<'a>>) -> Pool<'a> {
        Pool { rules, cap: rules.cap.of(rules.target), not_instances: 0, members }
    }

    fn repos(members: &[&Member]) -> String {
        members.iter().map(|member| member.repo.as_str().trim_start_matches("o/")).collect()
    }

    fn many(repo: &str, count: usize, tier: Tier) -> Vec<Member<'static>> {
        (0..count).map(|n| member(repo, n, Some(tier))).collect()
    }

    #[test]
    fn rounds_visit_every_repository_once() {
        let rules = rules(6, 3);
        let mut members = many("a", 9, Tier::OfficialOnly);
        members.extend(many("b", 2, Tier::OfficialOnly));
        members.extend(many("c", 1, Tier::OfficialOnly));
        let pool = pool(&rules, members);
        let picked = repos(&pool.fill().primaries);
        let sorted = |text: &str| {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            letters.into_iter().collect::<String>()
        };
        assert_eq!([sorted(&picked[..3]), sorted(&picked[3..5]), picked[5..].into()], ["abc", "ab", "a"]);
    }

    #[test]
    fn a_stronger_tier_is_used_up_to_the_cap_before_a_weaker_one() {
        let rules = rules(4, 2);
        let mut members = many("a", 5, Tier::CrossSource);
        members.extend(many("b", 5, Tier::SweMasterPartial));
        let pool = pool(&rules, members);
        assert_eq!(repos(&pool.fill().primaries), "aabb");
    }

    #[test]
    fn forced_tasks_count_and_may_exceed_the_cap() {
        let rules = rules(5, 2);
        let mut members = many("a", 6, Tier::CrossSource);
        members[..3].iter_mut().for_each(|member| member.forced = true);
        let mut bare = member("b", 9, None);
        bare.forced = true;
        members.push(bare);
        members.extend(many("b", 3, Tier::SweMasterFull));
        let pool = pool(&rules, members);
        let filled = pool.fill();
        assert_eq!(repos(&filled.primaries), "aaabb");
        assert_eq!((filled.counts.forced, filled.counts.left), (4, 5));
    }

    #[test]
    fn relaxing_goes_on_through_steps_that_add_nothing() {
        let mut rules = rules(6, 1);
        let mut members = many("a", 6, Tier::CrossSource);
        members[..4].iter_mut().for_each(|member| member.forced = true);
        let short = pool(&rules, members.clone()).fill().counts;
        assert_eq!((short.have, short.over_cap, short.left), (4, 2, 0));
        rules.relax = true;
        let pool = pool(&rules, members);
        let filled = pool.fill();
        assert_eq!((filled.primaries.len(), filled.relaxed), (6, 5));
    }

    #[test]
    fn images_matter_for_new_picks_only() {
        let mut rules = rules(3, 9);
        rules.require_image = true;
        rules.reserve = Reserve::Count(9);
        let mut members = many("a", 4, Tier::CrossSource);
        members[0].image = ImageStatus::Pending;
        members[0].forced = true;
        members[1].image = ImageStatus::Skipped;
        let pool = pool(&rules, members);
        let filled = pool.fill();
        assert_eq!((filled.counts.have, filled.counts.no_image), (3, 1));
        assert_eq!(filled.reserves.len(), 1, "reserves need no image");
    }

    #[test]
    fn counted_reserves_start_with_fresh_counts_and_the_initial_cap() {
        let mut rules = rules(3, 2);
        rules.relax = true;
        rules.reserve = Reserve::Count(10);
        let pool = pool(&rules, many("a", 8, Tier::CrossSource));
        let filled = pool.fill();
        assert_eq!((filled.primaries.len(), filled.relaxed), (3, 1));
        assert_eq!((filled.reserves.len(), filled.eligible_left), (2, 3));
    }

    #[test]
    fn the_rest_is_ordered_by_image_then_tier() {
        let mut rules = rules(0, 0);
        rules.reserve = Reserve::Rest;
        let mut members = vec![
            member("a", 0, None),
            member("b", 0, Some(Tier::SweMasterPartial)),
            member("c", 0, Some(Tier::CrossSource)),
            member("d", 0, Some(Tier::CrossSource)),
        ];
        members[2].image = ImageStatus::Pending;
        members[3].official = [ModelFamily::Gpt4o].into_iter().collect();
        let pool = pool(&rules, members);
        assert_eq!(repos(&pool.fill().reserves), "dbac");
    }
}
