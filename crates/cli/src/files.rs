//! Files that commands write.

use std::path::Path;

use gguf::Gguf;
use gguf::output::Target;

use crate::interrupt;
use crate::output::Usage;

pub(crate) fn of(model: &Gguf) -> Vec<&Path> {
    model.files().map(|(file, _)| Path::new(file)).collect()
}

/// Checks the name `path`, the value of `option`, for a `what`; `is_one` says whether an existing file is one. The files
/// `read` are refused under any name. From here on, a signal leaves no temporary file behind.
pub(crate) fn target(
    option: &str,
    path: &Path,
    read: &[&Path],
    what: &'static str,
    is_one: impl FnOnce(&Path) -> bool,
) -> anyhow::Result<Target> {
    // Files are opened to compare them; a pipe would wait for a writer.
    let is_it = |input: &&&Path| {
        path.is_file() && input.is_file() && same_file::is_same_file(path, input).unwrap_or(false)
    };
    if let Some(input) = read.iter().find(is_it) {
        let (path, input) = (path.display(), input.display());
        let why = format!("{option} would write to {path}, but {input} is read; name another file");
        return Err(Usage(why).into());
    }
    interrupt::install()?;
    Ok(Target::new(path, what, is_one)?)
}

pub(crate) fn begins_with(path: &Path, magic: &[u8]) -> bool {
    use std::io::Read;
    let mut head = vec![0; magic.len()];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut head).is_ok()) && head == magic
}
