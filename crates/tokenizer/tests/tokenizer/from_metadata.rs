//! What a file may say, and what it may leave out.

use crate::made::{CONTROL, NORMAL, UNKNOWN, USER_DEFINED, bpe, gemma4, pieces, spm};
use gguf::{Array, Metadata, Value};
use tokenizer::{Choice, Encode, Error, Kind, Part, Tokenizer};

fn strings(texts: &[&str]) -> Value {
    Value::Array(Array::String(texts.iter().map(|&text| text.to_owned()).collect()))
}

fn load(metadata: &Metadata) -> Tokenizer {
    Tokenizer::from_metadata(metadata).expect("a good tokenizer")
}

/// The error after `key` was set to `value`.
fn error(mut metadata: Metadata, key: &str, value: Value) -> Error {
    metadata.insert(key, value);
    Tokenizer::from_metadata(&metadata).expect_err("it is wrong")
}

const PLAIN: Encode = Encode { add_special: false, parse_special: false };

#[test]
fn wrong_metadata_is_refused_with_its_key() {
    let refused = |error: Error, words: &[&str]| {
        let message = error.to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}: lacks one of {words:?}");
    };
    refused(Tokenizer::from_metadata(&Metadata::default()).expect_err("empty"), &["tokenizer.ggml.tokens"]);
    refused(error(spm(&[]), "tokenizer.ggml.tokens", strings(&[])), &["tokenizer.ggml.tokens", "empty"]);
    refused(error(spm(&[]), "tokenizer.ggml.tokens", Value::U32(3)), &["tokenizer.ggml.tokens", "u32 3"]);
    refused(error(spm(&[]), "tokenizer.ggml.tokens", strings(&["a"])), &["token_type", "259", "1"]);
    let scores = Value::Array(Array::F32(vec![0.0; 7]));
    refused(error(spm(&[]), "tokenizer.ggml.scores", scores), &["tokenizer.ggml.scores", "7", "259"]);
    refused(error(spm(&[]), "tokenizer.ggml.model", Value::String("rwkv".into())), &["\"rwkv\""]);
    refused(error(spm(&[]), "tokenizer.ggml.add_bos_token", Value::U8(1)), &["add_bos_token", "u8 1"]);
    refused(error(spm(&[]), "tokenizer.ggml.bos_token_id", Value::F32(1.0)), &["bos_token_id"]);
    for score in [f32::NAN, f32::INFINITY] {
        let error = Tokenizer::from_metadata(&pieces("t5", &[("a", score, NORMAL)])).expect_err("no score");
        refused(error, &["tokenizer.ggml.scores", "token 3"]);
    }
    for charsmap in [Array::U8(vec![1]), Array::I8(vec![-1; 9]), Array::F32(vec![0.0; 8])] {
        let key = "tokenizer.ggml.precompiled_charsmap";
        refused(error(pieces("t5", &[]), key, Value::Array(charsmap)), &[key]);
    }
    refused(error(gemma4(&[], &[]), "tokenizer.ggml.merges", strings(&["ab"])), &["merge 0", "\"ab\""]);
    for pre in ["nothing", "", "LLAMA-BPE"] {
        let value = Value::String(pre.into());
        refused(error(bpe("gpt-2", &[], &[]), "tokenizer.ggml.pre", value), &[&format!("{pre:?}")]);
    }
    for (index, rule) in [(0, "ab"), (1, "a b c"), (1, " b"), (1, "a "), (1, ""), (1, "a  b")] {
        let merges = if index == 0 { strings(&[rule]) } else { strings(&["a b", rule]) };
        refused(
            error(bpe("gpt-2", &[], &[]), "tokenizer.ggml.merges", merges),
            &[&format!("merge {index} "), &format!("{rule:?}")],
        );
    }

    let without = |key: &str| {
        let mut rest = Metadata::default();
        for (name, value) in bpe("gpt-2", &[], &[]).iter().filter(|(name, _)| *name != key) {
            rest.insert(name, value.clone());
        }
        Tokenizer::from_metadata(&rest).expect_err("something is missing")
    };
    assert!(matches!(without("tokenizer.ggml.pre"), Error::MissingPreTokenizer));
    refused(without("tokenizer.ggml.merges"), &["tokenizer.ggml.merges", "missing"]);
    refused(without("tokenizer.ggml.model"), &["tokenizer.ggml.model", "missing"]);
}

#[test]
fn defaults_depend_on_the_kind() {
    let facts = |metadata: &Metadata| {
        let tokenizer = load(metadata);
        let facts = tokenizer.facts();
        (facts.model, facts.add_bos, facts.add_eos, facts.add_space_prefix, tokenizer.bos_to_add().is_some())
    };
    let (no, yes) = (Choice::Default(false), Choice::Default(true));
    assert_eq!(facts(&spm(&[])), ("SentencePiece", yes, no, yes, true));
    assert_eq!(facts(&bpe("gpt-2", &[], &[])), ("byte-level BPE", no, no, no, false));
    // It wants a BOS token, but the vocabulary has none.
    assert_eq!(facts(&bpe("llama-bpe", &[], &[])), ("byte-level BPE", yes, no, no, false));

    assert_eq!(facts(&gemma4(&[], &[])), ("BPE", yes, no, no, false));
    assert_eq!(facts(&pieces("bert", &[])), ("WordPiece", yes, no, no, false));
    assert_eq!(facts(&pieces("t5", &[])), ("unigram", no, yes, no, false));
    let adds_sep = |metadata: &Metadata| load(metadata).facts().add_sep;
    assert_eq!(adds_sep(&pieces("bert", &[])), yes);
    assert_eq!(adds_sep(&bpe("roberta-bpe", &[], &[])), yes);
    assert_eq!(adds_sep(&bpe("gpt-2", &[], &[])), no);

    let mut stated = spm(&[("▁a", 0.0, NORMAL)]);
    stated.insert("tokenizer.ggml.add_bos_token", Value::Bool(false));
    stated.insert("tokenizer.ggml.add_eos_token", Value::Bool(true));
    let tokenizer = load(&stated);
    assert_eq!(tokenizer.facts().add_bos, Choice::Stated(false));
    assert_eq!(tokenizer.encode("a", Encode { add_special: true, parse_special: false }), [259, 2]);
    assert!(tokenizer.eos_to_add().is_some() && tokenizer.bos_to_add().is_none());
}

#[test]
fn special_ids_outside_the_vocabulary_are_ignored() {
    let mut metadata = spm(&[]);
    metadata.insert("tokenizer.ggml.eos_token_id", Value::U32(259));
    metadata.insert("tokenizer.ggml.eot_token_id", Value::U32(u32::MAX));
    metadata.insert("tokenizer.ggml.bos_token_id", Value::U32(258));
    let ids = load(&metadata).special_ids().clone();
    assert_eq!((ids.bos(), ids.eos(), ids.roles.get("eot")), (Some(258), Some(2), None));

    // The defaults are ids too.
    let mut tiny = Metadata::default();
    tiny.insert("tokenizer.ggml.model", Value::String("llama".into()));
    tiny.insert("tokenizer.ggml.tokens", strings(&["a"]));
    let tokenizer = load(&tiny);
    assert_eq!((tokenizer.special_ids().bos(), tokenizer.special_ids().eos()), (None, None));
    // Without tokens for bytes, what cannot be spelled becomes the unknown token, which is 0 by default.
    assert_eq!(tokenizer.encode("é", PLAIN), [0; 5]);
}

#[test]
fn ends_of_generation_are_known_by_text() {
    let marks = ["<|im_end|>", "<|endoftext|>", "<|eom_id|>", "<|fim_pad|>", "<|x|>"];
    let tokenizer = load(&bpe("qwen2", &[], &marks.map(|text| (text, NORMAL))));
    let ids = tokenizer.special_ids();
    assert_eq!(
        ids.roles.clone().into_iter().collect::<Vec<_>>(),
        [("eom", 258), ("eot", 256), ("fim_pad", 259)]
    );
    assert_eq!(ids.end_of_generation.iter().copied().collect::<Vec<_>>(), [256, 257, 258, 259]);
    assert!(tokenizer.ends_generation(256) && !tokenizer.ends_generation(260));
    // They are control tokens whatever the file says.
    assert_eq!(tokenizer.kind(257), Some(Kind::Control));
    assert_eq!(tokenizer.kind(260), Some(Kind::Normal));
    assert_eq!(tokenizer.special_tokens().map(|(id, _)| id).collect::<Vec<_>>(), [256, 257, 258, 259]);
}

/// As in llama.cpp's `llama-vocab.cpp`: with these tokens, `<|end|>` ends a message, not an answer.
#[test]
fn the_end_of_a_message_does_not_end_generation() {
    let ends = |marks: &[&str]| {
        let marks: Vec<_> = ["<|end|>"].iter().chain(marks).map(|text| (*text, NORMAL)).collect();
        let tokenizer = load(&bpe("gpt-4o", &[], &marks));
        assert_eq!(tokenizer.kind(256), Some(Kind::Control));
        tokenizer.ends_generation(256)
    };
    assert!(!ends(&["<|return|>", "<|call|>"]) && !ends(&["<|calls|>", "<|flush|>"]));
    assert!(ends(&[]) && ends(&["<|return|>"]) && ends(&["<|call|>", "<|calls|>"]));
}

#[test]
fn no_merge_makes_a_mark() {
    // llama.cpp would make `</s>` of these pieces; a word that is a control token too.
    let tokenizer = load(&spm(&[("▁", -1.0, NORMAL), ("</", -1.0, NORMAL), ("s>", -1.0, NORMAL)]));
    let ids = tokenizer.encode("</s>", PLAIN);
    assert!(!ids.contains(&2), "{ids:?}");
    assert_eq!(tokenizer.decode(&ids), "</s>");
    let tokenizer = load(&bpe("llama-bpe", &["E O", "EO S"], &[("STOP", CONTROL), ("EOS", CONTROL)]));
    for (word, mark) in [("STOP", 258), ("EOS", 259)] {
        let ids = tokenizer.encode(word, PLAIN);
        assert!(!ids.contains(&mark), "{ids:?}");
        assert_eq!(tokenizer.decode(&ids), word);
    }
}

#[test]
fn of_equal_tokens_the_last_counts() {
    let tokenizer = load(&spm(&[("▁a", -1.0, NORMAL), ("▁a", -2.0, NORMAL)]));
    assert_eq!(tokenizer.encode("a", PLAIN), [260]);
    let tokenizer =
        load(&bpe("gpt-2", &["a b"], &[("ab", NORMAL), ("[x]", USER_DEFINED), ("[x]", USER_DEFINED)]));
    assert_eq!(tokenizer.encode("ab[x]", PLAIN), [257, 259]);
    assert_eq!(tokenizer.decode(&[256, 257]), "abab");
}

#[test]
fn the_longest_of_the_leftmost_tokens_is_found() {
    let tokenizer = load(&bpe("gpt-2", &[], &[("[a]", CONTROL), ("[a][b]", CONTROL), ("[b]c", UNKNOWN)]));
    let ids = tokenizer.encode("[a][b]c[a]", Encode { add_special: false, parse_special: true });
    assert_eq!(ids, [257, u32::from(b'c'), 256]);
}

#[test]
fn parts_get_one_bos_and_keep_marks_apart_from_text() {
    let tokenizer = load(&spm(&[("▁", -1.0, NORMAL), ("a", -1.0, NORMAL), ("▁a", 0.0, NORMAL)]));
    let parts = |parts: &[Part]| tokenizer.encode_parts(parts.iter().copied(), true);
    assert_eq!(parts(&[Part::Text("a")]), [1, 261]);
    assert_eq!(parts(&[Part::Token(1), Part::Text("a")]), [1, 261]);
    // A space goes before the text after a token, none between texts.
    assert_eq!(
        parts(&[Part::Text("a"), Part::Token(2), Part::Text("a"), Part::Text("a")]),
        [1, 261, 2, 261, 260]
    );
    assert_eq!(parts(&[Part::Text("</s>")]).iter().filter(|&&id| id == 2).count(), 0);
    assert_eq!(parts(&[]), [1]);
}

#[test]
fn tokens_tell_their_text() {
    let tokenizer = load(&spm(&[("▁a", 0.0, NORMAL)]));
    assert_eq!(tokenizer.vocab_size(), 260);
    assert_eq!((tokenizer.token_text(259), tokenizer.token_bytes(259)), (Some("▁a"), Some(&b" a"[..])));
    assert_eq!((tokenizer.token_text(13), tokenizer.token_bytes(13)), (Some("<0x0A>"), Some(&b"\n"[..])));
    assert_eq!((tokenizer.token_text(1), tokenizer.kind(1)), (Some("<s>"), Some(Kind::Control)));
    assert_eq!(
        (tokenizer.token_text(260), tokenizer.token_bytes(260), tokenizer.kind(260)),
        (None, None, None)
    );
    assert_eq!(tokenizer.decode(&[259, 259]), "a a");
    assert_eq!(tokenizer.decode(&[1, 259]), " a");
}

#[test]
fn wordpiece_adds_cls_and_sep_whatever_the_file_says() {
    let mut metadata =
        pieces("bert", &[("[CLS]", 0.0, CONTROL), ("[SEP]", 0.0, CONTROL), ("▁a", 0.0, NORMAL)]);
    for (key, id) in [("bos", 3), ("seperator", 4)] {
        metadata.insert(format!("tokenizer.ggml.{key}_token_id"), Value::U32(id));
    }
    metadata.insert("tokenizer.ggml.add_bos_token", Value::Bool(false));
    let tokenizer = load(&metadata);
    assert_eq!(tokenizer.encode("A á", Encode { add_special: true, parse_special: false }), [3, 5, 5, 4]);
    assert_eq!(tokenizer.encode_parts([Part::Text("a")], true), [3, 5, 4]);
    metadata.insert("tokenizer.ggml.normalizer.lowercase", Value::Bool(false));
    assert_eq!(load(&metadata).encode("A a á", PLAIN), [2, 5, 2]);
}

#[test]
fn tokens_that_end_messages_or_are_markup_do_not_end_generation() {
    let ends = |marks: &[&'static str]| {
        let tokens: Vec<_> = marks.iter().map(|&text| (text, CONTROL)).collect();
        let tokenizer = load(&bpe("gpt-2", &[], &tokens));
        let ending = (256..).zip(marks).filter(|(id, _)| tokenizer.ends_generation(*id));
        ending.map(|(_, text)| *text).collect::<Vec<_>>()
    };
    assert_eq!(ends(&["<|end|>", "<|return|>"]), ["<|end|>", "<|return|>"]);
    assert_eq!(ends(&["<|end|>", "<|return|>", "<|call|>"]), ["<|return|>", "<|call|>"]);
    assert_eq!(ends(&["<|end|>", "<|flush|>", "<|calls|>"]), ["<|flush|>", "<|calls|>"]);
    assert_eq!(ends(&["</s>", "<|tool_response>"]), ["<|tool_response>"]);
    assert_eq!(ends(&["</s>"]), ["</s>"]);
}

#[test]
fn white_space_before_a_mask_is_dropped() {
    let tokens = [("<mask>", CONTROL), ("<x>", CONTROL)];
    let parse = Encode { add_special: false, parse_special: true };
    let space = u32::from(b' ');
    let tokenizer = load(&bpe("jina-v2-de", &[], &tokens));
    assert_eq!(tokenizer.encode(" \n<mask> <x>", parse), [256, space, 257]);
    assert_eq!(load(&bpe("gpt-2", &[], &tokens)).encode(" <mask>", parse), [space, 256]);
}

#[test]
fn gemma4_merges_characters_and_keeps_newlines_together() {
    let tokenizer = load(&gemma4(&["▁ é", "a b"], &[("\n\n", NORMAL), ("a", NORMAL)]));
    let byte = u32::from;
    assert_eq!(tokenizer.encode("a\n\nab é\n", PLAIN), [259, 258, 257, 256, byte(b'\n')]);
    assert_eq!(tokenizer.encode("é", PLAIN), [byte(0xc3u8), byte(0xa9)]);
    assert_eq!(tokenizer.decode(&[256, 0xc3, 0xa9, 258]), " éé\n\n");
    assert_eq!(tokenizer.facts().pre_tokenizer.as_deref(), Some("gemma4"));
}

/// By hand: `ab` and `cd` cost 12, the unknown `a` costs 6 + 10, and `bcd` 1.
#[test]
fn an_unknown_character_costs_more_than_the_worst_token() {
    let tokens = [("ab", -6.0, NORMAL), ("cd", -6.0, NORMAL), ("bcd", -1.0, NORMAL)];
    let tokenizer = load(&pieces("t5", &tokens));
    assert_eq!(tokenizer.encode("abcd", PLAIN), [3, 4]);
    assert_eq!(tokenizer.encode("xbcd", PLAIN), [2, 5]);
    assert_eq!(tokenizer.encode("xyzbcdxy", PLAIN), [2, 5, 2]);
}
