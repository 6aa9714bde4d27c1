//! Which profile an instance is made with: the project's own, or one that comes with the program.

use grade::{ProfileError, RepositoryProfile};
use ident::AliasTable;
use record::Profile;

use crate::trees::NoTree;

/// The profile of one instance.
pub struct Chosen {
    /// How the tests are run.
    pub profile: Profile,
    known: Option<&'static RepositoryProfile>,
}

impl Chosen {
    /// Takes the project's own profile, else the one that is known of the repository `repo`.
    pub fn of(own: Option<&Profile>, repo: &str, aliases: &AliasTable) -> Result<Self, NoTree> {
        if let Some(own) = own {
            return Ok(Self { profile: own.clone(), known: None });
        }
        let known = grade::profile_for(repo, aliases).map_err(|error| {
            let why = match error {
                ProfileError::Key(_) => String::new(),
                other => format!(", and {other}"),
            };
            ("profile_missing", format!("no source gives a profile of `{repo}`{why}"))
        })?;
        let profile = known.to_profile(repo).map_err(|error| (error.name(), error.to_string()))?;
        Ok(Self { profile, known: Some(known) })
    }

    /// The limit of one suite run: the own profile's, else the recipe's. A known profile makes it longer where the
    /// collection found that the suite takes longer, and never shorter.
    pub fn timeout_sec(&self, recipe: u64) -> u64 {
        match self.known {
            Some(known) => recipe.max(known.timeout_sec),
            None => self.profile.timeout_sec.unwrap_or(recipe),
        }
    }

    /// The interpreter of the suite inside the collection's own image; an own profile names none.
    pub fn interpreter(&self) -> Option<&'static str> {
        self.known?.interpreter.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPO: &str = "swesmith/encode__starlette.db5063c2";

    fn own(timeout_sec: Option<u64>) -> Profile {
        Profile {
            repo: REPO.into(),
            package: None,
            version: None,
            sdist: None,
            sha256: None,
            framework: None,
            test_cmd: "pytest -q".into(),
            env: std::collections::BTreeMap::new(),
            test_files: Vec::new(),
            timeout_sec,
        }
    }

    #[test]
    fn own_profiles_come_first() {
        let chosen = Chosen::of(Some(&own(Some(20))), REPO, &AliasTable::default()).unwrap();
        assert_eq!(chosen.profile.test_cmd, "pytest -q");
        assert_eq!((chosen.timeout_sec(180), chosen.interpreter()), (20, None));
        let chosen = Chosen::of(Some(&own(None)), REPO, &AliasTable::default()).unwrap();
        assert_eq!(chosen.timeout_sec(10), 10);
    }

    #[test]
    fn known_profiles_lengthen_limits_and_never_shorten_them() {
        let chosen = Chosen::of(None, REPO, &AliasTable::default()).unwrap();
        assert_eq!(chosen.profile.repo, REPO);
        assert_eq!((chosen.timeout_sec(180), chosen.timeout_sec(10)), (180, 90));
        assert_eq!(chosen.interpreter(), Some("/opt/miniconda3/envs/testbed/bin/python"));
    }

    #[test]
    fn what_cannot_be_chosen_is_named() {
        let refused = |repo: &str| Chosen::of(None, repo, &AliasTable::default()).err().unwrap();
        assert_eq!(refused("mini/shop").0, "profile_missing");
        let (reason, detail) = refused("swesmith/encode__starlette.01234567");
        assert_eq!(reason, "profile_missing");
        assert!(detail.contains("only at db5063c2"), "{detail}");
        assert_eq!(refused("swesmith/spring-projects__spring-boot.f73a809c").0, "runner_unsupported");
    }
}
