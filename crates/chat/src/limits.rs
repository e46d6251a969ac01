//! Limits on the cost of a rendering.

use std::time::{Duration, Instant};

use minijinja::value::{Object, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Parameters of a rendering: [`Options::now`](crate::Options::now), and its budget in bytes.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) now: jiff::Zoned,
    pub(crate) bytes: u64,
}

/// The variable that holds the [`Run`]; no template can spell its name.
pub(crate) const RUN: &str = " run";

impl Object for Run {}

/// Maximum time per rendering.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Maximum nesting of a value.
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
}

/// The clock is checked each time this many bytes are charged.
const LOOK: u64 = 4096;

/// The source of minijinja's error when the budget is exhausted.
#[derive(Debug, thiserror::Error)]
#[error("too much work")]
pub(crate) struct Exhausted;

/// How a value is charged.
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
    /// The budget of the rendering that `state` belongs to.
    pub(crate) fn of<'a>(state: &'a mut State) -> &'a mut Budget {
        let new = state.get_extension::<Budget>().is_none().then(|| {
            let run = state.lookup(RUN);
            let bytes = run.and_then(|run| run.downcast_object_ref::<Run>().map(|run| run.bytes));
            Budget { left: bytes.unwrap_or(0), end: Instant::now() + MAX_TIME, next_look: u64::MAX }
        });
        let none = || Budget { left: 0, end: Instant::now(), next_look: 0 };
        state.get_or_insert_extension_with(|| new.unwrap_or_else(none))
    }

    /// Charges `bytes`.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        // A call costs time, too.
        self.left = self.left.saturating_sub(bytes as u64 + 1);
        if self.left <= self.next_look {
            self.next_look = self.left.saturating_sub(LOOK);
            if Instant::now() > self.end {
                self.left = 0;
            }
        }
        if self.left == 0 {
            return Err(failed("too much work").with_source(Exhausted));
        }
        Ok(())
    }

    /// Charges for `value`.
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
                self.charge(if uses == Use::Make { text + 1 } else { text / WITHIN + 1 })
            }
            ValueKind::Seq | ValueKind::Iterable => {
                self.charge(1 + value.len().unwrap_or(0).saturating_mul(item))?;
                let unknown = if value.len().is_none() { item } else { 0 };
                for value in value.try_iter()? {
                    self.charge(unknown)?;
                    self.walk(&value, uses, depth + 1)?;
                }
                Ok(())
            }
            ValueKind::Map => {
                for (key, value) in
                    value.as_object().and_then(|map| map.try_iter_pairs()).into_iter().flatten()
                {
                    self.charge(item)?;
                    self.walk(&key, uses, depth + 1)?;
                    self.walk(&value, uses, depth + 1)?;
                }
                self.charge(1)
            }
            _ => self.charge(1),
        }
    }
}

/// The filter applied to every value that is looked up or returned by a function.
///
/// Lazy values, such as a slice of a list, are materialised once.
pub(crate) fn read(state: &mut State, value: Value) -> Result<Value, Error> {
    Budget::of(state).charge_for(&value, Use::Read)?;
    Ok(if value.kind() == ValueKind::Iterable { value.try_iter()?.collect() } else { value })
}

/// The filter applied to results of filters.
pub(crate) fn made(state: &mut State, value: Value) -> Result<Value, Error> {
    Budget::of(state).charge_for(&value, Use::Make)?;
    Ok(if value.kind() == ValueKind::Iterable { value.try_iter()?.collect() } else { value })
}
