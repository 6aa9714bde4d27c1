//! The command line of Seatrial.

fn main() {}
