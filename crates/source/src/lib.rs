//! Pinned public data turned into typed records.
