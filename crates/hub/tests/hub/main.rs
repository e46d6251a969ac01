//! Downloads from a server on this machine.

mod common;
mod downloads;
mod failures;
mod keeping;
mod protocol;
