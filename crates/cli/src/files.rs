//! Files that commands read and write, and the user's folders.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use backend::host_memory;
use gguf::Gguf;
use gguf::output::Target;
use rustorch::Model;

use crate::interrupt;
use crate::output::{Usage, size};

pub(crate) fn model_files(model: &Gguf) -> Vec<&Path> {
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
        bail!(Usage(format!("{option} would write to {path}, but {input} is read; name another file")));
    }
    interrupt::install()?;
    Ok(Target::new(path, what, is_one)?)
}

pub(crate) fn begins_with(path: &Path, magic: &[u8]) -> bool {
    let mut head = vec![0; magic.len()];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut head).is_ok()) && head == magic
}

/// Memory that a tokenizer takes at most for a byte of text.
const BYTES_PER_TEXT_BYTE: u64 = 64;

/// A text to be read when the model is known, which limits its length.
pub(crate) struct TextFile {
    name: String,
    content: Box<dyn Read>,
}

impl TextFile {
    /// Opens a file, `-` for stdin.
    pub(crate) fn open(path: &Path) -> anyhow::Result<TextFile> {
        if path == Path::new("-") {
            return Ok(TextFile { name: "from stdin".to_owned(), content: Box::new(io::stdin()) });
        }
        let name = path.display().to_string();
        let content = File::open(path).with_context(|| format!("cannot read the text {name}"))?;
        Ok(TextFile { name, content: Box::new(content) })
    }

    /// The text without a newline at its end. Reads no more than the context of `model` can hold.
    pub(crate) fn prompt(self, model: &Model) -> anyhow::Result<String> {
        let most = model.max_text_bytes().unwrap_or_default();
        // A newline at the end does not count.
        let text = without_newline(self.read(most.saturating_add("\r\n".len()))?);
        model.check_text(text.len())?;
        Ok(text)
    }

    /// The whole text, if the available memory can tokenize it.
    pub(crate) fn whole(self) -> anyhow::Result<String> {
        let limit = host_memory().free.map_or(usize::MAX, |free| (free / BYTES_PER_TEXT_BYTE) as usize);
        let unreadable = format!("cannot read the text {}", self.name);
        let text = self.read(limit)?;
        if text.len() > limit {
            let limit = size(limit as u64);
            bail!(
                "{unreadable}: it is larger than {limit}; the available memory is not enough to tokenize it"
            );
        }
        Ok(text)
    }

    /// More than `most` bytes if the text has more.
    fn read(self, most: usize) -> anyhow::Result<String> {
        let unreadable = || format!("cannot read the text {}", self.name);
        let mut text = Vec::new();
        // Enough for a character that `most` cuts.
        let read = self.content.take(most.saturating_add(4) as u64).read_to_end(&mut text);
        read.with_context(unreadable)?;
        if let Err(error) = str::from_utf8(&text)
            && error.error_len().is_none()
            && text.len() > most
        {
            text.truncate(error.valid_up_to());
        }
        let text = String::from_utf8(text).with_context(unreadable)?;
        Ok(without_mark(text))
    }
}

/// `text` without the byte order mark that editors of Windows write at its beginning.
pub(crate) fn without_mark(mut text: String) -> String {
    let mark = '\u{feff}';
    if text.starts_with(mark) {
        text.drain(..mark.len_utf8());
    }
    text
}

pub(crate) fn without_newline(mut text: String) -> String {
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    text.truncate(line.map_or(text.len(), str::len));
    text
}

pub(crate) fn config_folder() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config")
}

pub(crate) fn data_folder() -> Option<PathBuf> {
    xdg("XDG_DATA_HOME", ".local/share")
}

pub(crate) fn state_folder() -> Option<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

pub(crate) fn cache_folder() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// For models without a path.
pub(crate) fn models_folder() -> Option<PathBuf> {
    Some(std::env::home_dir()?.join(".rustorch").join("models"))
}

/// Replaces `~` at the beginning of `path`, as a shell does.
pub(crate) fn expand(path: &Path) -> PathBuf {
    let expanded = path.strip_prefix("~").ok().and_then(|rest| Some(std::env::home_dir()?.join(rest)));
    expanded.unwrap_or_else(|| path.to_owned())
}

/// Our folder in that of `variable`, or under home. The XDG Base Directory Specification ignores relative paths.
fn xdg(variable: &str, under_home: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    Some(named.or_else(|| Some(std::env::home_dir()?.join(under_home)))?.join("rustorch"))
}

/// The first bytes of a NumPy array file, version 1.0.
///
/// A header follows, after its length as little-endian u16: a Python dictionary, padded with spaces and a newline so that the
/// data begins at a multiple of 64. <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>
const NPY: &[u8] = b"\x93NUMPY\x01\x00";

/// Checks the name `path` of an array that is computed by `model`.
pub(crate) fn npy_target(path: &Path, model: &Gguf) -> anyhow::Result<Target> {
    target("-o", path, &model_files(model), "NumPy array", |path| begins_with(path, NPY))
}

/// Writes what precedes a float32 array `[rows, cols]` in C order. The values follow, little-endian.
pub(crate) fn write_npy_header(out: &mut impl Write, rows: usize, cols: usize) -> io::Result<()> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    let before = NPY.len() + size_of::<u16>();
    let width = (before + header.len() + 1).next_multiple_of(64) - before - 1;
    out.write_all(NPY)?;
    out.write_all(&u16::try_from(width + 1).map_err(io::Error::other)?.to_le_bytes())?;
    writeln!(out, "{header:width$}")
}

pub(crate) fn write_npy_row(out: &mut impl Write, values: &[f32]) -> io::Result<()> {
    out.write_all(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of `numpy.save` for `numpy.zeros((2, 3), "<f4")` before the data.
    #[test]
    fn the_head_is_numpys() {
        let mut head = Vec::new();
        write_npy_header(&mut head, 2, 3).expect("writing to memory");
        let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        expected.extend(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
        expected.extend([b' '].repeat(128 - expected.len() - 1));
        expected.push(b'\n');
        assert_eq!(head, expected);
    }
}
