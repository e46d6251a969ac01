//! The byte alphabet of GPT-2: every byte is written as one printable character.
//!
//! Source: `bytes_to_unicode` of OpenAI's GPT-2 `encoder.py`. Printable Latin-1 stands for itself, the
//! other 68 bytes are U+0100, U+0101, … in order.

/// The byte that `c` stands for.
fn byte_of(c: char) -> Option<u8> {
    let stands_for_itself = |b: u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(c) {
        code @ 0x00..=0xff => u8::try_from(code).ok().filter(|&b| stands_for_itself(b)),
        code @ 0x100..=0x143 => {
            let nth = usize::try_from(code - 0x100).ok()?;
            (0..=u8::MAX).filter(|&b| !stands_for_itself(b)).nth(nth)
        }
        _ => None,
    }
}

/// A table from character to byte; building it once keeps loading a vocabulary fast.
pub(crate) struct Alphabet {
    bytes: [Option<u8>; 0x144],
}

impl Alphabet {
    pub(crate) fn new() -> Alphabet {
        let mut bytes = [None; 0x144];
        for (entry, c) in bytes.iter_mut().zip('\0'..) {
            *entry = byte_of(c);
        }
        Alphabet { bytes }
    }

    /// The bytes that `text` stands for; `None` when a character is not of the alphabet.
    pub(crate) fn decode(&self, text: &str) -> Option<Vec<u8>> {
        text.chars().map(|c| self.bytes.get(c as usize).copied().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Alphabet;

    #[test]
    fn characters_stand_for_the_bytes_of_gpt2() {
        let alphabet = Alphabet::new();
        // `bytes_to_unicode()[b]` for the first and last of each range.
        for (text, byte) in [
            ("Ā", 0x00),
            ("Ċ", 0x0a),
            ("Ġ", 0x20),
            ("!", 0x21),
            ("~", 0x7e),
            ("ġ", 0x7f),
            ("ł", 0xa0),
            ("¡", 0xa1),
            ("Ń", 0xad),
            ("ÿ", 0xff),
        ] {
            assert_eq!(alphabet.decode(text), Some(vec![byte]), "{text}");
        }
        let all: String = ('\0'..='\u{143}').filter(|&c| alphabet.decode(&c.to_string()).is_some()).collect();
        let mut bytes = alphabet.decode(&all).expect("each was decoded alone");
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(alphabet.decode("a b"), None);
        assert_eq!(alphabet.decode("日"), None);
    }
}
