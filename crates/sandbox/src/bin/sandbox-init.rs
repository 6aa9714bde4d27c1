//! The init of the native engine as a program of its own, for tests and measurements of this crate.

fn main() {
    #[cfg(target_os = "linux")]
    if std::env::args().nth(1).as_deref() == Some(sandbox::native::INIT_ARGUMENT) {
        sandbox::native::init_main();
    }
    std::process::exit(2);
}
