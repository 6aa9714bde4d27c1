//! What may run at a time: slots, memory, disk and starts.

mod admission;

pub(crate) use admission::Admitted;
pub use admission::{Admission, AdmissionLimits, Refused};
