//! OCI images as stacks of layers: references, stores, registries, the Dockerfile builder.
