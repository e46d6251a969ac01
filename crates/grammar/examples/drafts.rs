//! Texts that JSON schemas let a model write, drawn at random, and how long this takes: for `tools/checks/schema_bench.py`.
//!
//!     cargo run --release -p rustorch-grammar --example drafts -- MODEL.gguf TEXTS < schemas.jsonl
//!
//! Each line of stdin is a schema; each of stdout `{"refused": why}`, or the time of compilation, the times of masks in
//! microseconds, the texts that came to an end, and how many did not.

use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Processor;
use gguf::Gguf;
use grammar::{Compiler, Grammar, Source, Vocabulary};
use serde_json::json;
use tokenizer::Tokenizer;

/// Tokens that are drawn freely; then those that come to an end are preferred.
const FREE: usize = 60;
const MOST: usize = 1500;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = Gguf::open(arguments.next().ok_or("name a GGUF file")?)?;
    let texts: u64 = arguments.next().ok_or("say how many texts")?.parse()?;
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let compiler = Compiler::new(Arc::new(Vocabulary::new(&tokenizer)?));
    for line in std::io::stdin().lock().lines() {
        let began = Instant::now();
        let said = match compiler.compile(&Source::JsonSchema(line?)) {
            Err(error) => json!({ "refused": error.to_string(), "compile": micros(began.elapsed()) }),
            Ok(grammar) => {
                let compile = micros(began.elapsed());
                let mut masks = Vec::new();
                let drawn = (1..=texts).map(|seed| draw(&grammar, &tokenizer, seed, &mut masks));
                let drawn: Vec<Result<String, String>> = drawn.collect();
                let ended: Vec<&String> = drawn.iter().flatten().collect();
                let failed: Vec<&String> = drawn.iter().filter_map(|text| text.as_ref().err()).collect();
                json!({ "compile": compile, "masks": masks, "texts": ended, "failed": failed })
            }
        };
        println!("{said}");
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A text, or why it has no end.
fn draw(grammar: &Grammar, tokenizer: &Tokenizer, seed: u64, masks: &mut Vec<f64>) -> Result<String, String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut constraint = grammar.constraint();
    let mut tokens = vec![0];
    let mut text = Vec::new();
    let mut logits = vec![0.0; tokenizer.vocab_size()];
    // Some texts are short from the beginning.
    let free = if seed.is_multiple_of(3) { 0 } else { FREE };
    for number in 0..MOST {
        logits.fill(0.0);
        let began = Instant::now();
        constraint.apply(&tokens, &mut logits);
        masks.push(micros(began.elapsed()));
        let allowed: Vec<u32> =
            (0..).zip(&logits).filter(|(_, logit)| **logit == 0.0).map(|(id, _)| id).collect();
        if allowed.is_empty() {
            return Err(constraint.failure().unwrap_or_else(|| "no token is allowed".to_owned()));
        }
        let end = allowed.iter().copied().find(|id| tokenizer.ends_generation(*id));
        let id = match end {
            Some(id) => id,
            None if number < free => allowed[random.below(allowed.len())],
            None => closing(&allowed, tokenizer, &mut random),
        };
        if tokenizer.ends_generation(id) {
            return String::from_utf8(text).map_err(|error| error.to_string());
        }
        text.extend_from_slice(tokenizer.token_bytes(id).unwrap_or_default());
        tokens.push(id);
    }
    let end = text.len().saturating_sub(80);
    Err(format!("no end is in sight: …{}", String::from_utf8_lossy(&text[end..])))
}

/// A token that brings the end nearer: one that closes something, else a short one.
fn closing(allowed: &[u32], tokenizer: &Tokenizer, random: &mut Random) -> u32 {
    let bytes = |id: u32| tokenizer.token_bytes(id).unwrap_or_default();
    let closers = [&b"}"[..], b"]", b"\""];
    let closes: Vec<u32> = allowed.iter().copied().filter(|id| closers.contains(&bytes(*id))).collect();
    if !closes.is_empty() {
        return closes[random.below(closes.len())];
    }
    let short: Vec<u32> =
        allowed.iter().copied().filter(|id| bytes(*id).len() == 1 && bytes(*id) != b" ").collect();
    let choice = if short.is_empty() { allowed } else { &short };
    choice[random.below(choice.len())]
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}
