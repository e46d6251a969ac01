//! Every numerical check detects the mistake that it exists for.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZero;

use backend::{
    Backend, Bucket, Description, DeviceKind, Error, KvLayout, LoadedModel, Memory, Outputs, Program, Step,
    Taps, Ticket, Weights,
};
use eval::verify::{Candidate, Event, Outcome, Verifier};
use gguf::Gguf;
use graph::Graph;
use quant::Format;
use testkit::fixtures::Spec;

/// What a faulty backend gets wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// One output of a linear layer.
    Product,
    /// Outputs that are NaN.
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
            Fault::Rows(rows) if step.rows().len() >= rows => *value += 100.0,
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
        let outputs: Vec<_> = step.outputs().map(|(_, output)| output.clone()).collect();
        Ok(Outputs::new(&outputs, &self.output, self.cols))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        self.values.get(name).map_or_else(|| self.program.read(name), |values| Ok(values))
    }
}

fn cpu(fault: Fault) -> Candidate {
    let open = move || -> Result<Box<dyn Backend>, Error> {
        Ok(Box::new(Faulty(Box::new(backend_cpu::Cpu::new(NonZero::new(1))), fault)))
    };
    let (name, kind) = (format!("{fault:?}"), DeviceKind::Cpu);
    Candidate { name, kind, quantizes_activations: true, open: Box::new(open) }
}

/// A stand-in for a GPU: it does not quantise activations.
fn gpu(fault: Fault) -> Candidate {
    let open = move || -> Result<Box<dyn Backend>, Error> {
        let cpu = backend_cpu::Cpu::new(NonZero::new(1)).with_f32_activations();
        Ok(Box::new(Faulty(Box::new(cpu), fault)))
    };
    let (name, kind) = ("gpu".to_owned(), DeviceKind::SoftwareGpu);
    Candidate { name, kind, quantizes_activations: false, open: Box::new(open) }
}

/// The checks that fail, and what they say.
fn failures(file: &[u8], candidates: &[Candidate]) -> HashMap<String, String> {
    let reference = Candidate {
        name: "reference".to_owned(),
        kind: DeviceKind::Reference,
        quantizes_activations: false,
        open: Box::new(|| Ok(Box::new(backend_reference::Reference::new()))),
    };
    let mut failures = HashMap::new();
    let mut observe = |event: Event<'_>| {
        if let Event::End(name, _, Outcome::Bad(failure)) = event {
            failures.insert(name.to_owned(), failure.to_string());
        }
    };
    let threads = NonZero::<usize>::MIN;
    let verifier = Verifier { reference: &reference, candidates, threads, observe: &mut observe };
    verifier.run(Gguf::from_bytes(file.to_vec().into()).expect("a good file"));
    failures
}

#[test]
fn each_fault_is_seen_by_the_checks_that_are_there_for_it() {
    let names = |candidate: &str, checks: &[&str]| {
        checks.iter().map(|check| format!("{candidate}: {check}")).collect::<BTreeSet<_>>()
    };
    for format in [Format::F16, Format::Q4_K] {
        let file = Spec { layers: 2, ..Spec::new(format) }.file();
        let all = ["kernels", "products", "logits", "steps"];
        let of_gpu = ["products", "logits", "token by token", "many rows"];
        for (fault, expected, expected_of_gpu) in [
            (Fault::None, &all[..0], &of_gpu[..0]),
            (Fault::Product, &all, &of_gpu),
            (Fault::Nan, &all, &of_gpu),
            (Fault::Shared, &["steps"], &[]),
            (Fault::Continued, &["steps"], &[]),
            (Fault::Rows(9), &["logits", "steps"], &["products", "logits", "many rows"]),
            (Fault::Rows(64), &[], &["many rows"]),
        ] {
            let candidates = [Candidate { name: "good".to_owned(), ..cpu(Fault::None) }, cpu(fault)];
            let found: BTreeSet<String> = failures(&file, &candidates).into_keys().collect();
            assert_eq!(found, names(&format!("{fault:?}"), expected), "{format}");
            let found: BTreeSet<String> = failures(&file, &[gpu(fault)]).into_keys().collect();
            assert_eq!(found, names("gpu", expected_of_gpu), "{format} {fault:?}");
        }
    }
}

/// The products of a weight that is NaN are NaN on every backend.
#[test]
fn kernels_are_not_blamed_for_weights() {
    for format in [Format::F16, Format::Q8_0] {
        let spec = Spec { layers: 1, ..Spec::new(format) };
        let mut tensors = spec.tensors();
        let query = tensors.iter_mut().find(|tensor| tensor.name == "blk.0.attn_q.weight");
        let query = query.expect("it is there");
        let mut data = query.data.to_vec();
        // The first value, or the scale of the first block.
        data[..2].copy_from_slice(&0x7e00u16.to_le_bytes());
        query.data = data.into();
        let file = gguf::write(Vec::new(), &spec.metadata(), &tensors).expect("a good file");
        for (fault, bad) in [(Fault::None, 1), (Fault::Product, 2), (Fault::Nan, 2)] {
            let failures = failures(&file, &[cpu(fault)]);
            assert!(failures.contains_key("weights") && failures.len() == bad, "{format}: {failures:#?}");
        }
    }
}

#[test]
fn a_failure_names_its_place() {
    let file = Spec { layers: 2, ..Spec::new(Format::Q8_0) }.file();
    let failed = |fault, check: &str| failures(&file, &[cpu(fault)]).remove(&format!("{fault:?}: {check}"));
    let product = failed(Fault::Product, "products").expect("a failure");
    assert!(product.starts_with("`blk.0.attn_q.weight` (Q8_0) times 1 activation row"), "{product}");
    let logits = failed(Fault::Product, "logits").expect("a failure");
    assert!(logits.contains("of 32 tokens position 16 is worst"), "{logits}");
    let steps = failed(Fault::Continued, "steps").expect("a failure");
    assert!(steps.contains("sequence 0") && steps.contains("alone and"), "{steps}");
    let gpu = failures(&file, &[gpu(Fault::Rows(9))]);
    assert!(gpu["gpu: products"].contains("times 19 activation row"), "{gpu:#?}");
    assert!(gpu["gpu: many rows"].contains("at position 75"), "{gpu:#?}");
}
