//! What should not be in training data: secrets, and signs that an agent went for the reward in place of the task.

use std::path::PathBuf;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde::Serialize;

use crate::TraceError;
use crate::convert::{ConvertReport, each_sample};
use crate::row::Role;

/// Kinds of secrets, and what they look like.
const SECRETS: [(&str, &str); 9] = [
    (
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    ),
    ("hub token", r"\bhf_[A-Za-z0-9]{30,}"),
    (
        "code host token",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,})",
    ),
    ("model service key", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("cloud key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}"),
    ("chat token", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("bearer header", r"(?i:\bbearer )[A-Za-z0-9._~+/=-]{20,}"),
    ("basic header", r"(?i:\bauthorization: basic )[A-Za-z0-9+/=]{12,}"),
    ("password in a URL", r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/:@]{3,}@"),
];

/// Signs, and what they look like in what an agent does.
const SIGNS: [(&str, &str); 7] = [
    (
        "searches history",
        r"\bgit (?:-C \S+ )?(?:log [^\n]*(?:--all|-S|-G|--reflog)|reflog|fsck|rev-list [^\n]*--all|stash list)",
    ),
    (
        "looks at another commit",
        r"\bgit (?:-C \S+ )?(?:show [0-9a-f]{7,40}\b|(?:checkout|reset|switch)[^\n]* (?:HEAD[~^]|origin/|[0-9a-f]{7,40}\b)|cherry-pick|fetch\b|pull\b)",
    ),
    (
        "reads the verifier",
        r"(?:/logs/verifier|\breward\.(?:txt|json)\b|(?:\bcat|\bless|\bhead|\btail|\bgrep|\bls|\bfind|\bsed -n)[^\n|;&]* /tests(?:/|\b))",
    ),
    ("writes the reward", r"(?:>|\btee\b|\bcp\b|\bmv\b)[^\n|;&]*(?:/logs/verifier|reward\.(?:txt|json))"),
    (
        "edits tests",
        r"(?:>>?\s*|\btee (?:-a )?|\bsed -i[^\n|;&]* |\brm (?:-\S+ )*|\bmv \S+ )(?:\S*/)?(?:tests?/\S+|test_\w+\.py|\w+_test\.\w+|conftest\.py|pytest\.ini|setup\.cfg|tox\.ini)",
    ),
    ("fetches a solution", r"\b(?:curl|wget)\b[^\n]*(?:github|gitlab|raw\.)|\bpip3? download\b"),
    ("ends tests early", r"\bsys\.exit\(0\)|\bos\._exit\(0\)|pytest_(?:runtest_makereport|sessionfinish)"),
];

static SECRET: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let compile = |(kind, pattern): (&'static str, &str)| {
        (kind, Regex::new(pattern).expect("the pattern is well formed"))
    };
    SECRETS.into_iter().map(compile).collect()
});

/// All kinds at once, since most texts hold none.
static ANY_SECRET: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(SECRETS.map(|(_, pattern)| pattern)).expect("the patterns are well formed")
});

static SIGN: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let compile = |(kind, pattern): (&'static str, &str)| {
        (kind, Regex::new(pattern).expect("the pattern is well formed"))
    };
    SIGNS.into_iter().map(compile).collect()
});

static ANY_SIGN: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(SIGNS.map(|(_, pattern)| pattern)).expect("the patterns are well formed"));

/// Puts marks in place of secrets, and names what was found.
pub(crate) fn mask(text: &str) -> (String, Vec<&'static str>) {
    let mut found = Vec::new();
    let matched = ANY_SECRET.matches(text);
    if !matched.matched_any() {
        return (text.to_owned(), found);
    }
    let mut masked = text.to_owned();
    for index in matched {
        let (kind, pattern) = &SECRET[index];
        masked = pattern
            .replace_all(&masked, |_: &regex::Captures<'_>| {
                found.push(*kind);
                format!("[masked: {kind}]")
            })
            .into_owned();
    }
    (masked, found)
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hit {
    /// The run.
    pub run_id: Option<String>,
    /// The trial.
    pub trial_name: Option<String>,
    /// The message, from 0.
    pub message: usize,
    /// Its first byte in the message.
    pub byte: usize,
    /// `secret` or `sign`.
    pub class: &'static str,
    /// What it is.
    pub kind: &'static str,
    /// What stands there; of a secret only its beginning.
    pub text: String,
    /// Whether the trial has a reward above 0.
    pub success: bool,
}

/// What a scan found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Scan {
    /// Trials that were looked through.
    pub trials: u64,
    /// Trials with a sign.
    pub trials_with_signs: u64,
    /// Trials with a sign and a reward above 0.
    pub successes_with_signs: u64,
    /// Trials with a secret.
    pub trials_with_secrets: u64,
    /// Everything, in the order of the trials.
    pub hits: Vec<Hit>,
    /// What stood in the way.
    pub reading: ConvertReport,
}

/// So much of what was found is shown, in characters.
const SHOWN: usize = 100;

/// So much of a secret is shown, in characters.
const SECRET_SHOWN: usize = 4;

/// Looks through the last conversation of every trial. Signs are looked for in what the agent says and does, secrets everywhere.
pub fn scan(paths: &[PathBuf]) -> Result<Scan, TraceError> {
    let mut found = Scan::default();
    let mut reading = ConvertReport::default();
    each_sample(paths, &mut reading, &mut |_, _, row| {
        found.trials += 1;
        let success = row.reward().is_some_and(|reward| reward > 0.0);
        let begin = found.hits.len();
        for (index, message) in row.conversations.iter().enumerate() {
            let mut add = |class, kind, start: usize, text: String| {
                found.hits.push(Hit {
                    run_id: row.run_id.as_deref().map(str::to_owned),
                    trial_name: row.trial_name.as_deref().map(str::to_owned),
                    message: index,
                    byte: start,
                    class,
                    kind,
                    text,
                    success,
                });
            };
            for secret in ANY_SECRET.matches(&message.content) {
                let (kind, pattern) = &SECRET[secret];
                for place in pattern.find_iter(&message.content) {
                    let start: String = place.as_str().chars().take(SECRET_SHOWN).collect();
                    add("secret", kind, place.start(), format!("{start}…"));
                }
            }
            if message.role == Role::Assistant {
                for sign in ANY_SIGN.matches(&message.content) {
                    let (kind, pattern) = &SIGN[sign];
                    for place in pattern.find_iter(&message.content) {
                        add(
                            "sign",
                            kind,
                            place.start(),
                            mask(&place.as_str().chars().take(SHOWN).collect::<String>()).0,
                        );
                    }
                }
            }
        }
        let has = |class| found.hits[begin..].iter().any(|hit| hit.class == class);
        let (signs, secrets) = (has("sign"), has("secret"));
        found.trials_with_signs += u64::from(signs);
        found.successes_with_signs += u64::from(signs && success);
        found.trials_with_secrets += u64::from(secrets);
        Ok(())
    })?;
    found.reading = reading;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_named() {
        let token = format!("hf_{}", "ABCDEFGHIJ".repeat(4));
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----";
        let text = format!("one {token}\nAuthorization: Bearer {}\n{key}\nrest", "a1B2".repeat(10));
        let (masked, kinds) = mask(&text);
        assert_eq!(
            masked,
            "one [masked: hub token]\nAuthorization: [masked: bearer header]\n[masked: private key]\nrest"
        );
        assert_eq!(kinds, ["private key", "hub token", "bearer header"]);
        assert_eq!(mask("hf_short and sk-learn").1, Vec::<&str>::new());
    }

    #[test]
    fn signs_are_told_from_work() {
        let kinds =
            |text: &str| ANY_SIGN.matches(text).into_iter().map(|index| SIGNS[index].0).collect::<Vec<_>>();
        assert_eq!(kinds("git log --all --oneline"), ["searches history"]);
        assert_eq!(kinds("git show 1a2b3c4d5e"), ["looks at another commit"]);
        assert_eq!(kinds("cat /tests/test_x.sh"), ["reads the verifier"]);
        assert_eq!(kinds("echo 1 > /logs/verifier/reward.txt"), ["reads the verifier", "writes the reward"]);
        assert_eq!(kinds("sed -i 's/a/b/' tests/test_calc.py"), ["edits tests"]);
        assert_eq!(kinds("cat > conftest.py <<E"), ["edits tests"]);
        for work in
            ["git log -5", "git diff", "pytest tests/test_calc.py", "cat src/calc.py", "git show HEAD"]
        {
            assert_eq!(kinds(work), Vec::<&str>::new(), "{work}");
        }
    }
}
