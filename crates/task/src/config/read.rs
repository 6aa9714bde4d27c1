//! Reads `task.toml` into [`TaskConfig`], as tolerant as Harbor and less forgetful.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue};
use unicode_normalization::UnicodeNormalization;

use super::model::{
    AgentConfig, Artifact, CollectStep, EnvironmentConfig, Healthcheck, McpServer, MinReward, Network,
    NetworkMode, Os, Package, RewardStrategy, Step, TaskConfig, Tpu, VerifierConfig, VerifierMode,
};
use super::names::{is_package_name, is_step_name};
use super::problem::{ConfigError, ConfigProblem};
use super::section::{Bound, Report, Section, kind, place};

/// A `task.toml` that parses: what it says, and what is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigReading {
    /// The configuration; where a value is wrong, the default stands in its place.
    pub config: TaskConfig,
    /// Everything that is wrong or doubtful, in order of place.
    pub problems: Vec<ConfigProblem>,
}

/// Reads the bytes of a `task.toml`.
///
/// Follows Harbor 0.26: schema 1.4, the older spellings `version`, `memory`, `storage` and `allow_internet`, lenient
/// numbers. A byte order mark is skipped. Unknown keys are no errors and are reported, as are limits that no trial can
/// run under. The only difference in syntax is that TOML 1.1 is accepted where Harbor reads 1.0.
pub fn read_config(bytes: &[u8]) -> Result<ConfigReading, ConfigError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| ConfigError::NotUtf8 { offset: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let syntax = |error: &toml::de::Error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        ConfigError::Syntax { line, column, message: error.message().to_owned() }
    };
    let document = DeTable::parse(text).map_err(|error| syntax(&error))?;
    let report = Report::new(text);
    let root = Section::new(&report, document.get_ref(), String::new(), 0..0);
    let mut config = task_config(root);
    // Numbers that are too large are noticed only here.
    let mut plain =
        toml::Table::deserialize(toml::de::Deserializer::from(document)).map_err(|error| syntax(&error))?;
    if let Some(toml::Value::Table(metadata)) = plain.remove("metadata") {
        config.metadata = metadata;
    }
    Ok(ConfigReading { config, problems: report.finish() })
}

fn task_config(root: Section<'_, '_, '_>) -> TaskConfig {
    let version = match (root.string("schema_version"), root.string("version")) {
        (Some(version), _) | (None, Some(version)) => version,
        (None, None) => "1.4".to_owned(),
    };
    // Free content, but it has to be a table.
    drop(root.section("metadata"));
    let solution_env = root.section("solution").map(|section| {
        let env = section.texts("env");
        section.finish();
        env
    });
    let config = TaskConfig {
        schema_version: version,
        source: root.string("source"),
        multi_step_reward_strategy: root.word(
            "multi_step_reward_strategy",
            &[("mean", RewardStrategy::Mean), ("final", RewardStrategy::Final)],
        ),
        artifacts: artifacts(&root),
        steps: steps(&root),
        metadata: toml::Table::new(),
        package: root.section("task").map(package),
        agent: root.section("agent").map(agent).unwrap_or_default(),
        verifier: root.section("verifier").map(verifier).unwrap_or_default(),
        environment: root.section("environment").map(environment).unwrap_or_default(),
        solution_env: solution_env.unwrap_or_default(),
    };
    root.finish();
    config
}

fn package(section: Section<'_, '_, '_>) -> Package {
    let name = section.required("name");
    if let Some(value) = section.get("name")
        && value.get_ref().is_str()
        && !is_package_name(&name)
    {
        section.invalid("name", value, format!("is `{name}`; it must have the form `org/name` in ASCII"));
    }
    let version = section.string("version");
    if let (Some(value), Some("")) = (section.get("version"), version.as_deref()) {
        section.invalid("version", value, "is empty; leave it out or give a version");
    }
    let authors = section.sections("authors").into_iter().map(|author| {
        let name = author.required("name");
        author.string("email");
        author.finish();
        name
    });
    let package = Package {
        name,
        version,
        description: section.string("description").unwrap_or_default(),
        authors: authors.collect(),
        keywords: section.strings("keywords").unwrap_or_default(),
    };
    section.finish();
    package
}

fn agent(section: Section<'_, '_, '_>) -> AgentConfig {
    let agent = AgentConfig {
        timeout_sec: section.number("timeout_sec", Bound::Positive),
        user: section.user("user"),
        network: network(&section),
    };
    section.finish();
    agent
}

fn verifier(section: Section<'_, '_, '_>) -> VerifierConfig {
    let own = section.section("environment").map(environment);
    let mode = section
        .word("environment_mode", &[("shared", VerifierMode::Shared), ("separate", VerifierMode::Separate)]);
    if let (Some(VerifierMode::Shared), Some(_), Some(value)) = (mode, &own, section.get("environment_mode"))
    {
        section.invalid("environment_mode", value, "is `shared` beside an environment of the verifier's own");
    }
    let collect = section.sections("collect").into_iter().map(|step| {
        let collect = CollectStep {
            command: step.required("command"),
            service: step.string("service").unwrap_or_else(|| "main".to_owned()),
            timeout_sec: step.number("timeout_sec", Bound::Positive).unwrap_or(60.0),
            user: step.user("user"),
        };
        step.finish();
        collect
    });
    let verifier = VerifierConfig {
        timeout_sec: section.number("timeout_sec", Bound::Positive).unwrap_or(600.0),
        env: section.texts("env"),
        user: section.user("user"),
        mode: mode.unwrap_or(if own.is_some() { VerifierMode::Separate } else { VerifierMode::Shared }),
        environment: own.map(Box::new),
        collect: collect.collect(),
        network: network(&section),
    };
    // An option of older files that Harbor reads over on purpose.
    section.get("restart_environment");
    section.finish();
    verifier
}

fn environment(section: Section<'_, '_, '_>) -> EnvironmentConfig {
    let default = EnvironmentConfig::default();
    let allow_internet = section.boolean("allow_internet");
    let named = section.get("network_mode").is_some() || section.get("allowed_hosts").is_some();
    let network = match (network(&section), allow_internet) {
        (Some(network), _) => network,
        (None, Some(allowed)) if !named => {
            let mode = if allowed { NetworkMode::Public } else { NetworkMode::NoNetwork };
            Network { mode, allowed_hosts: Vec::new() }
        }
        _ => default.network,
    };
    let tpu = section.section("tpu").map(|tpu| {
        let slice = Tpu { kind: tpu.required("type"), topology: tpu.required("topology") };
        tpu.finish();
        slice
    });
    let os = section.string("os").map(|os| os.to_ascii_lowercase());
    let os = match os.as_deref() {
        None | Some("linux") => Os::Linux,
        Some("windows") => Os::Windows,
        Some(_) => {
            if let Some(value) = section.get("os") {
                section.invalid("os", value, "must be `linux` or `windows`");
            }
            Os::Linux
        }
    };
    let environment = EnvironmentConfig {
        build_timeout_sec: section
            .number("build_timeout_sec", Bound::Positive)
            .unwrap_or(default.build_timeout_sec),
        docker_image: section.string("docker_image"),
        os,
        cpus: section.number("cpus", Bound::Positive),
        memory_mb: size(&section, "memory_mb", "memory"),
        storage_mb: size(&section, "storage_mb", "storage"),
        gpus: section.whole("gpus", Bound::NotNegative),
        gpu_types: section.strings("gpu_types"),
        tpu,
        mcp_servers: section.sections("mcp_servers").into_iter().map(mcp_server).collect(),
        env: section.texts("env"),
        skills_dir: section.string("skills_dir"),
        healthcheck: section.section("healthcheck").map(healthcheck),
        workdir: section.string("workdir"),
        network,
    };
    section.finish();
    environment
}

/// A size in MiB under its present name, or as a text with a unit under the old one.
fn size(section: &Section<'_, '_, '_>, key: &'static str, old: &'static str) -> Option<u64> {
    let present = section.whole(key, Bound::Positive);
    let Some(value) = section.get(old) else { return present };
    let Some(text) = value.get_ref().as_str() else {
        section.dropped(old, value, format!("is {} and has no effect; write `{key}`", kind(value)));
        return present;
    };
    let Some(size) = size_with_unit(text) else {
        section.invalid(
            old,
            value,
            format!("is `{text}`; it must be a number with G, M or K, or write `{key}`"),
        );
        return present;
    };
    match present {
        Some(present) if present != size => {
            section.invalid(old, value, format!("says {size} MiB where `{key}` says {present}"));
            Some(present)
        }
        _ if size == 0 => {
            section.invalid(old, value, "is 0; it must be above 0");
            None
        }
        _ => Some(size),
    }
}

/// `2G`, `512m`, `1048576K` in MiB, fractions cut off.
fn size_with_unit(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_uppercase();
    let factor = match text.chars().next_back()? {
        'G' => 1024.0,
        'M' => 1.0,
        'K' => 1.0 / 1024.0,
        _ => return None,
    };
    let number: f64 = text[..text.len() - 1].trim().parse().ok()?;
    let size = number * factor;
    (0.0..9e15).contains(&size).then_some(size as u64)
}

/// The network policy that a section names, if it names one.
fn network(section: &Section<'_, '_, '_>) -> Option<Network> {
    let mode = section.word(
        "network_mode",
        &[
            ("no-network", NetworkMode::NoNetwork),
            ("public", NetworkMode::Public),
            ("allowlist", NetworkMode::Allowlist),
        ],
    );
    let hosts = section.strings("allowed_hosts");
    if let (Some(value), Some(hosts)) = (section.get("allowed_hosts"), &hosts) {
        if mode != Some(NetworkMode::Allowlist) {
            section.invalid(
                "allowed_hosts",
                value,
                "has a meaning only beside `network_mode = \"allowlist\"`",
            );
        }
        for host in hosts.iter().filter(|host| !is_host(&normal_host(host))) {
            section.invalid(
                "allowed_hosts",
                value,
                format!("holds `{host}`, which is no host, address or CIDR block"),
            );
        }
    }
    let hosts = hosts.unwrap_or_default().iter().map(|host| normal_host(host)).collect();
    mode.map(|mode| Network { mode, allowed_hosts: hosts })
}

fn normal_host(host: &str) -> String {
    host.trim().to_ascii_lowercase().trim_end_matches('.').to_owned()
}

/// Whether a text is a host name, `*.suffix`, an address, or a CIDR block without host bits.
fn is_host(host: &str) -> bool {
    if host.parse::<IpAddr>().is_ok() {
        return true;
    }
    if let Some((address, bits)) = host.split_once('/') {
        let Ok(bits) = bits.parse::<u32>() else { return false };
        return match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => bits <= 32 && address.to_bits().checked_shl(bits).unwrap_or(0) == 0,
            Ok(IpAddr::V6(address)) => bits <= 128 && address.to_bits().checked_shl(bits).unwrap_or(0) == 0,
            Err(_) => false,
        };
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    name.split('.').all(|label| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    })
}

fn mcp_server(section: Section<'_, '_, '_>) -> McpServer {
    let transport = section.string("transport").unwrap_or_else(|| "sse".to_owned());
    let transport = if transport == "http" { "streamable-http".to_owned() } else { transport };
    let server = McpServer {
        name: section.required("name"),
        url: section.string("url"),
        command: section.string("command"),
        args: section.strings("args").unwrap_or_default(),
        headers: section.texts("headers"),
        transport,
    };
    if let Some(value) = section.get("name") {
        match server.transport.as_str() {
            "stdio" if server.command.is_none() => {
                section.invalid("command", value, "is missing for transport `stdio`");
            }
            "sse" | "streamable-http" if server.url.is_none() => {
                section.invalid("url", value, format!("is missing for transport `{}`", server.transport));
            }
            "stdio" | "sse" | "streamable-http" => {}
            other => section.invalid(
                "transport",
                value,
                format!("is `{other}`; it must be `stdio`, `sse` or `streamable-http`"),
            ),
        }
    }
    section.finish();
    server
}

fn healthcheck(section: Section<'_, '_, '_>) -> Healthcheck {
    let check = Healthcheck {
        command: section.required("command"),
        interval_sec: section.number("interval_sec", Bound::Positive).unwrap_or(5.0),
        timeout_sec: section.number("timeout_sec", Bound::Positive).unwrap_or(30.0),
        start_period_sec: section.number("start_period_sec", Bound::NotNegative).unwrap_or(0.0),
        start_interval_sec: section.number("start_interval_sec", Bound::Positive).unwrap_or(5.0),
        retries: section.whole("retries", Bound::Positive).unwrap_or(3),
    };
    section.finish();
    check
}

fn steps(root: &Section<'_, '_, '_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut seen = BTreeMap::new();
    for section in root.sections("steps") {
        let name = section.required("name");
        if let Some(value) = section.get("name") {
            if !is_step_name(&name) {
                section.invalid("name", value, format!("is {name:?}, which is no portable directory name"));
            }
            let folded = name.nfc().collect::<String>().to_lowercase();
            if let Some(first) = seen.insert(folded, name.clone()) {
                section.invalid(
                    "name",
                    value,
                    format!("is {name:?}, which names the same directory as {first:?}"),
                );
            }
        }
        let min_reward = match section.get("min_reward").map(toml::Spanned::get_ref) {
            Some(DeValue::Table(_)) => section.section("min_reward").map(|table| {
                let rewards = table.free_numbers();
                MinReward::ByKey(rewards)
            }),
            _ => section.number("min_reward", Bound::Finite).map(MinReward::Single),
        };
        steps.push(Step {
            name,
            agent: section.section("agent").map(agent).unwrap_or_default(),
            verifier: section.section("verifier").map(verifier).unwrap_or_default(),
            min_reward,
            healthcheck: section.section("healthcheck").map(healthcheck),
            artifacts: artifacts(&section),
        });
        section.finish();
    }
    steps
}

fn artifacts(section: &Section<'_, '_, '_>) -> Vec<Artifact> {
    let mut artifacts = Vec::new();
    for (name, item) in section.items("artifacts") {
        let artifact = if let Some(source) = item.get_ref().as_str() {
            Artifact { source: source.to_owned(), destination: None, exclude: Vec::new(), service: None }
        } else if let Some(table) = section.section_of(&name, item) {
            let artifact = Artifact {
                source: table.required("source"),
                destination: table.string("destination"),
                exclude: table.strings("exclude").unwrap_or_default(),
                service: table.string("service"),
            };
            table.finish();
            artifact
        } else {
            section.invalid(&name, item, format!("is {}; it must be a text or a table", kind(item)));
            continue;
        };
        if let Some(complaint) = artifact_complaint(&artifact) {
            section.invalid(&name, item, complaint);
        }
        artifacts.push(artifact);
    }
    artifacts
}

/// What of a path lies directly in its directory.
fn first_part(path: &str) -> Option<&str> {
    path.split('/').find(|part| !part.is_empty() && *part != ".")
}

fn artifact_complaint(artifact: &Artifact) -> Option<String> {
    let climbs = |path: &str| path.split('/').any(|part| part == "..") || path.contains('\0');
    if artifact.source.is_empty() || climbs(&artifact.source) {
        return Some(format!(
            "has the source `{}`; it must be a container path without `..`",
            artifact.source
        ));
    }
    if let Some(destination) = &artifact.destination
        && (destination.is_empty()
            || destination.starts_with('/')
            || destination.contains('\\')
            || climbs(destination)
            || first_part(destination) == Some("manifest.json"))
    {
        return Some(format!(
            "has the destination `{destination}`; it must be a relative path below artifacts/"
        ));
    }
    let foreign = artifact.service.as_deref().is_some_and(|service| service != "main");
    (foreign && !artifact.source.starts_with('/'))
        .then(|| format!("has the source `{}`; another service needs an absolute one", artifact.source))
}

#[cfg(test)]
mod tests {
    use super::super::problem::ProblemKind;
    use super::*;

    fn read(text: &str) -> ConfigReading {
        read_config(text.as_bytes()).unwrap()
    }

    fn complaints(text: &str) -> Vec<(u32, String, ProblemKind, Option<String>)> {
        let problems = read(text).problems.into_iter();
        problems.map(|problem| (problem.line, problem.key, problem.kind, problem.near)).collect()
    }

    #[test]
    fn unknown_keys_have_a_place_and_a_near_name() {
        let text =
            "[verifer]\nx = 1\n[verifier]\ntimeout_secs = 5\n[environment]\ncpu = 1\n[metadata]\nfree = 1\n";
        assert_eq!(
            complaints(text),
            [
                (1, "verifer".into(), ProblemKind::UnknownKey, Some("verifier".into())),
                (4, "verifier.timeout_secs".into(), ProblemKind::UnknownKey, Some("timeout_sec".into())),
                (6, "environment.cpu".into(), ProblemKind::UnknownKey, Some("cpus".into())),
            ]
        );
        let message = read(text).problems[1].to_string();
        assert_eq!(
            message,
            "task.toml, line 4: `verifier.timeout_secs` is an unknown key and has no effect; is `timeout_sec` meant?"
        );
    }

    #[test]
    fn impossible_limits_are_reported_together() {
        let text = "[verifier]\ntimeout_sec = 0\n[agent]\ntimeout_sec = inf\n[environment]\ncpus = 0\nmemory_mb = -1\n\
                    storage_mb = nan\ngpus = 0\n";
        let keys: Vec<_> = complaints(text).into_iter().map(|(_, key, kind, _)| (key, kind)).collect();
        let expected = [
            "verifier.timeout_sec",
            "agent.timeout_sec",
            "environment.cpus",
            "environment.memory_mb",
            "environment.storage_mb",
        ];
        assert_eq!(keys, expected.map(|key| (key.to_owned(), ProblemKind::Limit)));
    }

    #[test]
    fn older_spellings_are_translated() {
        let config = read(
            "version = '1.0'\n[environment]\nmemory = '2G'\nstorage = '1536m'\nallow_internet = false\ncpus = 2.0\n",
        );
        assert_eq!(config.problems, []);
        let config = config.config;
        assert_eq!(config.schema_version, "1.0");
        assert_eq!(config.environment.memory_mb, Some(2048));
        assert_eq!(config.environment.storage_mb, Some(1536));
        assert_eq!(config.environment.network.mode, NetworkMode::NoNetwork);
        assert_eq!(config.environment.cpus, Some(2.0));
        let both = read("[environment]\nnetwork_mode = 'public'\nallow_internet = false\n").config;
        assert_eq!(both.environment.network.mode, NetworkMode::Public);
        assert!(!read("[environment]\nmemory = '2G'\nmemory_mb = 1\n").problems.is_empty());
        let dropped = read("[environment]\nmemory = 2\n");
        assert_eq!(dropped.problems[0].kind, ProblemKind::Dropped);
        assert_eq!(dropped.config.environment.memory_mb, None);
    }

    #[test]
    fn defaults_are_harbors() {
        let config = read("").config;
        assert_eq!(config.schema_version, "1.4");
        assert_eq!(config.agent.timeout_sec, None);
        assert!((config.verifier.timeout_sec - 600.0).abs() < f64::EPSILON);
        assert_eq!(config.environment.memory_mb, None);
        assert_eq!(config.environment.network.mode, NetworkMode::Public);
    }

    #[test]
    fn a_byte_order_mark_changes_nothing() {
        let text = "[agent]\ntimeout_sec = 5\nuser = 1000\n";
        assert_eq!(read(&format!("\u{feff}{text}")), read(text));
        assert_eq!(read(text).config.agent.user.as_deref(), Some("1000"));
    }

    #[test]
    fn syntax_errors_have_line_and_column() {
        let error = read_config(b"[agent]\ntimeout_sec = {{ x }}\n").unwrap_err();
        assert!(matches!(error, ConfigError::Syntax { line: 2, .. }), "{error}");
        assert!(matches!(read_config(b"a = \"\xff\""), Err(ConfigError::NotUtf8 { offset: 5 })));
    }

    #[test]
    fn a_verifier_environment_means_a_separate_one() {
        let config = read("[verifier.environment]\ndocker_image = 'x'\n").config;
        assert_eq!(config.verifier.mode, VerifierMode::Separate);
        let text = "[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\n";
        assert_eq!(complaints(text)[0].1, "verifier.environment_mode");
    }

    #[test]
    fn names_hosts_and_artifacts_are_checked() {
        for text in [
            "[task]\nname = 'tiny'\n",
            "[task]\nid = 'x'\n",
            "[task]\nname = 'a/b'\nauthors = ['me']\n",
            "[[steps]]\nname = '..'\n",
            "[[steps]]\nname = 'a'\n[[steps]]\nname = 'A'\n",
            "artifacts = ['../x']\n",
            "artifacts = [{ source = '/x', destination = '/y' }]\n",
            "artifacts = [{ source = '/x', destination = './manifest.json/y' }]\n",
            "artifacts = [{ source = '/x', destination = \"y\\u0000\" }]\n",
            "artifacts = [\"/x\\u0000\"]\n",
            "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['https://x']\n",
            "[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['10.0.0.1/8']\n",
            "[environment]\nallowed_hosts = ['x']\n",
            "[environment]\nenv = { A = 1 }\n",
            "metadata = 1\n",
        ] {
            assert!(read(text).problems.iter().any(|problem| problem.kind.refuses()), "{text}");
        }
        let fine = "artifacts = ['/x', { source = '/y', destination = 'z' }]\n[environment]\n\
                    network_mode = 'allowlist'\nallowed_hosts = ['*.Example.invalid.', '10.0.0.0/8', '::1']\n";
        assert_eq!(read(fine).problems, []);
        assert_eq!(read(fine).config.environment.network.allowed_hosts[0], "*.example.invalid");
    }

    #[test]
    fn numbers_keep_their_underscores_out() {
        let config = read("[environment]\nmemory_mb = 4_096\n[agent]\ntimeout_sec = 1_000.5\n").config;
        assert_eq!(config.environment.memory_mb, Some(4096));
        assert_eq!(config.agent.timeout_sec, Some(1000.5));
    }
}
