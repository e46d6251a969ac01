//! Format versions.

use std::fmt;

/// Version of the GGUF format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 32-bit counts and lengths.
    V1 = 1,
    /// 64-bit counts and lengths.
    V2 = 2,
    /// As version 2, and also used for big-endian files.
    V3 = 3,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", *self as u32)
    }
}
