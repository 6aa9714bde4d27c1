//! Static rules over task directories.
