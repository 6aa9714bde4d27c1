//! The Kubernetes engine: one bare pod a sandbox, on any cluster that runs pods.
//!
//! Process 1 of the pod's only container is the guest, and everything that happens in the sandbox goes over the one attached
//! connection through which the guest came in. The API server is asked for the pod's creation, that connection, and its deletion;
//! what becomes of all pods of a run is heard over one shared watch. The connection's end is the sandbox's end, so nothing runs on
//! when this program dies. Why, and what else was considered, is written down in `docs/design/0005-kubernetes-engine.md`.

mod api;
mod attach;
mod config;
mod engine;
mod lease;
mod namespace;
mod network;
mod objects;
mod pauses;
mod pod;
mod running;
mod state;
mod sweep;
mod watch;

#[cfg(test)]
mod tests;

pub use config::KubernetesConfig;
pub use engine::{Kubernetes, MOST_PENDING};
pub use sweep::{Found, Swept};
