//! Signals: Ctrl-C ends an answer first, then the program, which leaves nothing half done behind. Others that ask
//! the program to end do so at once, and as cleanly.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use backend::Interrupt;

use crate::output::INTERRUPTED;
use crate::terminal;

/// What Ctrl-C ends.
enum State {
    /// The program.
    Idle,
    /// An answer, at once: its step is not waited for.
    Answering(Interrupt),
    /// The program; the answer is ending already.
    Stopping,
}

static STATE: Mutex<State> = Mutex::new(State::Idle);

/// Takes signals over from the system, which would end the program at once. Once is enough.
///
/// # Errors
/// When the system refuses.
pub(crate) fn install() -> anyhow::Result<()> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    if INSTALLED.set(()).is_err() {
        return Ok(());
    }
    listen(|code| {
        let mut state = lock(&STATE);
        if let (INTERRUPTED, State::Answering(step)) = (code, &*state) {
            step.raise();
            *state = State::Stopping;
            return;
        }
        let _kept = outfile::remove_unfinished();
        terminal::restore();
        std::process::exit(code.into());
    })
}

/// Calls `heard` with the exit code that belongs to each signal: 128 and its number, as shells have it. A write beyond
/// the limit of a file's size is an error like others once its signal is taken.
#[cfg(unix)]
fn listen(heard: impl Fn(u8) + Send + 'static) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ])?;
    std::thread::spawn(move || {
        let ends = signals.forever().filter(|&signal| signal != SIGXFSZ);
        ends.filter_map(|signal| u8::try_from(128 + signal).ok()).for_each(heard);
    });
    Ok(())
}

/// Calls `heard` at each Ctrl-C: other systems have no other signal.
#[cfg(not(unix))]
fn listen(heard: impl Fn(u8) + Send + 'static) -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(move || heard(INTERRUPTED))?)
}

/// While it lives, the first Ctrl-C is left to whoever asks [`Answering::is_to_stop`].
pub(crate) struct Answering(());

impl Answering {
    /// Ctrl-C is to end a step, too.
    pub(crate) fn begin(step: Interrupt) -> Answering {
        *lock(&STATE) = State::Answering(step);
        Answering(())
    }

    /// Whether Ctrl-C was pressed.
    pub(crate) fn is_to_stop(&self) -> bool {
        matches!(*lock(&STATE), State::Stopping)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        *lock(&STATE) = State::Idle;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
