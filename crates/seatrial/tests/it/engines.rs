//! The engines that end-to-end tests run on, and one test on all of them.

use crate::tasks::{Job, Shelf, Task};

/// Where a test runs its trials.
pub struct Engine {
    pub name: &'static str,
    /// An image with Python and the usual tools.
    pub image: &'static str,
}

pub const NATIVE: Engine = Engine { name: "native", image: HOST };
pub const DOCKER: Engine = Engine { name: "docker", image: "seatrial.test/base:1" };
/// What tasks here start from until an engine has its own.
const HOST: &str = "seatrial.local/host";

impl Engine {
    /// Writes the tasks, starting from the engine's own image.
    pub fn shelf(&self, tasks: impl IntoIterator<Item = Task>) -> Shelf {
        Shelf::new(tasks.into_iter().map(|mut task| {
            for text in [&mut task.dockerfile, &mut task.settings] {
                *text = text.replace(HOST, self.image);
            }
            task
        }))
    }

    /// Runs the oracle on all tasks.
    pub fn run(&self, shelf: &Shelf) -> Job {
        shelf.run_with(&[
            "--agent",
            "oracle",
            "--job-name",
            "job",
            "--engine",
            self.name,
            "--max-retries",
            "0",
        ])
    }
}

/// Tests of every engine that this machine has.
macro_rules! on_every_engine {
    ($($test:ident),* $(,)?) => {
        mod native {
            $(#[test]
            fn $test() {
                if crate::project::sandboxes_run() {
                    super::$test(&crate::engines::NATIVE);
                }
            })*
        }

        mod docker {
            $(#[test]
            fn $test() {
                if crate::docker::docker().is_some() {
                    super::$test(&crate::engines::DOCKER);
                }
            })*
        }
    };
}

pub(crate) use on_every_engine;
