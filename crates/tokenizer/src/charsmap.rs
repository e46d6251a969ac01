//! The normalisation of SentencePiece: strings and what replaces them.
//!
//! Source: SentencePiece's `normalizer.cc`, and llama.cpp's `llm_tokenizer_ugm`. The keys are a trie in a double array
//! of 32-bit units, as in darts-clone: the child of the node with base `b` by byte `c` is unit `b ^ c`. It holds `c` in
//! its low 8 bits, whether a key ends there (bit 8), whether its offset is shifted by 8 (bit 9), and the offset to its
//! own base (bits 10 to 30). If a key ends there, the unit at the base holds the position of its replacement.

use gguf::{Array, Metadata};

use crate::Error;

const KEY: &str = "tokenizer.ggml.precompiled_charsmap";

/// Maximum size in bytes, six times the size of real ones.
const MAX_SIZE: usize = 2 << 20;

/// Maximum length of a key in bytes, ten times the length of real ones.
const MAX_KEY: usize = 256;

pub(crate) struct Charsmap {
    units: Vec<u32>,
    /// Each ends with a zero.
    replacements: String,
}

#[derive(Clone, Copy)]
struct Unit(u32);

impl Unit {
    /// Distance to the base of its children.
    fn offset(self) -> usize {
        ((self.0 >> 10) << ((self.0 & 1 << 9) >> 6)) as usize
    }

    fn is_by(self, byte: u8) -> bool {
        self.0 & (1 << 31 | 0xff) == u32::from(byte)
    }

    fn ends_key(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(self) -> usize {
        (self.0 & !(1 << 31)) as usize
    }
}

impl Charsmap {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Result<Option<Charsmap>, Error> {
        let Some(array) = metadata.array(KEY)? else { return Ok(None) };
        let bytes = match array {
            Array::U8(bytes) => bytes.clone(),
            Array::I8(bytes) => bytes.iter().map(|byte| byte.cast_unsigned()).collect(),
            other => {
                return Err(bad(format!("an array of {}, expected bytes", other.element_type())));
            }
        };
        Charsmap::new(&bytes).map(Some)
    }

    /// A length in bytes, the units, the replacements.
    fn new(bytes: &[u8]) -> Result<Charsmap, Error> {
        if bytes.len() > MAX_SIZE {
            return Err(bad(format!("{} bytes, at most {MAX_SIZE} are supported", bytes.len())));
        }
        let header = bytes.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length), rest));
        let Some((length, rest)) = header else {
            return Err(bad(format!("{} bytes, too few for a length", bytes.len())));
        };
        let Some((units, replacements)) = rest.split_at_checked(length as usize) else {
            return Err(bad(format!("{} bytes, too few for {length} bytes of trie", rest.len())));
        };
        let (units, []) = units.as_chunks() else {
            return Err(bad(format!("{length} bytes of trie, expected a multiple of 4")));
        };
        let replacements = String::from_utf8(replacements.to_vec())
            .map_err(|error| bad(format!("replacements that are not UTF-8: {error}")))?;
        let units = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let charsmap = Charsmap { units, replacements };
        charsmap.check()?;
        Ok(charsmap)
    }

    /// Length of the longest key at the start of `text`, and what replaces it.
    pub(crate) fn longest(&self, text: &str) -> Option<(usize, &str)> {
        let mut base = self.unit(0)?.offset();
        let mut longest = None;
        for (byte, length) in text.bytes().zip(1..) {
            let Some(unit) = self.child(base, byte) else { break };
            base = base ^ usize::from(byte) ^ unit.offset();
            // A key of whole characters; others make no text.
            if unit.ends_key() && text.is_char_boundary(length) {
                longest = Some((length, base));
            }
        }
        longest.and_then(|(length, at)| Some((length, self.replacement(at)?)))
    }

    fn unit(&self, index: usize) -> Option<Unit> {
        self.units.get(index).copied().map(Unit)
    }

    fn child(&self, base: usize, byte: u8) -> Option<Unit> {
        self.unit(base ^ usize::from(byte)).filter(|unit| byte != 0 && unit.is_by(byte))
    }

    /// The string that the unit at `index` refers to.
    fn replacement(&self, index: usize) -> Option<&str> {
        let rest = self.replacements.get(self.unit(index)?.value()..)?;
        rest.split_once('\0').map(|(replacement, _)| replacement)
    }

    /// Checks that every key has a replacement, and that no key is too long or endless.
    fn check(&self) -> Result<(), Error> {
        let Some(root) = self.unit(0) else { return Ok(()) };
        self.height(root.offset(), 0, &mut vec![Height::Unknown; self.units.len()]).map(|_| ())
    }

    /// Length of the longest key below the node with this base, which is reached by `depth` bytes. Nodes may share
    /// children.
    fn height(&self, base: usize, depth: usize, heights: &mut [Height]) -> Result<usize, Error> {
        let mut height = 0;
        for byte in 1..=u8::MAX {
            let Some(unit) = self.child(base, byte) else { continue };
            let index = base ^ usize::from(byte);
            let below = match heights[index] {
                Height::Known(below) => below,
                Height::Pending => return Err(bad("a key that never ends".to_owned())),
                Height::Unknown if depth == MAX_KEY => MAX_KEY,
                Height::Unknown => {
                    heights[index] = Height::Pending;
                    let base = index ^ unit.offset();
                    if unit.ends_key() && self.replacement(base).is_none() {
                        return Err(bad(format!("a key without replacement at unit {index}")));
                    }
                    let below = self.height(base, depth + 1, heights)?;
                    heights[index] = Height::Known(below);
                    below
                }
            };
            height = height.max(1 + below);
        }
        if height > MAX_KEY {
            return Err(bad(format!("a key of more than {MAX_KEY} bytes")));
        }
        Ok(height)
    }
}

#[derive(Clone, Copy)]
enum Height {
    Unknown,
    Pending,
    Known(usize),
}

fn bad(found: String) -> Error {
    Error::BadCharsmap { key: KEY, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units for `a` → `b` and `ab` → nothing, worked out by hand: the root's base is 256, that of `a` 512.
    fn units() -> Vec<u32> {
        let (a, b) = (u32::from(b'a'), u32::from(b'b'));
        let mut units = vec![0; 1024];
        units[0] = 256 << 10;
        let of_a = 256 ^ a;
        units[of_a as usize] = (of_a ^ 512) << 10 | 1 << 8 | a;
        units[512] = 1 << 31;
        let of_b = 512 ^ b;
        units[of_b as usize] = (of_b ^ 768) << 10 | 1 << 8 | b;
        units[768] = 1 << 31 | 2;
        units
    }

    fn charsmap(units: &[u32], replacements: &[u8]) -> Result<Charsmap, Error> {
        let mut bytes = (4 * units.len() as u32).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(replacements);
        Charsmap::new(&bytes)
    }

    #[test]
    fn the_longest_key_is_replaced() {
        let charsmap = charsmap(&units(), b"b\0\0").expect("it is good");
        assert_eq!(charsmap.longest("ac"), Some((1, "b")));
        assert_eq!(charsmap.longest("abc"), Some((2, "")));
        for other in ["", "b", "\0", "é"] {
            assert_eq!(charsmap.longest(other), None);
        }
        assert!(super::Charsmap::new(&0u32.to_le_bytes()).is_ok_and(|none| none.longest("a").is_none()));
    }

    #[test]
    fn damage_is_named() {
        let refused = |result: Result<Charsmap, Error>, what: &str| {
            let message = result.err().expect("it is damaged").to_string();
            assert!(message.contains(what) && message.contains(KEY), "{message}");
        };
        refused(Charsmap::new(&[1, 2]), "2 bytes, too few");
        refused(Charsmap::new(&[8, 0, 0, 0, 1]), "1 bytes, too few for 8");
        refused(Charsmap::new(&[3, 0, 0, 0, 1, 1, 1, 0]), "multiple of 4");
        refused(Charsmap::new(&vec![0; MAX_SIZE + 1]), "at most");
        refused(charsmap(&units(), b"\xff\0\0"), "not UTF-8");
        // The second replacement is beyond the end, or has no end.
        refused(charsmap(&units(), b"b\0"), "without replacement");
        refused(charsmap(&units(), b"b\0c"), "without replacement");
        refused(charsmap(&units()[..700], b"b\0\0"), "without replacement");
        let mut endless = units();
        // The base of `ab` is that of `a`.
        let of_b = 512 ^ usize::from(b'b');
        endless[of_b] = u32::from(b'b') << 10 | u32::from(b'b');
        refused(charsmap(&endless, b"b\0\0"), "never ends");
        // A chain of 300 times `c`.
        let c = u32::from(b'c');
        let mut long = vec![0; 256 * 302];
        long[0] = 256 << 10;
        for node in 1..301 {
            let index = (256 * node) ^ c;
            long[index as usize] = (index ^ (256 * (node + 1))) << 10 | c;
        }
        refused(charsmap(&long, b"\0"), "more than 256 bytes");
    }
}
