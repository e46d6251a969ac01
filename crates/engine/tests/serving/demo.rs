//! The demo model's answers to chats in phrasings that it was not trained on: those of an independent exact
//! forward pass and of llama.cpp (`tools/oracle/demo.py`), where every token is well ahead of the next.

use std::path::Path;
use std::sync::Arc;

use engine::{Engine, Model, Options, Params, Request, StopReason};
use serde::Deserialize;

use crate::common::{cpu, eight, reference, run, serve};

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

fn goldens() -> Vec<Golden> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/goldens/demo.json");
    let goldens: Goldens = serde_json::from_slice(&std::fs::read(path).expect("committed")).expect("JSON");
    assert!(goldens.answers.len() >= 30);
    goldens.answers
}

fn demo(file: &'static [u8]) -> Arc<Model> {
    let file = gguf::Gguf::from_bytes(bytes::Bytes::from_static(file)).expect("a good file");
    Arc::new(Model::new(file).expect("a good model"))
}

/// Embedded model and master, alone and eight in a batch, fast and exact.
#[test]
fn answers_are_those_of_the_exact_pass_and_of_llama_cpp() {
    let goldens = goldens();
    let (embedded, master) = (demo(demo_model::EMBEDDED), demo(demo_model::MASTER_F16));
    let exact = Engine::new(embedded.clone(), reference(), Options::default()).unwrap();
    let alone = Engine::new(embedded.clone(), cpu(1), Options::default()).unwrap();
    let engines = [
        ("reference", exact),
        ("alone", alone),
        ("eight", serve(&embedded, 2, eight())),
        ("f16", serve(&master, 2, eight())),
    ];
    for (name, mut engine) in engines {
        let requests = goldens
            .iter()
            .map(|golden| Request::new(golden.prompt_ids.clone()).params(Params::greedy()).max_tokens(100));
        for (golden, answer) in goldens.iter().zip(run(&mut engine, requests)) {
            let &eos = golden.ids.last().unwrap();
            let expected = (&golden.ids, &golden.text, StopReason::Eog(eos));
            assert_eq!((&answer.tokens, &answer.text, answer.reason), expected, "{name}");
        }
    }
}
