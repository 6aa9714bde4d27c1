//! Ctrl-C and other polite requests to end, noticed from the first stage to the last.
//!
//! While trials run, the first Ctrl-C lets those that run end and begins no other; the second one, or a request to terminate,
//! drops them with every sandbox that they hold. Other asynchronous work is dropped at the first request. Everything else
//! ends at once, and what it has not finished is removed, since files appear whole; so does anything at a request that comes
//! while work is being dropped.

use std::future::Future;
use std::io;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::{Exit, Failure, Result};
use crate::output::Output;

#[derive(Debug)]
struct State {
    /// How much work is being done that wants to be dropped rather than cut off.
    working: usize,
    /// How much of it can be asked to come to an end.
    drainable: usize,
    asked: Asked,
}

/// How far requests have gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Nothing,
    Drain,
    Stop,
}

static STATE: Mutex<State> = Mutex::new(State { working: 0, drainable: 0, asked: Asked::Nothing });
static DRAIN: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
static STOP: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

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
        let patient = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => false,
                _ = hangup.recv() => false,
            }
        });
        request(output, patient);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

fn request(output: Output, patient: bool) {
    let mut state = state();
    if state.working == 0 || state.asked == Asked::Stop {
        let failure = Failure::new(Exit::Interrupted, "interrupted").hint("run the same command again");
        artifact::abandon();
        output.error(&failure);
        std::process::exit(failure.exit as i32);
    }
    DRAIN.cancel();
    if patient && state.asked == Asked::Nothing && state.drainable > 0 {
        state.asked = Asked::Drain;
        output.say(
            "interrupted: trials that run go on to their end, no other begins; once more stops them now",
        );
    } else {
        state.asked = Asked::Stop;
        STOP.cancel();
    }
}

/// What an interrupted command ends with.
pub fn failure() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted")
        .hint("what was finished is kept; run the same command again to go on")
}

/// Cancelled once no further trial is to begin.
pub fn drain() -> CancellationToken {
    DRAIN.clone()
}

/// Runs work to its end, or drops it when the program is asked to end.
pub fn block_on<T>(runtime: &Runtime, work: impl Future<Output = Result<T>>) -> Result<T> {
    wait(runtime, work, false)
}

/// Runs work that heeds [`drain`]. It may end early then, and has to say so itself.
pub fn block_on_trials<T>(runtime: &Runtime, work: impl Future<Output = Result<T>>) -> Result<T> {
    wait(runtime, work, true)
}

fn wait<T>(runtime: &Runtime, work: impl Future<Output = Result<T>>, drainable: bool) -> Result<T> {
    let count = usize::from(drainable);
    {
        let mut state = state();
        state.working += 1;
        state.drainable += count;
    }
    let result = runtime.block_on(async {
        tokio::select! {
            result = work => result,
            () = STOP.cancelled() => Err(failure()),
        }
    });
    let mut state = state();
    state.working -= 1;
    state.drainable -= count;
    // A request that came while the work was just ending is not lost.
    if state.asked == Asked::Stop { Err(failure()) } else { result }
}
