//! Panics of the decoder become errors of the file.

use std::panic::AssertUnwindSafe;

/// Runs what decodes a file. The decoder takes some damage for granted not to be there and panics at it, which gives
/// `damaged`.
///
/// # Errors
/// Those of `decode`, and `damaged`.
pub fn guarded<T, E>(decode: impl FnOnce() -> Result<T, E>, damaged: impl FnOnce() -> E) -> Result<T, E> {
    std::panic::catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(damaged()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_damage_and_an_error_is_itself() {
        assert_eq!(guarded(|| Ok::<_, &str>(1), || "damaged"), Ok(1));
        assert_eq!(guarded(|| Err::<u8, _>("wrong"), || "damaged"), Err("wrong"));
        let torn: [u8; 2] = [1, 2];
        let read = |length: usize| guarded(|| Ok(torn[..length].len()), || "damaged");
        assert_eq!((read(2), read(3)), (Ok(2), Err("damaged")));
    }
}
