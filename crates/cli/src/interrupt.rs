//! Ctrl-C: ends an answer first, then the program.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::output::INTERRUPTED;

const IDLE: u8 = 0;
const ANSWERING: u8 = 1;
const STOPPING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// Takes Ctrl-C over from the system, which would end the program at once.
///
/// # Errors
/// When the system refuses.
pub(crate) fn install() -> anyhow::Result<()> {
    Ok(ctrlc::set_handler(|| {
        let first = STATE.compare_exchange(ANSWERING, STOPPING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !first {
            std::process::exit(INTERRUPTED.into());
        }
    })?)
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
