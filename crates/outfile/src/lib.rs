//! Files that appear whole or not at all.
//!
//! A [`Target`] is a checked name: nothing is there, or a file of the same kind. An [`OutFile`] is written beside it under a
//! temporary name, and renamed when it is complete and on the disk. If that never happens, nothing is left behind; a
//! program that a signal ends calls [`remove_unfinished`]. Pipes and devices get the bytes as they come.
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
