//! Dockerfiles: from text to typed instructions, to a list of what is not supported, to a root image.
//!
//! Reading follows the Dockerfile reference and, where that is silent, BuildKit's parser. Building makes one layer
//! for each instruction that changes files, cached by content; `RUN` goes through [`RunStep`](crate::RunStep).

mod ast;
mod build;
mod context;
mod copy;
mod expand;
mod ignore;
mod instruction;
mod lex;
mod pattern;
mod stage;
mod survey;

pub use ast::{
    Command, CopyFlags, CopySource, Dockerfile, Heredoc, Instruction, ParseError, RunMount, Step, Transfer,
};
pub use build::{Builder, Resolve};
pub use context::context_files;
pub use instruction::parse;
pub use survey::{Unsupported, survey};
