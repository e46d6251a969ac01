//! Checks that this machine computes a model file correctly.
//!
//! No check relies on another: kernels are checked even if the file has a bad weight.

mod logits;
mod products;
mod text;

use std::error::Error;
use std::num::NonZero;

use backend::{Backend, DeviceKind};
use engine::{Model, NoTemplate};
use gguf::Gguf;
use tokenizer::Tokenizer;

type Failure = Box<dyn Error + Send + Sync>;

/// A backend to check, or one of the CPU's kernel sets.
pub struct Candidate {
    /// The name to print, such as `cpu (avx2)`.
    pub name: String,
    /// The kind of its device.
    pub kind: DeviceKind,
    /// Opens the device.
    pub open: Box<dyn Fn() -> Result<Box<dyn Backend>, backend::Error>>,
}

impl Candidate {
    fn is_gpu(&self) -> bool {
        !matches!(self.kind, DeviceKind::Cpu | DeviceKind::Reference)
    }
}

/// What a check compares or examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Aspect {
    Weights,
    Model,
    Tokenizer,
    ChatTemplate,
    /// Matrix products beside those of the scalar kernels.
    Kernels,
    /// Matrix products beside those of the reference backend.
    Products,
    /// Logits of a prompt.
    Logits,
    /// The same logits, token by token.
    TokenByToken,
    /// Logits of a long prompt at once and token by token.
    ManyRows,
    /// Logits alone and in steps shared with other sequences.
    Steps,
}

/// The result of a check.
#[derive(Debug)]
pub enum Outcome {
    /// Passed; says what was checked.
    Good(String),
    /// Failed.
    Bad(Failure),
    /// Left out; says why.
    Skipped(&'static str),
}

/// A finished check.
#[derive(Debug)]
pub struct Check<'a> {
    /// The name to print, such as `cpu (avx2): logits`.
    pub name: &'a str,
    /// What was checked.
    pub aspect: Aspect,
    /// The device kind of the candidate, if there is one.
    pub kind: Option<DeviceKind>,
    /// The tokens of [`Aspect::Logits`].
    pub tokens: &'a [u32],
    /// The result.
    pub outcome: Outcome,
}

/// The progress of [`Verifier::run`].
#[derive(Debug)]
pub enum Event<'a> {
    /// The check of this name begins.
    Begin(&'a str),
    /// So much of the check's work is done: of how much.
    Progress(u64, u64),
    /// A check is finished.
    End(Check<'a>),
}

/// Runs all checks of a file.
pub struct Verifier<'a> {
    /// What others are compared with.
    pub reference: &'a Candidate,
    /// The backends to check; of the CPU's kernel sets the scalar one comes first.
    pub candidates: &'a [Candidate],
    /// Threads that read the weights.
    pub threads: NonZero<usize>,
    /// Is called with each event.
    pub observe: &'a mut dyn FnMut(Event<'_>),
}

/// A check that has not run yet.
#[derive(Clone, Copy)]
struct Pending<'a> {
    aspect: Aspect,
    candidate: Option<&'a Candidate>,
    tokens: &'a [u32],
}

impl<'a> Verifier<'a> {
    /// Checks `file`.
    pub fn run(&mut self, file: Gguf) {
        let of_file = |aspect| Pending { aspect, candidate: None, tokens: &[] };
        let threads = self.threads;
        let are_finite =
            self.check(of_file(Aspect::Weights), |progress| weights_are_finite(&file, threads, progress));
        let is_model = self.check(of_file(Aspect::Model), |_| {
            let models::Model { config, graph } = models::Model::new(&file)?;
            let (layers, width) = (config.block_count, config.embedding_length);
            let operations = graph.values().len();
            let facts = format!("block_count {layers}, embedding_length {width}, {operations} operations");
            Ok((format!("{}: {facts}; all tensors are present", config.architecture), ()))
        });
        self.check(of_file(Aspect::Tokenizer), |_| {
            Ok((text::round_trips(&Tokenizer::from_metadata(file.metadata())?)?, ()))
        });
        let model = match Model::new(file) {
            Ok(model) if is_model.is_some() => model,
            _ => {
                let why = "they need a model and a tokenizer";
                return self.end("numbers", of_file(Aspect::Logits), Outcome::Skipped(why));
            }
        };
        let of_template = of_file(Aspect::ChatTemplate);
        if let Err(NoTemplate::Absent) = model.template() {
            self.end("chat template", of_template, Outcome::Skipped("the file has none"));
        } else {
            self.check(of_template, |_| Ok((text::template_renders(&model)?, ())));
        }
        self.check_numbers(&model, are_finite.is_some());
    }

    /// If not all weights are finite, the logits need not be either: only matrix products are checked.
    fn check_numbers(&mut self, model: &Model, are_finite: bool) {
        let (reference, candidates) = (self.reference, self.candidates);
        let tokens = &logits::tokens(model);
        let pending = |aspect, candidate| Pending { aspect, candidate: Some(candidate), tokens };
        let exact = if are_finite {
            self.check(pending(Aspect::Logits, reference), |_| {
                logits::compute(model, reference, tokens, tokens.len())
            })
        } else {
            let why = "its logits need not be finite, because not all weights are";
            self.end("whole model", pending(Aspect::Logits, reference), Outcome::Skipped(why));
            None
        };
        for (index, candidate) in candidates.iter().enumerate() {
            let is_reference = candidate.kind == DeviceKind::Reference;
            if index > 0 {
                self.check(pending(Aspect::Kernels, candidate), |progress| {
                    products::agree(model, &candidates[0], candidate, progress)
                });
            }
            if !is_reference {
                self.check(pending(Aspect::Products, candidate), |progress| {
                    products::agree(model, reference, candidate, progress)
                });
            }
            let is_slow = index == 0 && candidates.len() > 1 && logits::is_large(model);
            if !are_finite || is_slow {
                continue;
            }
            if let Some(exact) = exact.as_ref().filter(|_| !is_reference) {
                self.check(pending(Aspect::Logits, candidate), |_| {
                    logits::agree(model, exact, candidate, tokens, tokens.len())
                });
                // A GPU uses other kernels for other numbers of rows, so bits may differ.
                if candidate.is_gpu() {
                    self.check(pending(Aspect::TokenByToken, candidate), |_| {
                        logits::agree(model, exact, candidate, tokens, 1)
                    });
                }
            }
            if candidate.is_gpu() {
                self.check(pending(Aspect::ManyRows, candidate), |_| {
                    logits::many_rows_agree(model, candidate)
                });
            } else {
                self.check(pending(Aspect::Steps, candidate), |_| {
                    logits::same_bits_in_any_step(model, candidate, tokens)
                });
            }
        }
    }

    /// Runs a check, which returns what it checked and what later checks need.
    fn check<T>(
        &mut self,
        pending: Pending<'_>,
        work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<(String, T), Failure>,
    ) -> Option<T> {
        let aspect = match pending.aspect {
            Aspect::Weights => "weights",
            Aspect::Model => "model",
            Aspect::Tokenizer => "tokenizer",
            Aspect::ChatTemplate => "chat template",
            Aspect::Kernels => "kernels",
            Aspect::Products => "products",
            Aspect::Logits => "logits",
            Aspect::TokenByToken => "token by token",
            Aspect::ManyRows => "many rows",
            Aspect::Steps => "steps",
        };
        let name = pending.candidate.map_or(aspect.to_owned(), |of| format!("{}: {aspect}", of.name));
        (self.observe)(Event::Begin(&name));
        let result = work(&mut |done, all| (self.observe)(Event::Progress(done, all)));
        let (outcome, found) = match result {
            Ok((detail, found)) => (Outcome::Good(detail), Some(found)),
            Err(failure) => (Outcome::Bad(failure), None),
        };
        self.end(&name, pending, outcome);
        found
    }

    fn end(&mut self, name: &str, pending: Pending<'_>, outcome: Outcome) {
        let Pending { aspect, candidate, tokens } = pending;
        let kind = candidate.map(|candidate| candidate.kind);
        (self.observe)(Event::End(Check { name, aspect, kind, tokens, outcome }));
    }
}

/// A NaN or an infinity in a weight would reach every logit.
fn weights_are_finite(
    file: &Gguf,
    threads: NonZero<usize>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(String, ()), Failure> {
    let (mut done, all) = (0, file.tensors().map(|tensor| tensor.data.len() as u64).sum());
    let (mut first, mut bad, mut values) = (None, 0, 0);
    for tensor in file.tensors() {
        if let Err(fault) = quantize::scan(tensor, threads, &|_| ()) {
            bad += fault.count;
            first.get_or_insert((fault, tensor.format));
        }
        file.release(&tensor.data);
        values += tensor.row_len() * tensor.rows();
        done += tensor.data.len() as u64;
        progress(done, all);
    }
    file.check_intact()?;
    match first {
        Some((quantize::NotFinite { tensor, row, column, value, .. }, format)) => Err(format!(
            "the file is damaged: {bad} weights are not finite; the first is {value} in `{tensor}` ({format}), \
             row {row}, column {column}"
        )
        .into()),
        None if values == 0 => Err("the file has no tensors".into()),
        None => Ok((format!("all {values} values in {} tensors are finite", file.tensors().len()), ())),
    }
}
