//! `tokenizer.json`.

use serde_json::{Value, json};
use tokenizer::{Encode, Tokenizer};

use super::Error;
use super::vocabulary::Vocabulary;
use super::{bpe, spm, unigram, wordpiece};

const PROBES: [&str; 12] = [
    "",
    " ",
    "Hello, world!  It's 12345 o'clock, isn't it?",
    "  two  spaces\tand\n\nlines\r\n \n",
    "def f(x):\n    return x ** 2  # 3.14\n",
    "naïve café, Ünïcödé ŁÓDŹ, ÎLE",
    "日本語のテキスト、漢字と仮名。 中文 한국어 각힣",
    "Привет, мир! שלום عربي ٣٤٥ हिन्दी ไทย",
    "😀👍🏽 👨\u{200d}👩\u{200d}👧 ½²Ⅷ ™©",
    "IT'S we'LL I'm DON'T 'tis camelCase HTTPServer",
    "1234567 12 1 0xFF a1b2c3 1,000,000",
    "\u{0}\u{1}\u{7f}\u{a0}\u{3000}\u{200b}\u{fffd}",
];

pub(super) fn text(vocabulary: &Vocabulary) -> Result<Vec<u8>, Error> {
    let kind = vocabulary.tokenizer.facts().model;
    let parts = match vocabulary.metadata.str("tokenizer.ggml.model")? {
        Some("llama") => spm::parts(vocabulary)?,
        Some("bert") => wordpiece::parts(vocabulary)?,
        Some("t5") => unigram::parts(vocabulary)?,
        _ => bpe::parts(vocabulary)?,
    };
    let json = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": parts.normalizer,
        "pre_tokenizer": parts.pre_tokenizer,
        "post_processor": post_processor(vocabulary)?,
        "decoder": parts.decoder,
        "model": parts.model,
    });
    let bytes = json.to_string().into_bytes();
    drop(json);
    check(vocabulary.tokenizer, kind, &bytes)?;
    Ok(bytes)
}

/// BOS before a text, and EOS, or SEP of WordPiece, after it. SEP separates texts if the file says so.
fn post_processor(vocabulary: &Vocabulary) -> Result<Value, Error> {
    let tokenizer = vocabulary.tokenizer;
    let find = |id: Option<u32>| vocabulary.tokens().find(|token| Some(token.id) == id);
    let (bos, eos) = (find(tokenizer.bos_to_add()), find(tokenizer.eos_to_add()));
    let adds_sep = vocabulary.metadata.bool("tokenizer.ggml.add_sep_token")?;
    let sep = adds_sep.filter(|adds| *adds).and_then(|_| vocabulary.role("sep").or(vocabulary.role("eos")));
    let is_word_piece = vocabulary.metadata.str("tokenizer.ggml.model")? == Some("bert");
    // The tokens between two texts are those of BERT and RoBERTa. BERT has the token that ends the first text, which is SEP.
    // RoBERTa has EOS, which ends the first text, and then SEP.
    let between = if is_word_piece { vec![eos] } else { sep.map_or(vec![], |sep| vec![eos, Some(sep)]) };
    let between: Vec<_> = between.into_iter().flatten().collect();
    let special =
        |token: &super::vocabulary::Token| json!({ "SpecialToken": { "id": token.text, "type_id": 0 } });
    let sequence = |name: &str| json!({ "Sequence": { "id": name, "type_id": u8::from(name == "B") } });
    let around = |inside: Vec<Value>| -> Vec<Value> {
        bos.iter().map(special).chain(inside).chain(eos.iter().map(special)).collect()
    };
    let pair = [sequence("A")].into_iter().chain(between.iter().map(special)).chain([sequence("B")]);
    let tokens = [bos, eos, sep].into_iter().flatten();
    let tokens: serde_json::Map<String, Value> = tokens
        .map(|token| {
            (token.text.to_owned(), json!({ "id": token.text, "ids": [token.id], "tokens": [token.text] }))
        })
        .collect();
    if tokens.is_empty() {
        return Ok(Value::Null);
    }
    Ok(json!({
        "type": "TemplateProcessing",
        "single": around(vec![sequence("A")]),
        "pair": around(pair.collect()),
        "special_tokens": tokens,
    }))
}

/// Fails if the library makes other tokens of some texts than `tokenizer`.
fn check(tokenizer: &Tokenizer, kind: &'static str, json: &[u8]) -> Result<(), Error> {
    let library = |source| Error::Library { kind, source };
    let theirs = tokenizers::Tokenizer::from_bytes(json).map_err(library)?;
    let newlines = (1..=40).map(|count| "\n".repeat(count));
    for text in PROBES.into_iter().map(str::to_owned).chain(newlines) {
        let expected = tokenizer.encode(&text, Encode { add_special: true, parse_special: true });
        let found = theirs.encode(text.as_str(), true).map_err(library)?.get_ids().to_vec();
        if found != expected {
            return Err(Error::Differs { kind, text: gguf::quoted(&text), found, expected });
        }
    }
    Ok(())
}
