//! Texts and log-probabilities.

use rustorch::engine::{self, Engine, Event, Request};
use rustorch::{Model, Params, Result, Speculation, StopReason, Token};
use serde::Deserialize;

use crate::{demo, options};

#[derive(Deserialize)]
struct Goldens {
    answers: Vec<Golden>,
}

#[derive(Deserialize)]
struct Golden {
    prompt_ids: Vec<u32>,
    /// With the token that ends the answer.
    ids: Vec<u32>,
    text: String,
}

const PROMPTS: [&str; 8] = [
    "The capital of France is",
    "1 + 2 =",
    "Once upon a time there was",
    "A",
    "Tom has three apples. He eats one.",
    "The days of the week are",
    "Hello!",
    "The opposite of hot is",
];

/// The answers of an independent exact forward pass and of llama.cpp, one after the other and all at once.
#[test]
fn greedy_texts_are_those_of_the_exact_pass_and_of_llama_cpp() {
    let json = include_str!("../../../testkit/goldens/demo.json");
    let Goldens { answers } = serde_json::from_str(json).expect("JSON");
    assert!(answers.len() >= 30);
    let prompts = answers.iter().map(|golden| golden.prompt_ids.clone());
    let texts = demo().batch(prompts).temperature(0.0).max_tokens(100).into_iter();
    for (golden, mut text) in answers.iter().zip(texts) {
        let tokens: Vec<Token> = text.by_ref().collect::<Result<_>>().expect("a text");
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        assert_eq!((&ids, &tokens.into_iter().collect::<String>()), (&golden.ids, &golden.text));
        let end = text.end().expect("it ended");
        assert!(matches!(end.reason, StopReason::Eog(id) if Some(&id) == golden.ids.last()));
        assert_eq!(end.usage.generated_tokens, ids.len());
        let alone = demo().generate(golden.prompt_ids.clone()).temperature(0.0).max_tokens(100).text();
        assert_eq!(alone.expect("a text"), golden.text);
    }
}

#[test]
fn a_batch_of_eight_has_the_texts_of_each_alone() {
    for seed in [1, 2] {
        let alone = PROMPTS.map(|prompt| {
            demo().generate(prompt).seed(seed).temperature(1.0).max_tokens(40).text().expect("a text")
        });
        let together = demo().batch(PROMPTS).seed(seed).temperature(1.0).max_tokens(40).texts();
        assert_eq!(together.expect("texts"), alone);
        // One block of context per text, and fewer texts at once.
        let small = options().n_ctx(64).kv_tokens(96).sequences(3).demo().expect("the demo model");
        let waiting = small.batch(PROMPTS).seed(seed).temperature(1.0).max_tokens(40).texts();
        assert_eq!(waiting.expect("texts"), alone);
    }
}

/// The engine's own events of the same request.
#[test]
fn log_probabilities_are_the_engines() {
    let model = demo();
    let file = rustorch::gguf::Gguf::from_bytes(demo_model::EMBEDDED.into()).expect("a file");
    let file = engine::Model::new(file).expect("a model");
    let mut engine: Engine = options().engine(file).expect("loads");
    let prompt = engine.model().encode_prompt(PROMPTS[0], false);
    let n_vocab = engine.model().config().vocab_size;
    let params = Params { seed: Some(3), max_tokens: Some(12), logprobs: Some(n_vocab), ..Params::default() };
    engine.submit(Request { params, ..Request::new(prompt) }).expect("a request");
    let mut expected = Vec::new();
    while !engine.is_idle() {
        for event in engine.step().expect("a step") {
            if let Event::Token { token, text, logprobs: Some(logprobs), .. } = event {
                expected.push((token, text, logprobs));
            }
        }
    }
    let found = model.generate(PROMPTS[0]).seed(3).max_tokens(12).logprobs(n_vocab);
    let found: Vec<Token> = found.into_iter().collect::<Result<_>>().expect("a text");
    assert_eq!(found.len(), expected.len());
    for (found, (id, text, logprobs)) in found.iter().zip(&expected) {
        assert_eq!((found.id, &found.text, found.logprob), (*id, text, Some(logprobs.token)));
        let top: Vec<(u32, f32)> = found.top.iter().map(|other| (other.id, other.logprob)).collect();
        assert_eq!(top, logprobs.top);
        assert!(top.is_sorted_by(|a, b| a.1 >= b.1), "best first");
        let sum: f64 = top.iter().map(|(_, logprob)| f64::from(*logprob).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-4, "all probabilities sum to {sum}");
        let own = found.top.iter().find(|other| other.id == found.id).expect("all tokens");
        assert_eq!(Some(own.logprob), found.logprob);
    }
    let few = model.generate(PROMPTS[0]).seed(3).max_tokens(12).logprobs(2).into_iter();
    for (few, all) in few.zip(&found) {
        let few = few.expect("a token");
        assert_eq!((few.id, &few.top[..]), (all.id, &all.top[..2]));
    }
    let none =
        model.generate(PROMPTS[0]).max_tokens(1).into_iter().next().expect("a token").expect("a token");
    assert_eq!((none.logprob, none.top), (None, Vec::new()));
}

#[test]
fn hooks_change_what_is_sampled() {
    let model = demo();
    let greedy = || model.generate(PROMPTS[0]).temperature(0.0).max_tokens(6).logprobs(2);
    let plain: Vec<Token> = greedy().into_iter().collect::<Result<_>>().expect("a text");
    // Never the best: each token is the second of the model's own probabilities.
    let second = |_: &[u32], logits: &mut [f32]| {
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("logits");
        logits[best] = f32::NEG_INFINITY;
    };
    for token in greedy().sampler(second) {
        let token = token.expect("a token");
        assert_eq!(token.id, token.top[1].id);
    }
    // The first token of the plain text, forbidden.
    let forbidden = plain[0].id;
    let forbid = move |_: &[u32], logits: &mut [f32]| logits[forbidden as usize] = f32::NEG_INFINITY;
    let tokens: Vec<Token> = greedy().sampler(forbid).into_iter().collect::<Result<_>>().expect("a text");
    assert!(tokens.iter().all(|token| token.id != forbidden));
    assert_eq!(tokens[0].id, plain[0].top[1].id);
    // A hook with state sees the prompt and what followed it; every text of a batch has its own copy.
    let prompt = model.file().encode_prompt(PROMPTS[0], false);
    let mut calls = 0;
    let count = move |tokens: &[u32], _: &mut [f32]| {
        assert_eq!(tokens.len(), prompt.len() + calls);
        assert_eq!(tokens[..prompt.len()], prompt);
        calls += 1;
    };
    let texts = model.batch([PROMPTS[0]; 3]).temperature(0.0).max_tokens(6).sampler(count).texts();
    let plain: String = plain.into_iter().collect();
    assert_eq!(texts.expect("texts"), [plain.clone(), plain.clone(), plain]);
}

#[test]
fn stop_strings_and_limits_end_texts() {
    let generate = || demo().generate("The capital of France is").temperature(0.0);
    let mut tokens = generate().stop("ris").max_tokens(20).into_iter();
    assert_eq!(tokens.by_ref().collect::<Result<String>>().expect("a text"), " Pa");
    assert_eq!(tokens.end().expect("an end").reason, StopReason::StopString("ris".into()));
    assert!(tokens.next().is_none());
    let mut tokens = generate().max_tokens(2).into_iter();
    assert_eq!(tokens.by_ref().collect::<Result<Vec<Token>>>().expect("a text").len(), 2);
    assert_eq!(tokens.end().expect("an end").reason, StopReason::MaxTokens);
    assert_eq!(generate().max_tokens(0).text().expect("a text"), "");
}

/// With drafts from the texts themselves, and with those of a draft model, here the model itself.
#[test]
fn drafts_change_no_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("demo.gguf");
    std::fs::write(&file, demo_model::EMBEDDED).expect("a file");
    let texts = |model: &Model| model.batch(PROMPTS).seed(5).temperature(0.5).max_tokens(30).texts();
    let expected = texts(&demo()).expect("texts");
    let looked_up = options().speculation(Speculation::default());
    for options in [looked_up, options().sequences(2).draft_model(&file)] {
        assert_eq!(texts(&options.demo().expect("the demo model")).expect("texts"), expected);
    }
}
