//! Harbor task directories: read, write, digest; SWE-smith instances to tasks.
