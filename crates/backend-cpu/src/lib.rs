//! The CPU backend.
//!
//! Weights of linear layers are packed for the vector kernels before the first step, or strip by strip each time they are
//! read ([`Cpu::without_repacking`]). A graph compiles to a list of phases. All threads share each phase; a barrier
//! separates phases (`pool.rs`). Quantised weights are multiplied by 8-bit activations, or by f32 activations with
//! [`Cpu::with_f32_activations`]; F32, F16 and BF16 weights always by f32 activations.
//!
//! A sequence's logits are bit-identical regardless of batch composition, prompt chunking and number of threads.

mod attention;
mod ceilings;
mod devices;
mod experts;
mod kernels;
mod kv;
mod lanes;
mod matmul;
mod memory;
mod packed;
mod plan;
mod pool;
mod program;
mod recurrent;
mod weights;

use std::num::NonZero;
use std::sync::{Arc, Mutex};

use backend::{
    Backend, BoundModel, BoundProgram, Bucket, CacheBlock, Description, Error, Feature, HostBudget, KvLayout,
    LoadedModel, Member, Memory, Program, Remedy, Taps, Weights, lock,
};
use graph::Graph;

pub use ceilings::{Ceilings, ceilings};
pub use devices::CpuDriver;
pub use kernels::Isa;
use kernels::Kernels;
use kv::Kv;
use plan::Plan;
use pool::Pool;
use program::CpuProgram;
use weights::ModelWeights;

/// The backend. One instance takes one model.
#[derive(Debug)]
pub struct Cpu {
    kernels: Kernels,
    options: Options,
    pool: Pool,
    /// Bytes of memory that the model may use; the available memory if `None`.
    memory_limit: Option<u64>,
    member: Option<Member>,
}

/// The name of packed weights in errors.
const PACKED_WEIGHTS: &str = "weights packed for vector kernels";

/// How weights are stored and multiplied.
#[derive(Clone, Copy, Debug)]
struct Options {
    /// Whether weights of linear layers are packed into memory of their own.
    is_repacking: bool,
    /// Whether activations stay f32 with quantised weights.
    f32_activations: bool,
}

struct CpuModel {
    kernels: Kernels,
    options: Options,
    model: Arc<BoundModel>,
    weights: Arc<ModelWeights>,
    state: Arc<Mutex<State>>,
}

/// Shared by all programs of a model; a step locks it.
#[derive(Debug)]
struct State {
    pool: Pool,
    /// By [`graph::StoreId`].
    stores: Vec<Kv>,
    /// The slots of recurrent operations, by [`graph::ValueId`]; other operations have none.
    slots: Vec<Vec<f32>>,
    budget: HostBudget,
    /// Bytes of the programs' activation buffers at full buckets.
    activation_bytes: u64,
    member: Option<Member>,
}

/// Whether the kernels were compiled without optimisation, which makes them ten to twenty times slower.
pub const IS_SLOW: bool = cfg!(slow_kernels);

/// Warns once if the kernels were compiled without optimisation.
fn warn_if_slow() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let warn = || {
        tracing::warn!(
            "the CPU kernels are compiled without optimisation, which makes them ten to twenty times slower: add \
             `[profile.dev.package.\"*\"] opt-level = 3` to Cargo.toml"
        );
    };
    if IS_SLOW {
        ONCE.call_once(warn);
    }
}

impl Cpu {
    /// An instance with `threads` threads, by default [`backend::free_threads`].
    pub fn new(threads: Option<NonZero<usize>>) -> Cpu {
        Cpu::with_isa(threads, Isa::detect()).expect("the detected instruction set is available")
    }

    /// An instance that uses the kernels of `isa`; `None` if this CPU lacks it.
    pub fn with_isa(threads: Option<NonZero<usize>>, isa: Isa) -> Option<Cpu> {
        let kernels = Kernels::new(isa)?;
        warn_if_slow();
        let threads = threads.unwrap_or_else(backend::free_threads).get();
        let options = Options { is_repacking: true, f32_activations: false };
        Some(Cpu { kernels, options, pool: Pool::new(threads), memory_limit: None, member: None })
    }

    /// Sets the memory that the model may use besides its mapped file; by default the memory available at load time. A model
    /// that needs more is refused before anything is allocated.
    pub fn with_memory_limit(self, bytes: u64) -> Cpu {
        Cpu { memory_limit: Some(bytes), ..self }
    }

    /// Leaves weights where they were loaded, usually in a memory-mapped file, and packs them a few rows at a time on each
    /// read. Saves memory; results are bit-identical; decode is slower.
    pub fn without_repacking(self) -> Cpu {
        Cpu { options: Options { is_repacking: false, ..self.options }, ..self }
    }

    /// Uses f32 activations with every weight format. Quantised weights stay where they were loaded and are dequantised on
    /// each read; decode is much slower.
    pub fn with_f32_activations(self) -> Cpu {
        Cpu { options: Options { f32_activations: true, ..self.options }, ..self }
    }
}

impl Backend for Cpu {
    fn describe(&self) -> Description {
        describe(&self.kernels, self.options, &self.pool)
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        let model = Arc::new(BoundModel::new(graph, weights, kv_layout)?);
        let weights = ModelWeights::new(&model, self.kernels, self.options);
        let activations = buckets.iter().try_fold(0u64, |activations, &bucket| {
            let bound = BoundProgram::new(model.clone(), bucket, taps)?;
            let plan = Plan::new(&bound, |weight| weights.form(weight));
            Ok(activations.saturating_add(plan.memory(&bound, self.kernels.tile, self.pool.threads())))
        })?;
        Ok(Memory { kv: model.kv_bytes(), activations, ..weights.memory() })
    }

    fn join(&mut self, member: Member) -> Result<(), Error> {
        self.member = Some(member);
        Ok(())
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        Ok(Box::new(self.take(graph, weights, kv_layout)?))
    }
}

impl Cpu {
    fn take(self, graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<CpuModel, Error> {
        let Cpu { kernels, options, pool, memory_limit, member } = self;
        let model = Arc::new(BoundModel::new(graph, weights, kv_layout)?);
        model.check_member(member.as_ref())?;
        let weights = Arc::new(ModelWeights::new(&model, kernels, options));
        let mut budget = HostBudget::new(memory_limit);
        budget.take(PACKED_WEIGHTS, weights.memory().weights_owned, Remedy::LeaveWeightsInFile)?;
        budget.take("the KV cache", model.kv_bytes(), Remedy::SmallerContext)?;
        let stores = model.stores().iter().map(Kv::new).collect::<Result<_, Error>>()?;
        let slots = graph.values().map(|(id, _)| model.zeroed_state(id)).collect::<Result<_, Error>>()?;
        let state = Arc::new(Mutex::new(State { pool, stores, slots, budget, activation_bytes: 0, member }));
        Ok(CpuModel { kernels, options, model, weights, state })
    }
}

impl LoadedModel for CpuModel {
    fn describe(&self) -> Description {
        describe(&self.kernels, self.options, &lock(&self.state).pool)
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let bound = BoundProgram::new(self.model.clone(), bucket, taps)?;
        Ok(Box::new(CpuProgram::new(bound, self.weights.clone(), self.kernels, self.state.clone())?))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.weights.prepare(&mut lock(&self.state).pool, copied)
    }

    fn memory(&self) -> Memory {
        let activations = lock(&self.state).activation_bytes;
        Memory { kv: self.model.kv_bytes(), activations, ..self.weights.memory() }
    }

    fn supports(&self, _: Feature) -> bool {
        true
    }

    fn with_block(&mut self, block: CacheBlock, work: &mut dyn FnMut(Vec<&mut [u8]>)) -> Result<(), Error> {
        let State { stores, slots, .. } = &mut *lock(&self.state);
        work(self.model.block_parts(block, stores, Kv::block, slots.iter_mut())?);
        Ok(())
    }
}

fn describe(kernels: &Kernels, options: Options, pool: &Pool) -> Description {
    let isa = kernels.isa.name();
    let features: Vec<&str> = kernels::features().collect();
    let quantised = if options.f32_activations {
        ", dequantised for f32 activations"
    } else {
        " integer dot products with 8-bit activations"
    };
    let copies = if options.is_repacking { "packed for the kernels" } else { "none" };
    Description {
        name: "cpu",
        device: cpu_name(),
        facts: vec![
            ("threads", pool.threads().to_string()),
            ("features", if features.is_empty() { "none detected".into() } else { features.join(" ") }),
            ("kernels", isa.into()),
            ("quantised weights", format!("{isa}{quantised}")),
            ("F32, F16, BF16 weights", format!("{isa} with f32 activations")),
            ("copies of weights", copies.into()),
        ],
    }
}

/// The CPU's name from `/proc/cpuinfo` (Linux on x86), and its architecture.
fn cpu_name() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    match name.map_or("", |(_, name)| name.trim()) {
        "" => std::env::consts::ARCH.to_owned(),
        name => format!("{name} ({})", std::env::consts::ARCH),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    pub(crate) mod guard;

    use std::collections::HashMap;

    use backend::{KvFormat, Row, Sequence, Step, Weight};
    use quant::Format;

    use super::*;

    /// A matrix is copied to two strips of 16 rows or stays mapped; the table stays mapped. Packed weights are allocated on
    /// first use. Results depend neither on that time nor on packing. The requirements equal the memory in use.
    #[test]
    fn copied_weights_are_reported_and_counted() {
        let mut graph = graph::Builder::new();
        let (table, matrix) = (graph.weight("table", 3, 32), graph.weight("matrix", 20, 32));
        let x = graph.embed("x", table);
        let x = graph.output_rows("outputs", x);
        let y = graph.linear("y", x, matrix);
        let graph = graph.finish(y);
        let step = Step::new(Row::logits(vec![2, 0], [0, 1]), vec![Sequence::uniform(0, 2, 0, [])]);
        let step = step.expect("a good step");
        let weights: HashMap<String, Weight> = [("table", 3), ("matrix", 20)]
            .map(|(name, rows)| {
                let bytes: Vec<u8> = (0..rows * 32).flat_map(|i| (i as f32).sin().to_le_bytes()).collect();
                (name.to_owned(), Weight::matrix(Format::F32, rows, 32, bytes.into()))
            })
            .into();
        let run = |prepare: bool, repack: bool| {
            let cpu = Cpu::new(1.try_into().ok());
            let cpu = if repack { cpu } else { cpu.without_repacking() };
            let (bucket, kv_layout) =
                (Bucket { rows: 2, outputs: 2 }, KvLayout::uniform(&graph, 0, KvFormat::F16));
            let required = cpu.requirements(&graph, &weights, &kv_layout, &[bucket], Taps::None);
            let mut model = cpu.take(&graph, &weights, &kv_layout).expect("a good graph");
            let mut program = model.compile(bucket, Taps::None).expect("a good graph");
            let memory = model.memory();
            assert_eq!(required.as_ref(), Ok(&memory));
            let expected = if repack { (3 * 32 * 4, 2 * 16 * 32 * 4) } else { ((3 + 20) * 32 * 4, 0) };
            assert_eq!((memory.weights_mapped, memory.weights_owned), expected);
            // The packed output rows and the result; scratch memory for a strip of 16 rows.
            assert_eq!(memory.activations, 2 * (32 + 32 + 20) * 4 + 16 * 32 * 4);
            let (id, _) = graph.weights().nth(1).expect("two weights");
            assert_eq!(model.weights.matrix(id).packed.get().is_none(), repack);
            if prepare {
                let mut copied = Vec::new();
                model.prepare(&mut |name| copied.push(name.to_owned())).expect("enough memory");
                assert_eq!(copied, ["matrix"][..usize::from(repack)]);
                assert!(model.weights.matrix(id).packed.get().is_some());
            }
            program.run(&step).expect("a good step").values().to_vec()
        };
        let later = run(false, true);
        assert_eq!(later.len(), 2 * 20);
        for (prepare, repack) in [(true, true), (true, false), (false, false)] {
            assert_eq!(run(prepare, repack), later);
        }
    }

    /// Tied embeddings are still read from the file after the output matrix was copied.
    #[test]
    fn tied_embeddings_stay_in_the_file() {
        let mut graph = graph::Builder::new();
        let table = graph.weight("table", 16, 32);
        let x = graph.embed("x", table);
        let x = graph.output_rows("outputs", x);
        let y = graph.linear("y", x, table);
        let graph = graph.finish(y);
        let bytes = 16 * 32 * 4;
        let weight = Weight::matrix(Format::F32, 16, 32, vec![0; bytes].into());
        let weights = HashMap::from([("table".to_owned(), weight)]);
        let kv_layout = KvLayout::uniform(&graph, 0, KvFormat::F16);
        let cpu = Cpu::new(1.try_into().ok());
        let mut model = cpu.take(&graph, &weights, &kv_layout).expect("a good graph");
        let memory = model.memory();
        assert_eq!((memory.weights_mapped, memory.weights_owned), (bytes as u64, bytes as u64));
        model.prepare(&mut |name| panic!("{name} is read again")).expect("enough memory");
    }

    #[test]
    fn the_processor_is_named() {
        let device = Cpu::new(None).describe().device;
        assert!(device.contains(std::env::consts::ARCH), "{device}");
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").expect("Linux says it");
            let (name, _) = device.rsplit_once(" (").expect("a name");
            assert!(cpuinfo.contains(&format!("model name\t: {name}")), "{device}");
        }
    }
}
