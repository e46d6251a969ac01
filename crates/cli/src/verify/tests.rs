//! Each check of numbers on a backend with the mistake that it is there for.

use std::collections::HashMap;
use std::sync::Arc;

use backend::{
    Backend, Bucket, Description, Error, KvLayout, LoadedModel, Memory, Outputs, Program, Step, Taps, Ticket,
    Weights,
};
use bytes::Bytes;
use engine::Model;
use gguf::{Gguf, Tensor};
use graph::Graph;
use indicatif::ProgressBar;
use quant::Format;
use testkit::llama::Spec;

use super::numbers::{
    batch_is_single, chunks_are_whole, logits, logits_agree, many_rows_are_single, nmse, tokens,
};
use super::products::{self, Limits};
use super::report::Wrong;
use super::{Candidate, known};
use crate::registry::BackendName;

/// What a faulty backend gets wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// One output of a linear layer.
    Product,
    /// Outputs that are no numbers.
    Nan,
    /// The last bit of a logit where sequences share a step.
    Shared,
    /// The last bit of a logit of a row that is not its sequence's first.
    Continued,
    /// One output of steps of so many rows or more.
    Rows(usize),
}

/// The CPU backend with a fault.
struct Faulty(Box<dyn Backend>, Fault);

struct FaultyModel {
    loaded: Box<dyn LoadedModel>,
    fault: Fault,
    /// Columns of the output.
    cols: usize,
}

struct FaultyProgram {
    program: Box<dyn Program>,
    fault: Fault,
    cols: usize,
    /// What was read by name, and the output.
    values: HashMap<String, Vec<f32>>,
    output: Vec<f32>,
    step: Option<Step>,
}

impl Backend for Faulty {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        self.0.requirements(graph, weights, kv_layout, buckets, taps)
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let (fault, cols) = (self.1, graph.value(graph.output()).cols);
        Ok(Box::new(FaultyModel { loaded: self.0.load(graph, weights, kv_layout)?, fault, cols }))
    }
}

impl LoadedModel for FaultyModel {
    fn describe(&self) -> Description {
        self.loaded.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let program = self.loaded.compile(bucket, taps)?;
        let names = if let Taps::Names(names) = taps { names } else { &[] };
        let values = names.iter().map(|&name| (name.to_owned(), Vec::new())).collect();
        let FaultyModel { fault, cols, .. } = *self;
        Ok(Box::new(FaultyProgram { program, fault, cols, values, output: Vec::new(), step: None }))
    }

    fn memory(&self) -> Memory {
        self.loaded.memory()
    }
}

impl Fault {
    /// `values` with the fault.
    fn done_to(self, values: &[f32], step: &Step) -> Vec<f32> {
        let mut values = values.to_vec();
        let at = values.len() / 2;
        let value = &mut values[at];
        let next = f32::from_bits(value.to_bits() ^ 1);
        match self {
            Fault::Product => *value += 100.0,
            Fault::Nan => *value = f32::NAN,
            Fault::Rows(rows) if step.tokens().len() >= rows => *value += 100.0,
            Fault::Shared if step.sequences().len() > 1 => *value = next,
            Fault::Continued if step.sequences().iter().any(|sequence| sequence.n_past > 0) => *value = next,
            Fault::None | Fault::Rows(_) | Fault::Shared | Fault::Continued => {}
        }
        values
    }
}

impl Program for FaultyProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        self.step = Some(step.clone());
        self.program.submit(step)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let step = self.step.as_ref().expect("it was submitted");
        self.output = self.fault.done_to(self.program.wait(ticket)?.values(), step);
        for (name, values) in &mut self.values {
            *values = self.fault.done_to(self.program.read(name)?, step);
        }
        Ok(Outputs::new(step.outputs(), &self.output, self.cols))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        self.values.get(name).map_or_else(|| self.program.read(name), |values| Ok(values))
    }
}

fn cpu(fault: Fault) -> Candidate {
    faulty(BackendName::CPU, fault, || backend_cpu::Cpu::new(1.try_into().ok()))
}

/// What stands in for a graphics processor: it rounds no activations to 8 bits.
fn graphics(fault: Fault) -> Candidate {
    faulty(BackendName::Named("vulkan"), fault, || {
        backend_cpu::Cpu::new(1.try_into().ok()).with_f32_activations()
    })
}

fn faulty(backend: BackendName, fault: Fault, cpu: fn() -> backend_cpu::Cpu) -> Candidate {
    let make = move || -> anyhow::Result<Box<dyn Backend>> { Ok(Box::new(Faulty(Box::new(cpu()), fault))) };
    Candidate { name: format!("{fault:?}"), backend, make: Box::new(make) }
}

fn reference() -> Candidate {
    let make = || -> anyhow::Result<Box<dyn Backend>> { Ok(Box::new(backend_reference::Reference::new())) };
    Candidate { name: "reference".into(), backend: BackendName::REFERENCE, make: Box::new(make) }
}

fn model(format: Format) -> Model {
    let spec = Spec { layers: 2, ..Spec::new(format) };
    Model::new(Gguf::from_bytes(spec.file().into()).expect("a good file")).expect("a good model")
}

/// What each check says of a fault: products beside the same and the exact, logits of a step and token by token, batch,
/// chunks; of a graphics processor, products beside the exact, and many rows.
fn outcomes(model: &Model, fault: Fault) -> [Result<String, String>; 8] {
    let (truth, candidate, bar) = (cpu(Fault::None), cpu(fault), ProgressBar::hidden());
    let tokens = tokens(model);
    let (_, exact) = logits(model, &reference().make, &tokens, tokens.len()).expect("good logits");
    [
        products::agree(model, &truth, &candidate, Limits::SameActivations, &bar),
        products::agree(model, &reference(), &candidate, Limits::Exact, &bar),
        logits_agree(model, &exact, &candidate.make, &tokens, tokens.len()),
        logits_agree(model, &exact, &candidate.make, &tokens, 1),
        batch_is_single(model, &candidate.make, &tokens),
        chunks_are_whole(model, &candidate.make, &tokens),
        products::agree(model, &reference(), &graphics(fault), Limits::ExactGraphics, &bar),
        many_rows_are_single(model, &graphics(fault).make),
    ]
    .map(|outcome| outcome.map_err(|error| format!("{error:#}")))
}

#[test]
fn each_fault_is_seen_by_the_checks_that_are_there_for_it() {
    for format in [Format::F16, Format::Q4_K] {
        let model = model(format);
        for (fault, seen) in [
            (Fault::None, [false; 8]),
            (Fault::Product, [true; 8]),
            (Fault::Nan, [true; 8]),
            (Fault::Shared, [false, false, false, false, true, false, false, false]),
            (Fault::Continued, [false, false, false, false, true, true, false, false]),
            (Fault::Rows(9), [false, false, true, false, true, true, true, true]),
            (Fault::Rows(64), [false, false, false, false, false, false, false, true]),
        ] {
            let found = outcomes(&model, fault);
            assert_eq!(found.each_ref().map(Result::is_err), seen, "{format} {fault:?}: {found:#?}");
        }
    }
}

/// A weight that is no number makes the same products no numbers on every backend: the others still tell
/// good kernels from bad ones.
#[test]
fn kernels_are_not_blamed_for_weights() {
    for format in [Format::F16, Format::Q8_0] {
        let spec = Spec { layers: 1, ..Spec::new(format) };
        let mut tensors = spec.tensors();
        let query = named(&mut tensors, "blk.0.attn_q.weight");
        let mut data = query.data.to_vec();
        // The first number, or the scale of the first block.
        data[..2].copy_from_slice(&0x7e00u16.to_le_bytes());
        query.data = data.into();
        let file = gguf::write(Vec::new(), &spec.metadata(), &tensors).expect("a good file");
        let model = Model::new(Gguf::from_bytes(file.into()).expect("a good file")).expect("a model");
        let agree = |fault| {
            products::agree(&model, &reference(), &cpu(fault), Limits::Exact, &ProgressBar::hidden()).is_ok()
        };
        assert_eq!([Fault::None, Fault::Product, Fault::Nan].map(agree), [true, false, false], "{format}");
    }
}

#[test]
fn numbers_are_not_held_against_what_is_none() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    assert_eq!(nmse(&[nan, inf, 2.0], &[nan, -inf, 1.0]), 0.25);
    for (reference, found) in [(nan, 0.0), (0.0, nan), (inf, 1.0), (1.0, inf)] {
        let nmse = nmse(&[reference, 2.0], &[found, 2.0]);
        assert!(nmse.is_nan() || nmse > 1.0, "{reference}, {found}: {nmse}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let model = model(Format::Q8_0);
    let [same, exact, logits, ..] = outcomes(&model, Fault::Product);
    let said = [same, exact, logits].map(|outcome| outcome.expect_err("a fault"));
    assert!(
        said[0].starts_with("`blk.0.attn_q.weight` (Q8_0): products with 1 row are not those of None: NMSE")
    );
    assert!(said[1].contains("not those of reference"), "{}", said[1]);
    assert!(said[2].contains("of 32 tokens the worst is at position 16"), "{}", said[2]);
    let [_, _, _, _, batch, ..] = outcomes(&model, Fault::Shared);
    let batch = batch.expect_err("a fault");
    assert!(batch.starts_with("sequence ") && batch.contains("beside others"), "{batch}");
    let [_, _, _, _, _, chunks, ..] = outcomes(&model, Fault::Continued);
    let chunks = chunks.expect_err("a fault");
    assert!(chunks.contains("whole and") && chunks.contains("in chunks of 1"), "{chunks}");
    let [.., products, many] = outcomes(&model, Fault::Rows(9));
    let [products, many] = [products, many].map(|outcome| outcome.expect_err("a fault"));
    assert!(products.contains("products with 19 rows are not those of reference"), "{products}");
    assert!(many.contains("150 tokens at once") && many.contains("at position 75"), "{many}");
}

/// The demo model from one of its files, changed.
fn demo(file: &'static [u8], change: impl FnOnce(&mut Vec<Tensor>)) -> Arc<Model> {
    let file = Gguf::from_bytes(Bytes::from_static(file)).expect("a good file");
    let mut tensors: Vec<Tensor> = file.tensors().cloned().collect();
    change(&mut tensors);
    let file = gguf::write(Vec::new(), file.metadata(), &tensors).expect("a good file");
    Arc::new(Model::new(Gguf::from_bytes(Bytes::from(file)).expect("a good file")).expect("a model"))
}

fn named<'a>(tensors: &'a mut [Tensor], name: &str) -> &'a mut Tensor {
    tensors.iter_mut().find(|tensor| tensor.name == name).expect("it is there")
}

#[test]
fn the_demo_model_is_known_by_its_weights_in_every_format() {
    for file in [demo_model::EMBEDDED, demo_model::MASTER_F16] {
        let model = demo(file, |_| ());
        let known = known::recognise(&model).expect("its name and weights");
        let said = known.hold(&model, (cpu(Fault::None).make)().expect("a backend")).expect("its answers");
        assert_eq!(said, "the demo model gives 3 answers as it should");
    }
    assert_eq!(known::recognise(&model(Format::F32)), Err("none are known of this model".to_owned()));
}

#[test]
fn a_model_that_forgot_is_told_from_one_that_was_trained_again() {
    let damaged = demo(demo_model::EMBEDDED, |tensors| {
        let output = named(tensors, "blk.0.ffn_down.weight");
        output.data = vec![0; output.data.len()].into();
    });
    let known = known::recognise(&damaged).expect("its name and the rest of its weights");
    let error =
        known.hold(&damaged, (cpu(Fault::None).make)().expect("a backend")).expect_err("it has forgotten");
    let wrong: &Wrong = error.downcast_ref().expect("what is wrong");
    assert!(wrong.what.starts_with("\"What is the capital of "), "{error}");
    assert!(wrong.more.starts_with("run -p 'What is the capital of "), "{}", wrong.more);

    let retrained = demo(demo_model::EMBEDDED, |tensors| {
        let norm = named(tensors, "blk.3.ffn_norm.weight");
        let mut data = norm.data.to_vec();
        data[0] ^= 1;
        norm.data = data.into();
    });
    let why = known::recognise(&retrained).expect_err("other weights");
    assert!(why.contains("`blk.3.ffn_norm.weight` is another"), "{why}");
}

/// Whoever has the file can have it checked; it is one of few whose answers are known.
#[test]
fn tinyllama_is_as_it_should_be() {
    let Some(path) = std::env::var_os("RUSTORCH_TINYLLAMA_GGUF") else {
        return eprintln!("skipped: RUSTORCH_TINYLLAMA_GGUF names no file");
    };
    let model = Arc::new(Model::open(path).expect("a good model"));
    let known = known::recognise(&model).expect("a model that is known");
    println!("{}", known.hold(&model, (cpu(Fault::None).make)().expect("a backend")).expect("its answers"));
}
