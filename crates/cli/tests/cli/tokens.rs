//! `tokenize` and `detokenize`.

use gguf::{Array, Metadata, Value};

use crate::common::{Home, ids, write};

const TEXTS: [&str; 6] =
    ["Hello world", " two  spaces", "line\nbreak\t\u{1b}", "日本語 🙂 жжж", "", "</s> <s>"];

#[test]
fn lines_come_back() {
    let home = Home::new();
    let lines: String = TEXTS.map(|text| serde_json::to_string(text).expect("a string") + "\n").concat();
    for flags in ["", "--no-bos", "--parse-special", "--no-bos --parse-special"] {
        let ids = home.pipe(&format!("tokenize -m MODEL --jsonl {flags}"), &lines).quiet();
        assert_eq!(ids.lines().count(), TEXTS.len());
        let texts = home.pipe(&format!("detokenize -m MODEL --jsonl {flags}"), &ids).quiet();
        let expected = if flags.contains("special") {
            // A space is put before the text after a special token.
            lines.replace("</s> <s>", "</s>  <s>")
        } else {
            lines.clone()
        };
        assert_eq!(texts, expected, "{flags}");
    }
}

#[test]
fn ids_can_be_had_in_every_shape() {
    let home = Home::new();
    let array = home.run("tokenize -m MODEL --ids Hello").quiet();
    let json = home.run("tokenize -m MODEL --json Hello").json();
    assert_eq!(json["ids"].to_string(), array.trim());
    assert_eq!(ids(&json["ids"])[0], 1, "BOS");
    assert_eq!(json["pieces"][0], "<s>");
    let pieces = home.run("tokenize -m MODEL Hello").quiet();
    assert_eq!(pieces.lines().count(), ids(&json["ids"]).len());
    let no_bos = home.run("tokenize -m MODEL --no-bos --json Hello").json();
    assert_eq!(ids(&no_bos["ids"]), ids(&json["ids"])[1..]);
    assert_eq!(home.pipe("tokenize -m MODEL --ids", "Hello").quiet(), array);
    assert_eq!(home.run_with("detokenize -m MODEL", &[&array]).quiet(), "Hello\n");
    assert_eq!(home.pipe("detokenize -m MODEL", &array).quiet(), "Hello\n");
}

#[test]
fn text_may_begin_with_a_dash() {
    let home = Home::new();
    for text in ["-fa", "-no-cnv", "-5"] {
        let ids = home.run_with("tokenize -m MODEL --ids", &[text]).quiet();
        assert_eq!(ids, home.pipe("tokenize -m MODEL --ids", text).quiet(), "{text}");
    }
}

#[test]
fn a_bad_line_is_named_after_the_good_ones() {
    let home = Home::new();
    let ran = home.pipe("tokenize -m MODEL --jsonl", "\"a\"\n\"b\"\n{}\n");
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 2));
    assert!(ran.stderr.starts_with("error: line 3 of stdin is not a JSON string: "), "{}", ran.stderr);
    let ran = home.pipe("detokenize -m MODEL --jsonl", "[1,-2]\n");
    assert!(
        ran.stderr.starts_with("error: line 1 of stdin is not a JSON array of token ids: "),
        "{}",
        ran.stderr
    );
    assert!(home.run("detokenize -m MODEL 1,x").failed(1).contains("\"x\" is not a token id"));
}

#[test]
fn an_id_outside_the_vocabulary_is_named() {
    let home = Home::new();
    let said = "token id 512 is not in the vocabulary, which has 512 tokens";
    for flags in ["", "--ids", "--json", "--parse-special"] {
        let error = home.run(&format!("detokenize -m MODEL 1,511,512 {flags}")).failed(1);
        assert!(error.contains(said), "{flags}: {error}");
    }
    home.run("detokenize -m MODEL 511").quiet();
    let ran = home.pipe("detokenize -m MODEL --jsonl", "[1]\n[512]\n");
    assert_eq!((ran.code, &*ran.stdout), (Some(1), "\"\"\n"));
    assert!(ran.stderr.contains(&format!("line 2 of stdin: {said}")), "{}", ran.stderr);
}

#[test]
fn the_pre_tokenizer_can_be_chosen() {
    let home = Home::new();
    let names = [("general.architecture", "llama"), ("tokenizer.ggml.model", "gpt2")];
    let mut metadata: Metadata = names.into_iter().collect();
    let tokens = ["1", "2", "3", "4", "12", "123", "1234"].map(str::to_owned);
    let merges = ["1 2", "12 3", "123 4"].map(str::to_owned);
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens.into())));
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges.into())));
    metadata.insert("tokenizer.ggml.pre", "of-next-year");
    let file = gguf::write(Vec::new(), &metadata, &[]).expect("a file");
    write(&home.path("next-year.gguf"), file);

    let tokenize = "tokenize -m next-year.gguf --ids 1234";
    let error = home.run(tokenize).failed(1);
    for part in ["\"of-next-year\"", "llama-bpe", "qwen2", "--pre-tokenizer NAME"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(error.len() < 1600, "{} bytes", error.len());
    for (name, ids) in [("gpt-2", "[6]"), ("llama-bpe", "[5,3]"), ("qwen2", "[0,1,2,3]")] {
        assert_eq!(home.run(&format!("{tokenize} --pre-tokenizer {name}")).quiet().trim(), ids);
    }
    let error = home.run(&format!("{tokenize} --pre-tokenizer qwen-2")).failed(2);
    assert!(error.contains("similar value") && error.contains("'qwen2'"), "{error}");
    // SentencePiece has none.
    let ran = home.run("tokenize -m MODEL --ids a --pre-tokenizer qwen2");
    assert!(ran.code == Some(0) && ran.stderr.contains("changes nothing"), "{}", ran.stderr);
}

/// Windows' editors write a byte order mark at the beginning of a file.
#[test]
fn a_byte_order_mark_is_no_part_of_a_text() {
    let home = Home::new();
    let plain = home.pipe("tokenize -m MODEL --ids", "Hello").quiet();
    assert_eq!(home.pipe("tokenize -m MODEL --ids", "\u{feff}Hello").quiet(), plain);
}
