//! The verifier that is copied into every task, as text.

use sha2::{Digest as _, Sha256};

/// Holds `tests/test.sh`: finds an interpreter at a fixed place and starts [`VERIFY_PY`] with it.
pub const TEST_SH: &str = include_str!("../vendored/test.sh");

/// Holds `tests/verify.py`: restores the test surface, runs the suite and writes the reward.
pub const VERIFY_PY: &str = include_str!("../vendored/verify.py");

/// Holds `tests/seatrial_report.py`: the pytest plugin that reports every outcome.
pub const REPORT_PLUGIN: &str = include_str!("../vendored/seatrial_report.py");

/// One file of the vendored verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VendoredFile {
    /// File name inside the task's `tests` folder.
    pub name: &'static str,
    /// Whole content.
    pub text: &'static str,
    /// Permission bits.
    pub mode: u32,
}

impl VendoredFile {
    /// Computes the sha256 of the content as 64 lower-case hexadecimal digits.
    pub fn sha256(&self) -> String {
        Sha256::digest(self.text.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
            for half in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(u32::from(half), 16).expect("half a byte is below 16"));
            }
            hex
        })
    }
}

/// Lists the files of the verifier, sorted by name.
///
/// A task also holds `config.json` ([`crate::VerifierConfig`]), the surface archive and, when the interpreter is at
/// an unusual place, a file `interpreter` with its absolute path on one line.
pub const FILES: [VendoredFile; 3] = [
    VendoredFile { name: "seatrial_report.py", text: REPORT_PLUGIN, mode: 0o644 },
    VendoredFile { name: "test.sh", text: TEST_SH, mode: 0o755 },
    VendoredFile { name: "verify.py", text: VERIFY_PY, mode: 0o644 },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_ascii_with_unix_line_ends() {
        for file in FILES {
            assert!(file.text.is_ascii(), "{} holds other characters than ASCII", file.name);
            assert!(!file.text.contains('\r'), "{} holds a carriage return", file.name);
            assert!(file.text.ends_with('\n') && !file.text.ends_with("\n\n"), "{}", file.name);
        }
    }

    #[test]
    fn digest_is_that_of_the_bytes() {
        let file = VendoredFile { name: "x", text: "abc", mode: 0o644 };
        assert_eq!(file.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
