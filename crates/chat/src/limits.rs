//! What one rendering may cost.

use std::time::{Duration, Instant};

use minijinja::value::{Object, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Most that a rendering may take, as [`Options::now`](crate::Options::now) and what it may be charged for.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) now: jiff::Zoned,
    pub(crate) bytes: u64,
}

/// The variable that holds the [`Run`]; no template can spell it.
pub(crate) const RUN: &str = " run";

impl Object for Run {}

/// Longest time that a rendering may take.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Deepest nesting of a value.
pub(crate) const MAX_DEPTH: usize = 64;

/// What an item of a list takes, in bytes.
pub(crate) const ITEM: usize = 32;

/// Text within a list is charged for at a fraction of its bytes when only the list is read.
const WITHIN: usize = 64;

/// What is left of a rendering's bytes. Lives in minijinja's [`State`].
pub(crate) struct Budget {
    left: u64,
    end: Instant,
    /// How much may be left when the time is looked at next.
    next_look: u64,
}

/// The time is looked at each time that so many bytes are gone.
const LOOK: u64 = 4096;

/// The cause of minijinja's error when nothing is left.
#[derive(Debug, thiserror::Error)]
#[error("too much work")]
pub(crate) struct Exhausted;

/// Why a value is walked through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is looked up; what may follow is comparing it.
    Read,
    /// It was made, with all that is in it, or something as large is about to be.
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

    /// Takes `bytes`.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        // A call of a function takes time as well.
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

    /// Takes what `value` is worth.
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
            // Operators copy what is in a tuple, and run through what is only made when it is asked for.
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

/// The filter that every value passes that is looked up or returned by a function.
///
/// What minijinja would make at each use, such as a slice of a list, is made once.
pub(crate) fn read(state: &mut State, value: Value) -> Result<Value, Error> {
    Budget::of(state).charge_for(&value, Use::Read)?;
    Ok(if value.kind() == ValueKind::Iterable { value.try_iter()?.collect() } else { value })
}

/// The filter that the results of filters pass.
pub(crate) fn made(state: &mut State, value: Value) -> Result<Value, Error> {
    Budget::of(state).charge_for(&value, Use::Make)?;
    Ok(if value.kind() == ValueKind::Iterable { value.try_iter()?.collect() } else { value })
}
