//! One trial's life, job directories, scheduling.
