//! What is exported makes the same tokens in the library `tokenizers`, and the same keys when it is read again.

use convert::export::Error;
use convert::export_tokenizer;
use convert::tokenizer::Kind;
use gguf::{Gguf, Metadata};
use tokenizer::{Encode, Tokenizer};

use crate::folders::{all, read_in};

const TEXTS: [&str; 8] = [
    "Hello, world! It's 1234567 o'clock.",
    "  two  spaces\tand\n\n\nlines \r\n ",
    "naïve café ÎLE Ünïcödé ﬁ ① İ",
    "日本語 中文 한국어 각 हिन्दी ไทย Привет",
    "<s>a</s> <|im_start|>user <tool_call> [CLS] [MASK] <mask>x",
    "👨\u{200d}👩 \u{0}\u{1}\u{85}\u{a0}\u{3000}\u{fffd} ½²Ⅷ",
    "IT'S we'LL camelCase __init__(self) -> None:",
    "aaaaaaaaaaaaaaaaaaaaaaa        bbbb",
];

/// A file with these keys and no tensors.
fn file(metadata: &Metadata) -> Gguf {
    let bytes = gguf::write(Vec::new(), metadata, []).expect("metadata can be written");
    Gguf::from_named_bytes("vocabulary", bytes.into()).expect("a GGUF file")
}

#[test]
fn exported_tokenizers_make_the_same_tokens_and_keys() {
    for (name, folder) in all() {
        let on_disk = folder.write();
        let (kind, _) = folder.kinds().last().expect("a kind");
        let mut metadata = read_in(on_disk.path(), kind).expect("keys");
        let out = tempfile::tempdir().expect("a folder");
        match export_tokenizer(&file(&metadata), out.path()) {
            // All scores are equal, so that no order of merges is known; no file names the unknown token.
            Err(Error::Inexpressible { .. }) if ["llama-json", "bert-cased"].contains(&name.as_str()) => {
                continue;
            }
            exported => drop(exported.unwrap_or_else(|error| panic!("{name}: {error}"))),
        }

        let ours = Tokenizer::from_metadata(&metadata).expect("a tokenizer");
        let theirs =
            tokenizers::Tokenizer::from_file(out.path().join("tokenizer.json")).expect("a tokenizer");
        for text in TEXTS {
            let expected = theirs.encode(text, true).expect("ids").get_ids().to_vec();
            let found = ours.encode(text, Encode { add_special: true, parse_special: true });
            assert_eq!(found, expected, "{name}: {text:?}");
        }

        if name == "xlm-r" {
            // No file names UNK, so that its type cannot come back.
            continue;
        }
        let mut back = read_in(out.path(), kind).unwrap_or_else(|error| panic!("{name}: {error}"));
        for optional in ADDED_BY_EXPORT {
            if !metadata.contains(optional) {
                back.remove(optional);
            }
            if !back.contains(optional) {
                metadata.remove(optional);
            }
        }
        for (key, value) in metadata.iter() {
            assert_eq!(back.get(key), Some(value), "{key} of {name}");
        }
        assert_eq!(back.len(), metadata.len(), "{name}");
    }
}

/// Keys that say in other words what the file says.
const ADDED_BY_EXPORT: [&str; 6] = [
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_sep_token",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
];

#[test]
fn files_of_others_are_not_replaced() {
    let folders = all();
    let folder = &folders["gpt2-files"];
    let metadata = read_in(folder.write().path(), Kind::Bpe).expect("keys");
    let out = tempfile::tempdir().expect("a folder");
    std::fs::write(out.path().join("config.json"), "not JSON").expect("a file");
    let refused = export_tokenizer(&file(&metadata), out.path()).expect_err("a file is in the way");
    assert!(matches!(refused, Error::Out(_)), "{refused}");
    assert!(!out.path().join("tokenizer.json").exists());
}
