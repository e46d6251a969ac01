//! Limits on the cost of a rendering.

use std::time::{Duration, Instant};

use minijinja::value::{Object, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::MAX_WORK_BYTES;
use crate::error::Stop;

/// Parameters of a rendering: [`Options::now`](crate::Options::now), its budget in bytes, and when it must have ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) now: jiff::Zoned,
    pub(crate) bytes: u64,
    pub(crate) end: Instant,
}

/// The variable that holds the [`Run`]; no template can spell its name.
pub(crate) const RUN: &str = " run";

impl Object for Run {}

/// The default of [`Options::time`](crate::Options::time).
pub(crate) const MAX_TIME: Duration = Duration::from_secs(10);

pub(crate) const MAX_DEPTH: usize = 64;

/// Bytes charged per list item.
pub(crate) const ITEM: usize = 32;

/// When only a list is read, text inside it is charged at this fraction of its length.
const WITHIN: usize = 64;

/// The remaining budget of a rendering, held in minijinja's [`State`].
pub(crate) struct Budget {
    left: u64,
    end: Instant,
    /// Budget at which the clock is checked next.
    next_look: u64,
    /// Bytes printed, captures included.
    printed: usize,
}

/// The clock is checked each time this many bytes are charged.
const LOOK: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is looked up, and may then be compared.
    Read,
    /// It was made with all its contents, or something as large is about to be.
    Make,
}

pub(crate) fn failed(why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

impl Budget {
    pub(crate) fn of<'a>(state: &'a mut State) -> &'a mut Budget {
        let limits = |run: Value| run.downcast_object_ref::<Run>().map(|run| (run.bytes, run.end));
        let limits = match state.get_extension::<Budget>() {
            Some(_) => None,
            None => state.lookup(RUN).and_then(limits),
        };
        let (left, end) = limits.unwrap_or_else(|| (0, Instant::now()));
        state.get_or_insert_extension_with(|| Budget { left, end, next_look: u64::MAX, printed: 0 })
    }

    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        // A call costs time, too.
        self.left = self.left.saturating_sub(bytes as u64 + 1);
        if self.left <= self.next_look {
            self.next_look = self.left.saturating_sub(LOOK);
            if Instant::now() > self.end {
                // Also what would go on after an error.
                self.left = 0;
                return Err(failed("too much time").with_source(Stop::TooMuchTime));
            }
        }
        if self.left == 0 {
            return Err(failed("too much work").with_source(Stop::TooMuchWork));
        }
        Ok(())
    }

    /// Notes that `bytes` are printed, which are charged already.
    pub(crate) fn print(&mut self, bytes: usize) -> Result<(), Error> {
        self.printed += bytes;
        if self.printed > MAX_WORK_BYTES {
            return Err(failed("too much work").with_source(Stop::TooMuchWork));
        }
        Ok(())
    }

    pub(crate) fn charge_for(&mut self, value: &Value, uses: Use) -> Result<(), Error> {
        match value.as_str() {
            Some(text) => self.charge(text.len() + 1),
            None => self.walk(value, uses, 0),
        }
    }

    fn walk(&mut self, value: &Value, uses: Use, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(failed("value is nested too deeply"));
        }
        let item = match (uses, value.kind()) {
            (Use::Make, _) => ITEM,
            // Operators copy tuples, and run lazy iterators.
            (_, ValueKind::Iterable) => ITEM / 2,
            _ if value.is_tuple() => ITEM,
            _ => 2,
        };
        match value.kind() {
            ValueKind::String => {
                let text = value.as_str().map_or(0, str::len);
                self.charge(if uses == Use::Make { text } else { text / WITHIN })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                for value in value.try_iter()? {
                    self.charge(item)?;
                    self.walk(&value, uses, depth + 1)?;
                }
            }
            ValueKind::Map => {
                let pairs = value.as_object().and_then(|map| map.try_iter_pairs());
                for (key, value) in pairs.into_iter().flatten() {
                    self.charge(item)?;
                    self.walk(&key, uses, depth + 1)?;
                    self.walk(&value, uses, depth + 1)?;
                }
            }
            _ => {}
        }
        self.charge(1)
    }
}

/// Charges values that are looked up, returned or filtered. Lazy ones, such as a sum of lists, are computed once.
pub(crate) fn charged(state: &mut State, value: Value, uses: Use) -> Result<Value, Error> {
    Budget::of(state).charge_for(&value, uses)?;
    Ok(if value.kind() == ValueKind::Iterable { value.try_iter()?.collect() } else { value })
}
