//! Real sandboxes over the host's own `/usr`.

mod host;
mod smoke;
