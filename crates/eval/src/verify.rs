//! Checks that this machine computes a model file correctly. No check relies on another.

mod logits;
mod many;
mod products;
mod routes;
mod steps;
mod text;

use std::error::Error;
use std::num::NonZero;

use backend::{Backend, DeviceKind};
use engine::{Model, NoTemplate};
use gguf::Gguf;
use tokenizer::Tokenizer;

type Failure = Box<dyn Error + Send + Sync>;

/// What a check says that it checked, and what later checks need.
type Checked<T = ()> = Result<(String, T), Failure>;

/// A backend to check, or one of the CPU's kernel sets.
pub struct Candidate {
    /// The name to print, such as `cpu (avx2)`.
    pub name: String,
    /// The kind of its device.
    pub kind: DeviceKind,
    /// Whether it rounds activations to 8 bits.
    pub quantizes_activations: bool,
    /// Opens the device.
    pub open: Box<dyn Fn() -> Result<Box<dyn Backend>, backend::Error>>,
}

impl Candidate {
    fn is_gpu(&self) -> bool {
        !matches!(self.kind, DeviceKind::Cpu | DeviceKind::Reference)
    }
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

/// The progress of [`Verifier::run`].
#[derive(Debug)]
pub enum Event<'a> {
    /// A check begins: its name, such as `weights` or `cpu (avx2): logits`.
    Begin(&'a str),
    /// The part of the check's work that is done, and all of it.
    Progress(u64, u64),
    /// A check is finished: its name, the tokens of checks of logits, and the result.
    End(&'a str, &'a [u32], Outcome),
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

impl Verifier<'_> {
    /// Checks `file`.
    pub fn run(mut self, file: Gguf) {
        let threads = self.threads;
        let finite = self.check("weights", &[], |progress| weights_are_finite(&file, threads, progress));
        let graph = self.check("model", &[], |_| {
            let models::Model { config, graph } = models::Model::new(&file)?;
            let (layers, width) = (config.block_count, config.embedding_length);
            let operations = graph.values().len();
            let facts = format!("block_count {layers}, embedding_length {width}, {operations} operations");
            Ok((format!("{}: {facts}; all tensors are present", config.architecture), ()))
        });
        self.check("tokenizer", &[], |_| {
            Ok((text::round_trips(&Tokenizer::from_metadata(file.metadata())?)?, ()))
        });
        let (Ok(model), Some(())) = (Model::new(file), graph) else {
            return self.skip("numbers", "they need a model and a tokenizer");
        };
        match model.template() {
            Err(NoTemplate::Absent) => self.skip("chat template", "the file has none"),
            _ => _ = self.check("chat template", &[], |_| Ok((text::template_renders(&model)?, ()))),
        }
        self.check_numbers(&model, finite.is_some());
    }

    /// If not all weights are finite, the logits need not be either: only matrix products are checked.
    fn check_numbers(&mut self, model: &Model, are_finite: bool) {
        let (reference, candidates) = (self.reference, self.candidates);
        let tokens = &logits::tokens(model);
        let is_causal = model.graph().groups().iter().all(|group| group.mask.is_causal());
        let exact = if are_finite {
            self.check("reference: logits", tokens, |_| {
                logits::compute(model, reference, tokens, tokens.len())
            })
        } else {
            self.skip("whole model", "its logits need not be finite, because not all weights are");
            None
        };
        for (index, candidate) in candidates.iter().enumerate() {
            let name = |aspect: &str| format!("{}: {aspect}", candidate.name);
            let is_reference = candidate.kind == DeviceKind::Reference;
            if index > 0 {
                self.check(&name("kernels"), tokens, |progress| {
                    products::agree(model, &candidates[0], candidate, progress)
                });
            }
            if !is_reference {
                self.check(&name("products"), tokens, |progress| {
                    products::agree(model, reference, candidate, progress)
                });
            }
            let is_slow = index == 0 && candidates.len() > 1 && logits::is_large(model);
            if !are_finite || is_slow {
                continue;
            }
            if let Some(exact) = exact.as_ref().filter(|_| !is_reference) {
                // A GPU uses other kernels for other numbers of rows.
                let at_once = ("logits", tokens.len());
                let steps = if candidate.is_gpu() && is_causal {
                    vec![at_once, ("token by token", 1)]
                } else {
                    vec![at_once]
                };
                for (aspect, rows) in steps {
                    self.check(&name(aspect), tokens, |_| {
                        logits::agree(model, exact, candidate, tokens, rows)
                    });
                }
            }
            if !is_causal {
                self.skip(&name("steps"), "rows see later ones, so that a text is one step");
            } else if candidate.is_gpu() {
                self.check(&name("many rows"), tokens, |_| many::many_rows_agree(model, candidate));
            } else {
                self.check(&name("steps"), tokens, |_| {
                    logits::same_bits_in_any_step(model, candidate, tokens)
                });
            }
        }
    }

    /// Runs a check, which returns what it checked and what later checks need.
    fn check<T>(
        &mut self,
        name: &str,
        tokens: &[u32],
        work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Checked<T>,
    ) -> Option<T> {
        (self.observe)(Event::Begin(name));
        let (outcome, found) = match work(&mut |done, all| (self.observe)(Event::Progress(done, all))) {
            Ok((detail, found)) => (Outcome::Good(detail), Some(found)),
            Err(failure) => (Outcome::Bad(failure), None),
        };
        (self.observe)(Event::End(name, tokens, outcome));
        found
    }

    fn skip(&mut self, name: &str, why: &'static str) {
        (self.observe)(Event::End(name, &[], Outcome::Skipped(why)));
    }
}

/// A NaN or an infinity in a weight would reach every logit.
fn weights_are_finite(file: &Gguf, threads: NonZero<usize>, progress: &mut dyn FnMut(u64, u64)) -> Checked {
    let (mut done, all) = (0, file.tensors().map(|tensor| tensor.data.len() as u64).sum());
    let (mut first, mut bad, mut values) = (None, 0, 0);
    for tensor in file.tensors() {
        if let Err(fault) = convert::quantize::scan(tensor, threads, &|_| ()) {
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
        Some((convert::quantize::NotFinite { tensor, row, column, value, .. }, format)) => Err(format!(
            "the file is damaged: {bad} weights are not finite; the first is {value} in `{tensor}` ({format}), \
             row {row}, column {column}"
        )
        .into()),
        None if values == 0 => Err("the file has no tensors".into()),
        None => Ok((format!("all {values} values in {} tensors are finite", file.tensors().len()), ())),
    }
}
