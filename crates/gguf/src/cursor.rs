//! A bounded reader of a file's header: lengths are checked before anything is allocated.

use std::fmt;

use crate::error::{Fault, Item, Problem};
use crate::{MAX_METADATA_BYTES, MAX_NAME_BYTES};

/// A problem and its offset, before it is attributed to a key or tensor.
#[derive(Debug)]
pub(crate) struct At {
    pub(crate) offset: u64,
    pub(crate) problem: Problem,
}

impl At {
    pub(crate) fn in_item(self, item: Item) -> Fault {
        Fault { item, offset: self.offset, problem: self.problem }
    }
}

/// Allocator overhead of a small allocation, in bytes.
const ALLOCATION: u64 = 32;

/// Reads forward, and limits the memory of the result to [`MAX_METADATA_BYTES`].
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    budget: u64,
    /// Version 1 has 32-bit counts and lengths, later versions 64-bit. Set once the version is read.
    pub(crate) version: u32,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, pos: 0, budget: MAX_METADATA_BYTES, version: 3 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.pos as u64
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    /// Fails with `problem` at the current offset.
    pub(crate) fn fail<T>(&self, problem: Problem) -> Result<T, At> {
        Err(At { offset: self.offset(), problem })
    }

    /// Charges `bytes` of memory to the budget, before they are allocated.
    pub(crate) fn charge(&mut self, bytes: u64) -> Result<(), At> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => self.fail(Problem::TooLarge),
        }
    }

    pub(crate) fn take(&mut self, needed: u64, what: &'static str) -> Result<&'a [u8], At> {
        match usize::try_from(needed).ok().and_then(|n| self.rest().get(..n)) {
            Some(taken) => {
                self.pos += taken.len();
                Ok(taken)
            }
            None => self.fail(Problem::Truncated { what, needed, left: self.rest().len() as u64 }),
        }
    }

    pub(crate) fn scalar<T: Scalar>(&mut self, what: &'static str) -> Result<T, At> {
        let offset = self.offset();
        T::decode(self.take(T::SIZE, what)?).map_err(|problem| At { offset, problem })
    }

    /// Reads an array of numbers or bools, with its count.
    pub(crate) fn scalars<T: Scalar>(&mut self) -> Result<Vec<T>, At> {
        // Counted twice: the copy, and the mapped pages it is read from.
        let count = self.count("array elements", T::SIZE, 2 * T::SIZE)?;
        if count > 0 {
            self.charge(ALLOCATION)?;
        }
        let offset = self.offset();
        let bytes = self.take(count as u64 * T::SIZE, "an array")?;
        let mut values = Vec::with_capacity(count);
        for (value, at) in bytes.chunks_exact(T::SIZE as usize).zip((offset..).step_by(T::SIZE as usize)) {
            values.push(T::decode(value).map_err(|problem| At { offset: at, problem })?);
        }
        Ok(values)
    }

    /// Reads a count or length: 32 bits in version 1, otherwise 64 bits.
    pub(crate) fn length(&mut self, what: &'static str) -> Result<u64, At> {
        if self.version == 1 { self.scalar::<u32>(what).map(u64::from) } else { self.scalar(what) }
    }

    /// Size of a count or length, in bytes.
    pub(crate) fn length_size(&self) -> u64 {
        if self.version == 1 { 4 } else { 8 }
    }

    /// Reads the number of `what`, each of which takes at least `least` bytes of the file and
    /// `memory` bytes of memory.
    pub(crate) fn count(&mut self, what: &'static str, least: u64, memory: u64) -> Result<usize, At> {
        let offset = self.offset();
        let count = self.length(what)?;
        let left = self.rest().len() as u64;
        if count > left / least {
            return Err(At { offset, problem: Problem::Count { what, count, left } });
        }
        self.charge(count.saturating_mul(memory))?;
        usize::try_from(count).map_err(|_| At { offset, problem: Problem::TooLarge })
    }

    /// Reads a string: a length and that many bytes of UTF-8.
    ///
    /// The bytes are copied before validation, because another process may modify the mapped file at any time.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, At> {
        let length = self.length(what)?;
        let offset = self.offset();
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
        let offset = self.offset();
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

/// A little-endian value of fixed size.
pub(crate) trait Scalar: Copy + fmt::Display {
    const SIZE: u64;

    fn decode(bytes: &[u8]) -> Result<Self, Problem>;

    fn encode(self, out: &mut Vec<u8>);

    fn integer(self) -> Option<i128>;
}

macro_rules! numbers {
    ($integer:expr; $($type:ty),+) => {$(
        impl Scalar for $type {
            const SIZE: u64 = size_of::<$type>() as u64;

            fn decode(bytes: &[u8]) -> Result<Self, Problem> {
                let mut array = [0; size_of::<$type>()];
                array.copy_from_slice(bytes);
                Ok(<$type>::from_le_bytes(array))
            }

            fn encode(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn integer(self) -> Option<i128> {
                let integer: fn($type) -> Option<i128> = $integer;
                integer(self)
            }
        }
    )+};
}

numbers!(|value| Some(value.into()); u8, i8, u16, i16, u32, i32, u64, i64);
numbers!(|_| None; f32, f64);

impl Scalar for bool {
    const SIZE: u64 = 1;

    fn decode(bytes: &[u8]) -> Result<bool, Problem> {
        match u8::decode(bytes)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Problem::BadBool(other)),
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }

    fn integer(self) -> Option<i128> {
        None
    }
}
