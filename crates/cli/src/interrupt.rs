//! Signals: the first Ctrl-C ends an answer, the next one the program. Other signals end the program at once. Temporary files are
//! removed and the terminal is restored.

use std::io::IsTerminal;
#[cfg(unix)]
use std::io::stdin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

#[cfg(unix)]
use nix::sys::termios::{InputFlags, LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use rustorch::Stopper;

use crate::output::{INTERRUPTED, note};

enum State {
    /// Ctrl-C ends the program.
    Idle,
    /// Ctrl-C ends the work, an answer by its handle.
    Working(Option<Stopper>),
    /// The work is ending; Ctrl-C ends the program.
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
        if let (INTERRUPTED, State::Working(answer)) = (code, &*state) {
            answer.iter().for_each(Stopper::stop);
            *state = State::Stopping;
            return;
        }
        let _kept = gguf::output::remove_unfinished();
        restore();
        if let Some(line) = lock(&FAREWELL).filter(|_| code == INTERRUPTED) {
            let end = if std::io::stderr().is_terminal() { "\n" } else { "" };
            match line {
                "" if end.is_empty() => {}
                "" => note(format_args!("")),
                line => note(format_args!("{end}{line}")),
            }
        }
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

/// Calls `on_signal` with the exit code of each signal, 128 plus its number. SIGXFSZ is ignored, so that exceeding the limit of
/// file sizes is a write error.
#[cfg(unix)]
fn listen(on_signal: impl Fn(u8) + Send + 'static) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ])?;
    std::thread::spawn(move || {
        let ends = signals.forever().filter(|&signal| signal != SIGXFSZ);
        ends.filter_map(|signal| u8::try_from(128 + signal).ok()).for_each(on_signal);
    });
    Ok(())
}

/// Calls `on_signal` at each Ctrl-C.
#[cfg(not(unix))]
fn listen(on_signal: impl Fn(u8) + Send + 'static) -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(move || on_signal(INTERRUPTED))?)
}

/// Undoes what began with it.
pub(crate) struct Guard(fn());

impl Drop for Guard {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What Ctrl-C prints before it ends the program.
static FAREWELL: Mutex<Option<&'static str>> = Mutex::new(None);

/// While the guard exists, Ctrl-C prints `line` unless that is empty. On a terminal, it starts a new line first.
pub(crate) fn farewell(line: &'static str) -> anyhow::Result<Guard> {
    install()?;
    *lock(&FAREWELL) = Some(line);
    Ok(Guard(|| *lock(&FAREWELL) = None))
}

/// While the guard exists, the first Ctrl-C stops `answer`, not the program. Without `answer`, the caller polls [`is_to_stop`].
pub(crate) fn working(answer: Option<Stopper>) -> Guard {
    *lock(&STATE) = State::Working(answer);
    Guard(|| *lock(&STATE) = State::Idle)
}

pub(crate) fn is_to_stop() -> bool {
    matches!(*lock(&STATE), State::Stopping)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The terminal's original mode.
#[cfg(unix)]
static MODE: Mutex<Option<Termios>> = Mutex::new(None);

/// While the guard exists, the terminal does not echo keys, and the next reader gets them as typed. On systems other than Unix,
/// line editors do that.
pub(crate) fn quiet() -> Guard {
    #[cfg(unix)]
    {
        let mut original = lock(&MODE);
        if original.is_none() {
            *original = tcgetattr(stdin()).ok();
        }
        if let Some(mut mode) = original.clone() {
            mode.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON);
            // Ctrl-C ends the answer; what was typed before it stays.
            mode.local_flags.insert(LocalFlags::ISIG | LocalFlags::NOFLSH);
            // The line editor knows the Enter key as a carriage return.
            mode.input_flags.remove(InputFlags::ICRNL);
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &mode);
        }
    }
    Guard(restore)
}

/// Restores the terminal's original mode; every exit of the program must call it.
pub(crate) fn restore() {
    #[cfg(unix)]
    if let Some(mode) = &*lock(&MODE) {
        // Fails only if the terminal is gone.
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, mode);
    }
}
