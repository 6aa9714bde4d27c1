//! End-to-end tests of the binary, and of the workspace itself.

mod architecture;
