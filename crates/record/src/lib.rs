//! Plain types that the stages hand to each other.
