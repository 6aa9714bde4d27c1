//! Ctrl-C and other polite requests to end, noticed from the first stage to the last.
//!
//! While asynchronous work runs, the request drops it with every sandbox that it holds. Everything else leaves nothing
//! behind that has to be cleared away, since files appear whole, and ends at once; so does anything at a second request.

use std::future::Future;
use std::io;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

/// How much work is being done that wants to be dropped, and whether it was told to end.
#[derive(Debug)]
struct State {
    working: usize,
    requested: bool,
}

static STATE: Mutex<State> = Mutex::new(State { working: 0, requested: false });
static REQUEST: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for interrupt, termination and hangup until the program ends.
pub fn listen(output: Output) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    drop(entered);
    let wait = move || loop {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        request(output);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

fn request(output: Output) {
    let mut state = state();
    if state.working > 0 && !state.requested {
        state.requested = true;
        REQUEST.cancel();
    } else {
        let failure = failure();
        output.error(&failure);
        std::process::exit(failure.exit as i32);
    }
}

fn failure() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted")
        .hint("what was finished is kept; run the same command again to go on")
}

/// Runs work to its end, or drops it when the program is asked to end.
pub fn block_on<T>(runtime: &Runtime, work: impl Future<Output = Result<T>>) -> Result<T> {
    state().working += 1;
    let result = runtime.block_on(async {
        tokio::select! {
            result = work => result,
            () = REQUEST.cancelled() => Err(failure()),
        }
    });
    let mut state = state();
    state.working -= 1;
    // A request that came while the work was just ending is not lost.
    if state.requested { Err(failure()) } else { result }
}
