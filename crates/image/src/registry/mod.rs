//! Images in registries: a thin client of the OCI distribution protocol, for pulling and for asking what is there.
//!
//! Content goes to a blob cache in OCI layout form, verified on the way, and from there into the layer store.
//! Sources: OCI distribution specification 1.1; the token flow of the Docker registry documentation.

mod auth;
mod cache;
mod client;
mod connections;
mod credentials;
mod grants;
mod helper;
mod pace;
mod pull;
mod push;
mod quota;
mod retry;
mod snapshot;
mod tags;

pub use cache::remove_layers;
pub use credentials::Credentials;
pub use pull::{Registry, RegistryOptions};
pub(crate) use push::{ByteStream, Mounted, Outgoing, PutError, Session, UploadError};
pub use quota::Quota;
pub use snapshot::LiveUnknown;
pub use tags::Found;
