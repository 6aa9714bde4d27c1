//! The words everything shares: task ids, repository keys, digests, canonical JSON.
//!
//! Text from outside comes in, checked newtypes go out; once a value has one of these types nothing has to look
//! at it again. Everything here is pure and ordered.

mod alias;
mod canonical;
mod digest;
mod repo;
mod task_id;

pub use alias::{AliasError, AliasTable};
pub use canonical::{CanonicalError, to_canonical_json};
pub use digest::{Digest, DigestError, Sha256Writer};
pub use repo::{RepoKey, RepoKeyError};
pub use task_id::{TaskId, TaskIdError};
