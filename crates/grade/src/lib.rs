//! Test logs to test statuses to rewards; the same logic vendored into tasks.
