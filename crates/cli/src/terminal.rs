//! The terminal between two prompts of a chat: keys are not echoed, but stored for the next prompt. On systems other than Unix,
//! line editors do that.

/// While it exists, keys are not echoed, and the next reader gets them as typed.
pub(crate) struct Quiet(());

impl Quiet {
    /// Does nothing without a terminal.
    pub(crate) fn begin() -> Quiet {
        #[cfg(unix)]
        unix::silence();
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
    #[cfg(unix)]
    unix::restore();
}

#[cfg(unix)]
mod unix {
    use std::io::stdin;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use nix::sys::termios::{InputFlags, LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    fn before() -> MutexGuard<'static, Option<Termios>> {
        BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn silence() {
        let mut before = before();
        if before.is_none() {
            *before = tcgetattr(stdin()).ok();
        }
        let Some(mut mode) = before.clone() else { return };
        mode.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON);
        // Ctrl-C ends the answer; what was typed before it stays.
        mode.local_flags.insert(LocalFlags::ISIG | LocalFlags::NOFLSH);
        // The line editor knows the Enter key as a carriage return.
        mode.input_flags.remove(InputFlags::ICRNL);
        set(&mode);
    }

    pub(super) fn restore() {
        before().iter().for_each(set);
    }

    fn set(mode: &Termios) {
        // Fails only if the terminal is gone.
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, mode);
    }
}
