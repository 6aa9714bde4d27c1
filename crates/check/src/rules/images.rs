//! Dockerfiles that cannot be read and base images that move.

use std::collections::BTreeMap;

use image::ImageRef;
use image::dockerfile::{Dockerfile, Instruction, parse};
use record::Severity;

use crate::facts::{DOCKERFILE, Facts};
use crate::lines::{file_name, numbered};
use crate::report::{Place, Report, quoted};
use crate::rule::{Family, Rule};

pub(super) const RULES: &[&Rule] =
    &[&BASE_IMAGE_FLOATING, &BASE_IMAGE_UNPINNED, &BASE_IMAGE_INVALID, &DOCKERFILE_BROKEN];

const BASE_IMAGE_FLOATING: Rule = Rule {
    name: "base-image-floating",
    family: Family::Images,
    severity: Severity::Warning,
    materialized: Severity::Warning,
    summary: "A base image has no tag, or one that is meant to move.",
    explanation: "`latest`, no tag at all, `stable`, `main` and their like name another image next month, and every \
                  verdict is tied to an image. Looked at are `FROM` and `COPY --from` of every Dockerfile of the task, \
                  with defaults of `ARG` filled in, and `environment.docker_image`. Stages, `scratch` and the \
                  machine's own system are exempt. The image plan has to hold a digest before a set is frozen.",
    fix: "name a version, and its digest where the registry gives one",
};

const BASE_IMAGE_UNPINNED: Rule = Rule {
    name: "base-image-unpinned",
    family: Family::Images,
    severity: Severity::Note,
    materialized: Severity::Warning,
    summary: "A base image of a materialized task is named without a digest.",
    explanation: "A tag with a version moves rarely, but it can. Digests are filled in when images are planned, so this \
                  is reported for this program's own tasks alone, and until then.",
    fix: "name the digest; `images rewrite` and `materialize` do it once the image was mirrored",
};

const BASE_IMAGE_INVALID: Rule = Rule {
    name: "base-image-invalid",
    family: Family::Images,
    severity: Severity::Error,
    materialized: Severity::Error,
    summary: "A base image has a name that no registry can hold.",
    explanation: "The name breaks the grammar of image references: capital letters in the path, an empty tag, a \
                  placeholder that was never filled in. No build can start from it. Names with variables that have \
                  no default are not judged.",
    fix: "correct the name",
};

const DOCKERFILE_BROKEN: Rule = Rule {
    name: "dockerfile-broken",
    family: Family::Images,
    severity: Severity::Warning,
    materialized: Severity::Error,
    summary: "A Dockerfile cannot be read.",
    explanation: "No image can be built from it here, and what it copies cannot be judged. Another builder may know \
                  syntax that this one does not. The agent's Dockerfile is not looked at beside a prebuilt image, which \
                  is used in its place.",
    fix: "correct the line named",
};

/// Tags that are meant to move.
const MOVING: &[&str] = &[
    "latest", "stable", "main", "master", "edge", "nightly", "dev", "devel", "develop", "rolling", "current",
    "lts", "testing", "unstable", "sid", "head", "trunk",
];

pub(super) fn check(facts: &Facts<'_>, report: &mut Report<'_>) {
    let prebuilt = facts.view.task_config().is_some_and(|config| config.environment.docker_image.is_some());
    for (path, _) in facts.view.files() {
        // Beside a prebuilt image the agent's Dockerfile is not built; often it is a placeholder.
        if prebuilt && path == DOCKERFILE {
            continue;
        }
        let name = file_name(path);
        let folder = path.split(|&b| b == b'/').next().unwrap_or_default();
        if !matches!(folder, b"environment" | b"tests")
            || !(name == b"Dockerfile" || name.starts_with(b"Dockerfile."))
        {
            continue;
        }
        let parsed;
        let dockerfile = match facts.dockerfile.as_ref().filter(|_| path == DOCKERFILE) {
            Some(known) => known,
            None => {
                let Some(text) = facts.view.text(path) else { continue };
                parsed = parse(&text);
                &parsed
            }
        };
        match dockerfile {
            Ok(dockerfile) => bases(path, dockerfile, report),
            Err(error) => {
                let message = format!("{}: {}", error.name, error.what);
                report.add(&DOCKERFILE_BROKEN, Place::line(path, error.line), message);
            }
        }
    }
    let Some(config) = facts.view.task_config() else { return };
    if let (Some(image), Some(text)) = (&config.environment.docker_image, facts.view.text(b"task.toml")) {
        let line = numbered(&text).find(|(_, line)| line.trim_start().starts_with("docker_image"));
        judge(image, Place::line("task.toml", line.map_or(1, |(number, _)| number)), report);
    }
}

fn bases(path: &[u8], dockerfile: &Dockerfile, report: &mut Report<'_>) {
    let mut defaults: BTreeMap<&str, &str> = BTreeMap::new();
    let mut stages: Vec<String> = Vec::new();
    let mut count = 0usize;
    for step in &dockerfile.steps {
        match &step.instruction {
            Instruction::Arg(arguments) if count == 0 => {
                defaults.extend(
                    arguments.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?))),
                );
            }
            Instruction::From { image, name, .. } => {
                if !stages.contains(&image.to_lowercase())
                    && let Some(image) = filled_in(image, &defaults)
                {
                    judge(&image, Place::line(path, step.line), report);
                }
                count += 1;
                stages.extend(name.clone());
            }
            Instruction::Copy(transfer) => {
                let Some(from) = &transfer.flags.from else { continue };
                let is_stage =
                    stages.contains(&from.to_lowercase()) || from.bytes().all(|b| b.is_ascii_digit());
                if !is_stage && let Some(image) = filled_in(from, &defaults) {
                    judge(&image, Place::line(path, step.line), report);
                }
            }
            _ => {}
        }
    }
}

/// An image name with the defaults of its variables; `None` when one has none.
fn filled_in(image: &str, defaults: &BTreeMap<&str, &str>) -> Option<String> {
    let mut out = String::new();
    let mut rest = image;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (variable, tail) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let end =
                    after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
                after.split_at(end)
            }
        };
        let (name, fallback) = match variable.split_once(":-").or_else(|| variable.split_once('-')) {
            Some((name, fallback)) => (name, Some(fallback)),
            None => (variable, None),
        };
        out.push_str(defaults.get(name).copied().filter(|value| !value.is_empty()).or(fallback)?);
        rest = tail;
    }
    out.push_str(rest);
    // A default that is quoted, or itself made of variables, is not judged.
    (!out.contains(['$', '"', '\''])).then_some(out)
}

fn judge(image: &str, place: Place<'_>, report: &mut Report<'_>) {
    match image.parse::<ImageRef>() {
        Err(error) => report.add(&BASE_IMAGE_INVALID, place, error.to_string()),
        Ok(reference) => {
            let Some(remote) = reference.remote().filter(|_| !reference.pinned()) else { return };
            let tag = remote.tag().unwrap_or("latest");
            if MOVING.contains(&tag.to_lowercase().as_str()) {
                let message =
                    format!("the image {} may be another one tomorrow (tag `{tag}`)", quoted(image));
                report.add(&BASE_IMAGE_FLOATING, place, message);
            } else if report.materialized() {
                report.add(&BASE_IMAGE_UNPINNED, place, format!("the image {} has no digest", quoted(image)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found_with, own_findings, places, task_with};

    fn found(dockerfile: &str) -> Vec<String> {
        found_with(&[("environment/Dockerfile", dockerfile)])
    }

    #[test]
    fn moving_images_are_named_and_stages_are_not() {
        let text = "FROM example/base:latest AS build\nFROM example/base\nCOPY --from=build /a /a\nCOPY --from=0 /a /a\n\
                    COPY --from=ghcr.example.invalid/uv:edge /uv /bin/\nFROM build\nFROM scratch\nFROM seatrial.local/host\n";
        let expected = [1, 2, 5].map(|line| format!("base-image-floating environment/Dockerfile:{line}"));
        assert_eq!(found(text), expected);
        assert_eq!(found("FROM a/b:1.2\n"), [""; 0]);
        let digest = "a".repeat(64);
        assert_eq!(found(&format!("FROM a/b@sha256:{digest}\n")), [""; 0]);
    }

    #[test]
    fn defaults_of_arguments_are_filled_in() {
        assert_eq!(found("ARG V=latest\nFROM a:${V}\n"), ["base-image-floating environment/Dockerfile:2"]);
        assert_eq!(found("ARG V\nFROM a:$V\nFROM b:${W:-1}\nFROM c:${X}\n"), [""; 0]);
    }

    #[test]
    fn impossible_names_and_broken_files_are_named() {
        assert_eq!(found("FROM {image}\n"), ["base-image-invalid environment/Dockerfile:1"]);
        assert_eq!(found("FROM a:1\nCOPY\n"), ["dockerfile-broken environment/Dockerfile:2"]);
        let toml = "[environment]\nmemory_mb = 1\ndocker_image = \"example/x\"\n";
        assert_eq!(found_with(&[("task.toml", toml)]), ["base-image-floating task.toml:3"]);
        let unused = [("task.toml", toml), ("environment/Dockerfile", "# no more than a placeholder\n")];
        assert_eq!(found_with(&unused), ["base-image-floating task.toml:3"]);
    }

    #[test]
    fn own_tasks_want_a_digest() {
        let view = task_with(&[("environment/Dockerfile", "FROM a:1\nFROM seatrial.local/host\n")]);
        let found: Vec<_> =
            places(&own_findings(&view)).into_iter().filter(|place| place.starts_with("base")).collect();
        assert_eq!(found, ["base-image-unpinned environment/Dockerfile:1"]);
    }
}
