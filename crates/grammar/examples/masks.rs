//! How long masks take: compiles a JSON schema for the vocabulary of a GGUF file, draws texts under it, and times each mask.
//!
//!     cargo run --release -p rustorch-grammar --example masks -- MODEL.gguf [SCHEMA.json]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Processor;
use gguf::Gguf;
use grammar::{Compiler, Source, Vocabulary};
use tokenizer::Tokenizer;

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "mail": {"type": "string", "format": "email"},
        "kind": {"enum": ["person", "place", "thing"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        "at": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]}
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": false
}"#;

const TEXTS: usize = 50;
const MOST_TOKENS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = Gguf::open(arguments.next().ok_or("name a GGUF file")?)?;
    let schema = arguments.next().map_or(Ok(SCHEMA.to_owned()), std::fs::read_to_string)?;

    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let began = Instant::now();
    let vocabulary = Arc::new(Vocabulary::new(&tokenizer)?);
    println!("{} tokens: {:.1?}", tokenizer.vocab_size(), began.elapsed());
    let began = Instant::now();
    let grammar = Compiler::new(vocabulary).compile(&Source::JsonSchema(schema))?;
    println!("compiled: {:.1?}", began.elapsed());

    let (mut masks, mut starts, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    let (mut number, mut logits) = (1_u64, vec![0.0; tokenizer.vocab_size()]);
    for text in 0..TEXTS {
        let began = Instant::now();
        let mut constraint = grammar.constraint();
        starts.push(began.elapsed());
        let mut tokens = vec![0];
        for _ in 0..MOST_TOKENS {
            logits.fill(0.0);
            let began = Instant::now();
            constraint.apply(&tokens, &mut logits);
            // Half of the texts tell the constraint its token, and give it a moment, as a step of a model does.
            if text % 2 == 0 { &mut masks } else { &mut waits }.push(began.elapsed());
            let allowed: Vec<u32> =
                (0..).zip(&logits).filter(|(_, logit)| **logit == 0.0).map(|(id, _)| id).collect();
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let id = allowed[(number >> 33) as usize % allowed.len()];
            if tokenizer.ends_generation(id) {
                break;
            }
            tokens.push(id);
            if text % 2 == 1 {
                constraint.chosen(id);
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    show("first copy", starts);
    show("mask", masks);
    show("mask that was computed ahead", waits);
    Ok(())
}

fn show(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{name}: p50 {:.1?}, p90 {:.1?}, p99 {:.1?}, of {}", at(50), at(90), at(99), times.len());
}
