//! Traces of random models, changed in known ways, and what is found.

mod alike;
mod believed;
mod common;
mod which;
mod why;
