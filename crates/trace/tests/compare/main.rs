//! Traces of random models, changed in known ways, and what is found.

mod alike;
mod believed;
mod common;
mod operations;
mod which;
mod why;
