//! Jobs and trajectories turned into training rows, statistics and reports.
//!
//! Directories of jobs and sets of rows come in; rows in the columns of the field, statistics, samples for trainers and pages
//! for people come out. Rows have one order and one set of columns whatever the data, so that the same jobs give the same
//! bytes. Nothing is lost without a count: a malformed trial is left out by name, a mended character is counted, and what no
//! document says stays unknown. No link is followed out of a job, and every read is bounded.

mod canary;
mod conversation;
mod convert;
mod error;
mod export;
mod input;
mod json;
mod merge;
mod pages;
mod read;
mod row;
mod scan;
mod stats;
mod trajectory;
mod trial;
mod write;

pub use canary::{
    CanaryComparison, CanaryDocument, CanaryException, CanaryMean, CanaryReport, CanaryRow, CanaryTask,
    CanaryTrial, CanaryVerdict, NotComparable, compare_canaries, report as canary_report, sample,
};
pub use convert::{Advantage, CleanStep, ConvertOptions, ConvertReport, Form, convert};
pub use error::TraceError;
pub use export::{Episodes, ExportOptions, ExportReport, Filter, LeftOut, export, export_set};
pub use input::Input;
pub use merge::{MergeReport, merge};
pub use pages::{TrialPage, canary_page, compare_page, read_trial_page, stats_page};
pub use read::{Place, ReadReport, SetFiles, SkippedRow, Wanted, read_rows, set_files};
pub use row::{MAIN, Message, Role, Row, RowKey, Text, Verdict};
pub use scan::{Hit, Scan, scan};
pub use stats::repository;
pub use stats::{
    Breakdown, Change, Comparison, Distribution, ExceptionCount, Gathered, Group, Groups, Interval, MeanOver,
    Method, Outcome, PassAt, Spread, Stage, Stats, Subset, TaskPair, TrialFacts, TrialTally, Unpaired,
    compare, gather, groups, stats,
};
pub use trajectory::{
    AtifError, Content, Observed, Part, Speaker, Step, StepUsage, TRAJECTORY_FORMS, TokenRecord, ToolCall,
    ToolDefinitions, Totals, Trajectory,
};
pub use write::{Column, Columns, RowSet, Target, Written};
