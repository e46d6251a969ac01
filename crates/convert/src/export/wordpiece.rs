//! WordPiece.
//!
//! What normalises and splits text is written in steps of which each does what ours does: BERT's own normaliser keeps
//! Korean syllables and some marks that llama.cpp, and so this program, takes apart or drops.

use serde_json::json;

use super::vocabulary::Vocabulary;
use super::{Error, Parts, isolate, replace_matches, sequence};

/// Control characters besides white space, and U+FFFD.
const DROPPED: &str = r"[\x{0}-\x{8}\x{e}-\x{1f}\x{7f}-\x{84}\x{86}-\x{9f}\p{Cf}\p{Co}\x{fffd}]+";
const PUNCTUATION: &str = r"[\p{P}$+<=>^`|~]";
const CHINESE: &str = r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2b81f}\x{2b920}-\x{2ceaf}\x{2f800}-\x{2fa1f}]";

/// First syllable, number of syllables per initial consonant, and the first of these consonants.
const SYLLABLES: (u32, u32, u32) = (0xac00, 588, 0x1100);

pub(super) fn parts(vocabulary: &Vocabulary) -> Result<Parts, Error> {
    let Some(unknown) = vocabulary.role("unk") else {
        return Err(vocabulary.inexpressible("no token stands for unknown words".to_owned()));
    };
    let mut vocab = std::collections::HashMap::new();
    for token in vocabulary.tokens().filter(|token| !token.is_padding() && !token.text.is_empty()) {
        let text = match token.text.strip_prefix('▁') {
            _ if token.is_added() => token.text.to_owned(),
            Some(start) => start.to_owned(),
            None => format!("##{}", token.text),
        };
        if let Some(other) = vocab.insert(text.clone(), token.id) {
            let text = gguf::quoted(&text);
            return Err(vocabulary
                .inexpressible(format!("both token {other} and token {} would be {text}", token.id)));
        }
    }
    let flag = |name: &str| vocabulary.metadata.bool(&format!("tokenizer.ggml.normalizer.{name}"));
    let lowercase = flag("lowercase")?.unwrap_or(true);
    let strip_accents = flag("strip_accents")?;
    let mut normalizers = Vec::new();
    if strip_accents.unwrap_or(lowercase) {
        normalizers.extend(initials().map(|(range, initial)| replace_matches(&range, &initial)));
        normalizers.extend([json!({ "type": "NFD" }), replace_matches(r"\p{M}+", "")]);
    }
    normalizers.push(replace_matches(DROPPED, ""));
    if lowercase {
        // The only character whose lower case is two.
        normalizers.push(replace_matches("İ", "i"));
    }
    normalizers.push(json!({
        "type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false,
        "strip_accents": strip_accents, "lowercase": lowercase,
    }));
    let splits = [json!({ "type": "WhitespaceSplit" }), isolate(PUNCTUATION), isolate(CHINESE)];
    Ok(Parts {
        normalizer: sequence("normalizers", normalizers),
        pre_tokenizer: sequence("pretokenizers", splits),
        decoder: json!({ "type": "WordPiece", "prefix": "##", "cleanup": false }),
        model: json!({
            "type": "WordPiece",
            "unk_token": unknown.text,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": u32::MAX,
            "vocab": vocab,
        }),
    })
}

/// Ranges of Korean syllables, and the consonants that they begin with.
fn initials() -> impl Iterator<Item = (String, String)> {
    let (first, count, consonant) = SYLLABLES;
    (0..19).map(move |index| {
        let start = first + index * count;
        let range = format!(r"[\x{{{start:x}}}-\x{{{:x}}}]", start + count - 1);
        (range, String::from_iter(char::from_u32(consonant + index)))
    })
}
