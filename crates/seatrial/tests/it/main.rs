//! End-to-end tests of the binary, and of the workspace itself.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests may stop at once, and say what they skip"
)]

mod agents;
mod architecture;
mod bases;
mod canary;
mod cheat_set;
mod cheats;
mod checks;
mod command_line;
mod datasets;
mod docker;
mod engines;
mod freezing;
mod gc;
mod grade;
mod groups;
mod history;
mod hostile;
mod images;
mod interrupt;
mod jobs;
mod kubernetes;
mod languages;
mod leftovers;
mod lifecycle;
mod main_job;
mod minismith;
mod mirror;
mod policies;
mod project;
mod proving;
mod quarantine;
mod real_data;
mod reconcile;
mod rehearsal;
mod resume;
mod slips;
mod sources;
mod tasks;
mod traces;
mod trials;
mod workspaces;
