//! A base: the log-probabilities of a model on a text, in the file format of `llama-perplexity --kl-divergence-base`:
//! little-endian, without padding between the fields.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `_logits_` |
//! | 4 | u32: tokens per window, `n_ctx` |
//! | 4 | i32: size of the vocabulary, `n_vocab` |
//! | 4 | i32: windows, `n_chunk` |
//! | 4 · `n_chunk` · `n_ctx` | i32: the text's token ids, without the BOS that replaces the first of a window |
//! | … | for each window the rows of its `n_ctx - 1 - n_ctx / 2` scored positions |
//!
//! | bytes of a row | what |
//! |---|---|
//! | 4 | f32: `scale` |
//! | 4 | f32: `min` |
//! | 2 · `n_vocab` | u16: `q`; the log-probability of a token is `scale * q + min` |
//! | 0 or 2 | padding to a multiple of 4 bytes |
//!
//! Log-probabilities are at least the highest minus 16. Source: llama.cpp, `tools/perplexity/perplexity.cpp`.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use backend::log_sum_exp;

use crate::{Error, Windows};

/// The first bytes of a base.
pub const MAGIC: &[u8; 8] = b"_logits_";

const HEAD: u64 = 20;

/// The range of log-probabilities that a row stores, below the highest, in nats.
const DEPTH: f32 = 16.0;

/// Reads a base row by row.
pub struct Reader {
    name: String,
    input: Box<dyn Read>,
    bytes: Vec<u8>,
    next_row: usize,
    windows: Windows,
}

impl Reader {
    /// Opens a file. Fails as [`Reader::new`], and if it is not a regular file.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        let name = path.display().to_string();
        let error = |why: String| Error::Base { name: name.clone(), why };
        let unreadable = |source: io::Error| error(cannot_read(source));
        // Checked before it is opened: a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(error("no file of log-probabilities: it is no regular file".to_owned()));
        }
        let file = File::open(path).map_err(unreadable)?;
        let len = file.metadata().map_err(unreadable)?.len();
        Reader::new(&name, Box::new(BufReader::with_capacity(1 << 20, file)), len)
    }

    /// Reads head and token ids from `input` of `len` bytes, and checks both before it allocates memory. `name` is for errors.
    /// Fails if `input` is not a complete base.
    pub fn new(name: &str, mut input: Box<dyn Read>, len: u64) -> Result<Reader, Error> {
        let name = name.to_owned();
        match head(&mut input, len) {
            Ok((windows, row)) => Ok(Reader { name, input, bytes: vec![0; row], next_row: 0, windows }),
            Err(why) => Err(Error::Base { name, why }),
        }
    }

    /// The text that was scored.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Fails unless the base has a vocabulary of `n_vocab` tokens, windows of `n_ctx` tokens and, if given, the same `text`.
    pub fn check(&self, n_vocab: usize, n_ctx: usize, text: Option<&[u32]>) -> Result<(), Error> {
        let Windows { n_vocab: found, n_ctx: window, tokens } = &self.windows;
        if *found != n_vocab {
            return Err(self.error(format!(
                "it is of a model with {found} tokens, this one's vocabulary has {n_vocab}; only models of one \
                 vocabulary can be compared"
            )));
        }
        if *window != n_ctx {
            return Err(self.error(format!("it has windows of {found} tokens, not {n_ctx}", found = window)));
        }
        let Some(text) = text else { return Ok(()) };
        let whole = &text[..text.len() / window * window];
        let same = tokens.iter().zip(whole).take_while(|(a, b)| a == b).count();
        if same < tokens.len() {
            let why = format!("it is of another text: token {same} is the first to differ");
            return Err(self.error(why));
        }
        Ok(())
    }

    /// Reads the log-probabilities of the next scored position, one per token. Fails if there is no valid further row.
    pub fn next_row(&mut self, log_probs: &mut Vec<f32>) -> Result<(), Error> {
        self.input.read_exact(&mut self.bytes).map_err(|error| self.error(cannot_read(error)))?;
        let (scale_and_min, quants) = self.bytes.split_at(8);
        let float = |i: usize| f32::from_le_bytes(std::array::from_fn(|j| scale_and_min[4 * i + j]));
        let (scale, min) = (float(0), float(1));
        // The highest log-probability is at most 0, except for rounding.
        if !(scale.is_finite() && scale >= 0.0 && min.is_finite() && scale * 65535.0 + min < 1.0) {
            return Err(self.error(format!(
                "row {} has scale {scale} and minimum {min}, expected log-probabilities: finite, the scale not \
                 negative, none above 0",
                self.next_row
            )));
        }
        log_probs.clear();
        let quants = quants.as_chunks().0.iter().take(self.windows.n_vocab);
        log_probs.extend(quants.map(|q| scale * f32::from(u16::from_le_bytes(*q)) + min));
        self.next_row += 1;
        Ok(())
    }

    fn error(&self, why: String) -> Error {
        Error::Base { name: self.name.clone(), why }
    }
}

fn cannot_read(error: io::Error) -> String {
    format!("cannot read it: {error}")
}

fn head(input: &mut impl Read, len: u64) -> Result<(Windows, usize), String> {
    let mut head = [0; HEAD as usize];
    let is_short = len < HEAD;
    input.read_exact(&mut head[..len.min(HEAD) as usize]).map_err(cannot_read)?;
    if !head.starts_with(MAGIC) {
        return Err("no file of log-probabilities: it does not begin with `_logits_`".to_owned());
    }
    let field = |at: usize| i32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let (n_ctx, n_vocab, n_chunk) = (i64::from(field(8) as u32), i64::from(field(12)), i64::from(field(16)));
    for (field, found, least) in [("n_ctx", n_ctx, 3), ("n_vocab", n_vocab, 1), ("n_chunk", n_chunk, 1)] {
        if found < least && !is_short {
            return Err(format!("{field} is {found}, expected at least {least}"));
        }
    }
    let wide = |x: i64| u128::from(x.unsigned_abs());
    let positions = wide(n_ctx).saturating_sub(1) / 2;
    let row_bytes = 8 + 4 * wide(n_vocab).div_ceil(2);
    let expected = u128::from(HEAD) + wide(n_chunk) * (4 * wide(n_ctx) + positions * row_bytes);
    if is_short || u128::from(len) != expected {
        return Err(format!(
            "it has {len} bytes, but {n_chunk} windows of {n_ctx} tokens and a vocabulary of {n_vocab} take \
             {expected}; it was cut short or is damaged"
        ));
    }
    // The sizes are now known to be smaller than the file.
    let size = |x: i64| usize::try_from(x).map_err(|error| error.to_string());
    let (n_ctx, n_vocab, n_chunk) = (size(n_ctx)?, size(n_vocab)?, size(n_chunk)?);
    let mut bytes = vec![0; 4 * n_ctx];
    let mut tokens = Vec::with_capacity(n_ctx * n_chunk);
    for _ in 0..n_chunk {
        input.read_exact(&mut bytes).map_err(cannot_read)?;
        tokens.extend(bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)));
    }
    match tokens.iter().position(|&id| id as usize >= n_vocab) {
        Some(at) => Err(format!("token {at} is {}, but its vocabulary has {n_vocab} tokens", tokens[at])),
        None => Ok((Windows { n_ctx, n_vocab, tokens }, row_bytes as usize)),
    }
}

/// Writes a base row by row.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Writes all that precedes the rows.
    pub fn new(mut out: W, windows: &Windows) -> io::Result<Writer<W>> {
        out.write_all(MAGIC)?;
        for size in [windows.n_ctx, windows.n_vocab, windows.len()] {
            out.write_all(&i32::try_from(size).map_err(io::Error::other)?.to_le_bytes())?;
        }
        windows.tokens.iter().try_for_each(|id| out.write_all(&id.to_le_bytes()))?;
        Ok(Writer { out })
    }

    /// Writes the log-probabilities of `logits`, all finite.
    pub fn push(&mut self, logits: &[f32]) -> io::Result<()> {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let min = logits.iter().copied().fold(f32::INFINITY, f32::min).max(max - DEPTH);
        let scale = (max - min) / 65535.0;
        let total = (log_sum_exp(logits) - f64::from(max)) as f32;
        self.out.write_all(&scale.to_le_bytes())?;
        self.out.write_all(&(min - max - total).to_le_bytes())?;
        let steps = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        for &logit in logits {
            let quant = if logit > min { (steps * (logit - min)).round_ties_even() as u16 } else { 0 };
            self.out.write_all(&quant.to_le_bytes())?;
        }
        if logits.len() % 2 == 1 {
            self.out.write_all(&[0; 2])?;
        }
        Ok(())
    }

    /// Flushes the sink and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `tools/oracle/perplexity.py`, as is its content.
    const ODD: &[u8] = include_bytes!("../goldens/perplexity/odd.bin");
    const LOGITS: [[f32; 5]; 2] = [[1.5, -2.25, 0.125, 3.0, -30.0], [0.5; 5]];

    fn windows() -> Windows {
        Windows { n_ctx: 4, n_vocab: 5, tokens: vec![1, 2, 3, 4, 4, 3, 2, 1] }
    }

    #[test]
    fn rows_of_an_odd_vocabulary_are_written_as_elsewhere() {
        let mut writer = Writer::new(Vec::new(), &windows()).expect("a vector takes all");
        assert_eq!(windows().positions(), 2..3);
        LOGITS.iter().for_each(|row| writer.push(row).expect("the row is written"));
        assert_eq!(writer.finish().expect("a vector takes all"), ODD);
    }

    #[test]
    fn rows_of_an_odd_vocabulary_are_read() {
        let mut reader = Reader::new("odd", Box::new(ODD), ODD.len() as u64).expect("a good file");
        assert_eq!(reader.windows(), &windows());
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

    /// As `fuzz/fuzz_targets/kl_base.rs` does.
    #[test]
    fn any_bytes_are_log_probabilities_or_an_error() {
        let (begin, mut read) = (std::time::Instant::now(), [0; 2]);
        let mut seed = 1u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed as usize
        };
        while begin.elapsed().as_secs() < 2 {
            let mut bytes = ODD.to_vec();
            for _ in 0..1 + random() % 3 {
                let at = random() % bytes.len();
                match random() % 4 {
                    0 => bytes[at] = random() as u8,
                    1 => bytes[at] ^= 1 << (random() % 8),
                    2 => bytes[at.min(19)] = random() as u8 % 8,
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let len = bytes.len() as u64;
            let mut found = Reader::new("base", Box::new(io::Cursor::new(bytes)), len).map(|mut base| {
                let (rows, mut row) = (base.windows().len() * base.windows().positions().len(), Vec::new());
                (0..rows).try_for_each(|_| {
                    base.next_row(&mut row)?;
                    assert!(row.iter().all(|log_prob| log_prob.is_finite() && *log_prob < 1.0));
                    Ok::<(), Error>(())
                })
            });
            if let Ok(Err(error)) = found {
                found = Err(error);
            }
            read[usize::from(found.is_err())] += 1;
        }
        assert!(read.iter().all(|count| *count > 100), "both happen: {read:?}");
    }
}
