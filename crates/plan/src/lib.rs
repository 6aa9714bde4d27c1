//! Evidence to tiers to primaries and reserves; pure.
