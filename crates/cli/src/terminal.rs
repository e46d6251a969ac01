//! The terminal between two prompts of a chat: it echoes no keys and keeps them for the next prompt.

use std::sync::{Mutex, MutexGuard, PoisonError};

use system::{Mode, mode, quiet, set};

/// The mode that it had at first.
static BEFORE: Mutex<Option<Mode>> = Mutex::new(None);

/// While it lives, keys are not echoed: the next reader gets them as they were typed.
pub(crate) struct Quiet(());

impl Quiet {
    /// Nothing happens without a terminal.
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

/// Puts the terminal back into the mode that it had, as every end of the program must.
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
        // A terminal that has gone away needs no mode.
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, mode);
    }
}

/// Other systems' line editors keep what was typed.
#[cfg(not(unix))]
mod system {
    pub(super) type Mode = ();

    pub(super) fn mode() -> Option<Mode> {
        None
    }

    pub(super) fn quiet(_: &Mode) -> Mode {}

    pub(super) fn set(_: &Mode) {}
}
