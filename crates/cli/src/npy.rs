//! Writes NumPy array files, version 1.0.
//!
//! | bytes | what |
//! |---|---|
//! | 6 | `\x93NUMPY` |
//! | 2 | version 1, 0 |
//! | 2 | length of the header, little-endian |
//! | … | a Python dictionary, padded with spaces and one newline so that the data begins at a multiple of 64 |
//!
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use std::io::{self, Write};

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// Writes the header of a float32 array `[rows, cols]` in C order. The values follow, little-endian.
pub(crate) fn write_header(out: &mut impl Write, rows: usize, cols: usize) -> io::Result<()> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    let before = MAGIC.len() + size_of::<u16>();
    let end = (before + header.len() + 1).next_multiple_of(64);
    header.extend(std::iter::repeat_n(' ', end - before - header.len() - 1));
    header.push('\n');
    out.write_all(MAGIC)?;
    let len = u16::try_from(header.len()).map_err(io::Error::other)?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(header.as_bytes())
}

pub(crate) fn write_row(out: &mut impl Write, values: &[f32]) -> io::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of `numpy.save` for `numpy.zeros((2, 3), "<f4")` before the data.
    #[test]
    fn the_head_is_numpys() {
        let mut head = Vec::new();
        write_header(&mut head, 2, 3).expect("writing to memory");
        let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        expected.extend(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
        expected.extend([b' '].repeat(128 - expected.len() - 1));
        expected.push(b'\n');
        assert_eq!(head, expected);
    }
}
