//! Files that commands write: none of those that they read.

use std::path::Path;

use gguf::Gguf;

use crate::output::Usage;

/// The files that a model is read from.
pub(crate) fn of(model: &Gguf) -> Vec<&Path> {
    model.files().map(|(file, _)| Path::new(file)).collect()
}

/// Refuses `path`, the value of `option`, for a file that takes its name when it is whole: stdout, and
/// the files `read`.
///
/// # Errors
/// With what is to be changed on the command line.
pub(crate) fn check(option: &str, path: &Path, read: &[&Path]) -> Result<(), Usage> {
    if path == Path::new("-") {
        return Err(Usage(format!("{option} takes the name of a file; `-` for stdout is none")));
    }
    spare(option, path, read)?;
    spare(option, &trace::part(path), read)
}

/// Refuses only the files `read`, under whatever name.
///
/// # Errors
/// As [`check`].
pub(crate) fn spare(option: &str, path: &Path, read: &[&Path]) -> Result<(), Usage> {
    // Files are opened to be told apart, and a pipe would wait for its other end.
    let is_it = |input: &&&Path| {
        path.is_file() && input.is_file() && same_file::is_same_file(path, input).unwrap_or(false)
    };
    match read.iter().find(is_it) {
        None => Ok(()),
        Some(input) => Err(Usage(format!(
            "{option} would write to {}, but {} is read; name another file",
            path.display(),
            input.display()
        ))),
    }
}
