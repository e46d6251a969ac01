//! The CPU backend: weights of linear layers are packed for vector kernels before the first step, or piece by piece
//! whenever they are read ([`Cpu::without_repacking`]).
//!
//! A graph is compiled to a flat list of phases, each shared by all threads, with a barrier between
//! (`pool.rs`). Weights of a quantised format meet activations of 8 bits, unless f32 is asked for
//! ([`Cpu::with_f32_activations`]), others meet f32.
//!
//! A sequence's logits are the same bits whoever shares its batch, however its prompt was split into
//! steps and however many threads run.

mod attention;
mod ceilings;
#[cfg(all(test, unix))]
mod guard;
mod kernels;
mod kv;
mod lanes;
mod memory;
mod packed;
mod plan;
mod pool;
mod program;

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use backend::{Backend, Bound, Bucket, Description, Error, KvLayout, Memory, Program, Taps, Weight};
use graph::{Graph, Op};
use quant::Format;

pub use ceilings::{Ceilings, ceilings};
pub use kernels::Isa;
use kernels::{Kernels, Linear};
use kv::Kv;
use packed::Packed;
use pool::Pool;
use program::CpuProgram;

/// The backend. One instance holds one model.
#[derive(Debug)]
pub struct Cpu {
    kernels: Kernels,
    /// Whether weights of linear layers are copied to where kernels read them.
    is_repacking: bool,
    /// Whether activations stay f32 where weights are quantised.
    is_wide: bool,
    weights: HashMap<String, Weight>,
    /// Weights of linear layers, as kernels read them.
    matrices: HashMap<String, Arc<Matrix>>,
    state: Arc<Mutex<State>>,
}

/// The weight of a linear layer; packed when it is needed first, or left where it is.
#[derive(Debug)]
struct Matrix {
    weight: Weight,
    linear: Linear,
    /// Whether it is packed, or will be.
    is_copied: bool,
    packed: OnceLock<Packed>,
}

impl Matrix {
    /// As kernels read it.
    fn pack(&self, pool: &mut Pool) -> Result<&Packed, Error> {
        if let Some(packed) = self.packed.get() {
            return Ok(packed);
        }
        let Weight { rows, cols, ref bytes, .. } = self.weight;
        let packed = (self.linear.pack)(pool, bytes, rows, cols).map_err(|_| Error::OutOfMemory {
            what: "weights, packed for vector kernels",
            bytes: self.bytes(),
            hint: "use a smaller model or a format of fewer bits, or leave weights in the file (`Cpu::without_repacking`, --no-repack)",
        })?;
        Ok(self.packed.get_or_init(|| packed))
    }

    /// Bytes its copy takes.
    fn bytes(&self) -> u64 {
        (self.linear.bytes)(self.weight.rows, self.weight.cols) as u64
    }
}

/// What the programs of an instance share: a step needs all of it for itself.
#[derive(Debug)]
struct State {
    pool: Pool,
    kv: Option<Kv>,
    /// What the programs' buffers take when their buckets are full.
    activation_bytes: u64,
}

impl State {
    fn layout(&self) -> Option<KvLayout> {
        self.kv.as_ref().map(|kv| kv.layout)
    }
}

impl Cpu {
    /// An instance that runs on `threads` threads, or on as many as the system says are useful.
    pub fn new(threads: Option<NonZero<usize>>) -> Cpu {
        Cpu::with_isa(threads, Isa::detect()).expect("what was detected is available")
    }

    /// An instance that uses the kernels of `isa`, when this processor has it.
    pub fn with_isa(threads: Option<NonZero<usize>>, isa: Isa) -> Option<Cpu> {
        let threads = threads.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get);
        let state = State { pool: Pool::new(threads), kv: None, activation_bytes: 0 };
        Some(Cpu {
            kernels: Kernels::new(isa)?,
            is_repacking: true,
            is_wide: false,
            weights: HashMap::new(),
            matrices: HashMap::new(),
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// The same, for models that memory has room for once: weights stay where they were loaded, as a rule in a file's
    /// map, and are packed whenever they are read, a few rows at a time. Every number is the same bits; a step of
    /// few rows takes longer.
    pub fn without_repacking(self) -> Cpu {
        Cpu { is_repacking: false, ..self }
    }

    /// The same with activations of f32 for weights of every format: nothing is rounded to 8 bits. Quantised weights
    /// stay where they were loaded and are dequantised whenever they are read, which takes much longer for few rows.
    pub fn with_f32_activations(self) -> Cpu {
        Cpu { is_wide: true, ..self }
    }

    /// The weight of a linear layer.
    fn matrix(&self, weight: Weight) -> Matrix {
        let Weight { format, rows, cols, .. } = weight;
        let (linear, left) = if self.is_wide && format.block_len() > 1 {
            let left = Packed::quantised(format, weight.bytes.clone(), rows, cols);
            (self.kernels.linear(Format::F32), Some(left))
        } else {
            let left = (!self.is_repacking).then(|| Packed::mapped(weight.bytes.clone(), rows, cols));
            (self.kernels.linear(format), left)
        };
        let is_copied = left.is_none();
        Matrix { weight, linear, is_copied, packed: left.map_or_else(OnceLock::new, OnceLock::from) }
    }
}

impl Backend for Cpu {
    fn describe(&self) -> Description {
        let isa = self.kernels.isa();
        let features: Vec<&str> = kernels::features().collect();
        Description {
            name: "cpu",
            device: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            facts: vec![
                ("threads", lock(&self.state).pool.threads().to_string()),
                ("features", if features.is_empty() { "none looked for".into() } else { features.join(" ") }),
                ("kernels", isa.name().into()),
                (
                    "quantised weights",
                    if self.is_wide {
                        format!("{}, dequantised for f32 activations", isa.name())
                    } else {
                        format!("{} integer dot products with 8-bit activations", isa.name())
                    },
                ),
                ("F32, F16, BF16 weights", format!("{} with f32 activations", isa.name())),
                (
                    "copies of weights",
                    if self.is_repacking { "packed for the kernels" } else { "none" }.into(),
                ),
            ],
        }
    }

    fn load(&mut self, name: &str, weight: Weight) -> Result<(), Error> {
        weight.check(name)?;
        self.matrices.remove(name);
        self.weights.insert(name.to_owned(), weight);
        Ok(())
    }

    fn allocate_kv(&mut self, layout: KvLayout) -> Result<(), Error> {
        // The old store goes first, so that there is room for the new one.
        lock(&self.state).kv = None;
        let kv = Kv::new(layout)?;
        lock(&self.state).kv = Some(kv);
        Ok(())
    }

    fn compile(&mut self, graph: &Graph, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let layout = lock(&self.state).layout();
        let bound = Bound::new(graph, &self.weights, layout, bucket, taps)?;
        let mut matrices = vec![None; graph.weights().count()];
        for (_, value) in graph.values() {
            if let Op::Linear { weight: id, .. } = value.op {
                let name = &graph.weight(id).name;
                if !self.matrices.contains_key(name) {
                    let matrix = Arc::new(self.matrix(bound.weight(id).clone()));
                    self.matrices.insert(name.clone(), matrix);
                }
                matrices[id.index()] = self.matrices.get(name).cloned();
            }
        }
        Ok(Box::new(CpuProgram::new(bound, matrices, self.kernels, self.state.clone())))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let pool = &mut lock(&self.state).pool;
        // As they lie in the file, which is read from one end to the other.
        let mut matrices: Vec<(&String, &Arc<Matrix>)> = self.matrices.iter().collect();
        matrices.sort_by_key(|(_, matrix)| matrix.weight.bytes.as_ptr());
        for (name, matrix) in matrices {
            matrix.pack(pool)?;
            if matrix.is_copied {
                copied(name);
            }
        }
        Ok(())
    }

    fn memory(&self) -> Memory {
        let state = lock(&self.state);
        let copies = || self.matrices.iter().filter(|(_, matrix)| matrix.is_copied);
        Memory {
            weights_mapped: {
                let all: u64 = self.weights.values().map(|weight| weight.bytes.len() as u64).sum();
                all - copies().map(|(_, matrix)| matrix.weight.bytes.len() as u64).sum::<u64>()
            },
            weights_owned: copies().map(|(_, matrix)| matrix.bytes()).sum(),
            kv: state.layout().map_or(0, |kv| kv.bytes()),
            activations: state.activation_bytes,
            ..Memory::default()
        }
    }
}

/// The processor's name, where the system has a file that says it (Linux on x86).
fn processor() -> Option<String> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let (_, name) = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'))?;
    let name = name.trim();
    (!name.is_empty()).then(|| format!("{name} ({})", std::env::consts::ARCH))
}

/// A step that panicked leaves the store with old or new rows, both of which the next step overwrites.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use backend::{Span, Step};

    use super::*;

    /// A matrix is copied to two strips of 16 rows, or left; the table is read where it lies. Nothing is taken before
    /// it is needed, and the numbers do not depend on when that is, nor on where the matrix is.
    #[test]
    fn what_is_copied_is_told_and_counted() {
        let mut graph = graph::Builder::new();
        let (table, matrix) = (graph.weight("table", 3, 32), graph.weight("matrix", 20, 32));
        let x = graph.embed("x", table);
        let x = graph.take_rows("x_wanted", x);
        let y = graph.linear("y", x, matrix);
        let graph = graph.finish(y);
        let step = Step::new(vec![2, 0], vec![Span { past: 0, len: 2, pages: vec![0] }], vec![0, 1]);
        let step = step.expect("a good step");
        let run = |prepare: bool, repack: bool| {
            let cpu = Cpu::new(1.try_into().ok());
            let mut cpu = if repack { cpu } else { cpu.without_repacking() };
            for (name, rows) in [("table", 3), ("matrix", 20)] {
                let bytes: Vec<u8> = (0..rows * 32).flat_map(|i| (i as f32).sin().to_le_bytes()).collect();
                let weight = Weight { format: Format::F32, rows, cols: 32, bytes: bytes.into() };
                cpu.load(name, weight).expect("a good weight");
            }
            let bucket = Bucket { rows: 2, wanted: 2 };
            let mut program = cpu.compile(&graph, bucket, Taps::None).expect("a good graph");
            let memory = cpu.memory();
            let expected = if repack { (3 * 32 * 4, 2 * 16 * 32 * 4) } else { ((3 + 20) * 32 * 4, 0) };
            assert_eq!((memory.weights_mapped, memory.weights_owned), expected);
            assert_eq!(cpu.matrices["matrix"].packed.get().is_none(), repack);
            if prepare {
                let mut copied = Vec::new();
                cpu.prepare(&mut |name| copied.push(name.to_owned())).expect("room");
                assert_eq!(copied, ["matrix"][..usize::from(repack)]);
                assert!(cpu.matrices["matrix"].packed.get().is_some());
            }
            program.run(&step).expect("a good step");
            program.output().to_vec()
        };
        let later = run(false, true);
        assert_eq!(later.len(), 2 * 20);
        for (prepare, repack) in [(true, true), (true, false), (false, false)] {
            assert_eq!(run(prepare, repack), later);
        }
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
