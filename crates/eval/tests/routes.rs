//! Wrong kernels are told from routes of experts that rounding changes.

use std::num::NonZero;

use backend::{
    Backend, Bucket, Description, DeviceKind, Error, Input, KvLayout, LoadedModel, Memory, Outputs, Program,
    Row, Step, Taps, Ticket, Weight, Weights,
};
use backend_cpu::Cpu;
use eval::verify::{Candidate, Event, Outcome, Verifier};
use gguf::Gguf;
use graph::Graph;
use quant::Format;
use testkit::fixtures::{Spec, mixtral};

/// What the kernels of many rows make of a weight, by its name.
type Fault = fn(&str, &mut Weight);

/// A stand-in for a GPU: steps of one row run on the CPU with f32 activations, others with 8-bit activations and a fault.
struct Pair {
    single: Cpu,
    many: Cpu,
    fault: Fault,
}

struct PairModel([Box<dyn LoadedModel>; 2]);

struct PairProgram {
    programs: [Box<dyn Program>; 2],
    /// The program of the last step.
    last: usize,
}

struct FaultyWeights<'a>(&'a dyn Weights, Fault);

impl Weights for FaultyWeights<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        let mut found = self.0.weight(weight)?;
        (self.1)(&weight.tensor, &mut found);
        Some(found)
    }
}

impl Backend for Pair {
    fn describe(&self) -> Description {
        self.many.describe()
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        self.many.requirements(graph, weights, kv_layout, buckets, taps)
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let Pair { single, many, fault } = *self;
        let single = Box::new(single).load(graph, weights, kv_layout)?;
        let many = Box::new(many).load(graph, &FaultyWeights(weights, fault), kv_layout)?;
        Ok(Box::new(PairModel([single, many])))
    }
}

impl LoadedModel for PairModel {
    fn describe(&self) -> Description {
        self.0[1].describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let [single, many] = &mut self.0;
        let programs = [single.compile(bucket, taps)?, many.compile(bucket, taps)?];
        Ok(Box::new(PairProgram { programs, last: 0 }))
    }

    fn memory(&self) -> Memory {
        self.0[1].memory()
    }
}

impl Program for PairProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        self.last = usize::from(step.rows().len() > 1);
        if self.last == 1 {
            // Many rows fill both caches.
            self.programs[0].run(step)?;
        }
        self.programs[self.last].submit(step)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.programs[self.last].wait(ticket)
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        self.programs[self.last].read(name)
    }
}

/// A stand-in for a GPU whose many rows and single rows share the K/V: steps of several rows replace each token by its twin,
/// whose embedding differs a little.
struct Twins(Cpu, OwnFault);

struct TwinsModel(Box<dyn LoadedModel>, OwnFault);

struct TwinsProgram(Box<dyn Program>, OwnFault);

/// What is wrong unless logits are given.
#[derive(Clone, Copy, PartialEq)]
enum OwnFault {
    None,
    /// The routes of layer 0 are those of layer 1.
    Routes,
    /// Single rows are those of other tokens.
    Singles,
}

/// Tokens without their twins.
const TOKENS: u32 = 256;

impl Backend for Twins {
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
        let is_given = graph.find("ffn_moe_logits-0.given").is_some();
        let fault = if is_given { OwnFault::None } else { self.1 };
        Ok(Box::new(TwinsModel(Box::new(self.0).load(graph, weights, kv_layout)?, fault)))
    }
}

impl LoadedModel for TwinsModel {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        Ok(Box::new(TwinsProgram(self.0.compile(bucket, taps)?, self.1)))
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

impl Program for TwinsProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        let first = if step.rows().len() > 1 { TOKENS } else { 0 };
        let shift = u32::from(self.1 == OwnFault::Singles && first == 0);
        let shifted = |row: &Row| Row {
            input: Input::Token((testkit::token(row) + shift) % TOKENS + first),
            output: row.output.clone(),
        };
        let rows = step.rows().iter().map(shifted).collect();
        self.0.submit(&Step::new(rows, step.sequences().to_vec())?)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.0.wait(ticket)
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        let name =
            if self.1 == OwnFault::Routes && name == "ffn_moe_routes-0" { "ffn_moe_routes-1" } else { name };
        self.0.read(name)
    }
}

/// `spec`, in F32, with twins whose embeddings differ by this factor of each value's magnitude, with both signs.
fn twins(spec: &Spec, error: f32) -> Vec<u8> {
    let mut tensors = spec.tensors();
    let table = tensors.iter_mut().find(|tensor| tensor.name == "token_embd.weight").expect("it is there");
    let (tokens, _) = table.data.split_at(table.data.len() / 2);
    let values =
        tokens.chunks_exact(4).map(|value| f32::from_le_bytes([value[0], value[1], value[2], value[3]]));
    let sign = |i: usize| if (i * 7919 / 64).is_multiple_of(2) { error } else { -error };
    let twins = values.enumerate().flat_map(|(i, value)| (value * (1.0 + sign(i))).to_le_bytes());
    table.data = tokens.iter().copied().chain(twins).collect::<Vec<u8>>().into();
    gguf::write(Vec::new(), &spec.metadata(), &tensors).expect("a good file")
}

type Open = Box<dyn Fn() -> Result<Box<dyn Backend>, Error>>;

fn pair(fault: Fault) -> Open {
    let cpu = || Cpu::new(NonZero::new(1));
    Box::new(move || Ok(Box::new(Pair { single: cpu().with_f32_activations(), many: cpu(), fault })))
}

/// The result of the check of many rows.
fn many_rows(file: &[u8], open: Open) -> Result<String, String> {
    let (name, kind) = ("gpu".to_owned(), DeviceKind::SoftwareGpu);
    let gpu = Candidate { name, kind, quantizes_activations: true, open };
    let reference = Candidate {
        name: "reference".to_owned(),
        kind: DeviceKind::Reference,
        quantizes_activations: false,
        open: Box::new(|| Ok(Box::new(backend_reference::Reference::new()))),
    };
    let mut result = None;
    let mut observe = |event: Event<'_>| match event {
        Event::End("gpu: many rows", _, Outcome::Good(detail)) => result = Some(Ok(detail)),
        Event::End("gpu: many rows", _, Outcome::Bad(failure)) => result = Some(Err(failure.to_string())),
        _ => {}
    };
    let threads = NonZero::<usize>::MIN;
    let verifier = Verifier { reference: &reference, candidates: &[gpu], threads, observe: &mut observe };
    verifier.run(Gguf::from_bytes(file.to_vec().into()).expect("a good file"));
    result.expect("the check runs")
}

fn open_twins() -> Open {
    open_faulty(OwnFault::None)
}

fn open_faulty(fault: OwnFault) -> Open {
    Box::new(move || Ok(Box::new(Twins(Cpu::new(NonZero::new(1)), fault))))
}

/// Positions over the limit unless the routes are the same, by the result.
fn excused(result: &Result<String, String>) -> usize {
    let Ok(detail) = result else { panic!("{result:?}") };
    let Some((_, own)) = detail.split_once(", with the same routes of experts; ") else { return 0 };
    let count = own.split_once("changes, ").and_then(|(_, own)| own.split_once(" positions exceed"));
    count.and_then(|(count, _)| count.parse().ok()).expect("a number of positions")
}

fn mixture(format: Format, experts: [u32; 2], seed: u64) -> Spec {
    Spec { experts: Some(experts), layers: 2, seed, ..mixtral(format) }
}

/// Nearly tied experts are exchanged in some rows, and later rows that attend to these differ as well.
#[test]
fn what_rounding_does_to_routes_is_no_failure_and_reported() {
    for (experts, seed) in [([32, 1], 3), ([8, 1], 1), ([8, 2], 4)] {
        let file = twins(&mixture(Format::F32, experts, seed), 0.01);
        let count = excused(&many_rows(&file, open_twins()));
        assert!((1..=40).contains(&count), "{experts:?}: {count}");
    }
    for seed in [1, 3] {
        let spec = Spec { layers: 1, ..mixture(Format::Q8_0, [32, 1], seed) };
        let count = excused(&many_rows(&spec.file(), pair(|_, _| {})));
        assert!((1..=5).contains(&count), "{seed}: {count}");
    }
}

/// Routers with sigmoids, biases of the choice and groups, and layers with a state.
#[test]
fn every_kind_of_router_is_compared_with_given_routes() {
    let families = testkit::fixtures::families();
    for name in [
        "qwen3moe",
        "mixtral",
        "llama4",
        "gpt-oss",
        "glm4moe",
        "minimax-m2",
        "deepseek2",
        "qwen3next",
        "lfm2moe",
        "nemotron_h_moe",
    ] {
        let (_, spec) = families.iter().find(|(key, _)| *key == format!("F32-{name}")).expect("a family");
        let spec = Spec { seed: 7, ..spec.clone() };
        let count = excused(&many_rows(&twins(&spec, 0.003), open_twins()));
        assert!((1..=8).contains(&count), "{name}: {count}");
    }
}

#[test]
fn wrong_kernels_fail() {
    let file = Spec { layers: 1, ..mixture(Format::Q8_0, [32, 4], 1) }.file();
    let faults: [(Fault, &str); 4] = [
        (|name, weight| rotate(name, weight, "ffn_gate_inp"), "router logits `ffn_moe_logits-0`"),
        (
            |name, weight| rotate(name, weight, "ffn_down_exps"),
            "logits of 150 tokens at once differ from those token by token, with the same",
        ),
        (|name, weight| scale(name, weight, "ffn_gate_inp", 3.0), "router logits `ffn_moe_logits-0`"),
        (|name, weight| scale(name, weight, "attn_norm", 2.0), ""),
    ];
    for (fault, why) in faults {
        let failure = many_rows(&file, pair(fault)).expect_err("a wrong kernel");
        assert!(failure.contains("at position") && failure.contains(why), "{failure}");
    }
    for seed in 1..5 {
        let file = twins(&mixture(Format::F32, [32, 4], seed), 0.2);
        many_rows(&file, open_twins()).expect_err("errors far above those of rounding");
    }
    let file = twins(&mixture(Format::F32, [8, 1], 1), 0.01);
    for (fault, why) in [
        (OwnFault::Routes, "`ffn_moe_routes-0` does not follow from `ffn_moe_logits-0`"),
        (OwnFault::Singles, "of 150 positions, first 0 (limit 2e-2): more than routers can do"),
    ] {
        let failure = many_rows(&file, open_faulty(fault)).expect_err("wrong routes");
        assert!(failure.contains(why), "{failure}");
    }
}

/// The experts' matrices of one tensor in another order.
fn rotate(name: &str, weight: &mut Weight, tensor: &str) {
    if name.contains(tensor) {
        let mut bytes = weight.bytes.to_vec();
        let experts = 32;
        let size = bytes.len() / experts;
        bytes.rotate_left(size);
        weight.bytes = bytes.into();
    }
}

/// The first row, of values in F32, times a factor.
fn scale(name: &str, weight: &mut Weight, tensor: &str, factor: f32) {
    if name.contains(tensor) {
        let mut values = weight.vector();
        values[..weight.cols].iter_mut().for_each(|value| *value *= factor);
        weight.bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into();
    }
}

/// A model without experts has no excuse.
#[test]
fn dense_models_are_compared_once() {
    let spec = Spec { layers: 2, ..Spec::new(Format::F32) };
    assert_eq!(excused(&many_rows(&twins(&spec, 0.01), open_twins())), 0);
    let failure =
        many_rows(&twins(&spec, 0.5), open_twins()).expect_err("errors far above those of rounding");
    assert!(failure.ends_with("(limit 2e-2)"), "{failure}");
}
