//! The file of a base's log-probabilities, as `llama-perplexity --kl-divergence-base` reads and writes
//! it: little-endian, nothing between the fields.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `_logits_` |
//! | 4 | u32: tokens a window, `n_ctx` |
//! | 4 | i32: tokens of the vocabulary, `n_vocab` |
//! | 4 | i32: windows, `n_chunk` |
//! | 4 · `n_chunk` · `n_ctx` | i32: the text's token ids, before BOS took the first place of a window |
//! | … | for each window the rows of its scored positions, `n_ctx - 1 - n_ctx / 2` of them |
//!
//! | bytes of a row | what |
//! |---|---|
//! | 4 | f32: `scale` |
//! | 4 | f32: `min` |
//! | 2 · `n_vocab` | u16: `q`; the log-probability of a token is `scale * q + min` |
//! | 0 or 2 | makes the row whole 4 bytes |
//!
//! A log-probability more than 16 below the highest is written as that. Source: llama.cpp,
//! `tools/perplexity/perplexity.cpp`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context;
use trace::Draft;

use super::statistics::log_sum_exp;
use crate::output::counted;

const MAGIC: &[u8; 8] = b"_logits_";

/// Bytes before the token ids.
const HEAD: u64 = 20;

/// How far below the highest log-probability the lowest that is told apart lies.
const DEPTH: f32 = 16.0;

/// Which text was scored and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scored {
    /// Tokens a window.
    pub(crate) n_ctx: usize,
    /// Tokens of the vocabulary.
    pub(crate) n_vocab: usize,
    /// The text's tokens, whole windows.
    pub(crate) tokens: Vec<u32>,
}

impl Scored {
    pub(crate) fn windows(&self) -> usize {
        self.tokens.len() / self.n_ctx
    }

    /// The positions of a window whose logits are scored, each by the token after it: of the second
    /// half all but the last.
    pub(crate) fn positions(&self) -> Range<usize> {
        scored_positions(self.n_ctx)
    }
}

fn scored_positions(n_ctx: usize) -> Range<usize> {
    n_ctx / 2..n_ctx - 1
}

/// Why a file cannot serve as a base.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read the base {path}")]
    Read { path: String, source: io::Error },
    #[error("{path} is no file of log-probabilities: it is no regular file")]
    Kind { path: String },
    #[error("{path} is no file of log-probabilities: it does not begin with `_logits_`")]
    Magic { path: String },
    #[error("{path}: {field} is {found}, expected {expected}")]
    Head { path: String, field: &'static str, found: i64, expected: &'static str },
    #[error(
        "{path} has {}, but {} of {n_ctx} tokens and a vocabulary of {n_vocab} take {expected}; it was cut \
         short or is damaged", counted(*.found, "byte"), counted(*.windows, "window")
    )]
    Length { path: String, found: u64, expected: u128, windows: i64, n_ctx: i64, n_vocab: i64 },
    #[error("{path}: token {at} is {id}, but its vocabulary has {}", counted(*.n_vocab, "token"))]
    Token { path: String, at: usize, id: u32, n_vocab: usize },
    #[error(
        "{path}: row {row} has scale {scale} and minimum {min}, expected log-probabilities: finite, the scale not \
         negative, none above 0"
    )]
    Row { path: String, row: usize, scale: f32, min: f32 },
}

/// A base that is read row by row.
pub(crate) struct Reader {
    path: PathBuf,
    rows: BufReader<File>,
    bytes: Vec<u8>,
    next_row: usize,
    pub(crate) scored: Scored,
}

impl Reader {
    /// Opens the file and checks its head, its length and its token ids before it takes memory for them.
    pub(crate) fn open(path: &Path) -> Result<Reader, Error> {
        let name = || path.display().to_string();
        let read = |source| Error::Read { path: name(), source };
        // Before it is opened: a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(read)?.is_file() {
            return Err(Error::Kind { path: name() });
        }
        let file = File::open(path).map_err(read)?;
        let len = file.metadata().map_err(read)?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; HEAD as usize];
        let short = len < HEAD;
        file.read_exact(&mut head[..len.min(HEAD) as usize]).map_err(read)?;
        if !head.starts_with(MAGIC) {
            return Err(Error::Magic { path: name() });
        }
        let field = |at: usize| i32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (n_ctx, n_vocab, n_chunk) =
            (i64::from(field(8) as u32), i64::from(field(12)), i64::from(field(16)));
        let least = [
            ("n_ctx", n_ctx, 3, "at least 3"),
            ("n_vocab", n_vocab, 1, "at least 1"),
            ("n_chunk", n_chunk, 1, "at least 1"),
        ];
        for (field, found, least, expected) in least {
            if found < least && !short {
                return Err(Error::Head { path: name(), field, found, expected });
            }
        }
        let wide = |x: i64| u128::from(x.unsigned_abs());
        let positions = wide(n_ctx) - 1 - wide(n_ctx) / 2;
        let row_bytes = 8 + 4 * wide(n_vocab).div_ceil(2);
        let expected = u128::from(HEAD) + wide(n_chunk) * (4 * wide(n_ctx) + positions * row_bytes);
        if short || u128::from(len) != expected {
            return Err(Error::Length {
                path: name(),
                found: len,
                expected,
                windows: n_chunk,
                n_ctx,
                n_vocab,
            });
        }
        // From here on the sizes are less than the file's, which fits the disk.
        let size = |x: i64| usize::try_from(x).map_err(|error| read(io::Error::other(error)));
        let (n_ctx, n_vocab, n_chunk) = (size(n_ctx)?, size(n_vocab)?, size(n_chunk)?);
        let mut bytes = vec![0; 4 * n_ctx];
        let mut tokens = Vec::with_capacity(n_ctx * n_chunk);
        for _ in 0..n_chunk {
            file.read_exact(&mut bytes).map_err(read)?;
            tokens.extend(bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)));
        }
        if let Some(at) = tokens.iter().position(|&id| id as usize >= n_vocab) {
            return Err(Error::Token { path: name(), at, id: tokens[at], n_vocab });
        }
        let scored = Scored { n_ctx, n_vocab, tokens };
        Ok(Reader {
            path: path.to_owned(),
            rows: file,
            bytes: vec![0; row_bytes as usize],
            next_row: 0,
            scored,
        })
    }

    /// The log-probabilities at the next scored position, one a token of the vocabulary.
    pub(crate) fn next_row(&mut self, log_probs: &mut Vec<f32>) -> Result<(), Error> {
        let name = || self.path.display().to_string();
        self.rows.read_exact(&mut self.bytes).map_err(|source| Error::Read { path: name(), source })?;
        let (numbers, quants) = self.bytes.split_at(8);
        let number = |i: usize| f32::from_le_bytes(std::array::from_fn(|j| numbers[4 * i + j]));
        let (scale, min) = (number(0), number(1));
        // The highest log-probability is 0 at most, but for rounding.
        if !(scale.is_finite() && scale >= 0.0 && min.is_finite() && scale * 65535.0 + min < 1.0) {
            return Err(Error::Row { path: name(), row: self.next_row, scale, min });
        }
        log_probs.clear();
        let quants = quants.as_chunks().0.iter().take(self.scored.n_vocab);
        log_probs.extend(quants.map(|q| scale * f32::from(u16::from_le_bytes(*q)) + min));
        self.next_row += 1;
        Ok(())
    }
}

/// A base that is written row by row, under another name until it is whole.
pub(crate) struct Writer {
    draft: Draft,
    rows: BufWriter<File>,
}

impl Writer {
    /// Makes the file and writes everything before its rows.
    pub(crate) fn create(path: &Path, scored: &Scored) -> anyhow::Result<Writer> {
        let mut draft = Draft::new(path, "base", is_base)?;
        let rows = BufWriter::with_capacity(1 << 20, draft.begin()?);
        let mut writer = Writer { draft, rows };
        writer.head(scored).with_context(|| super::cannot_write(path))?;
        Ok(writer)
    }

    fn head(&mut self, scored: &Scored) -> io::Result<()> {
        self.rows.write_all(MAGIC)?;
        for size in [scored.n_ctx, scored.n_vocab, scored.windows()] {
            self.rows.write_all(&i32::try_from(size).map_err(io::Error::other)?.to_le_bytes())?;
        }
        for id in &scored.tokens {
            self.rows.write_all(&id.to_le_bytes())?;
        }
        Ok(())
    }

    /// Writes the log-probabilities that `logits`, all finite, stand for.
    pub(crate) fn push(&mut self, logits: &[f32]) -> io::Result<()> {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let min = logits.iter().copied().fold(f32::INFINITY, f32::min).max(max - DEPTH);
        let scale = (max - min) / 65535.0;
        // The sum is over logits less the highest, so its logarithm is what probabilities are less by.
        let sum = log_sum_exp(logits, max) as f32;
        self.rows.write_all(&scale.to_le_bytes())?;
        self.rows.write_all(&(min - max - sum).to_le_bytes())?;
        let steps = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        for &logit in logits {
            let quant = if logit > min { (steps * (logit - min)).round_ties_even() as u16 } else { 0 };
            self.rows.write_all(&quant.to_le_bytes())?;
        }
        if logits.len() % 2 == 1 {
            self.rows.write_all(&[0; 2])?;
        }
        Ok(())
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.rows.flush()?;
        Ok(self.draft.finish()?)
    }
}

/// Whether a file begins as a base does.
fn is_base(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `tools/oracle/perplexity.py`, as is its content.
    const ODD: &[u8] = include_bytes!("../../goldens/perplexity/odd.bin");
    const LOGITS: [[f32; 5]; 2] = [[1.5, -2.25, 0.125, 3.0, -30.0], [0.5; 5]];

    fn scored() -> Scored {
        Scored { n_ctx: 4, n_vocab: 5, tokens: vec![1, 2, 3, 4, 4, 3, 2, 1] }
    }

    #[test]
    fn rows_of_an_odd_vocabulary_are_written_as_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("odd.bin");
        let mut writer = Writer::create(&path, &scored()).expect("the file is made");
        assert_eq!(scored().positions(), 2..3);
        LOGITS.iter().for_each(|row| writer.push(row).expect("the row is written"));
        writer.finish().expect("the file is whole");
        assert_eq!(std::fs::read(&path).expect("it is there"), ODD);
    }

    #[test]
    fn rows_of_an_odd_vocabulary_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("odd.bin");
        std::fs::write(&path, ODD).expect("the file is written");
        let mut reader = Reader::open(&path).expect("a good file");
        assert_eq!(reader.scored, scored());
        let mut row = Vec::new();
        for logits in LOGITS {
            reader.next_row(&mut row).expect("a row");
            let total = logits.iter().map(|logit| f64::from(*logit).exp()).sum::<f64>().ln();
            for (&found, &logit) in row.iter().zip(&logits) {
                let expected = (f64::from(logit) - total).max(3.0 - 16.0 - total);
                assert!((f64::from(found) - expected).abs() < 2e-4, "{found}, expected {expected}");
            }
        }
        reader.next_row(&mut row).expect_err("there are two");
    }
}
