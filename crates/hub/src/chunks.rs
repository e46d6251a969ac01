//! A file that arrives in chunks, in any order. A journal beside it lists the chunks that are complete, so that a later process
//! continues where this one was killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

/// Bytes of a chunk.
pub(crate) const CHUNK: u64 = 8 << 20;

/// An unfinished file of known size, and its journal.
///
/// The journal is a text: a line with version, size and identity of the file, then the number of each complete chunk. A chunk's
/// line is written after its bytes. Neither is synced, so that a loss of power may leave chunks of zeros: the hash finds them.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    journal_path: PathBuf,
    file: File,
    size: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    journal: File,
    is_complete: Vec<bool>,
    /// Chunks that no connection has taken yet.
    is_free: Vec<bool>,
}

impl Partial {
    /// Opens `path` and its journal, or begins anew if there are none for `identity` and `size`. The disk must have space for
    /// what is missing.
    pub(crate) fn open(path: &Path, size: u64, identity: &str) -> Result<Partial, Error> {
        let journal_path = journal_of(path);
        let head = format!("rustorch 1 {size} {CHUNK} {identity}");
        let number = size.div_ceil(CHUNK);
        let open =
            |path: &Path| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = open(path).map_err(Error::cache("write", path))?;
        let is_whole = file.metadata().is_ok_and(|metadata| metadata.len() == size);
        let is_complete = match fs::read_to_string(&journal_path) {
            Ok(text) if is_whole => read_journal(&text, &head, number as usize),
            _ => None,
        };
        let complete =
            is_complete.iter().flat_map(|(chunks, _)| chunks).filter(|complete| **complete).count();
        check_space(path, size.saturating_sub(complete as u64 * CHUNK))?;
        let journal = match &is_complete {
            // A line that was cut must not run into the next one.
            Some((_, length)) => OpenOptions::new().append(true).open(&journal_path).and_then(|journal| {
                journal.set_len(*length as u64)?;
                Ok(journal)
            }),
            None => {
                // Without a journal, nothing in the file counts.
                file.set_len(0).and_then(|()| file.set_len(size)).map_err(Error::cache("write", path))?;
                File::create(&journal_path).and_then(|mut journal| {
                    journal.write_all(format!("{head}\n").as_bytes())?;
                    Ok(journal)
                })
            }
        };
        let journal = journal.map_err(Error::cache("write", &journal_path))?;
        let is_complete =
            is_complete.map_or_else(|| vec![false; number as usize], |(is_complete, _)| is_complete);
        let is_free = is_complete.iter().map(|complete| !complete).collect();
        let state = Mutex::new(State { journal, is_complete, is_free });
        Ok(Partial { path: path.to_owned(), journal_path, file, size, state })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in complete chunks.
    pub(crate) fn done(&self) -> u64 {
        let state = self.state();
        let chunks = state.is_complete.iter().zip(0..).filter(|(complete, _)| **complete);
        chunks.map(|(_, chunk)| self.bytes_of(chunk)).map(|Range { start, end }| end - start).sum()
    }

    /// The bytes of a chunk.
    pub(crate) fn bytes_of(&self, chunk: u64) -> Range<u64> {
        let start = chunk * CHUNK;
        start..(start + CHUNK).min(self.size)
    }

    /// Takes at most `most` neighbouring chunks that nobody has taken.
    pub(crate) fn take(&self, most: usize) -> Option<Range<u64>> {
        let mut state = self.state();
        let start = state.is_free.iter().position(|free| *free)?;
        let rest = state.is_free[start..].iter().take(most);
        let end = start + rest.take_while(|free| **free).count();
        state.is_free[start..end].fill(false);
        Some(start as u64..end as u64)
    }

    /// Leaves chunks to others.
    pub(crate) fn give_back(&self, chunks: Range<u64>) {
        let mut state = self.state();
        for chunk in chunks {
            let chunk = chunk as usize;
            let is_complete = state.is_complete.get(chunk).copied();
            if let (Some(free), Some(false)) = (state.is_free.get_mut(chunk), is_complete) {
                *free = true;
            }
        }
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        write_at(&self.file, at, bytes).map_err(Error::cache("write", &self.path))
    }

    /// Records that all bytes of `chunk` are written.
    pub(crate) fn complete(&self, chunk: u64) -> Result<(), Error> {
        let mut state = self.state();
        state
            .journal
            .write_all(format!("{chunk}\n").as_bytes())
            .map_err(Error::cache("write", &self.journal_path))?;
        if let Some(complete) = state.is_complete.get_mut(chunk as usize) {
            *complete = true;
        }
        Ok(())
    }

    /// Forgets all chunks.
    pub(crate) fn discard(self) -> Result<(), Error> {
        remove(&self.path)
    }

    /// Moves the file to `target`, where it appears at once and whole.
    pub(crate) fn finish(self, target: &Path) -> Result<(), Error> {
        self.file.sync_all().map_err(Error::cache("write", &self.path))?;
        fs::rename(&self.path, target).map_err(Error::cache("create", target))?;
        // It describes nothing any more.
        let _ = fs::remove_file(&self.journal_path);
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that the disk of the file `path` has space for `needed` bytes.
fn check_space(path: &Path, needed: u64) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    match fs4::available_space(folder) {
        Ok(free) if needed > free => Err(Error::DiskFull { folder: folder.to_owned(), needed, free }),
        // A file system that does not say how much is free is tried.
        _ => Ok(()),
    }
}

/// Removes an unfinished file and its journal.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    // The journal first: without it, the file counts for nothing.
    for path in [journal_of(path), path.to_owned()] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::cache("remove", path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn journal_of(path: &Path) -> PathBuf {
    path.with_added_extension("journal")
}

/// The complete chunks of `number`, if the journal begins with `head`, and the bytes of its complete lines: a kill may cut the
/// last one.
fn read_journal(text: &str, head: &str, number: usize) -> Option<(Vec<bool>, usize)> {
    let end = text.rfind('\n')? + 1;
    let mut lines = text[..end].lines();
    if lines.next() != Some(head) {
        return None;
    }
    let mut is_complete = vec![false; number];
    for line in lines {
        *is_complete.get_mut(line.parse::<usize>().ok()?)? = true;
    }
    Some((is_complete, end))
}

#[cfg(unix)]
fn write_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_at(file: &File, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        (at, bytes) = (at + written as u64, &bytes[written..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const SIZE: u64 = 3 * CHUNK + 5;

    fn open(folder: &TempDir, identity: &str) -> Partial {
        Partial::open(&folder.path().join("x"), SIZE, identity).expect("it opens")
    }

    #[test]
    fn chunks_survive_the_process() {
        let folder = TempDir::new().expect("a folder");
        let partial = open(&folder, "a");
        assert_eq!(partial.take(2), Some(0..2));
        assert_eq!(partial.take(9), Some(2..4));
        assert_eq!(partial.take(9), None);
        partial.write(partial.bytes_of(3).start, b"hello").expect("written");
        partial.complete(3).expect("recorded");
        partial.give_back(2..4);
        assert_eq!(partial.take(9), Some(2..3));
        drop(partial);
        let partial = open(&folder, "a");
        assert_eq!(partial.done(), 5);
        assert_eq!(partial.take(9), Some(0..3));
        (0..3).for_each(|chunk| partial.complete(chunk).expect("recorded"));
        assert_eq!(partial.done(), SIZE);
        let target = folder.path().join("whole");
        partial.finish(&target).expect("moved");
        let bytes = fs::read(&target).expect("the file");
        assert_eq!((bytes.len() as u64, &bytes[bytes.len() - 5..]), (SIZE, &b"hello"[..]));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_does_not_belong_to_the_file_is_forgotten() {
        let folder = TempDir::new().expect("a folder");
        let journal = folder.path().join("x.journal");
        for spoil in [
            |journal: &Path| fs::remove_file(journal).expect("removed"),
            |journal: &Path| fs::write(journal, "3\n").expect("written"),
            |journal: &Path| {
                File::options()
                    .append(true)
                    .open(journal)
                    .and_then(|mut file| file.write_all(b"9\n"))
                    .expect("written")
            },
            |journal: &Path| File::create(journal.with_extension("")).map(drop).expect("truncated"),
        ] {
            let partial = open(&folder, "a");
            partial.complete(0).expect("recorded");
            drop(partial);
            spoil(&journal);
            assert_eq!(open(&folder, "a").done(), 0);
        }
        open(&folder, "a").complete(1).expect("recorded");
        assert_eq!(open(&folder, "a").done(), CHUNK);
        assert_eq!(open(&folder, "b").done(), 0);
    }

    #[test]
    fn a_line_that_was_cut_does_not_count() {
        let folder = TempDir::new().expect("a folder");
        open(&folder, "a").complete(1).expect("recorded");
        let journal = folder.path().join("x.journal");
        File::options()
            .append(true)
            .open(&journal)
            .and_then(|mut file| file.write_all(b"2"))
            .expect("written");
        let partial = open(&folder, "a");
        assert_eq!(partial.done(), CHUNK);
        partial.complete(0).expect("recorded");
        assert_eq!(open(&folder, "a").done(), 2 * CHUNK);
    }
}
