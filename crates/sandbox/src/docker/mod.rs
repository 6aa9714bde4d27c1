//! The Docker engine: containers of a daemon that speaks the Docker Engine API 1.41 or later, Podman's included.
//!
//! A sandbox is one container whose process 1 is the guest. Everything that happens in it goes over the one connection
//! that its start opens; the daemon is asked only for the start, the end and images. Why, and what else was
//! considered, is written down in `docs/design/0003-docker-engine.md`.

mod build;
mod connect;
mod container;
mod engine;
mod images;
mod raw;
mod running;
mod storage;
mod sweep;

pub use build::BuildSpec;
pub use connect::DockerConfig;
pub use engine::Docker;
pub use sweep::{Kept, Removed, Sweep};
