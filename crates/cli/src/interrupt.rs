//! Signals: the first Ctrl-C ends an answer, the next one the program. Other signals end the program at once. Temporary files are
//! removed and the terminal is restored.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use backend::Interrupt;

use crate::output::INTERRUPTED;
use crate::terminal;

enum State {
    /// Ctrl-C ends the program.
    Idle,
    /// Ctrl-C interrupts the step of an answer.
    Answering(Interrupt),
    /// The answer is ending; Ctrl-C ends the program.
    Stopping,
}

static STATE: Mutex<State> = Mutex::new(State::Idle);

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

/// For a server: the first Ctrl-C or SIGTERM calls `stop`, another one ends the program; SIGHUP calls `reload`.
pub(crate) fn serving(
    stop: impl Fn() + Send + 'static,
    reload: impl Fn() + Send + 'static,
) -> anyhow::Result<()> {
    const HUNG_UP: u8 = 128 + 1;
    let has_stopped = std::sync::atomic::AtomicBool::new(false);
    listen(move |code| match code {
        HUNG_UP => reload(),
        _ if !has_stopped.swap(true, std::sync::atomic::Ordering::Relaxed) => stop(),
        _ => std::process::exit(code.into()),
    })
}

/// Calls `heard` with the exit code of each signal, 128 plus its number. SIGXFSZ is ignored, so that exceeding the limit of file
/// sizes is a write error.
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

/// Calls `heard` at each Ctrl-C.
#[cfg(not(unix))]
fn listen(heard: impl Fn(u8) + Send + 'static) -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(move || heard(INTERRUPTED))?)
}

/// While it exists, the first Ctrl-C only sets [`Answering::is_to_stop`].
pub(crate) struct Answering(());

impl Answering {
    /// Ctrl-C also interrupts `step`.
    pub(crate) fn begin(step: Interrupt) -> Answering {
        *lock(&STATE) = State::Answering(step);
        Answering(())
    }

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
