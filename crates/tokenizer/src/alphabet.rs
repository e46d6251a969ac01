//! The byte alphabet of GPT-2: each byte is written as one printable character.
//!
//! Source: `bytes_to_unicode` of OpenAI's GPT-2 `encoder.py`. Printable Latin-1 characters are themselves, the other 68
//! bytes are U+0100, U+0101, … in order.

pub(crate) struct Alphabet([Option<u8>; 0x144]);

impl Alphabet {
    pub(crate) fn new() -> Alphabet {
        let mut bytes = [None; 0x144];
        let mut others = 0x100..;
        for byte in 0..=u8::MAX {
            let is_itself = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
            let character = if is_itself { Some(usize::from(byte)) } else { others.next() };
            if let Some(entry) = character.and_then(|character| bytes.get_mut(character)) {
                *entry = Some(byte);
            }
        }
        Alphabet(bytes)
    }

    /// The bytes written as `text`; `None` if a character is not in the alphabet.
    pub(crate) fn decode(&self, text: &str) -> Option<Vec<u8>> {
        text.chars().map(|c| self.0.get(c as usize).copied().flatten()).collect()
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
