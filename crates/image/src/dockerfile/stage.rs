//! The state of one build stage while its instructions are applied.

use std::collections::BTreeMap;
use std::path::Path;

use crate::chain::Chain;
use crate::layer_path::LayerPath;
use crate::stack::{Leaving, Stack};
use crate::store::{LayerKey, StoredLayer};
use crate::{ImageConfig, ImageError, Layer, RootImage};

/// Largest passwd or group file that is read, in bytes.
const MAX_ACCOUNTS: u64 = 4 << 20;

/// Layers, configuration and variables so far.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) layers: Vec<Layer>,
    pub(super) chain: Chain,
    pub(super) config: ImageConfig,
    /// Build arguments that are declared and have a value.
    pub(super) arguments: BTreeMap<String, String>,
    /// Whether `CMD` came from this stage rather than from its base.
    pub(super) has_own_cmd: bool,
}

impl Stage {
    /// An empty stage: `FROM scratch`.
    pub(super) fn scratch() -> Self {
        Self {
            layers: Vec::new(),
            chain: Chain::empty(),
            config: ImageConfig::default(),
            arguments: BTreeMap::new(),
            has_own_cmd: false,
        }
    }

    /// A stage that begins with an image.
    pub(super) fn on_image(image: RootImage) -> Self {
        let chain = Chain::of(&image.digest);
        Self { layers: image.layers, chain, config: image.config, ..Self::scratch() }
    }

    /// A stage that begins where another ended.
    pub(super) fn on_stage(stage: &Self) -> Self {
        Self {
            layers: stage.layers.clone(),
            chain: stage.chain.clone(),
            config: stage.config.clone(),
            ..Self::scratch()
        }
    }

    /// The stage as an image.
    pub(super) fn image(&self) -> RootImage {
        RootImage {
            layers: self.layers.clone(),
            digest: self.chain.image_digest(&self.config),
            config: self.config.clone(),
        }
    }

    /// The layers as a process inside would see them.
    pub(super) fn stack(&self) -> Stack<'_> {
        Stack::new(&self.layers, Leaving::Clamp)
    }

    /// Puts a layer on top. One that changes nothing counts for the identity only.
    pub(super) fn push(&mut self, key: &LayerKey, layer: &StoredLayer) {
        self.chain = self.chain.push(key);
        self.layers.extend(layer.layer());
    }

    /// The value of a variable: the environment before build arguments.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.config.env.get(name).or_else(|| self.arguments.get(name)).cloned()
    }

    /// Makes a path absolute from the working directory, keeping a slash at its end.
    pub(super) fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let workdir = self.config.workdir.as_deref().unwrap_or("/");
        let slash = if path == "." { "/" } else { "" };
        format!("{}/{path}{slash}", workdir.trim_end_matches('/'))
    }

    /// The shell of shell forms.
    pub(super) fn shell(&self) -> Vec<String> {
        if self.config.shell.is_empty() {
            vec!["/bin/sh".to_owned(), "-c".to_owned()]
        } else {
            self.config.shell.clone()
        }
    }

    /// Numbers of `user[:group]`, looked up in the image's own accounts.
    pub(super) fn owner(&self, spec: &str) -> Result<(u32, u32), String> {
        let (user, group) = match spec.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (spec, None),
        };
        let passwd = self.accounts("/etc/passwd")?;
        let account = account(&passwd, user);
        let uid = match (user.parse::<u32>(), &account) {
            (Ok(uid), _) => uid,
            (_, Some(account)) => account.uid,
            _ if user == "root" => 0,
            _ => return Err(format!("user `{user}` is not in the image's /etc/passwd")),
        };
        let Some(group) = group else {
            // A name brings its own group; a bare number means the group of the same number.
            let gid =
                if user.parse::<u32>().is_ok() { uid } else { account.map_or(0, |account| account.gid) };
            return Ok((uid, gid));
        };
        if let Ok(gid) = group.parse::<u32>() {
            return Ok((uid, gid));
        }
        let groups = self.accounts("/etc/group")?;
        let gid = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(group)).then(|| fields.nth(1)?.parse::<u32>().ok()).flatten()
        });
        match gid {
            Some(gid) => Ok((uid, gid)),
            None if group == "root" => Ok((uid, 0)),
            None => Err(format!("group `{group}` is not in the image's /etc/group")),
        }
    }

    /// The home directory of the stage's user.
    pub(super) fn home(&self) -> Result<String, String> {
        let user = self.config.user.as_deref().unwrap_or("root");
        let user = user.split(':').next().unwrap_or(user);
        let passwd = self.accounts("/etc/passwd")?;
        Ok(match account(&passwd, user) {
            Some(account) if !account.home.is_empty() => account.home,
            _ if matches!(user, "root" | "0") => "/root".to_owned(),
            _ => "/".to_owned(),
        })
    }

    fn accounts(&self, path: &str) -> Result<String, String> {
        let bytes = self.stack().read_small(path, MAX_ACCOUNTS).map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    }

    /// Resolves an absolute path inside the stage.
    pub(super) fn resolve(&self, path: &str) -> Result<LayerPath, ImageError> {
        let path = Path::new(path);
        let plain = LayerPath::of_absolute(path).map_err(|rule| ImageError::entry(path, rule))?;
        self.stack().resolve(&plain, true)
    }
}

struct Account {
    uid: u32,
    gid: u32,
    home: String,
}

fn account(passwd: &str, user: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
        if name != user && uid != user {
            return None;
        }
        Some(Account { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: home.to_owned() })
    })
}
