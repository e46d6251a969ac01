//! Where the layers of a model are computed: how many of them a graphics processor takes.

use anyhow::bail;
use backend::{Backend, Bucket, KvLayout, PAGE, Taps};
use backend_wgpu::{Adapter, Gpu, Needs};
use engine::{DEFAULT_N_CTX, KvFormat, LogitRows, Model, Options, Split};
use graph::Graph;
use quant::Format;

use crate::args::{BackendArgs, BackendName, CpuArgs};
use crate::output::{counted, note, size};
use crate::values::{GpuLayers, Size};
use crate::{backends, output};

/// How much of a model a graphics processor takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct GpuArgs {
    /// Layers on the graphics processor, the last ones and the output: a number, all, or auto for as many as
    /// its memory has room for [short: -ngl]
    #[arg(long, aliases = ["ngl", "n-gpu-layers"], value_name = "N", default_value = "auto")]
    #[arg(env = "RUSTORCH_GPU_LAYERS")]
    pub(crate) gpu_layers: GpuLayers,
    /// Memory of the graphics processor to use, at most, such as 2GiB: what would go beyond is an error [default:
    /// what is free]
    #[arg(long, value_name = "SIZE", env = "RUSTORCH_GPU_MEMORY")]
    pub(crate) gpu_memory: Option<Size>,
}

/// What somebody wants to compute with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) name: BackendName,
    pub(crate) gpu: GpuArgs,
    pub(crate) cpu: CpuArgs,
    /// Whether a graphics processor times its kernels.
    pub(crate) is_timed: bool,
}

impl From<&BackendArgs> for Wish {
    fn from(args: &BackendArgs) -> Wish {
        Wish { name: args.backend, gpu: args.gpu, cpu: args.cpu, is_timed: false }
    }
}

/// What decides how much memory layers take.
pub(crate) struct Sizes<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) format_of: &'a dyn Fn(&str) -> Option<Format>,
    pub(crate) kv: KvFormat,
    /// Positions of the K/V cache.
    pub(crate) n_ctx: usize,
    /// Rows of a step.
    pub(crate) n_batch: usize,
    pub(crate) read: Read,
}

/// What is read of the steps of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// The logits. More than the last take a program of their own.
    pub(crate) logits: LogitRows,
    /// Whether every value is.
    pub(crate) values: bool,
}

impl Read {
    /// What tokens are sampled from.
    pub(crate) const LAST: Read = Read { logits: LogitRows::Last, values: false };
}

impl Sizes<'_> {
    /// Calls `with` with those of `model` on an engine of these options of which so much is read.
    pub(crate) fn with<T>(
        model: &Model,
        options: &Options,
        read: Read,
        with: impl FnOnce(&Sizes<'_>) -> T,
    ) -> T {
        let format_of = |name: &str| model.file().tensor(name).map(|tensor| tensor.format);
        let n_ctx = options.n_ctx.unwrap_or(model.n_ctx_train().min(DEFAULT_N_CTX));
        let (kv, n_batch) = (options.kv_format, options.n_batch);
        with(&Sizes { graph: model.graph(), format_of: &format_of, kv, n_ctx, n_batch, read })
    }

    pub(crate) fn layers(&self) -> usize {
        self.graph.layers()
    }

    /// What the last `layers` layers, at least one, and the output take on a device. None when the model cannot be
    /// cut there.
    pub(crate) fn of(&self, layers: usize) -> Option<Needs> {
        let cut;
        let graph = match self.layers() - layers {
            0 => self.graph,
            first => {
                cut = Split::cut(self.graph, first)?;
                &cut.1
            }
        };
        let kv = KvLayout::of(graph, self.n_ctx.div_ceil(PAGE), self.kv);
        let rows = self.n_batch.min(self.n_ctx).max(1);
        let mut buckets = vec![Bucket { rows: 1, wanted: 1 }, Bucket { rows, wanted: 1 }];
        if self.read.logits != LogitRows::Last {
            let rows = engine::all_logits_rows(graph.value(graph.output()).cols, rows);
            buckets.push(Bucket { rows, wanted: rows });
        }
        let taps = if self.read.values { Taps::All } else { Taps::None };
        Needs::of(graph, self.format_of, kv, &buckets, taps).ok()
    }

    /// How many layers so many bytes have room for.
    pub(crate) fn fitting(&self, room: u64) -> usize {
        let (mut fits, mut too_many) = (0, self.layers() + 1);
        while too_many - fits > 1 {
            let middle = (fits + too_many) / 2;
            let has_room = self.of(middle).is_some_and(|needs| needs.total() <= room);
            *(if has_room { &mut fits } else { &mut too_many }) = middle;
        }
        fits
    }
}

/// The memory that may be used on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// What is free, as far as the driver says, or what the user allows.
    bytes: Option<u64>,
    /// What `auto` leaves of it: drivers, other programs and larger batches take some.
    reserve: u64,
    is_limited: bool,
    /// Whether others may have taken some of it, for all the driver says.
    is_total: bool,
}

impl Budget {
    pub(crate) fn of(adapter: &Adapter, limit: Option<Size>) -> Budget {
        const MIB: u64 = 1 << 20;
        let room = adapter.room();
        let free = room.free.or(room.total);
        let limit = limit.map(|Size(bytes)| bytes);
        let is_limited = limit.is_some_and(|limit| free.is_none_or(|free| limit < free));
        let bytes = if is_limited { limit } else { free };
        let reserve = room.total.map_or(0, |total| (total / 16).clamp(256 * MIB, 1024 * MIB));
        let is_total = room.free.is_none();
        Budget { bytes, reserve: if is_limited { 0 } else { reserve }, is_limited, is_total }
    }

    /// What `auto` uses; none when nobody knows.
    pub(crate) fn for_auto(self) -> Option<u64> {
        self.bytes.map(|bytes| bytes.saturating_sub(self.reserve))
    }

    fn in_words(self) -> String {
        let bytes = self.bytes.map_or_else(|| "an unknown amount".to_owned(), size);
        match self {
            Budget { is_limited: true, .. } => format!("{bytes} may be used"),
            Budget { is_total: true, .. } => format!("{bytes} is all there is"),
            _ => format!("{bytes} is free"),
        }
    }
}

/// Who computes a model.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    wish: Wish,
    adapter: Option<Adapter>,
    /// Layers of the model.
    layers: usize,
    /// Those of the adapter, the last ones.
    pub(crate) on_gpu: usize,
}

impl Placement {
    /// For a model of these sizes.
    ///
    /// # Errors
    /// When the device that was asked for is not there, or has no room for as many layers as were asked for.
    pub(crate) fn new(wish: Wish, sizes: &Sizes<'_>) -> anyhow::Result<Placement> {
        let layers = sizes.layers();
        let on_cpu = Placement { wish, adapter: None, layers, on_gpu: 0 };
        let wanted = match wish.gpu.gpu_layers {
            GpuLayers::Auto => None,
            GpuLayers::All => Some(layers),
            GpuLayers::Last(number) => Some(number.min(layers)),
        };
        let is_for_none = matches!(wish.name, BackendName::Cpu | BackendName::Reference);
        if is_for_none || wanted == Some(0) {
            return Ok(on_cpu);
        }
        let Some(adapter) = backends::adapter(wish.name)? else {
            if wanted.is_some() {
                note(format_args!("rustorch: no graphics processor was found: the CPU computes all layers"));
            }
            return Ok(on_cpu);
        };
        let budget = Budget::of(&adapter, wish.gpu.gpu_memory);
        let on_gpu = match (wanted, budget.for_auto()) {
            (Some(wanted), _) => {
                check(&adapter, budget, sizes, wanted)?;
                wanted
            }
            (None, Some(room)) => sizes.fitting(room),
            (None, None) => layers,
        };
        if on_gpu == 0 {
            note(format_args!(
                "rustorch: {} has no room for a layer of this model ({}): the CPU computes it",
                output::printable(adapter.name(), ""),
                budget.in_words()
            ));
            return Ok(on_cpu);
        }
        Ok(Placement { adapter: Some(adapter), on_gpu, ..on_cpu })
    }

    /// Makes the backend and has `put` put the model on it. Where that fails for want of room, the graphics processor
    /// gets fewer layers, unless the user has said how many.
    ///
    /// # Errors
    /// Those of `put`, and when a device cannot be opened.
    pub(crate) fn with<T>(
        mut self,
        mut put: impl FnMut(Box<dyn Backend>, &Placement) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        loop {
            let error = match self.backend().and_then(|backend| put(backend, &self)) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let Some(fewer) = self.after(&error) else { return Err(error) };
            let goes_on = match fewer {
                0 => "the CPU computes all layers".to_owned(),
                fewer => format!("trying {}", counted(fewer as u64, "layer")),
            };
            note(format_args!("rustorch: {}; {goes_on}", output::message(&error)));
            self.on_gpu = fewer;
        }
    }

    /// How many layers the graphics processor is to get after an error; none when it is final.
    fn after(&self, error: &anyhow::Error) -> Option<usize> {
        let (is_free, wish) = (self.wish.gpu.gpu_layers == GpuLayers::Auto, self.wish.name);
        match backends::fault(error)? {
            _ if self.on_gpu == 0 => None,
            backend::Error::OutOfMemory { .. } if is_free => Some(self.on_gpu / 2),
            backend::Error::Device { .. } if wish == BackendName::Auto => Some(0),
            _ => None,
        }
    }

    fn backend(&self) -> anyhow::Result<Box<dyn Backend>> {
        let on_cpu = || backends::on_cpu(self.wish.name, self.wish.cpu);
        let options = backend_wgpu::Options {
            is_timed: self.wish.is_timed,
            f32_activations: self.wish.name == BackendName::HybridF32,
            memory: self.wish.gpu.gpu_memory.map(|Size(bytes)| bytes),
        };
        let gpu = |adapter: &Adapter| Gpu::with(adapter, options);
        Ok(match &self.adapter {
            Some(adapter) if self.on_gpu == self.layers => Box::new(gpu(adapter)?),
            Some(adapter) if self.on_gpu > 0 => {
                Box::new(Split::new(on_cpu(), Box::new(gpu(adapter)?), self.layers - self.on_gpu))
            }
            _ => on_cpu(),
        })
    }

    /// For people, such as `vulkan (NVIDIA H200), all 8 layers`.
    pub(crate) fn in_words(&self) -> String {
        match &self.adapter {
            Some(adapter) if self.on_gpu > 0 => {
                let device = output::printable(adapter.name(), "");
                let share = match self.layers - self.on_gpu {
                    0 => format!("all {}", counted(self.layers as u64, "layer")),
                    first => format!("{} of {} layers; {first} on the CPU", self.on_gpu, self.layers),
                };
                format!("{} ({device}), {share}", adapter.interface())
            }
            _ => match self.wish.name {
                BackendName::Reference => "reference",
                BackendName::HybridF32 => "cpu, with activations of f32",
                _ => "cpu",
            }
            .to_owned(),
        }
    }
}

/// Refuses what is known not to fit.
fn check(adapter: &Adapter, budget: Budget, sizes: &Sizes<'_>, wanted: usize) -> anyhow::Result<()> {
    let (Some(room), Some(needs)) = (budget.bytes, sizes.of(wanted)) else { return Ok(()) };
    if needs.total() <= room {
        return Ok(());
    }
    let fitting = match sizes.fitting(room) {
        0 => "none fits; use -ngl 0".to_owned(),
        1 => "1 fits; use -ngl 1".to_owned(),
        fitting => format!("{fitting} fit; use -ngl {fitting}"),
    };
    bail!(
        "{} of {} layers and the output take {} on {}, where {}: {fitting} or -ngl auto, a smaller context (-c N), or \
         a model of fewer bits",
        wanted,
        sizes.layers(),
        size(needs.total()),
        output::printable(adapter.name(), ""),
        budget.in_words()
    )
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use backend_cpu::Cpu;
    use engine::Engine;
    use gguf::Gguf;
    use testkit::llama::Spec;

    use super::*;
    use crate::backends::WeightsArgs;

    const LAYERS: usize = 3;

    const OPTIONS: Options =
        Options { n_ctx: Some(200), sequences: 1, n_batch: 64, kv_format: KvFormat::F16, pages: None };

    fn model(format: Format) -> Model {
        let file = Spec { layers: LAYERS as u32, ..Spec::new(format) }.file();
        Model::new(Gguf::from_named_bytes("random", file.into()).expect("a file")).expect("a model")
    }

    #[test]
    fn as_many_layers_fit_as_there_is_room_for() {
        let model = model(Format::Q4_K);
        Sizes::with(&model, &OPTIONS, Read::LAST, |sizes| {
            assert_eq!((sizes.fitting(0), sizes.fitting(u64::MAX)), (0, LAYERS));
            for layers in 1..=LAYERS {
                let needed = sizes.of(layers).expect("it can be cut").total();
                assert_eq!((sizes.fitting(needed), sizes.fitting(needed - 1)), (layers, layers - 1));
            }
        });
    }

    /// The device refuses what goes beyond a limit, whatever was worked out.
    #[test]
    fn a_limit_is_the_devices_too() {
        let Some(adapter) = adapter() else { return };
        let name = if adapter.interface() == "metal" { BackendName::Metal } else { BackendName::Vulkan };
        let model = model(Format::Q4_K);
        Sizes::with(&model, &OPTIONS, Read::LAST, |sizes| {
            let limit = Size(sizes.of(LAYERS).expect("all").total());
            let gpu = GpuArgs { gpu_layers: GpuLayers::All, gpu_memory: Some(limit) };
            let cpu = CpuArgs { threads: None, isa: None, weights: WeightsArgs { no_repack: false } };
            let placement = Placement::new(Wish { name, gpu, cpu, is_timed: false }, sizes).expect("room");
            let put = |options: Options| {
                placement.clone().with(|backend, _| Ok(Engine::memory(&model, backend, options)?))
            };
            put(OPTIONS).expect("room");
            let refused = put(Options { pages: Some(4000), ..OPTIONS }).expect_err("it is too little");
            let refused = refused.to_string();
            assert!(refused.starts_with("no room for ") && refused.contains("--gpu-memory"), "{refused}");
        });
    }

    /// All logits and values take room of their own, which is counted; programs that others replace take none.
    #[test]
    fn there_is_room_for_what_is_read() {
        let Some(adapter) = adapter() else { return };
        let model = Arc::new(model(Format::Q4_K));
        let names: Vec<&str> = model.graph().values().map(|(_, value)| &*value.name).collect();
        let total =
            |read| Sizes::with(&model, &OPTIONS, read, |sizes| sizes.of(LAYERS).expect("all").total());
        let engine = |memory: u64| {
            let options = backend_wgpu::Options { memory: Some(memory), ..Default::default() };
            let gpu = Gpu::with(&adapter, options).expect("a device that opens");
            Engine::new(model.clone(), Box::new(gpu), OPTIONS).expect("room")
        };
        let reads = |engine: &mut Engine, read: Read| {
            if read.values {
                engine.tap(&names, |_, _| ())?;
                // Another takes the place of the first.
                engine.tap(&names, |_, _| ())?;
            }
            if read.logits == LogitRows::Last { Ok(()) } else { engine.prepare_logits() }
        };
        for (logits, values) in [(LogitRows::All, false), (LogitRows::Last, true), (LogitRows::All, true)] {
            let read = Read { logits, values };
            reads(&mut engine(total(read)), read).unwrap_or_else(|error| panic!("{read:?}: {error}"));
            let mut engine = engine(total(Read::LAST));
            let refused = reads(&mut engine, read).expect_err("it is too little").to_string();
            assert!(refused.starts_with("no room for "), "{read:?}: {refused}");
            let mut rows = 0;
            let last = engine.logits(&[1; 80], LogitRows::Last, |_, _| {
                rows += 1;
                ControlFlow::Continue(())
            });
            last.unwrap_or_else(|error| panic!("{read:?}: it computes as before: {error}"));
            assert_eq!(rows, 1);
        }
    }

    /// The device to test on.
    fn adapter() -> Option<Adapter> {
        let found = backend_wgpu::adapters().into_iter().next();
        if found.is_none() {
            assert!(std::env::var_os("RUSTORCH_REQUIRE_GPU").is_none(), "no Vulkan or Metal device");
            eprintln!("skipped: no Vulkan or Metal device");
        }
        found
    }

    /// What is worked out without a device is what is taken on one: with as much it works, with a fifth less it does
    /// not. Formats without kernels take more than in the file.
    #[test]
    fn needs_are_what_is_taken() {
        let Some(adapter) = adapter() else { return };
        for format in [Format::F32, Format::Q4_K, Format::IQ4_XS] {
            let model = model(format);
            let taken = |layers: usize, memory: Option<u64>| {
                let options = backend_wgpu::Options { memory, ..Default::default() };
                let gpu = Box::new(Gpu::with(&adapter, options).expect("a device that opens"));
                let backend: Box<dyn Backend> = match LAYERS - layers {
                    0 => gpu,
                    first => Box::new(Split::new(Box::new(Cpu::new(None)), gpu, first)),
                };
                Engine::memory(&model, backend, OPTIONS)
            };
            let whole = taken(LAYERS, None).expect("room");
            let part = taken(LAYERS - 1, None).expect("room");
            Sizes::with(&model, &OPTIONS, Read::LAST, |sizes| {
                for (layers, of_weights) in
                    [(LAYERS, whole.weights_on_device), (LAYERS - 1, part.weights_on_device)]
                {
                    let needs = sizes.of(layers).expect("it can be cut");
                    // Norms, of two programs, are not counted as copies.
                    let norms = 2 * (2 * layers + 1) as u64 * 256 * 4;
                    assert_eq!(needs.weights, of_weights + norms, "{format}, {layers}");
                    let room = needs.total();
                    taken(layers, Some(room)).unwrap_or_else(|error| panic!("{format}, {layers}: {error}"));
                    let refused = taken(layers, Some(room / 5 * 4)).expect_err("it is too little");
                    assert!(refused.to_string().starts_with("no room for "), "{refused}");
                }
                assert_eq!(sizes.of(LAYERS).expect("all").kv, whole.kv, "{format}");
            });
            assert_eq!(whole.weights_plain.is_empty(), format != Format::IQ4_XS, "{whole:?}");
        }
    }
}
