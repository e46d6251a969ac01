//! Real trained models, where they are at hand.

use std::path::Path;
use std::sync::Arc;

use engine::{Engine, Model, Options, Request, Sampling};

use crate::common::{cpu, reference, run, serve};

/// What llama.cpp says of stories260K after BOS at temperature 0.
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
            let request = Request::new(prompt).sampling(Sampling::greedy()).max_tokens(200);
            let answer = run(&mut engine, [request]).remove(0);
            assert_eq!(answer.text, STORY, "{name}, {}", path.display());
        }
    }
}

/// `llama.cpp`'s answers for TinyLlama-1.1B-Chat-v1.0, Q8_0, for whoever has the file.
#[test]
fn tinyllama_answers_as_llama_cpp() {
    let Some(path) = std::env::var_os("RUSTORCH_TINYLLAMA_GGUF") else {
        return eprintln!("skipped: RUSTORCH_TINYLLAMA_GGUF names no file");
    };
    let model = Arc::new(Model::open(Path::new(&path)).unwrap());
    let mut engine = serve(&model, 0, Options::default());
    let by_hand = [1, 529, 29989, 1792, 29989, 29958, 13, 29896, 29966, 29989, 465, 22137, 29989, 29958];
    let hello = [1, 15043];
    for (prompt, expected) in
        [(&by_hand[..], &[13, 8241, 29892][..]), (&hello, &[29892, 2787, 29991, 13, 13])]
    {
        let request = Request::new(prompt.to_vec()).sampling(Sampling::greedy()).max_tokens(expected.len());
        assert_eq!(run(&mut engine, [request])[0].tokens, expected);
    }
}
