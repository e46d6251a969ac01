//! Running what recurses as deeply as its input is nested.
//!
//! minijinja recurses over long expressions when it compiles them and over nested values when it prints
//! or drops them. Both depths are bounded, by the length of a template and by its steps, but the
//! bounds are out of reach of an ordinary stack.

use std::thread;

use crate::Error;

/// Enough for the deepest nesting that [`MAX_SOURCE_BYTES`](crate::MAX_SOURCE_BYTES) and
/// [`MAX_STEPS`](crate::MAX_STEPS) allow, four times over. Only what is touched takes memory.
const STACK_BYTES: usize = 1 << 29;

/// Runs `work` on a thread with a large stack. A panic there, which only a fault of the template
/// engine can cause, becomes an error.
pub(crate) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let failed = |message: String| Error::Render { line: 0, message };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("chat template".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work);
        let thread = thread.map_err(|error| failed(format!("cannot start a thread: {error}")))?;
        thread.join().map_err(|_| failed("the template engine panicked".to_owned()))
    })
}
