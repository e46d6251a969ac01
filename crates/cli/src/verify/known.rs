//! Models whose answers are known: llama.cpp's at temperature 0, or what a model was trained to say.
//!
//! TinyLlama's were reported of llama.cpp's files of TinyLlama-1.1B-Chat-v1.0 in Q8_0 and Q6_K, and have not
//! been measured again since: the weights are not in this project. Who has them gets each answer with
//! llama.cpp by `tools/oracle/known.py`:
//!
//! | answer | `python tools/oracle/known.py MODEL.gguf …` |
//! |---|---|
//! | [`Answer::Tokens`] | `--tokens 1,15043 -n 5` |
//! | [`Answer::Logits`] | `--tokens 1,529,… --logits 13,0` |
//! | [`Answer::Text`] | `--text Hello -n 12` |
//! | [`Answer::Chat`] | `--chat "What is the capital of France?" -n 40` |
//! | [`Answer::Row`] | `--row 29896` |

use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{bail, ensure};
use backend::Backend;
use bytes::Bytes;
use engine::{Chat, Engine, Event, LogitRows, Model, Options, Request, Sampling};
use gguf::Gguf;
use quant::Format;

use super::report::Wrong;
use crate::output::counted;

/// Tokens of an answer in chat, at most.
const ANSWER: usize = 40;

/// Tokens of a text that goes on, at most.
const TEXT: usize = 12;

/// How far llama.cpp's logits are given: its own rounding of activations allows for no more digits.
const LOGIT: f32 = 0.2;

/// A model that was recognised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Known {
    /// The model in the program.
    Demo,
    /// TinyLlama-1.1B-Chat-v1.0, in what most of its matrices are stored in.
    TinyLlama(Format),
}

/// Something a model says.
enum Answer {
    /// The tokens that follow these.
    Tokens(&'static [u32], &'static [u32]),
    /// The logits of some tokens after these.
    Logits(&'static [u32], &'static [(usize, f32)]),
    /// How a text goes on.
    Text(&'static str, &'static str),
    /// What the answer to a question contains.
    Chat(&'static str, &'static str),
    /// How the row of a token begins in the embedding, and the root of its mean square.
    Row(usize, &'static [f32], f64),
}

const DEMO: &[Answer] = &[
    Answer::Chat("What is the capital of France?", "Paris"),
    Answer::Chat("What is the capital of Italy?", "Rome"),
    Answer::Chat("What is the capital of Japan?", "Tokyo"),
];

const TINY_LLAMA: &[Answer] = &[Answer::Chat("What is the capital of France?", "Paris")];

const BY_HAND: &[u32] =
    &[1, 529, 29989, 1792, 29989, 29958, 13, 29896, 29966, 29989, 465, 22137, 29989, 29958];

const TINY_LLAMA_Q8_0: &[Answer] = &[
    Answer::Row(29896, &[-0.005837917, -0.003361225, 0.000353813, 0.022467136, -0.004953384], 0.008698901),
    Answer::Row(1, &[-0.001099586, 0.001935959, -0.001671791], 0.002229564),
    Answer::Logits(BY_HAND, &[(13, 19.808), (0, -7.701)]),
    Answer::Tokens(BY_HAND, &[13, 8241, 29892]),
    Answer::Tokens(&[1, 15043], &[29892, 2787, 29991, 13, 13]),
];

const TINY_LLAMA_Q6_K: &[Answer] =
    &[Answer::Text("Hello", " world\n\nAnd then"), Answer::Text("Hello world\n", "Hello everyone,")];

/// The model that `model`'s metadata names, if it is that model, or why no answers are known of it.
pub(super) fn recognise(model: &Model) -> Result<Known, String> {
    let name = model.file().metadata().str("general.name").ok().flatten().unwrap_or_default();
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let config = model.config();
    let shape = (config.block_count, config.embedding_length, config.vocab_size);
    if letters == "rustorchdemo" {
        return match unlike_demo(model.file()) {
            None => Ok(Known::Demo),
            Some(tensor) => Err(format!(
                "it has the name of the model in this program, but `{tensor}` is another: what a model that \
                 was trained again should say is not known"
            )),
        };
    }
    match model.file().tensor("blk.0.attn_q.weight") {
        Some(query) if letters.contains("tinyllama11bchatv10") && shape == (22, 2048, 32000) => {
            Ok(Known::TinyLlama(query.format))
        }
        _ => Err("none are known of this model".to_owned()),
    }
}

/// The first tensor that is not what it is in the demo model. Matrices may be in any format, so of those
/// only the shape counts; vectors are the same bits in every file of one training.
fn unlike_demo(file: &Gguf) -> Option<String> {
    let demo = Gguf::from_bytes(Bytes::from_static(demo_model::EMBEDDED)).expect("it is tested");
    let unlike = demo.tensors().find(|own| {
        !file.tensor(&own.name).is_some_and(|found| {
            let is_vector = own.format == Format::F32;
            found.shape == own.shape && (!is_vector || found.format == own.format && found.data == own.data)
        })
    });
    unlike.map(|tensor| tensor.name.clone())
}

impl Known {
    /// That the model still says what it said.
    pub(super) fn hold(self, model: &Arc<Model>, backend: Box<dyn Backend>) -> anyhow::Result<String> {
        let (name, always, of_format) = match self {
            Known::Demo => ("the demo model", DEMO, &[][..]),
            Known::TinyLlama(Format::Q8_0) => ("TinyLlama in Q8_0", TINY_LLAMA, TINY_LLAMA_Q8_0),
            Known::TinyLlama(Format::Q6_K) => ("TinyLlama in Q6_K", TINY_LLAMA, TINY_LLAMA_Q6_K),
            Known::TinyLlama(_) => ("TinyLlama", TINY_LLAMA, &[][..]),
        };
        let options = Options { n_ctx: Some(256.min(model.n_ctx_train().max(2))), ..Options::default() };
        let mut engine = Engine::new(model.clone(), backend, options)?;
        for answer in of_format.iter().chain(always) {
            answer.check(&mut engine).map_err(|error| Wrong {
                what: format!("{error:#}; docs/debugging.md says how to find the cause"),
                more: answer.command(),
            })?;
        }
        Ok(format!("{name} gives {} as it should", counted(always.len() + of_format.len(), "answer")))
    }
}

impl Answer {
    /// The command that shows what was found.
    fn command(&self) -> String {
        let joined = |tokens: &[u32]| tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        match self {
            Answer::Tokens(prompt, expected) => {
                format!("run --tokens {} -n {} --temp 0 --json", joined(prompt), expected.len())
            }
            Answer::Logits(prompt, _) => format!("logits --tokens {}", joined(prompt)),
            Answer::Text(prompt, _) => {
                format!("run --raw -e -p '{}' -n {TEXT} --temp 0", prompt.escape_default())
            }
            Answer::Chat(question, _) => format!("run -p '{question}' -n {ANSWER} --temp 0"),
            Answer::Row(token, ..) => format!("trace --tokens {token} --filter '^embd$'"),
        }
    }

    fn check(&self, engine: &mut Engine) -> anyhow::Result<()> {
        match *self {
            Answer::Tokens(prompt, expected) => {
                let (found, _) = greedy(engine, prompt.to_vec(), expected.len())?;
                ensure!(
                    found == expected,
                    "after the tokens {prompt:?} come {found:?}, expected {expected:?}"
                );
            }
            Answer::Logits(prompt, expected) => {
                let mut last = Vec::new();
                engine.logits(prompt, LogitRows::Last, |_, row| {
                    last = row.to_vec();
                    ControlFlow::Continue(())
                })?;
                for &(token, expected) in expected {
                    let found = last.get(token).copied().unwrap_or(f32::NAN);
                    ensure!(
                        (found - expected).abs() < LOGIT,
                        "after the tokens {prompt:?} the logit of {token} is {found}, expected {expected} ± {LOGIT}"
                    );
                }
            }
            Answer::Text(prompt, expected) => {
                let ids = engine.model().encode_prompt(prompt, false);
                let (_, found) = greedy(engine, ids, TEXT)?;
                ensure!(found.starts_with(expected), "{prompt:?} goes on {found:?}, expected {expected:?}");
            }
            Answer::Chat(question, expected) => {
                let found = chat(engine, question)?;
                ensure!(
                    found.contains(expected),
                    "{question:?} is answered by {found:?}, expected {expected:?} in it"
                );
            }
            Answer::Row(token, expected, rms) => {
                let table = engine.model().file().tensor("token_embd.weight");
                let Some((table, bytes)) = table.and_then(|table| Some((table, table.row(token)?))) else {
                    bail!("the embedding has no row {token}");
                };
                let mut row = vec![0.0; table.row_len()];
                table.format.dequantize(bytes, &mut row);
                let near = row.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 3e-9);
                let found =
                    (row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / row.len() as f64).sqrt();
                let begins = &row[..expected.len().min(row.len())];
                ensure!(
                    near && (found - rms).abs() < 1e-8,
                    "row {token} of the embedding begins {begins:?} with RMS {found}, expected {expected:?} and {rms}"
                );
            }
        }
        Ok(())
    }
}

/// The most probable tokens after `prompt`, and their text.
fn greedy(engine: &mut Engine, prompt: Vec<u32>, most: usize) -> anyhow::Result<(Vec<u32>, String)> {
    engine.submit(Request::new(prompt).sampling(Sampling::greedy()).max_tokens(most))?;
    let (mut tokens, mut all) = (Vec::new(), String::new());
    while !engine.is_idle() {
        for event in engine.step()? {
            match event {
                Event::Token { token, text, .. } => {
                    tokens.push(token);
                    all.push_str(&text);
                }
                Event::Failed { error, .. } => bail!(error),
                Event::Done { .. } => {}
            }
        }
    }
    Ok((tokens, all))
}

/// The answer to a question, at temperature 0.
fn chat(engine: &mut Engine, question: &str) -> anyhow::Result<String> {
    let mut chat = Chat::new(engine);
    chat.sampling = Sampling::greedy();
    chat.max_tokens = Some(ANSWER);
    chat.say(engine, question)?;
    while chat.pending().is_some() {
        for event in engine.step()? {
            chat.on_event(&event);
            if let Event::Failed { error, .. } = event {
                bail!(error);
            }
        }
    }
    Ok(chat.messages().last().map_or(String::new(), |message| message.content.clone()))
}
