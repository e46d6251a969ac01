//! Files that commands write: none of those that they read.

use std::path::Path;

use gguf::Gguf;

use crate::output::Usage;

/// Refuses `path`, the value of `option`, for a file that takes its name when it is whole: stdout, and
/// what `model` or the file `other` is read from.
///
/// # Errors
/// With what is to be changed on the command line.
pub(crate) fn check(option: &str, path: &Path, model: &Gguf, other: Option<&Path>) -> Result<(), Usage> {
    if path == Path::new("-") {
        return Err(Usage(format!("{option} takes the name of a file; `-` for stdout is none")));
    }
    spare(option, path, model, other)?;
    spare(option, &trace::part(path), model, other)
}

/// Refuses only the files that are read, under whatever name.
///
/// # Errors
/// As [`check`].
pub(crate) fn spare(option: &str, path: &Path, model: &Gguf, other: Option<&Path>) -> Result<(), Usage> {
    let models = model.files().map(|(file, _)| Path::new(file));
    let is_it = |input: &&Path| same_file::is_same_file(path, input).unwrap_or(false);
    match models.chain(other).find(is_it) {
        None => Ok(()),
        Some(input) => Err(Usage(format!(
            "{option} would write to {}, but {} is read; name another file",
            path.display(),
            input.display()
        ))),
    }
}
