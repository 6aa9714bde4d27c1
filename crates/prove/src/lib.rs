//! Nop and oracle, k times, in fresh sandboxes.
