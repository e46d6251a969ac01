//! The tokens that a text begins with.
//!
//! Sorted tokens with a common prefix are neighbours. Each byte of the text narrows the range of tokens that it may
//! still become, by binary search: a trie without nodes.

use crate::Error;
use crate::vocab::{ByteStrings, searchable};

pub(crate) struct Prefixes {
    /// Sorted and distinct.
    texts: ByteStrings,
    ids: Vec<u32>,
    /// The texts with this first byte, and the end of the last ones.
    starts: Box<[u32; 257]>,
}

impl Prefixes {
    /// Texts and ids of tokens; the last one with a text counts.
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = (&'a str, u32)>) -> Result<Prefixes, Error> {
        let tokens = searchable(tokens)?;
        let mut starts = Box::new([0; 257]);
        let mut texts = ByteStrings::with_capacity(tokens.len());
        for (text, _) in &tokens {
            let first = text.bytes().next().map_or(0, usize::from);
            starts[first + 1] += 1;
            texts.push(text.as_bytes());
        }
        for first in 0..256 {
            starts[first + 1] += starts[first];
        }
        Ok(Prefixes { texts, ids: tokens.into_iter().map(|(_, id)| id).collect(), starts })
    }

    /// Lengths and ids of the tokens at the start of `text`, the shortest first.
    pub(crate) fn of<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> + 'a {
        let first = text.first().map(|&first| usize::from(first));
        let (mut start, mut end) = first.map_or((0, 0), |first| (self.starts[first], self.starts[first + 1]));
        let mut depth = 1;
        std::iter::from_fn(move || {
            while start < end {
                // The tokens from `start` to `end` begin with `text[..depth]`, and the shortest is the first.
                if self.text(start).len() == depth {
                    start += 1;
                    return Some((depth, self.ids[start as usize - 1]));
                }
                let byte = *text.get(depth)?;
                let at = |number: u32| self.text(number)[depth];
                if at(start) != byte {
                    start = partition(start, end, |number| at(number) < byte);
                }
                if start < end && at(end - 1) != byte {
                    end = partition(start, end, |number| at(number) == byte);
                }
                depth += 1;
            }
            None
        })
    }

    fn text(&self, number: u32) -> &[u8] {
        self.texts.get(number).unwrap_or_default()
    }
}

/// The first number of a range for which `holds` is false; it is true for those before.
fn partition(mut start: u32, mut end: u32, holds: impl Fn(u32) -> bool) -> u32 {
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_found_shortest_first() {
        let tokens = ["b", "ab", "abc", "é", "a", "abd", "ab", "b\u{1}", "", "\u{10ffff}"];
        let prefixes = Prefixes::new(tokens.into_iter().zip(0..)).expect("short tokens");
        let of = |text: &str| prefixes.of(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(of("abcd"), [(1, 4), (2, 6), (3, 2)]);
        assert_eq!(of("abd"), [(1, 4), (2, 6), (3, 5)]);
        assert_eq!(of("abb"), [(1, 4), (2, 6)]);
        assert_eq!(of("b"), [(1, 0)]);
        assert_eq!(of("b\u{1}\u{2}"), [(1, 0), (2, 7)]);
        assert_eq!(of("éa"), [(2, 3)]);
        assert_eq!(of("\u{10ffff}"), [(4, 9)]);
        for nothing in ["", "c", "è", "\u{10fffe}"] {
            assert_eq!(of(nothing), []);
        }
    }
}
