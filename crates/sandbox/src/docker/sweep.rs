//! Removes what runs left behind: containers of dead owners or of one job, and nothing that is not ours.

use std::collections::HashMap;

use bollard::query_parameters::{ListImagesOptionsBuilder, RemoveImageOptionsBuilder};
use serde::Deserialize;
use serde_json::json;

use crate::SandboxError;
use crate::docker::connect::{LONG, Refusal, answer};
use crate::docker::container::{JOB, OWNER, SANDBOX};
use crate::docker::engine::{CONFLICT, Docker, NOT_FOUND, remove};
use crate::docker::raw;
use crate::owner::{Life, Owner};

/// What to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sweep {
    /// Containers whose process is gone.
    Orphans,
    /// All containers of one job, whoever runs it.
    Job(String),
}

/// A container that was removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removed {
    /// The sandbox's name.
    pub sandbox: String,
    /// The daemon's id of the container.
    pub id: String,
}

/// A container of ours that was left, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// The sandbox's name.
    pub sandbox: String,
    /// The daemon's id of the container.
    pub id: String,
    /// Why it was left.
    pub reason: &'static str,
}

/// What to do with one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Remove,
    Keep(&'static str),
}

impl Docker {
    /// Removes containers of ours; returns what was removed and what was left, both in order of name. A second look
    /// makes sure that nothing is there any more that should not be.
    pub async fn sweep(&self, sweep: &Sweep) -> Result<(Vec<Removed>, Vec<Kept>), SandboxError> {
        let mut removed = Vec::new();
        for (container, verdict) in self.judged(sweep).await? {
            if verdict == Verdict::Remove {
                let Removed { sandbox, id } = container;
                let doing = format!("removing container {id} of sandbox {sandbox}");
                remove(&self.client, &id).await.map_err(|refusal| refusal.doing(&doing))?;
                removed.push(Removed { sandbox, id });
            }
        }
        let mut kept = Vec::new();
        for (Removed { sandbox, id }, verdict) in self.judged(sweep).await? {
            match verdict {
                Verdict::Keep(reason) => kept.push(Kept { sandbox, id, reason }),
                // One that appeared meanwhile is not what was promised to be gone.
                Verdict::Remove if removed.iter().any(|removed| removed.id == id) => {
                    let reason =
                        format!("container {id} of sandbox {sandbox} is still there after its removal");
                    return Err(SandboxError::Lost(reason));
                }
                Verdict::Remove => {}
            }
        }
        removed.sort();
        kept.sort();
        Ok((removed, kept))
    }

    /// What a sweep would remove, in order of name.
    pub async fn look(&self, sweep: &Sweep) -> Result<Vec<Removed>, SandboxError> {
        let judged = self.judged(sweep).await?;
        let mut found: Vec<_> = judged
            .into_iter()
            .filter(|(_, verdict)| *verdict == Verdict::Remove)
            .map(|(found, _)| found)
            .collect();
        found.sort();
        Ok(found)
    }

    /// All containers of ours with what is to become of them.
    async fn judged(&self, sweep: &Sweep) -> Result<Vec<(Removed, Verdict)>, SandboxError> {
        let label = match sweep {
            Sweep::Orphans => OWNER.to_owned(),
            Sweep::Job(job) => format!("{JOB}={job}"),
        };
        let filters = json!({ "label": [label, SANDBOX] }).to_string();
        let path = format!("/containers/json?all=1&filters={}", raw::encode(&filters));
        let listed = raw::get(&self.socket, &path).await;
        let listed = listed.map_err(|refusal| refusal.doing("listing containers"))?;
        let listed: Vec<Listed> = serde_json::from_value(listed).map_err(|error| {
            SandboxError::Lost(format!("the daemon's list of containers is none: {error}"))
        })?;
        Ok(listed.iter().filter_map(|container| judge(container, sweep, Owner::life)).collect())
    }

    /// Removes images that were built here and that no container uses; returns their names, in order.
    pub async fn sweep_images(&self) -> Result<Vec<String>, SandboxError> {
        let filters = HashMap::from([("label".to_owned(), vec![super::build::BUILT.to_owned()])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let listed = answer(LONG, self.client.list_images(Some(options))).await;
        let listed = listed.map_err(|refusal| refusal.doing("listing images"))?;
        let mut removed = Vec::new();
        for tag in listed.into_iter().flat_map(|image| image.repo_tags) {
            // Whoever gave the image another name wants to keep it; only our own names go.
            if !tag.starts_with(super::build::REPOSITORY) {
                continue;
            }
            let options = RemoveImageOptionsBuilder::new().build();
            match answer(LONG, self.client.remove_image(&tag, Some(options), None)).await {
                Ok(_) => removed.push(tag),
                Err(Refusal::Status(CONFLICT | NOT_FOUND, _)) => {}
                Err(refusal) => return Err(refusal.doing(&format!("removing image {tag}"))),
            }
        }
        removed.sort();
        Ok(removed)
    }
}

/// A container in the daemon's list.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    labels: Option<HashMap<String, String>>,
    /// In one word; daemons have different ones.
    #[serde(default)]
    state: String,
}

/// Decides about one container that the daemon listed; `None` when it is not ours.
fn judge(container: &Listed, sweep: &Sweep, life: impl Fn(&Owner) -> Life) -> Option<(Removed, Verdict)> {
    let labels = container.labels.as_ref()?;
    // The daemon was asked for these labels; nothing is removed on its word alone.
    let (sandbox, owner) = (labels.get(SANDBOX)?, Owner::parse(labels.get(OWNER)?)?);
    let id = container.id.clone();
    let verdict = match sweep {
        Sweep::Job(job) => {
            if labels.get(JOB) != Some(job) {
                return None;
            }
            Verdict::Remove
        }
        Sweep::Orphans => match (life(&owner), container.state.as_str()) {
            // The guest ends with its owner, wherever that is.
            (Life::Dead, _) | (Life::Unknown, "exited" | "dead" | "stopped") => Verdict::Remove,
            (Life::Alive, _) => Verdict::Keep("its process is running"),
            (Life::Unknown, _) => Verdict::Keep("its process cannot be seen from here"),
        },
    };
    Some((Removed { sandbox: sandbox.clone(), id }, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &str = "created";
    const EXITED: &str = "exited";
    const RUNNING: &str = "running";

    fn container(labels: &[(&str, &str)], state: &str) -> Listed {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Listed { id: "c1".into(), labels: Some(labels), state: state.into() }
    }

    #[test]
    fn only_what_is_ours_and_deserted_goes() {
        let owner = Owner::current().label();
        let ours = [(OWNER, owner.as_str()), (SANDBOX, "s"), (JOB, "j")];
        let verdict = |labels: &[(&str, &str)], state, sweep: &Sweep, life| {
            judge(&container(labels, state), sweep, |_| life).map(|(_, verdict)| verdict)
        };
        let orphans = &Sweep::Orphans;
        assert_eq!(verdict(&ours, RUNNING, orphans, Life::Dead), Some(Verdict::Remove));
        assert_eq!(verdict(&ours, CREATED, orphans, Life::Dead), Some(Verdict::Remove));
        assert!(matches!(verdict(&ours, RUNNING, orphans, Life::Alive), Some(Verdict::Keep(_))));
        assert!(matches!(verdict(&ours, RUNNING, orphans, Life::Unknown), Some(Verdict::Keep(_))));
        assert_eq!(verdict(&ours, EXITED, orphans, Life::Unknown), Some(Verdict::Remove));
        assert_eq!(verdict(&ours, RUNNING, &Sweep::Job("j".into()), Life::Alive), Some(Verdict::Remove));
        assert_eq!(verdict(&ours, RUNNING, &Sweep::Job("other".into()), Life::Dead), None);
        assert_eq!(verdict(&[(SANDBOX, "s")], EXITED, orphans, Life::Dead), None);
        assert_eq!(verdict(&[(OWNER, "broken"), (SANDBOX, "s")], EXITED, orphans, Life::Dead), None);
        assert_eq!(verdict(&[], EXITED, &Sweep::Job("j".into()), Life::Dead), None);
    }
}
