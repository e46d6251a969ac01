//! The backends of this build and their names, for flags.

pub(crate) use rustorch::devices::{BackendName, registry};
