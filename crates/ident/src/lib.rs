//! The words everything shares: task ids, repository keys, image references, digests, canonical JSON.
