//! OCI images as stacks of layers: references, stores, registries, the Dockerfile builder.

pub mod rootfs;

pub use rootfs::{HostRoot, ImageConfig, Layer, RootImage, RunCommand, RunFailure, RunStep};
