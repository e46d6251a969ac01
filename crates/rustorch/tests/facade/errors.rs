//! Errors say what to do, in terms of this crate.

use rustorch::devices::NoGpu;
use rustorch::engine::{self, Refusal};
use rustorch::{BackendName, Error, Model, Split, SplitMode};

use crate::{demo, options};

/// The text of an error, which names no flag of the program.
#[track_caller]
fn said(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains(" -") && !text.contains("--"), "{text}");
    text
}

#[test]
fn a_missing_file_is_named() {
    let error = Model::open("no/such/model.gguf").expect_err("no file");
    assert!(said(&error).contains("no/such/model.gguf"), "{error}");
}

#[test]
fn a_prompt_that_is_too_long_is_the_only_item() {
    let model = options().n_ctx(32).demo().expect("the demo model");
    assert_eq!(model.n_ctx(), Some(32));
    for prompt in ["word ".repeat(40), "word ".repeat(100_000)] {
        let mut tokens = model.generate(&prompt).into_iter();
        let error = tokens.next().expect("an item").expect_err("too long");
        assert!(said(&error).contains("increase the context (`n_ctx`)"), "{error}");
        assert!(tokens.next().is_none() && tokens.end().is_none());
    }
    let mut chat = model.chat();
    let error = chat.say("word ".repeat(40)).text().expect_err("too long");
    assert!(said(&error).contains("`n_ctx`"), "{error}");
    assert!(chat.messages().is_empty());
    assert!(chat.say("Hi").next().expect("a piece").is_ok(), "the chat goes on");
    let error = model.generate(Vec::new()).text().expect_err("no tokens");
    let Error::Engine { error } = error else { panic!("{error}") };
    assert!(matches!(*error, engine::Error::Prompt(Refusal::Empty)));
}

/// One bad prompt of a batch does not harm the others.
#[test]
fn errors_belong_to_their_text() {
    let model = options().n_ctx(32).demo().expect("the demo model");
    let long = "word ".repeat(40);
    let found = model.batch(["One", &long, "Two"]).max_tokens(3).into_iter();
    let found: Vec<bool> = found.map(|text| text.collect::<rustorch::Result<String>>().is_ok()).collect();
    assert_eq!(found, [true, false, true]);
    assert!(model.batch(["One", &long]).texts().is_err());
}

#[test]
fn bad_options_and_parameters_are_errors() {
    let error = options().n_ctx(1).demo().expect_err("no room");
    assert!(said(&error).contains("option `n_ctx` is 1"), "{error}");
    let error = options().memory(1000).demo().expect_err("no memory");
    assert!(said(&error).contains("limit of 1000 bytes"), "{error}");
    let error = demo().generate("One").top_p(2.0).text().expect_err("no probability");
    assert!(said(&error).contains("`top_p` is 2"), "{error}");
    let error = demo().generate("One").stop("").text().expect_err("an empty string");
    assert!(said(&error).contains("stop string"), "{error}");
    let split = "3,1".parse::<Split>().expect("proportions");
    let error = options().tensor_split(split).demo().expect_err("no GPU");
    assert!(
        said(&error).contains("no GPU; `Options::tensor_split` takes at most one for each GPU"),
        "{error}"
    );
    let error = options().split_mode(SplitMode::Tensor).demo().expect_err("no GPU");
    assert!(
        said(&error).contains("two GPUs or more") && said(&error).contains("SplitMode::Layer"),
        "{error}"
    );
    let error = options().backend(BackendName::Named("abacus")).demo().expect_err("no backend");
    assert!(matches!(error, Error::Gpu(NoGpu::InBuild | NoGpu::Found(_))), "{error}");
    assert!("abacus".parse::<BackendName>().is_err());
    assert_eq!("CPU".parse(), Ok(BackendName::CPU));
}
