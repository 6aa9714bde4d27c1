//! The profiles that come with the program.

use std::{collections::BTreeMap, sync::LazyLock};

use ident::{AliasTable, RepoKey};
use serde::Deserialize;

use super::{
    key::ProfileKey,
    repository::{Language, ProfileError, RepositoryProfile},
};
use crate::LogFormat;

/// The data as it stands in the program: an input of everything that is made with it.
pub const PROFILES_JSON: &str = include_str!("../../data/profiles.json");

/// The data, read once.
static TABLE: LazyLock<Vec<(RepoKey, RepositoryProfile)>> = LazyLock::new(|| {
    let document: Document = serde_json::from_str(PROFILES_JSON).expect("a test reads the same text");
    document.profiles()
});

/// The schema of the data.
const SCHEMA: &str = "seatrial.profiles/1";

/// The file: what holds for most repositories of a language stands once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    #[serde(rename = "collection")]
    _collection: String,
    languages: BTreeMap<Language, Common>,
    repositories: Vec<Entry>,
}

/// What holds for a language where a repository says nothing else.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    command: Option<String>,
    log: Option<LogFormat>,
    timeout_sec: Option<u64>,
    reference_timeout_sec: Option<u64>,
    toolchain: Option<String>,
    install: Option<Vec<String>>,
    interpreter: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    repository: String,
    commit: String,
    language: Language,
    command: Option<String>,
    log: Option<LogFormat>,
    timeout_sec: Option<u64>,
    reference_timeout_sec: Option<u64>,
    toolchain: Option<String>,
    install: Option<Vec<String>>,
    interpreter: Option<String>,
    #[serde(default)]
    narrow: bool,
    #[serde(default)]
    reference_per_task: bool,
    #[serde(default)]
    evaluation_sets: Vec<String>,
}

impl Document {
    fn profiles(self) -> Vec<(RepoKey, RepositoryProfile)> {
        assert_eq!(self.schema, SCHEMA, "a test reads the same text");
        let none = Common::default();
        let of = |entry: Entry| {
            let common = self.languages.get(&entry.language).unwrap_or(&none);
            let key = RepoKey::parse(&entry.repository).expect("a test reads the same text");
            let reference = entry.reference_timeout_sec.or(common.reference_timeout_sec);
            let profile = RepositoryProfile {
                repository: entry.repository,
                commit: entry.commit,
                language: entry.language,
                command: entry.command.or_else(|| common.command.clone()).unwrap_or_default(),
                log: entry.log.or(common.log),
                timeout_sec: entry.timeout_sec.or(common.timeout_sec).unwrap_or_default(),
                reference_timeout_sec: reference.unwrap_or_default(),
                toolchain: entry.toolchain.or_else(|| common.toolchain.clone()),
                install: entry.install.or_else(|| common.install.clone()).unwrap_or_default(),
                interpreter: entry.interpreter.or_else(|| common.interpreter.clone()),
                narrow: entry.narrow,
                reference_per_task: entry.reference_per_task,
                evaluation_sets: entry.evaluation_sets,
            };
            (key, profile)
        };
        self.repositories.into_iter().map(of).collect()
    }
}

/// Goes through all profiles, in the order of repository and commit.
pub fn known_profiles() -> impl Iterator<Item = &'static RepositoryProfile> {
    TABLE.iter().map(|(_, profile)| profile)
}

/// Finds the profile of what a collection calls `name`: a mirror, an instance, an image, or `owner/name@commit`
/// ([`ProfileKey::parse`] knows all spellings). Repositories that were renamed are found through `aliases`, under the
/// old name and the new one.
///
/// # Errors
/// [`ProfileError`] says whether the name, the repository or the commit is unknown.
pub fn profile_for(name: &str, aliases: &AliasTable) -> Result<&'static RepositoryProfile, ProfileError> {
    let key = ProfileKey::parse(name)?;
    let wanted = aliases.canonical(key.repository.clone());
    let of_repository: Vec<&RepositoryProfile> = TABLE
        .iter()
        .filter(|(known, _)| *known == key.repository || aliases.canonical(known.clone()) == wanted)
        .map(|(_, profile)| profile)
        .collect();
    let fitting: Vec<&'static RepositoryProfile> =
        of_repository.iter().copied().filter(|profile| key.is_commit(&profile.commit)).collect();
    let commits =
        |profiles: &[&RepositoryProfile]| profiles.iter().map(|profile| profile.commit.clone()).collect();
    let repository = key.repository.to_string();
    match (fitting.as_slice(), of_repository.is_empty()) {
        ([found], _) => Ok(found),
        ([], true) => Err(ProfileError::Repository(repository)),
        ([], false) => {
            Err(ProfileError::Commit { repository, wanted: key.commit, known: commits(&of_repository) })
        }
        (several, _) => {
            Err(ProfileError::Ambiguous { repository, wanted: key.commit, known: commits(several) })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::profiles::Unverifiable;

    fn find(name: &str) -> Result<&'static RepositoryProfile, ProfileError> {
        profile_for(name, &AliasTable::default())
    }

    #[test]
    fn the_data_is_whole_sorted_and_names_everything_once() {
        let mut names = Vec::new();
        for profile in known_profiles() {
            let name = profile.name();
            assert!(!profile.command.is_empty() && profile.command.trim() == profile.command, "{name}");
            assert!((1..=3_600).contains(&profile.timeout_sec), "{name}");
            assert!(profile.reference_timeout_sec >= profile.timeout_sec, "{name}");
            assert!((8..=40).contains(&profile.commit.len()), "{name}");
            assert!(
                profile.commit.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)),
                "{name}"
            );
            assert_eq!(find(&name), Ok(profile));
            assert_eq!(find(&profile.mirror()), Ok(profile));
            names.push((profile.repository.to_lowercase(), profile.commit.clone()));
        }
        assert!(names.is_sorted());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn facts_of_a_repository_stand_before_those_of_its_language() {
        let usual = find("swesmith/encode__starlette.db5063c2").unwrap();
        assert_eq!(usual.command, "pytest --disable-warnings --color=no --tb=no --verbose");
        assert_eq!(usual.log, Some(LogFormat::Pytest));
        assert_eq!((usual.timeout_sec, usual.reference_timeout_sec), (90, 900));
        assert_eq!(usual.toolchain.as_deref(), Some("python:3.10"));
        assert!(!usual.narrow);
        let own = find("paramiko__paramiko.23f92003").unwrap();
        assert_eq!(own.command, "pytest -rA --color=no --disable-warnings");
        assert_eq!(find("tokio-rs__tokio.ab3ff69c").unwrap().timeout_sec, 180);
        assert!(find("iterative__dvc.1d6ea681").unwrap().narrow);
    }

    #[test]
    fn renamed_repositories_are_found_under_both_names() {
        let aliases = AliasTable::new([("encode/starlette", "new-owner/starlette")]).unwrap();
        for name in ["new-owner/starlette@db5063c2", "Encode/Starlette@db5063c2"] {
            assert_eq!(profile_for(name, &aliases).unwrap().repository, "encode/starlette");
        }
        assert!(find("new-owner/starlette@db5063c2").is_err());
    }

    #[test]
    fn what_is_unknown_is_said() {
        assert!(matches!(find("nobody/nothing@01234567"), Err(ProfileError::Repository(_))));
        let error = find("encode/starlette@01234567").unwrap_err();
        assert!(error.to_string().contains("only at db5063c2"), "{error}");
        assert!(matches!(find("encode/starlette"), Err(ProfileError::Key(_))));
    }

    #[test]
    fn tasks_are_made_of_what_the_verifier_runs() {
        let repo = "swesmith/encode__starlette.db5063c2";
        let profile = find(repo).unwrap().to_profile(repo).unwrap();
        assert_eq!(profile.repo, repo);
        assert_eq!(profile.timeout_sec, None);
        let refused = |name: &str| find(name).unwrap().to_profile(name).unwrap_err();
        let java = known_profiles().find(|profile| profile.log == Some(LogFormat::Junit)).unwrap();
        let java = refused(&java.name());
        assert_eq!(java.name(), "runner_unsupported");
        assert!(java.to_string().contains("are java tests (junit)"), "{java}");
        let framework = |name: &str| find(name).unwrap().to_profile(name).unwrap().framework;
        assert_eq!(framework("gin-gonic__gin.3c12d2a8").as_deref(), Some("go"));
        assert_eq!(framework("un33k__python-slugify.872b3750").as_deref(), Some("unittest"));
        assert_eq!(framework("caolan__async.23dbf76a").as_deref(), Some("mocha"));
        assert_eq!(framework("markedjs__marked.dbf29d91").as_deref(), Some("node"));
        assert_eq!(framework("google__gson.dd2fe59c").as_deref(), Some("surefire"));
        // As docs/tasks.md says. The others take a shell, or the verifier does not run their runner.
        for (language, all, fine) in [
            (Language::Go, 87, 87),
            (Language::Java, 106, 65),
            (Language::Javascript, 82, 70),
            (Language::Python, 133, 133),
            (Language::Rust, 51, 50),
        ] {
            let of: Vec<_> = known_profiles().filter(|profile| profile.language == language).collect();
            let (made, refused): (Vec<_>, Vec<_>) =
                of.iter().map(|profile| profile.to_profile("x")).partition(Result::is_ok);
            let refused: Vec<_> =
                refused.into_iter().filter_map(Result::err).map(|why| why.to_string()).collect();
            assert_eq!((of.len(), made.len()), (all, fine), "{language:?}: {refused:#?}");
        }
        let uv = known_profiles().find(|profile| profile.command.contains("uv run pytest")).unwrap();
        assert_eq!(uv.to_profile("x").unwrap().env.get("UV_NO_SYNC").map(String::as_str), Some("1"));
        let shell = known_profiles().find(|profile| profile.command.starts_with("for FILE in ")).unwrap();
        let shell = shell.to_profile("x").unwrap_err();
        assert!(matches!(shell, Unverifiable::Command { .. }) && shell.to_string().contains("takes a shell"));
    }

    #[test]
    fn words_are_split_where_no_shell_is_needed() {
        let words = |name: &str| find(name).unwrap().words();
        let (env, argv) = words("markedjs__marked.dbf29d91").unwrap();
        assert_eq!(env.get("NO_COLOR").map(String::as_str), Some("1"));
        assert_eq!(argv, ["node", "--test"]);
        assert_eq!(words("gin-gonic__gin.3c12d2a8").unwrap().1, ["go", "test", "-v", "./..."]);
        let gradle = known_profiles().find(|profile| profile.command.contains("|| true")).unwrap();
        assert_eq!(gradle.words(), None);
    }
}
