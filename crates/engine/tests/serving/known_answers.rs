//! Real trained models, where they are at hand.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use engine::{Engine, LogitRows, Model, Options, Params, Request};

use gguf::Value;

use crate::common::{cpu, reference, run, serve};

/// llama.cpp's text from stories260K after BOS at temperature 0.
const STORY: &str = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. \
One day, she saw a big, red ball. She wanted to play with it, but it was too high.\n\
Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She said, \"I want to \
play with your ball, but I can't find it.\"\n\
Lily was sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to do.\"\n\
Lily didn't want to help her mom, so she";

#[test]
fn stories260k_tells_its_story() {
    let files = ["models/stories260k.gguf", "models/stories260k-v1.gguf"];
    for path in files.into_iter().filter_map(testkit::shared) {
        let model = Arc::new(Model::open(&path).unwrap());
        for (name, backend) in [("cpu", cpu(2)), ("reference", reference())] {
            let mut engine = Engine::new(model.clone(), backend, Options::default()).unwrap();
            let prompt = model.encode_prompt("", false);
            assert_eq!(prompt, [1]);
            let request = Request::new(prompt).params(Params::greedy()).max_tokens(200);
            let answer = run(&mut engine, [request]).remove(0);
            assert_eq!(answer.text, STORY, "{name}, {}", path.display());
        }
    }
}

/// What is known of TinyLlama-1.1B-Chat-v1.0 in Q8_0, for whoever has the file: shapes, embeddings,
/// llama.cpp's logits and its tokens at temperature 0.
#[test]
fn tinyllama_answers_as_llama_cpp() {
    let Some(path) = std::env::var_os("RUSTORCH_TINYLLAMA_GGUF") else {
        return eprintln!("skipped: RUSTORCH_TINYLLAMA_GGUF names no file");
    };
    let model = Arc::new(Model::open(Path::new(&path)).unwrap());
    tinyllama_shapes(&model);
    let mut engine = serve(&model, 0, Options::default());

    let by_hand = [1, 529, 29989, 1792, 29989, 29958, 13, 29896, 29966, 29989, 465, 22137, 29989, 29958];
    let mut last = Vec::new();
    let keep = |_, row: &[f32]| {
        last = row.to_vec();
        ControlFlow::Continue(())
    };
    engine.logits(&by_hand, LogitRows::Last, keep).unwrap();
    // llama.cpp's own rounding of activations allows for no more digits.
    for (token, expected) in [(13, 19.808), (0, -7.701)] {
        assert!((last[token] - expected).abs() < 0.2, "logit of {token}: {}", last[token]);
    }
    for (prompt, expected) in
        [(&by_hand[..], &[13, 8241, 29892][..]), (&[1, 15043], &[29892, 2787, 29991, 13, 13])]
    {
        let request = Request::new(prompt.to_vec()).params(Params::greedy()).max_tokens(expected.len());
        assert_eq!(run(&mut engine, [request])[0].tokens, expected);
    }
}

fn tinyllama_shapes(model: &Model) {
    let c = model.config();
    assert_eq!((c.block_count, c.embedding_length, c.vocab_size), (22, 2048, 32000));
    for (key, expected) in [
        ("feed_forward_length", Value::U32(5632)),
        ("attention.head_count", Value::U32(32)),
        ("attention.head_count_kv", Value::U32(4)),
        ("attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("rope.freq_base", Value::F32(10_000.0)),
    ] {
        let found = c.hyper_parameters.iter().find(|(name, _)| *name == key);
        assert_eq!(found.map(|(_, value)| value), Some(&expected), "{key}");
    }
    for (name, shape) in [
        ("blk.0.attn_k", [2048, 256]),
        ("blk.0.ffn_gate", [2048, 5632]),
        ("blk.0.ffn_down", [5632, 2048]),
        ("token_embd", [2048, 32000]),
        ("output", [2048, 32000]),
    ] {
        let tensor = model.file().tensor(&format!("{name}.weight"));
        assert_eq!(tensor.expect(name).shape, shape, "{name}");
    }
    let table = model.file().tensor("token_embd.weight").expect("it has just been seen");
    let first_of_29896 = [-0.005837917, -0.003361225, 0.000353813, 0.022467136, -0.004953384];
    let first_of_1 = [-0.001099586, 0.001935959, -0.001671791];
    for (token, first, rms) in [(29896, &first_of_29896[..], 0.008698901), (1, &first_of_1, 0.002229564)] {
        let mut row = vec![0.0f32; 2048];
        table.format.dequantize(table.row(token).expect("there are 32000"), &mut row);
        for (found, expected) in row.iter().zip(first) {
            assert!((found - expected).abs() < 3e-9, "row {token}: {found}, expected {expected}");
        }
        let found = (row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 2048.0).sqrt();
        assert!((found - rms).abs() < 1e-8, "row {token}: RMS {found}");
    }
}
