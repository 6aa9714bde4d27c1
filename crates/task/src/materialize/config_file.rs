//! `task.toml`, in the order in which Harbor writes it.

use record::Instance;

use super::name::package_name;
use super::settings::Settings;

/// Writes the configuration in schema 1.4, which Harbor 0.26 writes itself.
pub(super) fn config_file(instance: &Instance, settings: &Settings) -> String {
    let mut text = String::from("schema_version = \"1.4\"\n");
    let mut line = |parts: &[&str]| {
        text.push_str(&parts.concat());
        text.push('\n');
    };
    let quoted = |value: &str| toml::Value::String(value.to_owned()).to_string();
    let seconds = |value: u64| format!("{value}.0");
    let name = format!("{}/{}", settings.organization, package_name(&instance.instance_id));
    line(&["\n[task]\nname = ", &quoted(&name)]);
    line(&["\n[metadata]\ninstance_id = ", &quoted(instance.instance_id.as_str())]);
    line(&["repo = ", &quoted(&instance.repo)]);
    line(&["image_name = ", &quoted(&instance.image_name)]);
    line(&["\n[verifier]\ntimeout_sec = ", &seconds(settings.verifier_timeout_sec)]);
    line(&["\n[agent]"]);
    if let Some(limit) = settings.agent_timeout_sec {
        line(&["timeout_sec = ", &seconds(limit)]);
    }
    line(&["\n[environment]\nbuild_timeout_sec = ", &seconds(settings.build_timeout_sec)]);
    if let Some(image) = &settings.docker_image {
        line(&["docker_image = ", &quoted(image)]);
    }
    if let Some(cpus) = settings.cpus {
        line(&["cpus = ", &cpus.to_string()]);
    }
    if let Some(memory) = settings.memory_mb {
        line(&["memory_mb = ", &memory.to_string()]);
    }
    if let Some(storage) = settings.storage_mb {
        line(&["storage_mb = ", &storage.to_string()]);
    }
    line(&["workdir = ", &quoted(&settings.workdir)]);
    line(&["network_mode = \"no-network\""]);
    text
}
