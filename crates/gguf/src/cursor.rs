//! A bounded reader of a file's header: lengths are checked before anything is allocated.

use std::fmt::Display;

use crate::error::{Fault, Problem};
use crate::{MAX_METADATA_BYTES, MAX_NAME_BYTES};

/// A problem and its offset, before it is attributed to a key or tensor.
#[derive(Debug)]
pub(crate) struct At {
    pub(crate) offset: u64,
    pub(crate) problem: Problem,
}

impl At {
    pub(crate) fn in_item(self, item: impl Display) -> Fault {
        Fault { place: format!("{item} (at offset {:#x})", self.offset), problem: self.problem }
    }
}

/// Allocator overhead of a small allocation, in bytes.
const ALLOCATION: u64 = 32;

/// Reads forward, and limits the memory of the result to [`MAX_METADATA_BYTES`].
pub(crate) struct Cursor<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) offset: u64,
    budget: u64,
    /// Version 1 has 32-bit counts and lengths, later versions 64-bit. Set once the version is read.
    pub(crate) version: u32,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, offset: 0, budget: MAX_METADATA_BYTES, version: 3 }
    }

    pub(crate) fn fail<T>(&self, problem: Problem) -> Result<T, At> {
        Err(At { offset: self.offset, problem })
    }

    fn charge(&mut self, bytes: u64) -> Result<(), At> {
        let Some(left) = self.budget.checked_sub(bytes) else { return self.fail(Problem::TooLarge) };
        self.budget = left;
        Ok(())
    }

    pub(crate) fn take(&mut self, needed: u64, what: &'static str) -> Result<&'a [u8], At> {
        let split = usize::try_from(needed).ok().and_then(|needed| self.rest.split_at_checked(needed));
        let Some((taken, rest)) = split else {
            return self.fail(Problem::Truncated { what, needed, left: self.rest.len() as u64 });
        };
        (self.rest, self.offset) = (rest, self.offset + needed);
        Ok(taken)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, At> {
        u32::read(self, what, 0)
    }

    /// Reads a count or length: 32 bits in version 1, otherwise 64 bits.
    pub(crate) fn length(&mut self, what: &'static str) -> Result<u64, At> {
        if self.version == 1 { self.u32(what).map(u64::from) } else { u64::read(self, what, 0) }
    }

    pub(crate) fn length_size(&self) -> u64 {
        if self.version == 1 { 4 } else { 8 }
    }

    /// Reads the number of `what`, each of which takes at least `least` bytes of the file and `memory` bytes of memory.
    pub(crate) fn count(&mut self, what: &'static str, least: u64, memory: u64) -> Result<usize, At> {
        let offset = self.offset;
        let count = self.length(what)?;
        let left = self.rest.len() as u64;
        if count > left / least {
            return Err(At { offset, problem: Problem::Count { what, count, left } });
        }
        self.charge(count.saturating_mul(memory))?;
        usize::try_from(count).map_err(|_| At { offset, problem: Problem::TooLarge })
    }

    pub(crate) fn array<T: Element>(&mut self, depth: usize) -> Result<Vec<T>, At> {
        let least = T::least(self);
        // Both the copy and the mapped pages it is read from take memory.
        let count = self.count(T::NAMES[1], least, size_of::<T>() as u64 + least)?;
        if count > 0 {
            self.charge(ALLOCATION)?;
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(T::read(self, T::NAMES[0], depth)?);
        }
        Ok(values)
    }

    /// Reads a string: a length and bytes, which are copied before validation, because another process may modify them.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, At> {
        let length = self.length(what)?;
        let offset = self.offset;
        let bytes = self.take(length, what)?;
        if length > 0 {
            // The copy, the mapped pages it is read from, and the allocator's overhead.
            self.charge(length.saturating_mul(2).saturating_add(ALLOCATION))?;
        }
        String::from_utf8(bytes.to_vec()).map_err(|error| {
            let at = error.utf8_error().valid_up_to() as u64;
            At { offset: offset + at, problem: Problem::BadUtf8 { what, at } }
        })
    }

    pub(crate) fn name(&mut self, what: &'static str) -> Result<String, At> {
        let offset = self.offset;
        let name = self.string(what)?;
        check_name(&name).map_err(|problem| At { offset, problem })?;
        Ok(name)
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), Problem> {
    match name.len() as u64 {
        0 => Err(Problem::EmptyName),
        n if n > MAX_NAME_BYTES => Err(Problem::LongName(n)),
        _ => Ok(()),
    }
}

/// A value, or an element of an array that is nested `depth` deep: 1 in the array of a key, 0 without an array.
pub(crate) trait Element: Sized {
    /// One and many of them, for messages.
    const NAMES: [&'static str; 2] = ["an array element", "array elements"];

    /// Least bytes in a file.
    fn least(cursor: &Cursor) -> u64 {
        cursor.length_size()
    }

    fn read(cursor: &mut Cursor, what: &'static str, depth: usize) -> Result<Self, At>;

    fn write(&self, out: &mut Vec<u8>, depth: usize) -> Result<(), Problem>;

    fn short(&self) -> String;
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Element for $type {
            fn least(_: &Cursor) -> u64 {
                size_of::<$type>() as u64
            }

            fn read(cursor: &mut Cursor, what: &'static str, _: usize) -> Result<$type, At> {
                let bytes = cursor.take(size_of::<$type>() as u64, what)?;
                Ok(<$type>::from_le_bytes(bytes.try_into().unwrap_or_default()))
            }

            fn write(&self, out: &mut Vec<u8>, _: usize) -> Result<(), Problem> {
                out.extend(self.to_le_bytes());
                Ok(())
            }

            fn short(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

numbers!(u8, i8, u16, i16, u32, i32, f32, u64, i64, f64);
