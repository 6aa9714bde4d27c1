//! The verifier that is copied into every task, as text.

use sha2::{Digest as _, Sha256};

/// Holds `tests/test.sh`: finds an interpreter at a fixed place and starts [`VERIFY_PY`] with it.
pub const TEST_SH: &str = include_str!("../vendored/test.sh");

/// Holds `tests/verify.py`: grades the task and writes the reward.
pub const VERIFY_PY: &str = include_str!("../vendored/verify.py");

/// Holds `tests/seatrial_suite.py`: restores the test surface and runs the suite.
const SUITE: &str = include_str!("../vendored/seatrial_suite.py");

/// Holds `tests/seatrial_logs.py` and what it brings along: reads logs.
const LOGS: &str = include_str!("../vendored/seatrial_logs.py");
const LOGS_JAVASCRIPT: &str = include_str!("../vendored/seatrial_logs_javascript.py");
const LOGS_PYTHON: &str = include_str!("../vendored/seatrial_logs_python.py");
const RESULTS: &str = include_str!("../vendored/seatrial_results.py");

/// Holds `tests/seatrial_verdict.py`: reads reports and decides.
const VERDICT: &str = include_str!("../vendored/seatrial_verdict.py");

/// Holds `tests/seatrial_report.py`: the plugin that reports every outcome under pytest and unittest.
const REPORT_PLUGIN: &str = include_str!("../vendored/seatrial_report.py");

/// Holds `tests/seatrial_end.cjs`: says under Node.js what the runner counted at its end.
const NODE_PLUGIN: &str = include_str!("../vendored/seatrial_end.cjs");

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
pub const FILES: [VendoredFile; 10] = [
    VendoredFile { name: "seatrial_end.cjs", text: NODE_PLUGIN, mode: 0o644 },
    VendoredFile { name: "seatrial_logs.py", text: LOGS, mode: 0o644 },
    VendoredFile { name: "seatrial_logs_javascript.py", text: LOGS_JAVASCRIPT, mode: 0o644 },
    VendoredFile { name: "seatrial_logs_python.py", text: LOGS_PYTHON, mode: 0o644 },
    VendoredFile { name: "seatrial_report.py", text: REPORT_PLUGIN, mode: 0o644 },
    VendoredFile { name: "seatrial_results.py", text: RESULTS, mode: 0o644 },
    VendoredFile { name: "seatrial_suite.py", text: SUITE, mode: 0o644 },
    VendoredFile { name: "seatrial_verdict.py", text: VERDICT, mode: 0o644 },
    VendoredFile { name: "test.sh", text: TEST_SH, mode: 0o755 },
    VendoredFile { name: "verify.py", text: VERIFY_PY, mode: 0o644 },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_by_name() {
        assert!(FILES.is_sorted_by_key(|file| file.name));
    }

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
