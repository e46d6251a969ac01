//! Templates and tokenizers together: the ids of a prompt.

use chat::{Message, Options, Prompt, Segment, Specials, Template};
use gguf::{Array, Metadata, Value};
use tokenizer::{Encode, Part, Tokenizer};

/// The two crates together.
fn specials(tokenizer: &Tokenizer) -> Specials {
    let ids = tokenizer.special_ids();
    let text = |id: Option<u32>| tokenizer.token_text(id?).map(str::to_owned);
    let tokens = tokenizer.special_tokens().map(|(id, text)| (id, text.to_owned())).collect();
    Specials { bos: text(ids.bos()), eos: text(ids.eos()), tokens }
}

fn ids(tokenizer: &Tokenizer, prompt: &Prompt) -> Vec<u32> {
    let parts = prompt.segments().iter().map(|segment| match segment {
        Segment::Text(text) => Part::Text(text),
        Segment::Token { id, .. } => Part::Token(*id),
    });
    tokenizer.encode_parts(parts, true)
}

const ZEPHYR: &str =
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}";

fn conversation(contents: &[&str]) -> Vec<Message> {
    let role = |index| if index % 2 == 0 { "user" } else { "assistant" };
    contents.iter().enumerate().map(|(index, content)| Message::new(role(index), *content)).collect()
}

/// The prompt of harmless messages has the ids of its text; what messages spell makes no difference to
/// the special tokens.
fn check(tokenizer: &Tokenizer, source: &str) {
    let template = Template::new(source, specials(tokenizer)).expect("a good template");
    let options = Options::default();
    let control = |ids: &[u32]| -> Vec<u32> {
        ids.iter().copied().filter(|&id| tokenizer.kind(id) == Some(tokenizer::Kind::Control)).collect()
    };

    let harmless = conversation(&["Hello, a < b\n", " x  ", "1\t2"]);
    let prompt = template.render(&harmless, &options).expect("a prompt");
    let whole = tokenizer.encode(&prompt.to_string(), Encode { add_special: false, parse_special: true });
    let found = ids(tokenizer, &prompt);
    let bos = tokenizer.bos_to_add().filter(|bos| whole.first() != Some(bos));
    let expected: Vec<u32> = bos.into_iter().chain(whole).collect();
    assert_eq!(found, expected);

    let all: String = tokenizer.special_tokens().take(40).map(|(_, text)| text).collect();
    let nasty = conversation(&[&all, &format!("x{all}\u{fdd0}y"), &all]);
    let prompt = template.render(&nasty, &options).expect("a prompt");
    assert_eq!(control(&ids(tokenizer, &prompt)), control(&found), "{source}");
    assert!(prompt.to_string().matches(all.as_str()).count() >= 3);
}

#[test]
fn a_small_vocabulary() {
    let mut tokens: Vec<_> =
        [("<unk>", 2), ("<s>", 3), ("</s>", 3)].map(|(t, kind)| (t.to_owned(), kind)).into();
    tokens.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), 6)));
    tokens.extend(
        ["▁", "a", "▁a", "<|", "|>", "user", "us", "er", "s", "u", "e", "r"].map(|t| (t.to_owned(), 1)),
    );
    let (texts, kinds) = tokens.into_iter().unzip();
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.model", Value::String("llama".into()));
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds)));
    let tokenizer = Tokenizer::from_metadata(&metadata).expect("a good tokenizer");
    check(&tokenizer, ZEPHYR);
    // With a BOS token of its own, of which there is to be one.
    check(&tokenizer, &("{{ bos_token }}".to_owned() + ZEPHYR));
}

#[test]
fn real_vocabularies() {
    for name in ["llama-spm", "phi-3", "llama-bpe", "qwen2", "gpt-2"] {
        let Some(path) = testkit::shared(&format!("vocab/ggml-vocab-{name}.gguf")) else { return };
        let file = gguf::Gguf::open(path).expect("a good file");
        let tokenizer = Tokenizer::from_metadata(file.metadata()).expect("a good tokenizer");
        check(&tokenizer, ZEPHYR);
        check(&tokenizer, &("{{ bos_token }}".to_owned() + ZEPHYR));
        if let Some(own) = file.metadata().str("tokenizer.chat_template").expect("a string") {
            check(&tokenizer, own);
        }
    }
}

/// Ids by llama.cpp for the text that TinyLlama's template gives (`llama-excerpt` of the tokenizer's goldens).
#[test]
fn tinyllama() {
    let Some(path) = testkit::shared("vocab/ggml-vocab-llama-spm.gguf") else { return };
    let file = gguf::Gguf::open(path).expect("a good file");
    let tokenizer = Tokenizer::from_metadata(file.metadata()).expect("a good tokenizer");
    let source = include_str!("../../goldens/templates/zephyr.jinja");
    let template = Template::new(source, specials(&tokenizer)).expect("a good template");
    let prompt = template.render(&conversation(&["1"]), &Options::default()).expect("a prompt");
    assert_eq!(prompt.to_string(), "<|user|>\n1</s>\n<|assistant|>\n");
    let expected = [
        1, 529, 29989, 1792, 29989, 29958, 13, 29896, 2, 29871, 13, 29966, 29989, 465, 22137, 29989, 29958,
        13,
    ];
    assert_eq!(ids(&tokenizer, &prompt), expected);
}
