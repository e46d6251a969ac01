//! Files that are written completely or not at all.
//!
//! A [`Target`] is a checked path: no file exists there, or one of the same kind. An [`OutFile`] is written next to it under a
//! temporary name, and renamed once it is complete and synced to disk. An unfinished file is removed; a program that a signal
//! ends calls [`remove_unfinished`]. Pipes and devices receive the bytes directly.
//!
//! ```
//! use std::io::Write;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("page.html");
//! let is_page = |path: &std::path::Path| std::fs::read(path).is_ok_and(|page| page.starts_with(b"<!doctype html>"));
//! let target = outfile::Target::new(&path, "page", is_page)?;
//! let mut file = target.create()?;
//! file.write_all(b"<!doctype html>")?;
//! file.finish()?;
//! # Ok(())
//! # }
//! ```

mod error;
mod file;
mod target;
mod unfinished;

pub use error::Error;
pub use file::OutFile;
pub use target::Target;
pub use unfinished::{TempFolder, remove_unfinished};
