//! The reward contract on the host's side: what the verifier left in `/logs/verifier`, read with bounds.

use std::collections::BTreeMap;
use std::io::Read;

use grade::{RewardError, VerifierReport};
use record::Reason;
use sandbox::{Archive, ExitStatus};
use serde_json::Number;

use crate::files::plain_name;

/// No reward file is larger than this.
const REWARD_LIMIT: u64 = 64 << 10;
/// No report of the vendored verifier comes near this.
const REPORT_LIMIT: u64 = 64 << 20;

const TEXT: &str = "reward.txt";
const JSON: &str = "reward.json";
const REPORT: &str = "report.json";

/// What stands under the name of a reward file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Found {
    #[default]
    Nothing,
    File(Vec<u8>),
    /// A link, a directory, a special file, or one that is too large.
    Unsafe(String),
}

/// What was graded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graded {
    /// All rewards that the verifier named, and the one called `reward`.
    pub(crate) rewards: BTreeMap<String, f64>,
    /// The same as numbers for documents: what `reward.json` writes as an integer stays one.
    pub(crate) numbers: BTreeMap<String, Number>,
    /// What is doubtful about them.
    pub(crate) flags: Vec<(Reason, String)>,
}

/// The verifier's directory as it came out of the sandbox, as far as it says something.
#[derive(Debug, Default)]
pub(crate) struct VerifierFiles {
    text: Found,
    json: Found,
    report: Option<Vec<u8>>,
}

impl VerifierFiles {
    /// The files that say something, with the most that is read of each.
    pub(crate) const NAMES: [(&str, u64); 3] =
        [(TEXT, REWARD_LIMIT), (JSON, REWARD_LIMIT), (REPORT, REPORT_LIMIT)];

    /// Reads the tar stream of `/logs/verifier`. Links and special files are noted, never followed; what is larger than its
    /// bound is not read.
    pub(crate) fn take(&mut self, archive: &Archive) -> std::io::Result<()> {
        for entry in archive.as_tar().entries()? {
            let mut entry = entry?;
            let Some(name) = plain_name(&entry.path()?) else { continue };
            let Some((_, limit)) = Self::NAMES.iter().find(|(known, _)| name == *known) else { continue };
            let kind = entry.header().entry_type();
            let found = if kind.is_file() && entry.size() > *limit {
                Found::Unsafe(format!("a file of {} bytes, more than {} KiB,", entry.size(), limit >> 10))
            } else if kind.is_file() {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes)?;
                Found::File(bytes)
            } else if kind.is_dir() {
                Found::Unsafe("a directory".into())
            } else if kind.is_symlink() || kind.is_hard_link() {
                Found::Unsafe("a link".into())
            } else {
                Found::Unsafe("a special file".into())
            };
            self.set(&name, found);
        }
        Ok(())
    }

    /// Notes that something without content, or with too much of it, stands under a name.
    pub(crate) fn refuse(&mut self, name: &str, what: &str) {
        self.set(name, Found::Unsafe(what.to_owned()));
    }

    fn set(&mut self, name: &str, found: Found) {
        match (name, found) {
            (TEXT, found) => self.text = found,
            (JSON, found) => self.json = found,
            (_, Found::File(bytes)) => self.report = Some(bytes),
            _ => {}
        }
    }

    /// Whether there is nothing under either name of a reward file.
    pub(crate) fn has_no_reward_file(&self) -> bool {
        self.text == Found::Nothing && self.json == Found::Nothing
    }

    /// Why what lies there is not the verifier's word, where the way in which its script ended says so.
    ///
    /// Code under test can end the verifier and leave a reward in its name. The vendored verifier ends with 0 when it has given
    /// one. Other verifiers end as they like, but one that a signal ended did not come to its end; a shell tells that by a
    /// code above 128. Their 0 is believed: nobody forges that.
    pub(crate) fn disowned(&self, ended: ExitStatus, vendored: bool) -> Option<String> {
        if self.has_no_reward_file() {
            return None;
        }
        let how = match ended {
            ExitStatus::Code(0) | ExitStatus::Timeout => return None,
            ExitStatus::Code(code @ 129..=192) => format!("ended with code {code} (signal {})", code - 128),
            ExitStatus::Code(code) if vendored => format!("ended with code {code}"),
            ExitStatus::Code(_) => return None,
            ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
        };
        let is_nothing =
            || self.graded().is_ok_and(|graded| graded.rewards.values().all(|reward| *reward <= 0.0));
        (vendored || !is_nothing())
            .then(|| format!("the verifier {how} and did not give the reward that lies there"))
    }

    /// The rewards by the written rules of [`grade::reward`].
    pub(crate) fn graded(&self) -> Result<Graded, (Reason, String)> {
        let bytes = |name: &str, found: &Found| match found {
            Found::Nothing => Ok(None),
            Found::File(bytes) => Ok(Some(bytes.clone())),
            Found::Unsafe(what) => Err((Reason::RewardUnsafe, format!("{what} stands in place of {name}"))),
        };
        let text = bytes(TEXT, &self.text)?;
        let json = bytes(JSON, &self.json)?;
        match grade::read_reward(text.as_deref(), json.as_deref(), None) {
            Ok(reward) => {
                let mut flags = Vec::new();
                if !reward.is_in_range() {
                    let detail =
                        format!("the reward {} lies outside [0, 1] and is kept as it is", reward.value);
                    flags.push((Reason::RewardOutOfRange, detail));
                }
                let mut rewards = reward.named;
                rewards.insert("reward".into(), reward.value);
                Ok(Graded { numbers: numbers(&rewards, json.as_deref()), rewards, flags })
            }
            Err(error) => {
                // The vendored verifier says why it gave none.
                let why = self
                    .report()
                    .and_then(|report| why(&report))
                    .filter(|_| text.is_none() && json.is_none());
                Err((reason_of(&error), why.unwrap_or_else(|| error.to_string())))
            }
        }
    }

    /// What the vendored verifier reports; other verifiers report nothing.
    fn report(&self) -> Option<VerifierReport> {
        serde_json::from_slice(self.report.as_deref()?).ok()
    }

    /// Status of every required test, from the report that the vendored verifier writes; empty for other verifiers.
    pub(crate) fn tests(&self) -> BTreeMap<String, String> {
        let Some(verdict) = self.report().and_then(|report| report.verdict) else { return BTreeMap::new() };
        let mut tests = BTreeMap::new();
        for tally in [&verdict.fail_to_pass, &verdict.pass_to_pass] {
            for (status, ids) in [
                ("passed", &tally.passed),
                ("failed", &tally.failed),
                ("error", &tally.error),
                ("skipped", &tally.skipped),
                ("xfail", &tally.xfail),
                ("xpass", &tally.xpass),
                ("missing", &tally.missing),
            ] {
                tests.extend(ids.iter().map(|id| (id.clone(), status.to_owned())));
            }
        }
        tests
    }
}

/// Why the vendored verifier gave no reward, in words.
fn why(report: &VerifierReport) -> Option<String> {
    if let Some(fault) = &report.fault {
        return Some(format!(
            "the verifier could not work: {fault} ({})",
            report.detail.as_deref().unwrap_or("-")
        ));
    }
    let verdict = report.verdict.as_ref()?;
    let reason = verdict.reason?.as_str();
    let near: Vec<_> =
        verdict.near_names.iter().take(3).map(|(id, near)| format!("`{id}` is shown as `{near}`")).collect();
    Some(match near.as_slice() {
        [] => format!("the verifier gave none: {reason}"),
        near => format!("the verifier gave none: {reason} ({})", near.join(", ")),
    })
}

/// Rewards as `reward.json` writes them; without it they are floats.
fn numbers(rewards: &BTreeMap<String, f64>, json: Option<&[u8]>) -> BTreeMap<String, Number> {
    let json = json.map(|json| json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json));
    let written: BTreeMap<String, Number> =
        json.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
    let number = |(name, value): (&String, &f64)| {
        let integer = written.get(name).filter(|number| !number.is_f64()).cloned();
        Some((name.clone(), integer.or_else(|| Number::from_f64(*value))?))
    };
    rewards.iter().filter_map(number).collect()
}

/// The program that a shell did not find while it ran a script, by what it says about that: `script: line 3: tool: command
/// not found`, or `script: 3: tool: not found`.
pub(crate) fn missing_tool(log: &[u8]) -> Option<String> {
    let log = String::from_utf8_lossy(log);
    log.lines().find_map(|line| {
        let line = line.trim_end();
        let (rest, line_word) = match line.strip_suffix(": command not found") {
            Some(rest) => (rest, "line "),
            None => (line.strip_suffix(": not found")?, ""),
        };
        let (place, tool) = rest.strip_suffix(": exec").unwrap_or(rest).rsplit_once(": ")?;
        // `exec: tool` stands where the number is.
        let place = place.strip_suffix(": exec").unwrap_or(place);
        let (_, number) = place.rsplit_once(": ")?;
        let number = number.strip_prefix("line ").unwrap_or(number);
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let said_so = line_word.is_empty() || place.contains(line_word);
        (is_number && said_so && !tool.is_empty()).then(|| tool.chars().take(100).collect())
    })
}

/// The line in which a common tool says that it could not reach a network.
pub(crate) fn wanted_network(log: &[u8]) -> Option<String> {
    // curl, wget, apt, git and Python, Node.js and Go, by their own words.
    const SAID: [&str; 7] = [
        "Could not resolve host",
        "unable to resolve host address",
        "Temporary failure resolving",
        "Temporary failure in name resolution",
        "getaddrinfo EAI_AGAIN",
        "getaddrinfo ENOTFOUND",
        ": dial tcp: lookup ",
    ];
    let log = String::from_utf8_lossy(log);
    let line = log.lines().find(|line| SAID.iter().any(|said| line.contains(said)))?;
    Some(line.trim().chars().take(200).collect())
}

fn reason_of(error: &RewardError) -> Reason {
    match error {
        RewardError::Missing | RewardError::NoKey { .. } => Reason::RewardMissing,
        RewardError::Empty { .. } => Reason::RewardEmpty,
        RewardError::NonFinite { .. } => Reason::RewardNonFinite,
        RewardError::Conflict { .. } => Reason::RewardConflict,
        _ => Reason::RewardUnparsable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, tar::EntryType, &[u8])]) -> VerifierFiles {
        let archive = Archive::pack(|builder| {
            for (name, kind, bytes) in entries {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(*kind);
                header.set_mode(0o644);
                header.set_size(bytes.len() as u64);
                builder.append_data(&mut header, name, *bytes)?;
            }
            Ok(())
        })
        .unwrap();
        let mut files = VerifierFiles::default();
        files.take(&archive).unwrap();
        files
    }

    fn text(bytes: &[u8]) -> VerifierFiles {
        files(&[(TEXT, tar::EntryType::Regular, bytes)])
    }

    #[test]
    fn anything_but_a_small_file_is_unsafe() {
        use tar::EntryType::{Block, Char, Directory, Fifo, Link, Regular, Symlink};
        for kind in [Block, Char, Directory, Fifo, Link, Symlink] {
            let (reason, detail) = files(&[(TEXT, kind, b"")]).graded().unwrap_err();
            assert_eq!(reason, Reason::RewardUnsafe, "{kind:?} {detail}");
        }
        let large = vec![b' '; usize::try_from(REWARD_LIMIT).unwrap() + 1];
        let (reason, detail) = files(&[(JSON, Regular, &large)]).graded().unwrap_err();
        assert_eq!(reason, Reason::RewardUnsafe);
        assert!(detail.contains("65537 bytes") && detail.contains("64 KiB"), "{detail}");
        assert!(files(&[("other", Fifo, b"")]).has_no_reward_file());
        // A good file beside an unsafe one does not help.
        let both = files(&[(TEXT, Regular, b"1"), (JSON, Symlink, b"")]);
        assert_eq!(both.graded().unwrap_err().0, Reason::RewardUnsafe);
    }

    #[test]
    fn what_is_out_of_range_is_kept_and_flagged() {
        for (bytes, value) in [(&b"7"[..], 7.0_f64), (b"-0.5", -0.5)] {
            let graded = text(bytes).graded().unwrap();
            assert_eq!(graded.rewards["reward"].to_bits(), value.to_bits());
            assert_eq!(graded.flags[0].0, Reason::RewardOutOfRange);
        }
        assert!(text(b"1").graded().unwrap().flags.is_empty());
    }

    #[test]
    fn a_reward_counts_only_when_the_verifier_came_to_its_end() {
        use ExitStatus::{Code, Signal};
        let (solved, unsolved, none) = (text(b"1"), text(b"0"), files(&[]));
        for ended in [Code(0), Code(1), Code(3), Code(137), Code(143), Signal(9), Signal(15), Code(200)] {
            assert_eq!(none.disowned(ended, true), None, "{ended:?}");
            // Harbor's tasks end with whatever their last command ended with.
            let by_signal = !matches!(ended, Code(0 | 1 | 3 | 200));
            assert_eq!(solved.disowned(ended, false).is_some(), by_signal, "{ended:?}");
            assert_eq!(unsolved.disowned(ended, false), None, "{ended:?}");
            assert_eq!(solved.disowned(ended, true).is_some(), ended != Code(0), "{ended:?}");
            assert_eq!(unsolved.disowned(ended, true).is_some(), ended != Code(0), "{ended:?}");
        }
        let why = solved.disowned(Code(137), false).unwrap();
        assert_eq!(
            why,
            "the verifier ended with code 137 (signal 9) and did not give the reward that lies there"
        );
        // What cannot be read is nobody's 0.
        assert!(text(b"nan").disowned(Signal(9), false).is_some());
    }

    #[test]
    fn integers_stay_integers_only_in_json() {
        let written = |files: VerifierFiles| serde_json::to_string(&files.graded().unwrap().numbers).unwrap();
        assert_eq!(written(text(b"1")), "{\"reward\":1.0}");
        let json = |bytes: &[u8]| files(&[(JSON, tar::EntryType::Regular, bytes)]);
        assert_eq!(
            written(json(b"{\"reward\": 1, \"q\": 0.5, \"z\": 2.0}")),
            "{\"q\":0.5,\"reward\":1,\"z\":2.0}"
        );
    }

    #[test]
    fn a_network_that_was_wanted_is_told_by_the_tools_own_words() {
        for line in [
            "curl: (6) Could not resolve host: tools.example",
            "wget: unable to resolve host address 'tools.example'",
            "npm error request to https://registry.example/x failed, reason: getaddrinfo EAI_AGAIN registry.example",
            "go: example.org/x@v1: Get \"https://proxy.example\": dial tcp: lookup proxy.example: no such host",
        ] {
            let log = format!("first\n  {line}\nlast\n");
            assert_eq!(wanted_network(log.as_bytes()).as_deref(), Some(line));
        }
        assert_eq!(wanted_network(b"test_that_hosts_resolve PASSED\n"), None);
    }

    #[test]
    fn missing_tools_are_named() {
        let tool = |line: &str| missing_tool(format!("first\n{line}\nlast\n").as_bytes());
        for line in [
            "/tests/test.sh: line 3: mytool: command not found",
            "bash: line 12: mytool: command not found",
            "/tests/test.sh: 3: mytool: not found",
            "sh: 1: mytool: not found\r",
            "/tests/test.sh: line 2: exec: mytool: not found",
            "/tests/test.sh: 2: exec: mytool: not found",
        ] {
            assert_eq!(tool(line).as_deref(), Some("mytool"), "{line}");
        }
        for line in [
            "",
            "mytool: command not found",
            "page: not found",
            "error: line x: y: command not found",
            "cat: /x: No such file or directory",
            ": command not found",
        ] {
            assert_eq!(tool(line), None, "{line}");
        }
    }
}
