//! What holds for every text and every sequence of ids.

use std::time::{Duration, Instant};

use crate::made::{CONTROL, NORMAL, USER_DEFINED, bpe, gemma4, pieces, spm};
use proptest::prelude::*;
use tokenizer::{Detokenizer, Encode, Part, Tokenizer};

const MERGES: &[&str] =
    &["Ġ a", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "a b", "Ã ©", "ð Ł", "1 2", "' s", "b a", "< |", "| >"];

fn tokenizers() -> Vec<Tokenizer> {
    let marks = [("<|end|>", CONTROL), ("[tool]", USER_DEFINED)];
    let mut all: Vec<_> = ["gpt-2", "llama-bpe", "qwen2"].map(|pre| bpe(pre, MERGES, &marks)).into();
    all.push(spm(&[
        ("▁", -1.0, NORMAL),
        ("a", -2.0, NORMAL),
        ("▁a", -0.5, NORMAL),
        ("ab", -0.7, NORMAL),
        ("aa", -0.7, NORMAL),
        ("é", -3.0, NORMAL),
        ("b▁a", -0.1, NORMAL),
        ("<|end|>", 0.0, CONTROL),
        ("[tool]", 0.0, USER_DEFINED),
    ]));
    all.push(gemma4(
        &["▁ a", "▁ ▁", "a b", "é é"],
        &[("\n\n", NORMAL), ("▁", NORMAL), ("[tool]", USER_DEFINED), ("<|end|>", CONTROL)],
    ));
    for model in ["bert", "t5"] {
        let words = ["▁", "a", "▁a", "ab", "aa", "é", "b▁a", "▁<", "|", "1", "12", "日"];
        let scored = words.iter().zip(1..).map(|(&word, score)| (word, -(score as f32), NORMAL));
        let marks = [("<|end|>", 0.0, CONTROL), ("[tool]", 0.0, USER_DEFINED)];
        all.push(pieces(model, &scored.chain(marks).collect::<Vec<_>>()));
    }
    all.iter().map(|metadata| Tokenizer::from_metadata(metadata).expect("a good tokenizer")).collect()
}

/// Texts with much of what is treated specially.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        any::<char>().prop_map(|c| c.to_string()),
        "[ab ]{1,6}",
        "[ \n\r\t\u{a0}\u{3000}]{1,4}",
        "['sStTlLrReEvV12345é]{1,5}",
        prop::sample::select(vec!["<|end|>", "<|", "[tool]", "</s>", "<0x41>", "😀", "e\u{301}", "\u{fdd0}"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn decoding_gives_back_the_text(text in text()) {
        for tokenizer in tokenizers() {
            let decoded = tokenizer.decode(&tokenizer.encode(&text, Encode::default()));
            if tokenizer.facts().normalizes {
                continue;
            } else if tokenizer.facts().model == "BPE" {
                prop_assert_eq!(decoded, text.replace('▁', " "));
            } else if tokenizer.facts().model != "SentencePiece" {
                prop_assert_eq!(decoded, text.as_str());
            } else if !text.contains("[tool]") {
                // It puts a space after a user-defined token, and writes every space as ▁.
                prop_assert_eq!(decoded, text.replace('▁', " "));
            }
        }
    }

    #[test]
    fn no_token_stands_for_more_than_the_longest(text in text()) {
        for tokenizer in tokenizers() {
            let tokens = tokenizer.encode(&text, Encode { parse_special: true, ..Encode::default() }).len();
            prop_assert!(tokenizer.facts().normalizes || text.len() <= tokens * tokenizer.longest_token(), "{tokens}");
        }
    }

    #[test]
    fn typed_text_never_becomes_a_control_token(text in text()) {
        for tokenizer in tokenizers() {
            for id in tokenizer.encode(&text, Encode::default()) {
                prop_assert_ne!(tokenizer.kind(id), Some(tokenizer::Kind::Control));
            }
        }
    }

    #[test]
    fn parsing_special_tokens_is_encoding_the_parts(texts in prop::collection::vec("[ab <|\n]{1,8}", 1..4)) {
        for tokenizer in tokenizers() {
            let (end, _) = tokenizer.special_tokens().find(|(_, text)| *text == "<|end|>").expect("it is there");
            let mut parts = Vec::new();
            for text in &texts {
                parts.extend([Part::Text(text), Part::Token(end)]);
            }
            let whole = tokenizer.encode(&(texts.join("<|end|>") + "<|end|>"), Encode { add_special: true, parse_special: true });
            prop_assert_eq!(tokenizer.encode_parts(parts, true), whole);
        }
    }

    #[test]
    fn streaming_is_decoding(ids in prop::collection::vec(0..300u32, 0..40)) {
        for tokenizer in tokenizers() {
            let mut stream = Detokenizer::new(&tokenizer);
            let mut text = String::new();
            for &id in &ids {
                text.push_str(&stream.push(id));
            }
            text.push_str(&stream.finish());
            prop_assert_eq!(&text, &tokenizer.decode(&ids));

            // Bytes without meaning become what the standard library makes of them.
            if ids.iter().all(|&id| tokenizer.token_bytes(id).is_some()) {
                let special = |id: &u32| matches!(tokenizer.kind(*id), Some(tokenizer::Kind::Control | tokenizer::Kind::Unknown));
                let bytes: Vec<u8> =
                    ids.iter().filter(|id| !special(id)).flat_map(|&id| tokenizer.token_bytes(id).expect("known")).copied().collect();
                let whole = String::from_utf8_lossy(&bytes);
                prop_assert!(whole == text || whole.strip_prefix(' ') == Some(&text), "{:?} {:?}", whole, text);
            }
        }
    }
}

#[test]
fn a_stream_holds_back_no_more_than_the_beginning_of_a_character() {
    let tokenizer = Tokenizer::from_metadata(&spm(&[])).expect("a good tokenizer");
    let byte = |byte: u8| u32::from(byte) + 3;
    let mut stream = Detokenizer::continuing(&tokenizer);
    let mut push = |b| stream.push(byte(b));
    assert_eq!(["😀".bytes().map(&mut push).collect::<Vec<_>>()], [["", "", "", "😀"]]);
    assert_eq!([0x20, 0xc3, 0xa9].map(&mut push), [" ", "", "é"]);
    // The first byte can never become a character once the second is there.
    assert_eq!([0xe2, 0x82, 0x41].map(&mut push), ["", "", "\u{fffd}A"]);
    assert_eq!([0xff, 0xc0, 0x80].map(&mut push), ["\u{fffd}"; 3]);
    assert_eq!([0xf0, 0x9f].map(&mut push), ["", ""]);
    assert_eq!(stream.finish(), "\u{fffd}");
    assert_eq!(stream.finish(), "");
    // Ids that are no tokens.
    assert_eq!(stream.push(259), "\u{fffd}");
    assert_eq!(tokenizer.decode(&[u32::MAX, byte(b'a')]), "\u{fffd}a");
}

/// A splitter, search or merge that is not close to linear takes hours here.
#[test]
fn long_runs_take_no_time_to_speak_of() {
    for tokenizer in tokenizers() {
        for unit in [
            "a", " ", "\n", "\r", "7", "ÿ", "😀", "\u{301}", " \n", "\n ", "'s", "'", "<|", "<|end|>",
            "<|end|", "[tool]", "日", "ab ", "\0", "a\u{a0}",
        ] {
            let text = unit.repeat((1 << 20) / unit.len());
            let start = Instant::now();
            let ids = tokenizer.encode(&text, Encode { add_special: true, parse_special: true });
            tokenizer.decode(&ids);
            assert!(start.elapsed() < Duration::from_secs(60), "{unit:?}: {:?}", start.elapsed());
        }
    }
}
