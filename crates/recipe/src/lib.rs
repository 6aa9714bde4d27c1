//! seatrial.toml and seatrial.lock: parse, validate, point at the line that is wrong.
