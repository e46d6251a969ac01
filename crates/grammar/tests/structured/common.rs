//! Vocabularies, and texts that walk through a constraint.

use std::path::PathBuf;
use std::sync::Arc;

use engine::Processor;
use gguf::{Array, Metadata, Value};
use grammar::{Compiler, Constraint, Grammar, Source, Vocabulary};
use serde_json::Value as Json;
use tokenizer::Tokenizer;

/// A vocabulary of SentencePiece, byte-level BPE, WordPiece, BPE of characters and unigram each.
pub(crate) const KINDS: [&str; 5] =
    ["made-spm", "made-bpe-gpt-2", "made-tiny-bert", "made-tiny-gemma4", "made-tiny-t5"];

/// The tokenizer of a golden file of the crate `tokenizer`.
pub(crate) fn tokenizer(name: &str) -> Tokenizer {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../tokenizer/goldens", name].iter().collect();
    let text = std::fs::read_to_string(path.with_extension("json")).expect("committed goldens");
    let golden: Json = serde_json::from_str(&text).expect("JSON");
    let mut metadata = Metadata::default();
    for (key, value) in golden["metadata"].as_object().expect("keys") {
        metadata.insert(key.clone(), value_of(key, value));
    }
    if name.contains("bert") {
        // BERT generates nothing: let [SEP] end a text.
        metadata.insert("tokenizer.ggml.eos_token_id", Value::U32(3));
    }
    Tokenizer::from_metadata(&metadata).expect("a good tokenizer")
}

fn value_of(key: &str, value: &Json) -> Value {
    let integer = |value: &Json| value.as_i64().expect("an integer");
    match value {
        Json::Bool(v) => Value::Bool(*v),
        Json::String(v) => Value::String(v.clone()),
        Json::Array(values) => Value::Array(match values.first().expect("not empty") {
            Json::String(_) => {
                Array::String(values.iter().map(|v| v.as_str().expect("a text").into()).collect())
            }
            _ if key.ends_with("charsmap") => Array::U8(values.iter().map(|v| integer(v) as u8).collect()),
            Json::Number(v) if v.is_f64() => {
                Array::F32(values.iter().map(|v| v.as_f64().expect("a number") as f32).collect())
            }
            _ => Array::I32(values.iter().map(|v| integer(v) as i32).collect()),
        }),
        other => Value::U32(integer(other) as u32),
    }
}

/// Where a text leaves its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    /// Tokens before this byte are allowed.
    LeavesAt(usize),
    /// All tokens are allowed, but the text must not end.
    Incomplete,
}

/// A request whose tokens are given.
pub(crate) struct Walk {
    constraint: Constraint,
    tokenizer: Arc<Tokenizer>,
    pub(crate) tokens: Vec<u32>,
    logits: Vec<f32>,
}

impl Walk {
    pub(crate) fn new(grammar: &Grammar, tokenizer: &Arc<Tokenizer>) -> Walk {
        Walk::of(grammar.constraint(), vec![1, 2], tokenizer)
    }

    /// An answer to `prompt`.
    pub(crate) fn of(constraint: Constraint, prompt: Vec<u32>, tokenizer: &Arc<Tokenizer>) -> Walk {
        Walk { constraint, tokenizer: tokenizer.clone(), tokens: prompt, logits: Vec::new() }
    }

    /// The tokens that may follow.
    pub(crate) fn allowed(&mut self) -> Vec<u32> {
        self.logits = vec![0.0; self.tokenizer.vocab_size() + 3];
        self.constraint.apply(&self.tokens, &mut self.logits);
        let ids = (0..).zip(&self.logits);
        ids.filter(|(_, logit)| **logit == 0.0).map(|(id, _)| id).collect()
    }

    pub(crate) fn may_end(&mut self) -> bool {
        self.allowed().iter().any(|id| self.tokenizer.ends_generation(*id))
    }

    /// Appends a token. With `tell`, the constraint learns of it before the next mask.
    pub(crate) fn push(&mut self, token: u32, tell: bool) {
        self.tokens.push(token);
        if tell {
            self.constraint.chosen(token);
        }
    }

    /// Appends `text` in the longest tokens.
    pub(crate) fn push_text(&mut self, vocabulary: &Vocabulary, text: &str) {
        for id in vocabulary.tokenize(text.as_bytes()).expect("tokens") {
            self.allowed();
            self.push(id, true);
        }
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.constraint.failure()
    }

    pub(crate) fn copy(&self) -> Box<dyn Processor> {
        self.constraint.boxed_clone()
    }

    /// Walks through `text` in the longest tokens.
    pub(crate) fn read(&mut self, vocabulary: &Vocabulary, text: &str) -> Verdict {
        let ids =
            vocabulary.tokenize(text.as_bytes()).unwrap_or_else(|| panic!("{text}: a byte has no token"));
        let mut at = 0;
        for (number, id) in ids.into_iter().enumerate() {
            if !self.allowed().contains(&id) {
                return Verdict::LeavesAt(at);
            }
            at += self.tokenizer.token_bytes(id).expect("a token").len();
            self.push(id, number % 2 == 0);
        }
        if self.may_end() { Verdict::Accepted } else { Verdict::Incomplete }
    }
}

pub(crate) fn judge(
    grammar: &Grammar,
    vocabulary: &Vocabulary,
    tokenizer: &Arc<Tokenizer>,
    text: &str,
) -> Verdict {
    Walk::new(grammar, tokenizer).read(vocabulary, text)
}

/// A vocabulary and its compiler.
pub(crate) struct Bench {
    pub(crate) vocabulary: Arc<Vocabulary>,
    compiler: Compiler,
    pub(crate) tokenizer: Arc<Tokenizer>,
}

impl Bench {
    pub(crate) fn new(name: &str) -> Bench {
        Bench::with(tokenizer(name))
    }

    pub(crate) fn with(tokenizer: Tokenizer) -> Bench {
        let tokenizer = Arc::new(tokenizer);
        let vocabulary = Arc::new(Vocabulary::new(&tokenizer).expect("it ends texts"));
        Bench { compiler: Compiler::new(vocabulary.clone()), vocabulary, tokenizer }
    }

    pub(crate) fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    pub(crate) fn compile(&self, source: &Source) -> Result<Grammar, grammar::Error> {
        self.compiler.compile(source)
    }

    pub(crate) fn judge(&self, grammar: &Grammar, text: &str) -> Verdict {
        judge(grammar, &self.vocabulary, &self.tokenizer, text)
    }

    /// Which of the texts are accepted.
    pub(crate) fn accepted<'a>(&self, source: &Source, texts: &[&'a str]) -> Vec<&'a str> {
        let grammar = self.compile(source).unwrap_or_else(|error| panic!("{source:?}: {error}"));
        let texts = texts.iter().copied();
        texts.filter(|text| self.judge(&grammar, text) == Verdict::Accepted).collect()
    }
}
