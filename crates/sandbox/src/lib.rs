//! Engines that run commands in isolation behind one trait.
