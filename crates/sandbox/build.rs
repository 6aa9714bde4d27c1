//! Compiles the guest, the program that becomes process 1 of a container.
//!
//! It has to run in any image, so it is linked statically, needs nothing but the standard library, and is carried
//! inside this crate. Where it cannot be linked (the static C library is missing) the crate still builds; the
//! engines that need the guest then say so.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const SOURCES: [&str; 2] = ["guest", "src/shared"];

fn main() {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names it")).join("guest");
    if let Err(reason) = compile(&out) {
        println!(
            "cargo::warning=containers cannot be driven by this build, their process 1 was not linked: {reason}"
        );
        fs::write(&out, b"").expect("cargo made the directory");
    }
}

fn compile(out: &PathBuf) -> Result<(), String> {
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return Err("it runs on Linux only".into());
    }
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc
        .args(["--edition", "2024", "--crate-name", "guest", "--crate-type", "bin", "guest/main.rs", "-o"])
        .arg(out)
        .args(["--target", &variable("TARGET")?, "-C", "target-feature=+crt-static"])
        .args(["-C", "opt-level=s", "-C", "panic=abort", "-C", "strip=symbols", "-C", "codegen-units=1"])
        .args(["--cap-lints", "allow"]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = std::ffi::OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    let output = rustc.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().find(|line| line.starts_with("error")).unwrap_or("the compiler failed").to_owned())
}
