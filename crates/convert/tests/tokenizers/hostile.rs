//! Malformed files give errors that name the file and the place, and never a panic or much memory.

use std::fs;
use std::path::Path;

use convert::tokenizer::Kind;

use crate::folders::{all, read_in};

/// The error of a folder of `goldens/tokenizers.json` in which `change` changed a file.
fn error(folder: &str, kind: Kind, file: &str, change: impl FnOnce(String) -> String) -> String {
    let on_disk = all()[folder].write();
    let path = on_disk.path().join(file);
    let text = fs::read_to_string(&path).expect("a text");
    let changed = change(text.clone());
    assert_ne!(text, changed, "nothing changed");
    fs::write(path, changed).expect("a file");
    let error = read_in(on_disk.path(), kind).expect_err("malformed");
    let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text: Vec<String> = chain.map(ToString::to_string).collect();
    text.join(": ")
}

fn has(text: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} is not in: {text}");
}

#[test]
fn errors_name_file_and_place() {
    let replace = |from: &'static str, to: &'static str| move |text: String| text.replacen(from, to, 1);
    let truncated = error("qwen2", Kind::Bpe, "tokenizer.json", |text| text[..text.len() / 2].to_owned());
    has(&truncated, &["tokenizer.json", "line", "column"]);
    let id = error("qwen2", Kind::Bpe, "tokenizer.json", replace("\"$\":3", "\"$\":4000000000"));
    has(&id, &["tokenizer.json", "\"$\"", "4000000000", "below 1048576"]);
    let twice = error("qwen2", Kind::Bpe, "tokenizer.json", replace("\"$\":3", "\"$\":2"));
    has(&twice, &["tokenizer.json", "\"$\"", "is 2", "\"#\""]);
    let type_ = error("qwen2", Kind::Bpe, "tokenizer.json", replace("\"$\":3", "\"$\":\"3\""));
    has(&type_, &["tokenizer.json", "string", "line"]);
    let size = error(
        "qwen2",
        Kind::Bpe,
        "config.json",
        replace("\"vocab_size\": ", "\"vocab_size\": 2147483648, \"x\": "),
    );
    has(&size, &["config.json", "`vocab_size`", "2147483648"]);
    let negative = error(
        "qwen2",
        Kind::Bpe,
        "config.json",
        replace("\"bos_token_id\": ", "\"bos_token_id\": -1, \"x\": "),
    );
    has(&negative, &["config.json", "`bos_token_id`", "-1"]);
    let small =
        error("qwen2", Kind::Bpe, "config.json", replace("\"vocab_size\": ", "\"vocab_size\": 100, \"x\": "));
    has(&small, &["tokenizer.json", "below 100", "`vocab_size`"]);
    let pre = error("qwen2", Kind::Bpe, "tokenizer.json", replace("Isolated", "MergedWithNext"));
    has(&pre, &["tokenizer.json", "MergedWithNext", "--pre-tokenizer"]);
    let added = error("llama", Kind::Llama, "added_tokens.json", replace("{", "{\"x\": [], "));
    has(&added, &["added_tokens.json", "line 1"]);
    let decoder = error("llama", Kind::Llama, "tokenizer_config.json", replace("\"1\": {", "\"one\": {"));
    has(&decoder, &["tokenizer_config.json", "`added_tokens_decoder`", "\"one\""]);
    let kind = error("roberta", Kind::Unigram, "config.json", |text| text + " ");
    has(&kind, &["tokenizer.json", "`model.vocab`", "unigram"]);
    let vocab = error("bert-cased", Kind::WordPiece, "vocab.txt", replace("[UNK]", "[PAD]"));
    has(&vocab, &["vocab.txt", "line 2", "[PAD]"]);
}

#[test]
fn models_with_claims_beyond_their_end_are_refused() {
    for claim in [
        // A piece of 2^60 bytes, an endless number, an unknown wire type, and a text of another kind.
        &[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10][..],
        &[0xff; 32],
        &[0x0f],
        b"{}",
        b"",
    ] {
        let on_disk = all()["llama"].write();
        fs::write(on_disk.path().join("tokenizer.model"), claim).expect("a file");
        let error = read_in(on_disk.path(), Kind::Llama).expect_err("damaged").to_string();
        has(&error, &["tokenizer.model"]);
    }
}

#[test]
fn a_folder_without_files_says_what_is_missing() {
    let empty = tempfile::tempdir().expect("a folder");
    for kind in
        [Kind::Bpe, Kind::Llama, Kind::Gemma2, Kind::Gemma4, Kind::Phi3, Kind::WordPiece, Kind::Unigram]
    {
        let error = read_in(empty.path(), kind).expect_err("nothing there").to_string();
        has(&error, &["expected token"]);
    }
}

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % end.max(1) as u64) as usize
    }
}

/// Files with a few bytes replaced, removed or repeated, or numbers made large: any result but a panic will do.
#[test]
fn mutated_files_never_panic() {
    const INSERTS: [&[u8]; 8] =
        [b"4294967295", b"-1", b"null", b"[]", b"{}", b"\"\"", b"\xff", b"99999999999999999999"];
    let mut random = Random(7);
    for folder in all().values() {
        let on_disk = folder.write();
        let kinds: Vec<Kind> = folder.kinds().map(|(kind, _)| kind).collect();
        for (name, bytes) in folder.files() {
            let path = on_disk.path().join(name);
            for _ in 0..24 {
                let mut mutated = bytes.clone();
                for _ in 0..=random.below(3) {
                    let at = random.below(mutated.len());
                    let end = (at + random.below(24)).min(mutated.len());
                    match random.below(4) {
                        0 => mutated.truncate(at),
                        1 => drop(
                            mutated.splice(at..end, INSERTS[random.below(INSERTS.len())].iter().copied()),
                        ),
                        2 => drop(mutated.drain(at..end)),
                        _ => {
                            mutated.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8))
                        }
                    }
                }
                fs::write(&path, mutated).expect("a file");
                let _ = read_in(on_disk.path(), kinds[random.below(kinds.len())]);
            }
            fs::write(&path, bytes).expect("a file");
        }
        assert!(Path::exists(on_disk.path()));
    }
}
