//! Tokenizers of a given kind and size that encode and decode any text. Their words are arbitrary combinations of letters.

use std::collections::HashSet;

use gguf::{Array, Metadata, Value};

/// The kind of tokenizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Vocabulary {
    /// SentencePiece with bytes, [`SMALL_VOCAB`] tokens: pieces of some English and single characters.
    Small,
    /// SentencePiece with bytes.
    Llama2,
    /// Byte-level BPE; the last 256 tokens are special.
    Llama3,
    /// Byte-level BPE; the last 293 tokens are special or padding, so that their number is that of the embedding's rows.
    Qwen2,
    /// Byte-level BPE; the last 1090 tokens are special.
    GptOss,
}

/// Size of [`Vocabulary::Small`].
pub const SMALL_VOCAB: usize = 512;

/// Pieces merged from two shorter ones, best first.
const MERGED: &str = "▁t he in ▁a er on ▁the re ▁s ▁w or at en ▁b is it an ed es ▁c ▁o ou al ar ing ▁f ▁p ▁m nd ▁h \
    ▁d st ▁to ▁and ▁in le ▁of ▁n ▁l ll om ent ic ▁is ▁g ▁e as ro ve ion ▁it et ▁be ▁re ▁th ▁y el \
    ow ay ▁I ▁u ▁on ▁you ▁wh ot id ut ur ac ▁for ▁st ver ▁we ▁was ▁he ld ad ig ▁an ▁that im \
    ith ▁with ce gh ▁not ▁no ir ▁are ▁as ch us ke ▁at av ave ▁have ly ▁one igh ight ter ▁or ▁do \
    ▁can ai aid ▁said ▁but oul ould ▁so ▁by and all ill out ▁my ▁go ▁up 世界 你好 ▁H ▁T ▁Hel lo \
    ▁Hello ▁wor ▁world ▁The ▁▁ ▁▁▁▁";

const CHARACTERS: &str = "▁eatonishrdlucmfwgypbvkxjqzETAOINSHRDLUCMFWGYPBVKXJQZ0123456789.,!?'\"-:;()[]{}<>/\\|@#$%&*+=_~^`éèüöäñçßøåαβγδабвд你好世界日本語🙂";

// Values of `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

const LETTERS: &str = "etaoinshrdlcumwfgypbvkjxqz";

/// As in Zephyr: each message below its role, ended by EOS.
const TEMPLATE_SMALL: &str = r"{% for message in messages %}
{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
";

/// The same with a newline after each message.
const TEMPLATE_2: &str = "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + \
    message['content'] + eos_token + '\\n' }}{% endfor %}{% if add_generation_prompt %}\
    {{ '<|assistant|>\\n' }}{% endif %}";

/// As in Llama 3.
const TEMPLATE_3: &str = "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + \
    message['role'] + '<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

/// ChatML.
const TEMPLATE_QWEN: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
    message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}\
    {{ '<|im_start|>assistant\\n' }}{% endif %}";

/// Harmony without channels.
const TEMPLATE_HARMONY: &str = "{% for message in messages %}{{ '<|start|>' + message['role'] + '<|message|>' + \
    message['content'] + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}\
    {{ '<|start|>assistant<|message|>' }}{% endif %}";

impl Vocabulary {
    /// Sets all `tokenizer.*` keys for a vocabulary of `size` tokens.
    pub(crate) fn describe(self, size: usize, metadata: &mut Metadata) {
        match self {
            Vocabulary::Small => {
                assert_eq!(size, SMALL_VOCAB, "the only size");
                let pieces = MERGED.split_whitespace().map(str::to_owned);
                let pieces = pieces.chain(CHARACTERS.chars().map(String::from));
                sentence_piece(pieces, metadata);
                metadata.insert("tokenizer.ggml.add_space_prefix", true);
                metadata.insert("tokenizer.chat_template", TEMPLATE_SMALL);
            }
            Vocabulary::Llama2 => {
                let characters = "▁".chars().chain((0x21..0x7f_u8).map(char::from)).map(String::from);
                let pieces = characters.chain(words("▁").into_iter().map(|[left, right]| left + &right));
                sentence_piece(pieces.take(size.saturating_sub(3 + 256)), metadata);
                metadata.insert("tokenizer.chat_template", TEMPLATE_2);
            }
            Vocabulary::Llama3 => byte_pairs(size, &LLAMA_3, metadata),
            Vocabulary::Qwen2 => byte_pairs(size, &QWEN_2, metadata),
            Vocabulary::GptOss => byte_pairs(size, &GPT_OSS, metadata),
        }
    }
}

/// `<unk>`, BOS, EOS, the bytes, and pieces by rank.
fn sentence_piece(pieces: impl Iterator<Item = String>, metadata: &mut Metadata) {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
    let mut kinds = vec![UNKNOWN, CONTROL, CONTROL];
    tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    kinds.resize(tokens.len(), BYTE);
    let mut scores = vec![0.0; tokens.len()];
    tokens.extend(pieces);
    kinds.resize(tokens.len(), NORMAL);
    scores.extend((0..tokens.len() - scores.len()).map(|rank| -(rank as f32)));
    for (key, value) in [
        ("model", Value::String("llama".into())),
        ("pre", Value::String("default".into())),
        ("tokens", Value::Array(Array::String(tokens))),
        ("scores", Value::Array(Array::F32(scores))),
        ("token_type", Value::Array(Array::I32(kinds))),
        ("bos_token_id", Value::U32(1)),
        ("eos_token_id", Value::U32(2)),
        ("unknown_token_id", Value::U32(0)),
        ("add_bos_token", Value::Bool(true)),
        ("add_eos_token", Value::Bool(false)),
    ] {
        metadata.insert(format!("tokenizer.ggml.{key}"), value);
    }
}

struct BytePairs {
    pre: &'static str,
    /// Number of special tokens at the end of the vocabulary.
    special: usize,
    /// Special tokens by number from 0, and the name and kind of all others.
    named: &'static [(usize, &'static str)],
    other: (fn(usize) -> String, i32),
    bos: usize,
    eos: usize,
    add_bos: bool,
    template: &'static str,
}

const LLAMA_3: BytePairs = BytePairs {
    pre: "llama-bpe",
    special: 256,
    named: &[
        (0, "<|begin_of_text|>"),
        (1, "<|end_of_text|>"),
        (6, "<|start_header_id|>"),
        (7, "<|end_header_id|>"),
        (8, "<|eom_id|>"),
        (9, "<|eot_id|>"),
    ],
    other: (|reserved| format!("<|reserved_special_token_{reserved}|>"), CONTROL),
    bos: 0,
    eos: 9,
    add_bos: true,
    template: TEMPLATE_3,
};

const QWEN_2: BytePairs = BytePairs {
    pre: "qwen2",
    special: 293,
    named: &[(0, "<|endoftext|>"), (1, "<|im_start|>"), (2, "<|im_end|>")],
    other: (|padding| format!("[PAD{padding}]"), UNUSED),
    bos: 0,
    eos: 2,
    add_bos: false,
    template: TEMPLATE_QWEN,
};

const GPT_OSS: BytePairs = BytePairs {
    pre: "gpt-4o",
    special: 1090,
    named: &[
        (0, "<|startoftext|>"),
        (1, "<|endoftext|>"),
        (4, "<|return|>"),
        (8, "<|start|>"),
        (9, "<|end|>"),
        (10, "<|message|>"),
    ],
    other: (|reserved| format!("<|reserved_{}|>", 199_998 + reserved), CONTROL),
    bos: 0,
    eos: 4,
    add_bos: false,
    template: TEMPLATE_HARMONY,
};

fn byte_pairs(size: usize, family: &BytePairs, metadata: &mut Metadata) {
    let text = size.saturating_sub(family.special);
    let mut tokens: Vec<String> = byte_alphabet().into_iter().map(String::from).collect();
    let rules: Vec<[String; 2]> = words("Ġ").into_iter().take(text.saturating_sub(tokens.len())).collect();
    tokens.extend(rules.iter().map(|[left, right]| format!("{left}{right}")));
    let merges = rules.iter().map(|[left, right]| format!("{left} {right}")).collect();
    let mut kinds = vec![NORMAL; tokens.len()];
    let first = tokens.len();
    for number in 0..family.special {
        let named = family.named.iter().find(|(named, _)| *named == number);
        let (other, kind) = family.other;
        tokens.push(named.map_or_else(|| other(number), |(_, name)| (*name).to_owned()));
        kinds.push(if named.is_some() { CONTROL } else { kind });
    }
    let special = |number: usize| Value::U32(u32::try_from(first + number).unwrap_or(0));
    for (key, value) in [
        ("model", Value::String("gpt2".into())),
        ("pre", Value::String(family.pre.into())),
        ("tokens", Value::Array(Array::String(tokens))),
        ("token_type", Value::Array(Array::I32(kinds))),
        ("merges", Value::Array(Array::String(merges))),
        ("bos_token_id", special(family.bos)),
        ("eos_token_id", special(family.eos)),
        ("add_bos_token", Value::Bool(family.add_bos)),
    ] {
        metadata.insert(format!("tokenizer.ggml.{key}"), value);
    }
    metadata.insert("tokenizer.chat_template", Value::String(family.template.into()));
}

/// Distinct words of up to four letters, with and without `space` before them, each as two letters or earlier words.
fn words(space: &str) -> Vec<[String; 2]> {
    let letters: Vec<String> = LETTERS.chars().map(String::from).collect();
    let join = |left: &[String], right: &[String]| -> Vec<[String; 2]> {
        left.iter().flat_map(|left| right.iter().map(|right| [left.clone(), right.clone()])).collect()
    };
    let texts = |words: &[[String; 2]]| -> Vec<String> { words.iter().map(|word| word.concat()).collect() };
    let space = [space.to_owned()];
    let begun = join(&space, &letters);
    let pairs = join(&letters, &letters);
    let pair_texts = texts(&pairs);
    let begun_pairs = join(&space, &pair_texts);
    let triples = join(&pair_texts, &letters);
    let begun_triples = join(&space, &texts(&triples));
    let fours = join(&pair_texts, &pair_texts);
    let mut seen = HashSet::new();
    let all = [begun, pairs, begun_pairs, triples, begun_triples, fours].into_iter().flatten();
    all.filter(|word| seen.insert(word.concat())).collect()
}

/// The characters that stand for bytes (`bytes_to_unicode` of GPT-2): the byte itself if visible, else the next from 256.
fn byte_alphabet() -> [char; 256] {
    let mut next = 256;
    std::array::from_fn(|byte| {
        if matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            char::from(byte as u8)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or_default()
        }
    })
}

#[cfg(test)]
mod tests {
    use tokenizer::{Encode, Tokenizer};

    use super::*;

    #[test]
    fn every_text_comes_back() {
        for (vocabulary, size, bos) in [
            (Vocabulary::Llama2, 512, 1),
            (Vocabulary::Llama2, 32000, 1),
            (Vocabulary::Llama2, 262_144, 1),
            (Vocabulary::Llama3, 128_256, 128_000),
            (Vocabulary::Qwen2, 151_936, 151_643),
            (Vocabulary::GptOss, 201_088, 199_998),
        ] {
            let mut metadata = Metadata::default();
            vocabulary.describe(size, &mut metadata);
            let tokenizer = Tokenizer::from_metadata(&metadata).expect("a tokenizer");
            assert_eq!(tokenizer.vocab_size(), size);
            assert_eq!(tokenizer.special_ids().bos(), Some(bos));
            for text in [
                "Hello, world!",
                "  two  spaces\n\ttabs",
                "Grüße, 世界 🙂",
                "x = {1: \"a\"}\r\n",
                "\u{0}\u{7f}",
            ] {
                let ids = tokenizer.encode(text, Encode { add_special: false, parse_special: false });
                assert_eq!(tokenizer.decode(&ids), text, "{vocabulary:?}, {size}: {ids:?}");
            }
            let words = "the rain in Spain stays mainly in the plain and nobody seems to mind";
            let ids = tokenizer.encode(words, Encode { add_special: false, parse_special: false });
            assert!(ids.len() < words.len() / 2 || size == 512, "whole pieces are found: {ids:?}");
        }
    }
}
