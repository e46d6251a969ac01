//! A file that arrives in chunks, in any order. A journal beside it says how far each chunk has come, so that a later process
//! continues where this one was killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

pub(crate) const CHUNK: u64 = 8 << 20;

/// Bytes of a chunk after which to record them: a slow connection loses no more.
pub(crate) const STEP: u64 = 1 << 18;

/// An unfinished file of known size, and its journal.
///
/// The journal is a text: a line with version, size and identity of the file, then lines with the number of a chunk and how many
/// of its bytes have come, from its beginning. A line is written after the bytes. Neither is synced, so that a loss of power may
/// leave zeros: the hash finds them.
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
    /// Bytes of each chunk that have come, from its beginning.
    come: Vec<u64>,
    /// Chunks that no connection has taken yet.
    is_free: Vec<bool>,
}

impl Partial {
    /// Opens `path` and its journal, or begins anew if there are none for `identity` and `size`. The disk must have space for
    /// what is missing.
    pub(crate) fn open(path: &Path, size: u64, identity: &str) -> Result<Partial, Error> {
        let journal_path = journal_path_for(path);
        let head = format!("rustorch 2 {size} {CHUNK} {identity}");
        let is_whole = fs::metadata(path).is_ok_and(|metadata| metadata.len() == size);
        let known = match fs::read_to_string(&journal_path) {
            Ok(text) if is_whole => read_journal(&text, &head, size),
            _ => None,
        };
        let come: u64 = known.iter().flat_map(|(come, _)| come).sum();
        // Before the first byte: a refusal leaves nothing behind.
        check_space(path, size.saturating_sub(come))?;
        let open =
            |path: &Path| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = open(path).map_err(Error::cache("write", path))?;
        let journal = match &known {
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
        let come = known.map_or_else(|| vec![0; size.div_ceil(CHUNK) as usize], |(come, _)| come);
        let is_free = come.iter().zip(0..).map(|(come, chunk)| *come < chunk_len(chunk, size)).collect();
        let state = Mutex::new(State { journal, come, is_free });
        Ok(Partial { path: path.to_owned(), journal_path, file, size, state })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn done(&self) -> u64 {
        self.state().come.iter().sum()
    }

    pub(crate) fn chunk_bytes(&self, chunk: u64) -> Range<u64> {
        let start = chunk * CHUNK;
        start..start + chunk_len(chunk, self.size)
    }

    pub(crate) fn missing(&self, chunk: u64) -> Range<u64> {
        let Range { start, end } = self.chunk_bytes(chunk);
        let come = self.state().come.get(chunk as usize).copied().unwrap_or(0);
        (start + come).min(end)..end
    }

    /// Takes at most `most` neighbouring free chunks, whose missing bytes are one range: only the first may have bytes.
    pub(crate) fn take(&self, most: usize) -> Option<Range<u64>> {
        let mut state = self.state();
        let start = state.is_free.iter().position(|free| *free)?;
        let is_untouched = |at: &usize| *at == start || state.is_free[*at] && state.come[*at] == 0;
        let end = start + (start..state.is_free.len()).take(most).take_while(is_untouched).count();
        state.is_free[start..end].fill(false);
        Some(start as u64..end as u64)
    }

    /// Counts no byte, so that all come again; those in the file stay valid.
    pub(crate) fn forget(&self) {
        self.state().come.fill(0);
    }

    pub(crate) fn give_back(&self, chunks: Range<u64>) {
        let mut state = self.state();
        for chunk in chunks {
            let is_missing =
                state.come.get(chunk as usize).is_some_and(|come| *come < chunk_len(chunk, self.size));
            if let (Some(free), true) = (state.is_free.get_mut(chunk as usize), is_missing) {
                *free = true;
            }
        }
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        write_at(&self.file, at, bytes).map_err(Error::cache("write", &self.path))
    }

    /// Records that the bytes of `chunk` before `end` are written.
    pub(crate) fn record(&self, chunk: u64, end: u64) -> Result<(), Error> {
        let come = end - self.chunk_bytes(chunk).start;
        let mut state = self.state();
        let Some(known) = state.come.get_mut(chunk as usize).filter(|known| **known < come) else {
            return Ok(());
        };
        *known = come;
        state
            .journal
            .write_all(format!("{chunk} {come}\n").as_bytes())
            .map_err(Error::cache("write", &self.journal_path))
    }

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

fn check_space(path: &Path, needed: u64) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    match fs4::available_space(folder) {
        Ok(free) if needed > free => Err(Error::DiskFull { folder: folder.to_owned(), needed, free }),
        // A file system that does not say how much is free is tried.
        _ => Ok(()),
    }
}

pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    // The journal first: without it, the file counts for nothing.
    let mut paths = [journal_path_for(path), path.to_owned()].into_iter();
    paths.try_for_each(|path| removed(fs::remove_file(&path), &path))
}

/// The result of removing `path`; it may have been gone.
pub(crate) fn removed(result: io::Result<()>, path: &Path) -> Result<(), Error> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::cache("remove", path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn create_parent(path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(Error::cache("create", folder))
}

fn journal_path_for(path: &Path) -> PathBuf {
    path.with_added_extension("journal")
}

fn chunk_len(chunk: u64, size: u64) -> u64 {
    size.saturating_sub(chunk * CHUNK).min(CHUNK)
}

/// The bytes of each chunk that have come, if the journal begins with `head`, and the bytes of its complete lines: a kill may cut
/// the last one.
fn read_journal(text: &str, head: &str, size: u64) -> Option<(Vec<u64>, usize)> {
    let end = text.rfind('\n')? + 1;
    let mut lines = text[..end].lines();
    if lines.next() != Some(head) {
        return None;
    }
    let mut come = vec![0; size.div_ceil(CHUNK) as usize];
    for line in lines {
        let (chunk, bytes) = line.split_once(' ')?;
        let (chunk, bytes): (usize, u64) = (chunk.parse().ok()?, bytes.parse().ok()?);
        let known = come.get_mut(chunk).filter(|_| bytes <= chunk_len(chunk as u64, size))?;
        *known = bytes.max(*known);
    }
    Some((come, end))
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

    fn complete(partial: &Partial, chunk: u64) {
        partial.record(chunk, partial.chunk_bytes(chunk).end).expect("recorded");
    }

    fn append(path: &Path, text: &str) {
        let file = File::options().append(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("written");
    }

    #[test]
    fn chunks_survive_the_process() {
        let folder = TempDir::new().expect("a folder");
        let partial = open(&folder, "a");
        assert_eq!(partial.take(2), Some(0..2));
        assert_eq!(partial.take(9), Some(2..4));
        assert_eq!(partial.take(9), None);
        partial.write(partial.chunk_bytes(3).start, b"hello").expect("written");
        complete(&partial, 3);
        partial.give_back(2..4);
        assert_eq!(partial.take(9), Some(2..3));
        drop(partial);
        let partial = open(&folder, "a");
        assert_eq!(partial.done(), 5);
        assert_eq!(partial.take(9), Some(0..3));
        (0..3).for_each(|chunk| complete(&partial, chunk));
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
            |journal: &Path| fs::write(journal, "3 5\n").expect("written"),
            |journal: &Path| append(journal, "9 1\n"),
            |journal: &Path| append(journal, "3 6\n"),
            |journal: &Path| File::create(journal.with_extension("")).map(drop).expect("truncated"),
        ] {
            let partial = open(&folder, "a");
            complete(&partial, 0);
            drop(partial);
            spoil(&journal);
            assert_eq!(open(&folder, "a").done(), 0);
        }
        complete(&open(&folder, "a"), 1);
        assert_eq!(open(&folder, "a").done(), CHUNK);
        assert_eq!(open(&folder, "b").done(), 0);
    }

    #[test]
    fn a_line_that_was_cut_does_not_count() {
        let folder = TempDir::new().expect("a folder");
        complete(&open(&folder, "a"), 1);
        append(&folder.path().join("x.journal"), "2 8");
        let partial = open(&folder, "a");
        assert_eq!(partial.done(), CHUNK);
        complete(&partial, 0);
        assert_eq!(open(&folder, "a").done(), 2 * CHUNK);
    }

    #[test]
    fn a_part_of_a_chunk_is_kept() {
        let folder = TempDir::new().expect("a folder");
        let partial = open(&folder, "a");
        partial.record(1, CHUNK + 7).expect("recorded");
        partial.record(1, CHUNK + 9).expect("recorded");
        // Less than is known already.
        partial.record(1, CHUNK + 8).expect("recorded");
        drop(partial);
        let partial = open(&folder, "a");
        assert_eq!((partial.done(), partial.missing(1)), (9, CHUNK + 9..2 * CHUNK));
        // A request must not skip the bytes that are here.
        assert_eq!([(); 3].map(|()| partial.take(9)), [Some(0..1), Some(1..4), None]);
    }

    #[test]
    fn a_refusal_for_space_leaves_nothing() {
        let folder = TempDir::new().expect("a folder");
        let refused = Partial::open(&folder.path().join("x"), 1 << 60, "a");
        assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
