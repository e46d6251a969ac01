//! The terminal between two prompts of a chat: keys are not echoed, but stored for the next prompt.

use std::sync::{Mutex, MutexGuard, PoisonError};

use system::{Mode, mode, quiet, set};

static BEFORE: Mutex<Option<Mode>> = Mutex::new(None);

/// While it exists, keys are not echoed, and the next reader gets them as typed.
pub(crate) struct Quiet(());

impl Quiet {
    /// Does nothing without a terminal.
    pub(crate) fn begin() -> Quiet {
        let mut before = before();
        if before.is_none() {
            *before = mode();
        }
        if let Some(mode) = &*before {
            set(&quiet(mode));
        }
        Quiet(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the original mode; every exit of the program must call it.
pub(crate) fn restore() {
    if let Some(mode) = &*before() {
        set(mode);
    }
}

fn before() -> MutexGuard<'static, Option<Mode>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
mod system {
    use std::io::stdin;

    use nix::sys::termios::{InputFlags, LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

    pub(super) type Mode = Termios;

    pub(super) fn mode() -> Option<Mode> {
        tcgetattr(stdin()).ok()
    }

    pub(super) fn quiet(mode: &Mode) -> Mode {
        let mut quiet = mode.clone();
        quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON);
        // Ctrl-C ends the answer; what was typed before it stays.
        quiet.local_flags.insert(LocalFlags::ISIG | LocalFlags::NOFLSH);
        // The line editor knows the Enter key as a carriage return.
        quiet.input_flags.remove(InputFlags::ICRNL);
        quiet
    }

    pub(super) fn set(mode: &Mode) {
        // Fails only if the terminal is gone.
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, mode);
    }
}

/// On other systems, line editors store typed keys.
#[cfg(not(unix))]
mod system {
    pub(super) type Mode = ();

    pub(super) fn mode() -> Option<Mode> {
        None
    }

    pub(super) fn quiet(_: &Mode) -> Mode {}

    pub(super) fn set(_: &Mode) {}
}
