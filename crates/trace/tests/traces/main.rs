//! Recording and reading traces.

mod common;
mod files;
mod oracles;
mod recording;
