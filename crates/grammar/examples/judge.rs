//! Which texts a JSON schema lets a model write: for `tools/checks/schemas.py`.
//!
//!     cargo run -p rustorch-grammar --example judge -- MODEL.gguf < cases.jsonl
//!
//! Each line of stdin is `[schema, [text, …]]`; each of stdout the reason why the schema is refused, or a list of `true` for
//! texts that can be written and `false`.

use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;

use engine::Processor;
use gguf::Gguf;
use grammar::{Compiler, Grammar, Source, Vocabulary};
use serde_json::{Value, json};
use tokenizer::Tokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let file = Gguf::open(std::env::args().nth(1).ok_or("name a GGUF file")?)?;
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let vocabulary = Arc::new(Vocabulary::new(&tokenizer)?);
    let compiler = Compiler::new(vocabulary.clone());
    for line in std::io::stdin().lock().lines() {
        let (schema, texts): (Value, Vec<String>) = serde_json::from_str(&line?)?;
        let said = match compiler.compile(&Source::JsonSchema(schema.to_string())) {
            Err(error) => json!(error.to_string()),
            Ok(grammar) => {
                let can = texts.iter().map(|text| can_write(&grammar, &vocabulary, &tokenizer, text));
                Value::from_iter(can)
            }
        };
        println!("{said}");
    }
    Ok(())
}

fn can_write(grammar: &Grammar, vocabulary: &Vocabulary, tokenizer: &Tokenizer, text: &str) -> bool {
    let Some(ids) = vocabulary.tokenize(text.as_bytes()) else { return false };
    let mut constraint = grammar.constraint();
    let mut tokens = vec![0];
    let mut may_follow = |tokens: &[u32], is_next: &dyn Fn(u32) -> bool| {
        let mut logits = vec![0.0; tokenizer.vocab_size()];
        constraint.apply(tokens, &mut logits);
        (0..).zip(logits).any(|(id, logit)| logit == 0.0 && is_next(id))
    };
    for next in ids {
        if !may_follow(&tokens, &|id| id == next) {
            return false;
        }
        tokens.push(next);
    }
    may_follow(&tokens, &|id| tokenizer.ends_generation(id))
}
