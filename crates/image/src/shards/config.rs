//! The shards of a registry by their numbers.

use record::ShardConfig;

use crate::ImageRef;

/// Most shards that a plan is made for.
const MOST_SHARDS: u32 = 100_000;
/// Most digits that a template may ask for.
const MOST_DIGITS: usize = 9;

/// What is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number out of bounds.
    #[error("`{key}` is {found}; it has to be from 1 to {most}")]
    Number {
        /// The setting.
        key: &'static str,
        /// Its value.
        found: u64,
        /// The largest that is allowed.
        most: u64,
    },
    /// A template that gives shards no names of their own.
    #[error("`shard_template` is `{template}`; it needs one place for the number, `{{}}` or `{{:02}}`")]
    Template {
        /// The template.
        template: String,
    },
    /// A platform that is none.
    #[error(
        "`platform` is `{platform}`; it has to be OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, such as `linux/amd64`"
    )]
    Platform {
        /// The platform.
        platform: String,
    },
    /// Names that make no reference.
    #[error("registry, namespace and shard make no repository: {0}")]
    Reference(#[from] crate::ReferenceError),
}

/// Shards with names, made from settings by which plans can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    config: ShardConfig,
    names: Vec<String>,
}

impl Shards {
    /// Refuses settings by which no plan can be made.
    pub fn new(config: ShardConfig) -> Result<Self, ConfigError> {
        let number = |key, found: u64, most: u64| match found {
            found if (1..=most).contains(&found) => Ok(()),
            found => Err(ConfigError::Number { key, found, most }),
        };
        number("shards", config.shards.into(), MOST_SHARDS.into())?;
        number("tag_limit", config.tag_limit, u64::from(u32::MAX))?;
        if let Some(platform) = config.platform.as_ref().filter(|platform| !is_platform(platform)) {
            return Err(ConfigError::Platform { platform: platform.clone() });
        }
        let template = || ConfigError::Template { template: config.shard_template.clone() };
        let (before, width, after) = parts(&config.shard_template).ok_or_else(template)?;
        let names = (0..config.shards).map(|number| format!("{before}{number:0width$}{after}")).collect();
        let shards = Self { config, names };
        for shard in [0, shards.config.shards - 1] {
            format!("{}:latest", shards.repository(shard)).parse::<ImageRef>()?;
        }
        Ok(shards)
    }

    /// The settings.
    pub fn config(&self) -> &ShardConfig {
        &self.config
    }

    /// The numbers of all shards.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        0..self.config.shards
    }

    /// Name of a shard, without registry and namespace.
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// A shard's repository, as references name it.
    pub fn repository(&self, number: u32) -> String {
        let ShardConfig { registry, namespace, .. } = &self.config;
        let name = self.name(number);
        if namespace.is_empty() {
            format!("{registry}/{name}")
        } else {
            format!("{registry}/{namespace}/{name}")
        }
    }
}

fn is_platform(text: &str) -> bool {
    let word = |part: &str| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        !part.is_empty() && part.bytes().all(letter)
    };
    matches!(text.split('/').count(), 2 | 3) && text.split('/').all(word)
}

/// The text around the number in a template, and the least digits of it.
fn parts(template: &str) -> Option<(&str, usize, &str)> {
    let (before, rest) = template.split_once('{')?;
    let (format, after) = rest.split_once('}')?;
    let width = match format.strip_prefix(":0") {
        Some(width) => width.parse().ok().filter(|width| *width <= MOST_DIGITS)?,
        None if format.is_empty() => 0,
        None => return None,
    };
    let plain = |part: &str| !part.contains(['{', '}']);
    (plain(before) && plain(after)).then_some((before, width, after))
}

#[cfg(test)]
pub(super) mod tests {
    use record::{Overflow, Placement};

    use super::*;

    pub(crate) fn config(shards: u32, tag_limit: u64) -> ShardConfig {
        ShardConfig {
            registry: "registry.invalid".into(),
            namespace: "swe".into(),
            shard_template: "task-{:02}".into(),
            shards,
            tag_limit,
            placement: Placement::Hash,
            overflow: Overflow::Fail,
            create_repositories: false,
            overwrite: false,
            hash_version: "v1".into(),
            platform: None,
            sources: Vec::new(),
        }
    }

    #[test]
    fn shards_are_named_by_their_number() {
        let named = |template: &str, number| {
            let config = ShardConfig { shard_template: template.into(), ..config(200, 100) };
            Shards::new(config).unwrap().repository(number)
        };
        assert_eq!(named("task-{:02}", 7), "registry.invalid/swe/task-07");
        assert_eq!(named("task-{:02}", 123), "registry.invalid/swe/task-123");
        assert_eq!(named("s{}x", 7), "registry.invalid/swe/s7x");
        let flat = ShardConfig { namespace: String::new(), ..config(1, 1) };
        assert_eq!(Shards::new(flat).unwrap().repository(0), "registry.invalid/task-00");
    }

    #[test]
    fn settings_without_a_plan_are_refused() {
        assert!(Shards::new(config(80, 100)).is_ok());
        let refused = |change: &dyn Fn(&mut ShardConfig)| {
            let mut config = config(80, 100);
            change(&mut config);
            Shards::new(config).unwrap_err().to_string()
        };
        assert!(refused(&|config| config.shards = 0).contains("from 1 to"));
        assert!(refused(&|config| config.shards = u32::MAX).contains("from 1 to"));
        assert!(refused(&|config| config.tag_limit = 0).contains("tag_limit"));
        for template in ["task", "task-{}-{}", "task-{:2}", "task-{:0x}", "task-{", "{:0999}"] {
            assert!(refused(&|config| config.shard_template = template.into()).contains("shard_template"));
        }
        for platform in ["linux", "linux/", "a/b/c/d", "linux/amd 64"] {
            assert!(refused(&|config| config.platform = Some(platform.into())).contains("OS/ARCHITECTURE"));
        }
        assert!(refused(&|config| config.namespace = "Upper".into()).contains("Upper"));
    }
}
