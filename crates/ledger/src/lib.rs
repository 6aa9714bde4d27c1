//! Every observation ever made, append-only.
