//! What one rendering may cost.
//!
//! minijinja bounds the steps of a rendering, but a single step can double a text or compare two long
//! ones. Therefore whatever makes or reads texts and lists first takes their size from a [`Budget`]:
//! the [operators](crate::operators), the [filters, tests and methods](crate::calls) and what is
//! written. Sizes that are only known afterwards are bounded from above before.

use std::time::{Duration, Instant};

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use crate::MAX_WORK_BYTES;
use crate::json::MAX_DEPTH;

/// What an item of a list takes, in bytes, with room to spare.
pub(crate) const ITEM: usize = 32;

/// Looking at a value within another takes as long as reading so many bytes.
const LOOK: usize = 128;

/// Making a byte costs as much as reading so many.
const READS_PER_BYTE: u64 = 8;

/// Most bytes by which text in a list or a map can grow, per byte, when it is quoted and escaped.
const ESCAPED: usize = 6;

/// A second guard, far beyond what the budget allows on any machine in use.
const MAX_TIME: Duration = Duration::from_secs(10);

/// What is left of the work that a rendering may do. Lives in minijinja's [`State`].
pub(crate) struct Budget {
    /// Bytes that may be read; see [`READS_PER_BYTE`].
    left: u64,
    started: Instant,
}

/// The cause of minijinja's error when nothing is left.
#[derive(Debug, thiserror::Error)]
#[error("too much work")]
pub(crate) struct Exhausted;

impl Budget {
    /// The budget of the rendering that `state` belongs to.
    pub(crate) fn of<'a>(state: &'a mut State) -> &'a mut Budget {
        state.get_or_insert_extension_with(|| Budget {
            left: MAX_WORK_BYTES as u64 * READS_PER_BYTE,
            started: Instant::now(),
        })
    }

    /// Pays for looking at `bytes`.
    pub(crate) fn read(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.saturating_sub(bytes as u64);
        if self.left == 0 || self.started.elapsed() > MAX_TIME {
            self.left = 0;
            return Err(Error::new(ErrorKind::InvalidOperation, "too much work").with_source(Exhausted));
        }
        Ok(())
    }

    /// Pays for a text or a list of `bytes`.
    pub(crate) fn make(&mut self, bytes: usize) -> Result<(), Error> {
        self.read(bytes.saturating_mul(READS_PER_BYTE as usize))
    }

    /// Fails when `bytes` could not be paid for.
    pub(crate) fn afford(&mut self, bytes: usize) -> Result<(), Error> {
        let enough = (bytes as u64).saturating_mul(READS_PER_BYTE) < self.left;
        if enough { Ok(()) } else { self.make(bytes) }
    }

    /// Bytes of a text, or items of a list or map times [`ITEM`].
    pub(crate) fn size(value: &Value) -> usize {
        match value.as_str() {
            Some(text) => text.len(),
            None => value.len().unwrap_or(0).saturating_mul(ITEM),
        }
    }

    /// The length of `value` as text, or more: a text within a list is counted as if all of it had to
    /// be escaped. Pays for reading all of it, so what is nested without end fails.
    pub(crate) fn text(&mut self, value: &Value) -> Result<usize, Error> {
        match value.as_str() {
            Some(text) => self.read(text.len()).map(|()| text.len()),
            None => self.nested(value, 0),
        }
    }

    fn nested(&mut self, value: &Value, depth: usize) -> Result<usize, Error> {
        if depth > MAX_DEPTH {
            let message = "value is too deeply nested to be written or compared";
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        self.read(LOOK)?;
        // Quotes, and what separates it from the next.
        let mut length = 4;
        match value.kind() {
            ValueKind::String => {
                length += Budget::size(value).saturating_mul(ESCAPED);
                self.read(Budget::size(value))?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    length = self.nested(&item, depth + 1)?.saturating_add(length);
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    length = self.nested(&key, depth + 1)?.saturating_add(length);
                    length = self.nested(&value.get_item(&key)?, depth + 1)?.saturating_add(length);
                }
            }
            _ => {
                length += value.to_string().len();
                self.read(length)?;
            }
        }
        Ok(length)
    }
}
