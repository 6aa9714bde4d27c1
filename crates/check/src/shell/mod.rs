//! Shell scripts as the rules see them: simple commands with their words, and here-documents.
//!
//! This is a reader for looking, not for running: it knows quotes, comments, continuations, command substitution and
//! here-documents, and takes everything else as words. Text that it misreads leads to a finding too few or too many,
//! never to a panic; the work is linear in the length of the text.

mod command;
mod read;

pub(crate) use command::{Command, Joint};
pub(crate) use read::{Script, read_script};
