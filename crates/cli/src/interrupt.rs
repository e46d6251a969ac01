//! Ctrl-C: ends an answer first, then the program, which leaves nothing half done behind. A request to
//! end (SIGTERM) ends the program at once, and as cleanly.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::output::INTERRUPTED;

/// The exit code after SIGTERM.
#[cfg(unix)]
const TERMINATED: u8 = 143;

const IDLE: u8 = 0;
const ANSWERING: u8 = 1;
const STOPPING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// What is removed before the program ends.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Takes Ctrl-C and SIGTERM over from the system, which would end the program at once.
///
/// # Errors
/// When the system refuses.
pub(crate) fn install() -> anyhow::Result<()> {
    listen(|code| {
        let stops =
            || STATE.compare_exchange(ANSWERING, STOPPING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if code != INTERRUPTED || !stops() {
            if let Some(path) = &*unfinished() {
                let _ =
                    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            }
            std::process::exit(code.into());
        }
    })
}

/// Calls `heard` with the exit code that belongs to each signal: 128 and its number, as shells have it.
#[cfg(unix)]
fn listen(heard: impl Fn(u8) + Send + 'static) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        signals.forever().for_each(|signal| heard(if signal == SIGTERM { TERMINATED } else { INTERRUPTED }));
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
    pub(crate) fn begin() -> Answering {
        STATE.store(ANSWERING, Ordering::SeqCst);
        Answering(())
    }

    /// Whether Ctrl-C was pressed.
    pub(crate) fn is_to_stop(&self) -> bool {
        STATE.load(Ordering::SeqCst) == STOPPING
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        STATE.store(IDLE, Ordering::SeqCst);
    }
}

/// While it lives, Ctrl-C and SIGTERM remove a file or a folder, if it is there, and end the program.
pub(crate) struct Unfinished(());

impl Unfinished {
    /// # Errors
    /// As [`install`], which nobody else may have called.
    pub(crate) fn begin(path: &Path) -> anyhow::Result<Unfinished> {
        *unfinished() = Some(path.to_owned());
        install()?;
        Ok(Unfinished(()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        *unfinished() = None;
    }
}

fn unfinished() -> std::sync::MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
