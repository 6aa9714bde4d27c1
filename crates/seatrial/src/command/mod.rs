//! Commands that need no recipe: one file each.

pub mod canary;
pub mod check;
pub mod datasets;
pub mod digest;
pub mod doctor;
pub mod gc;
pub mod grade;
pub mod images_diff;
pub mod init;
pub mod jobs;
pub mod manual;
pub mod plan_diff;
pub mod prove;
pub mod register;
pub mod run;
pub mod traces;
