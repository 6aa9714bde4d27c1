//! A command with everything filled in that its image and its sandbox say.

use std::collections::BTreeMap;

use image::ImageConfig;

use crate::{ExecSpec, SandboxSpec};

/// Where programs are looked for when nothing else is said.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The settings of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The complete environment, except `HOME`, which the user's account gives when it is absent.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) workdir: String,
    /// `user[:group]`.
    pub(crate) user: String,
}

/// Layers the settings: what the command says covers the sandbox, which covers the image.
pub(crate) fn settings(config: &ImageConfig, spec: &SandboxSpec, command: &ExecSpec) -> Settings {
    let mut env = BTreeMap::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]);
    for layer in [&config.env, &spec.env, &command.env] {
        env.extend(layer.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    let workdir = command.workdir.as_ref().or(spec.workdir.as_ref()).or(config.workdir.as_ref());
    let workdir = workdir.filter(|workdir| !workdir.is_empty()).cloned().unwrap_or_else(|| "/".to_owned());
    let user = command.user.as_ref().or(config.user.as_ref()).cloned().unwrap_or_default();
    Settings { env, workdir, user }
}
