//! Traces of random models, changed in known ways, and what is found.

mod common;
mod which;
mod why;
