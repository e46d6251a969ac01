//! Compiles a plan to launches and buffers, without touching device memory.
//!
//! [`Blueprint`] holds everything but the buffers themselves, so that memory requirements are known before anything
//! is allocated.

use std::collections::HashMap;

use backend::{BoundProgram, Error, Remedy, Taps, Transfer};
use graph::{Index, Rows, ValueId, WeightId};
use passes::{
    Addend, CHUNK, Cost, Inputs, LinearOutput, Norm, Part, Pass, Plan, Purpose, Readback, Splits, Variant,
    When, kernel_name, out_of_memory,
};

use crate::device::{Device, STORAGE, allocated_size};
use crate::kernels::{self, Kernel, Matrices};
use crate::launch::{BufferId, BufferPlan, Each, F32, Grid, LaunchPlan, Work};
use crate::model::ModelPlan;
use crate::policy::{self, Algorithm, MatmulShape};
use crate::weights::{MatrixLayout, Shard};

/// Fills the margins around values: a NaN that no computation produces.
pub(crate) const CANARY: f32 = f32::from_bits(0x7fc5_7ead);

/// A buffer with the offset and stride of a value in it.
pub(crate) type Operand = (BufferId, [u32; 2]);

const CONSTANTS: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_DST);

/// A compiled graph. Nothing is allocated on the device yet.
pub(crate) struct Blueprint {
    pub(crate) bound: BoundProgram,
    #[cfg(test)]
    pub(crate) plan: Plan,
    #[cfg(test)]
    pub(crate) scratch: Scratch,
    /// The first ones are the plan's slots.
    pub(crate) buffers: Vec<BufferPlan>,
    pub(crate) work: Vec<Work<LaunchPlan>>,
    pub(crate) inputs: Inputs,
    /// Indices of the input buffer and of the staging buffer for readback.
    pub(crate) uploaded: usize,
    pub(crate) staging: usize,
    pub(crate) readbacks: Vec<Readback>,
    /// Index of the buffer with the argmax of each output row; `None` unless the graph's output is logits.
    pub(crate) tokens: Option<usize>,
}

/// Buffers shared by all passes, each as large as the most demanding pass needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Partial results of split attention.
    pub(crate) parts: Option<usize>,
    /// Roped queries for flash attention.
    pub(crate) roped: Option<usize>,
    /// f16 activation rows for cooperative matrices, and a scale per row.
    pub(crate) f16_rows: Option<usize>,
    pub(crate) f16_scales: Option<usize>,
    /// Outputs of the experts' gate and up projections, and of their down projections.
    pub(crate) hidden: Option<usize>,
    pub(crate) downs: Option<usize>,
    /// Rows grouped by experts.
    pub(crate) groups: Option<usize>,
    /// Argmax of each output row.
    pub(crate) tokens: Option<usize>,
    /// Lists of the experts that each row uses.
    pub(crate) lists: Vec<usize>,
}

pub(crate) struct Compiler<'a> {
    pub(crate) device: &'a Device,
    pub(crate) model: &'a ModelPlan,
    pub(crate) bound: &'a BoundProgram,
    pub(crate) plan: Plan,
    pub(crate) buffers: Vec<BufferPlan>,
    vectors: HashMap<WeightId, BufferId>,
    pub(crate) inputs: Inputs,
    pub(crate) scratch: Scratch,
    work: Vec<Work<LaunchPlan>>,
}

impl Blueprint {
    /// Compiles `bound` for the weight and cache layouts of `model`.
    pub(crate) fn new(
        device: &Device,
        model: &ModelPlan,
        bound: BoundProgram,
        taps: Taps<'_>,
    ) -> Result<Blueprint, Error> {
        let rows = bound.bucket().rows;
        // Some kernels use one workgroup per row.
        if rows > device.limits.max_compute_workgroups_per_dimension as usize {
            let what = "activations of more rows than a dispatch can have";
            return Err(out_of_memory(what, rows.saturating_mul(F32) as u64, Remedy::SmallerBatch));
        }
        let plan = Plan::new(&bound, device.margin());
        let inputs = Inputs::new(&bound, vec![Splits::default(); bound.graph().groups().len()]);
        let mut compiler = Compiler {
            device,
            model,
            bound: &bound,
            plan,
            buffers: Vec::new(),
            vectors: HashMap::new(),
            inputs,
            scratch: Scratch::default(),
            work: Vec::new(),
        };
        for slot in compiler.plan.slots.clone() {
            let rows = bound.bucket().count(slot.rows).max(1);
            compiler.buffer(Purpose::Activations, (rows * slot.cols - device.margin()) * F32)?;
        }
        for list in compiler.plan.lists.clone() {
            let bytes = bound.bucket().count(list.rows).max(1) * list.words() * F32;
            let list = compiler.buffer(Purpose::Activations, bytes)?;
            compiler.scratch.lists.push(list);
        }
        let output = bound.output();
        let is_tapped = taps.contains(&bound.value(output).name);
        // Tokens come first in the staging buffer, and logits, as the last value, come last: a step that asks for
        // tokens only maps just the tokens.
        let (mut readbacks, mut staged) = (Vec::new(), bound.bucket().outputs);
        for pass in compiler.plan.passes.clone() {
            compiler.pass(&pass)?;
            for id in pass.makes().into_iter().filter(|&id| bound.is_readable(id)) {
                let readback = Readback::new(&bound, &compiler.plan, id, staged, is_tapped);
                let values = bound.bucket().count(compiler.plan.slots[readback.slot].rows) * readback.stride;
                compiler.work.push(Work::Readback(readbacks.len()));
                readbacks.push(readback);
                staged += values;
            }
        }
        compiler.choose_tokens(output)?;
        let tokens = compiler.scratch.tokens;
        let uploaded = compiler.inputs.words.len() * F32;
        let uploaded = compiler.add(Purpose::Inputs, uploaded, CONSTANTS, Vec::new())?;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = compiler.add(Purpose::Results, staged * F32, usage, Vec::new())?;
        let Compiler { buffers, work, inputs, .. } = compiler;
        Ok(Blueprint {
            #[cfg(test)]
            plan: compiler.plan,
            #[cfg(test)]
            scratch: compiler.scratch,
            bound,
            buffers,
            work,
            inputs,
            uploaded,
            staging,
            readbacks,
            tokens,
        })
    }

    /// Size of all buffers in bytes, parameters included.
    pub(crate) fn bytes(&self) -> u64 {
        let own: u64 = self.buffers.iter().map(|buffer| allocated_size(buffer.bytes)).sum();
        let variants = self.work.iter().filter_map(|work| match work {
            Work::Dispatch { variants, .. } => Some(variants),
            Work::Input { .. } | Work::Readback(_) => None,
        });
        let launches = variants.flatten().flat_map(|variant| &variant.launches);
        own + launches.map(|launch| allocated_size((launch.params.len() * F32) as u64)).sum::<u64>()
    }
}

impl Compiler<'_> {
    fn pass(&mut self, pass: &Pass) -> Result<(), Error> {
        match *pass {
            Pass::Input { y } => {
                let location = self.plan.location(y);
                let stride = self.plan.slots[location.slot].cols;
                let rows = vec![CANARY; allocated_size(self.buffers[location.slot].bytes) as usize / F32];
                let (col, cols) = (location.col, self.cols(y));
                self.work.push(Work::Input { buffer: location.slot, col, cols, stride, rows });
            }
            Pass::Embed { table, index, y } => self.embed(table, index, y),
            Pass::Linear { x, norm, ref parts, output, ref addend } => {
                self.linear(x, norm, parts, output, addend)?
            }
            Pass::HeadLinear { x, weight, y } => self.head_linear(x, weight, y)?,
            Pass::Rows { ref op, y } => self.row_wise(op, y)?,
            Pass::Same { .. } => {}
            Pass::Rope { x, ref rope, y } => {
                let launch = self.rope(x, rope, self.slot(y), self.at(y));
                self.dispatch(y, vec![Variant::always(vec![launch])]);
            }
            Pass::Recurrent { op, y } => self.recurrent(op, y)?,
            Pass::Attend(ref attend) => self.attend(attend)?,
            Pass::Route { logits, bias, router, list, y } => self.route(logits, bias, router, list, y)?,
            Pass::Experts(ref experts) => self.experts(experts)?,
            Pass::AllReduce { .. } => {
                return Err(Error::Shard("Vulkan and Metal have no sums over ranks".to_owned()));
            }
        }
        Ok(())
    }

    pub(crate) fn add(
        &mut self,
        purpose: Purpose,
        bytes: usize,
        usage: wgpu::BufferUsages,
        words: Vec<u32>,
    ) -> Result<usize, Error> {
        let bytes = bytes as u64;
        self.device.check_size(purpose, bytes, usage)?;
        self.buffers.push(BufferPlan { purpose, bytes, usage, words });
        Ok(self.buffers.len() - 1)
    }

    /// Adds a buffer that kernels write.
    pub(crate) fn buffer(&mut self, purpose: Purpose, bytes: usize) -> Result<usize, Error> {
        self.add(purpose, bytes, STORAGE, Vec::new())
    }

    /// Adds a buffer with initial contents.
    pub(crate) fn constants(&mut self, words: Vec<u32>) -> Result<BufferId, Error> {
        self.add(Purpose::Constants, words.len() * F32, CONSTANTS, words).map(BufferId::Own)
    }

    /// A scratch buffer shared by passes, grown to at least `bytes`.
    pub(crate) fn scratch_buffer(
        &mut self,
        of: fn(&mut Scratch) -> &mut Option<usize>,
        purpose: Purpose,
        bytes: usize,
    ) -> Result<BufferId, Error> {
        let index = match *of(&mut self.scratch) {
            Some(index) => {
                let bytes = self.buffers[index].bytes.max(bytes as u64);
                self.device.check_size(purpose, bytes, STORAGE)?;
                self.buffers[index].bytes = bytes;
                index
            }
            None => self.buffer(purpose, bytes)?,
        };
        *of(&mut self.scratch) = Some(index);
        Ok(BufferId::Own(index))
    }

    pub(crate) fn slot(&self, id: ValueId) -> BufferId {
        BufferId::Own(self.plan.location(id).slot)
    }

    /// Offset and stride of a value in its buffer.
    pub(crate) fn at(&self, id: ValueId) -> [u32; 2] {
        let location = self.plan.location(id);
        [location.col as u32, self.plan.slots[location.slot].cols as u32]
    }

    pub(crate) fn cols(&self, id: ValueId) -> usize {
        self.bound.value(id).cols
    }

    /// A single-row weight, as f32.
    pub(crate) fn vector(&mut self, id: WeightId) -> Result<BufferId, Error> {
        if let Some(&buffer) = self.vectors.get(&id) {
            return Ok(buffer);
        }
        let buffer = self.constants(self.bound.weight(id).vector().iter().map(|x| x.to_bits()).collect())?;
        self.vectors.insert(id, buffer);
        Ok(buffer)
    }

    pub(crate) fn launch(
        &self,
        kernel: Kernel,
        params: Vec<u32>,
        buffers: Vec<BufferId>,
        grid: Grid,
        cost: Cost,
    ) -> LaunchPlan {
        assert_eq!(buffers.len() + 2, kernel.bindings().len(), "buffers of {kernel:?}");
        LaunchPlan { kernel, params, buffers, grid, cost }
    }

    pub(crate) fn dispatch(&mut self, y: ValueId, variants: Vec<Variant<LaunchPlan>>) {
        self.work.push(Work::Dispatch { rows: self.bound.value(y).rows, variants });
    }

    /// Rows of a value in the largest step of the bucket.
    pub(crate) fn max_rows_of(&self, id: ValueId) -> usize {
        self.bound.bucket().count(self.bound.value(id).rows)
    }

    /// Index of the word in the step inputs that holds the number of rows.
    pub(crate) fn row_count_word(&self, id: ValueId) -> u32 {
        match self.bound.value(id).rows {
            Rows::Step => 0,
            Rows::Output => 1,
        }
    }

    fn embed(&mut self, table: WeightId, index: Index, y: ValueId) {
        let rows = match index {
            Index::Token => self.inputs.tokens,
            Index::Position => self.inputs.positions,
        };
        for (number, shard) in self.model.matrix(table).shards.iter().enumerate() {
            let [at, stride] = self.at(y);
            let mut params = shard.layout.params().to_vec();
            params.extend([shard.rows.start as u32, shard.rows.end as u32, 0, 0]);
            params.extend([at / 4, stride / 4, self.cols(y).div_ceil(4) as u32, rows as u32]);
            let kernel = Kernel::Embed { format: kernel_name(shard.layout.format) };
            let buffers = vec![self.slot(y), BufferId::Weight(table, number)];
            let grid = Grid::rows(shard.layout.chunks.div_ceil(64));
            let cost = Cost::row("embed", stride as usize * F32 * 2);
            let launch = self.launch(kernel, params, buffers, grid, cost);
            self.dispatch(y, vec![Variant::always(vec![launch])]);
        }
    }

    fn linear(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        output: LinearOutput,
        addend: &Addend,
    ) -> Result<(), Error> {
        // The addend's buffer, and the offset of each part in it.
        let first = self.plan.location(parts[0].y).col;
        let offset = |compiler: &Self, part: &Part| compiler.plan.location(part.y).col - first;
        let addend = match addend {
            Addend::None => None,
            Addend::Residual(id) => Some((self.slot(*id), self.at(*id))),
            Addend::Biases(biases) => {
                let mut words = Vec::new();
                for (part, bias) in parts.iter().zip(biases) {
                    words.resize(offset(self, part), 0);
                    let zeros = || vec![0.0; self.cols(part.y)];
                    let values = bias.map_or_else(zeros, |bias| self.bound.weight(bias).vector());
                    words.extend(values.iter().map(|x| x.to_bits()));
                }
                Some((self.constants(words)?, [0, 0]))
            }
        };
        let model = self.model;
        let of = |part: &Part| (part.weight, model.matrix(part.weight));
        let matrices: Vec<(WeightId, &MatrixLayout)> = parts.iter().map(of).collect();
        let is_whole = matrices.iter().all(|(_, matrix)| matrix.shards.len() == 1);
        fn shards<'a>(&(id, matrix): &(WeightId, &'a MatrixLayout)) -> impl Iterator<Item = ShardRef<'a>> {
            let shard = move |(index, shard)| ShardRef { weight: id, matrix, index, shard };
            matrix.shards.iter().enumerate().map(shard)
        }
        // The shards of each dispatch, with the parts it computes.
        let dispatches: Vec<(&[Part], Vec<ShardRef<'_>>)> = match output {
            _ if is_whole => vec![(parts, matrices.iter().flat_map(shards).collect())],
            LinearOutput::Separate => {
                let parts = parts.iter().map(std::slice::from_ref).zip(&matrices);
                let each = |(part, matrix)| shards(matrix).map(move |shard| (part, vec![shard]));
                parts.flat_map(each).collect()
            }
            LinearOutput::Glu(_) => {
                let pairs = shards(&matrices[0]).zip(shards(&matrices[1]));
                pairs.map(|(gate, up)| (&parts[..1], vec![gate, up])).collect()
            }
        };
        for (parts, shards) in dispatches {
            let addend = addend.map(|(buffer, [at, stride])| {
                let at = at as usize + offset(self, &parts[0]) + shards[0].shard.rows.start;
                (buffer, [at as u32, stride])
            });
            self.matmul(x, norm, parts, &shards, output, addend)?;
        }
        Ok(())
    }

    /// One matmul pass, whose weights are in one buffer each.
    fn matmul(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        shards: &[ShardRef<'_>],
        output: LinearOutput,
        addend: Option<Operand>,
    ) -> Result<(), Error> {
        let y = parts[0].y;
        let glu = if let LinearOutput::Glu(glu) = output { Some(glu) } else { None };
        let gates = if glu.is_some() { 2 } else { 1 };
        let cols = self.cols(x);
        let mut params: Vec<[u32; 4]> = vec![[0; 4]; 3];
        let (mut outputs, mut offsets) = ([0; 4], [0; 4]);
        for (i, ShardRef { shard, .. }) in shards.iter().enumerate() {
            params[i] = shard.layout.params();
            outputs[i] = shard.rows.len() as u32;
            offsets[i] = self.at(parts.get(i).unwrap_or(&parts[0]).y)[0] + shard.rows.start as u32;
        }
        let [x_at, x_stride] = self.at(x);
        offsets[3] = self.at(y)[1];
        params.extend([outputs, offsets, [x_at / 4, x_stride / 4, cols as u32, self.row_count_word(y)]]);
        let [addend_at, addend_stride] = addend.map_or([0, 0], |(_, at)| at);
        let eps = norm.map_or(0, |norm| norm.eps.to_bits());
        let limit = glu.and_then(|glu| glu.limit);
        params.push([addend_at, addend_stride, eps, limit.map_or(0, f32::to_bits)]);
        let scales = norm.map(|norm| self.vector(norm.weight)).transpose()?;
        let matmul = kernels::Matmul {
            parts: shards.iter().map(|part| kernel_name(part.shard.layout.format)).collect(),
            norm: norm.is_some(),
            glu: glu.is_some(),
            act: glu.map_or("", |glu| glu.act.name()),
            limited: limit.is_some(),
            addend: addend.is_some(),
            ragged: !cols.is_multiple_of(CHUNK),
        };
        let counted = || shards.iter().take(if gates == 2 { 1 } else { 3 }).map(|part| part.shard.rows.len());
        let all: usize = shards.iter().map(|part| part.shard.rows.len()).sum();
        let cost = |kernel: &Kernel| Cost {
            what: format!("{} {} {cols} to {all}", kernel.file(), matmul.parts.join("+")),
            bytes: shards.iter().map(|part| part.shard.layout.bytes() as u64).sum(),
            row_bytes: ((cols + counted().sum::<usize>()) * F32) as u64,
            row_multiply_adds: (cols * all) as u64,
            ..Cost::default()
        };

        let shapes = MatmulShape {
            rows: self.max_rows_of(y),
            cols,
            outputs: shards.iter().map(|part| part.matrix.rows).sum::<usize>() / gates,
            gates,
            fits_f16: shards.iter().all(|part| part.matrix.may_fit_f16()),
        };
        let weights = || shards.iter().map(|part| BufferId::Weight(part.weight, part.index));
        let mut variants = Vec::new();
        for (algorithm, max_rows) in policy::matmul_variants(shapes, self.device.caps) {
            let (tile_outputs, tile) = algorithm.tile(gates);
            let groups: usize = counted().map(|rows| rows.div_ceil(tile_outputs)).sum();
            let grid = Grid { groups, each: Each::Rows(tile) };
            let (matmul, matrices) = (matmul.clone(), Matrices::default());
            let kernel = match algorithm {
                Algorithm::Gemv(tiles) => Kernel::Gemv(kernels::Gemv { matmul, tiles, matrices }),
                Algorithm::GemmCoop { tile, size } => {
                    let vectors = size == 16;
                    Kernel::GemmCoop(kernels::GemmCoop { matmul, tile, size, vectors })
                }
                Algorithm::Gemm => Kernel::Gemm(kernels::Gemm { matmul, matrices }),
            };
            let mut variant = When { max_rows, ..When::default() }.launches(Vec::new());
            let mut params = params.clone();
            let mut buffers;
            if let Kernel::GemmCoop(_) = kernel {
                let bytes = shapes.rows * cols * size_of::<half::f16>();
                let values = self.scratch_buffer(|own| &mut own.f16_rows, Purpose::Activations, bytes)?;
                let bytes = shapes.rows * F32;
                let factors = self.scratch_buffer(|own| &mut own.f16_scales, Purpose::Activations, bytes)?;
                buffers = vec![self.slot(x), values, factors];
                buffers.extend(scales);
                let row_params = vec![x_at / 4, x_stride / 4, cols as u32 / 4, eps];
                let f16_rows = Kernel::F16Rows { norm: norm.is_some() };
                let f16_cost = Cost::row("f16_rows", cols * (F32 + size_of::<half::f16>()));
                variant.launches.push(self.launch(f16_rows, row_params, buffers, Grid::rows(1), f16_cost));
                variant.when.f16_weights = shards.iter().map(|part| part.weight).collect();

                buffers = vec![values, self.slot(y), factors];
                buffers.extend(weights());
                params[5][..2].copy_from_slice(&[0, cols as u32 / 4]);
            } else {
                buffers = vec![self.slot(x), self.slot(y)];
                buffers.extend(weights());
                buffers.extend(scales);
            }
            buffers.extend(addend.map(|(addend, _)| addend));
            let (params, cost) = (params.as_flattened().to_vec(), cost(&kernel));
            variant.launches.push(self.launch(kernel, params, buffers, grid, cost));
            variants.push(variant);
        }
        self.dispatch(y, variants);
        Ok(())
    }

    /// Argmax over the logits, in steps that request only tokens.
    fn choose_tokens(&mut self, output: ValueId) -> Result<(), Error> {
        if self.bound.value(output).rows != Rows::Output {
            return Ok(());
        }
        let rows = self.bound.bucket().outputs;
        let tokens = self.buffer(Purpose::Activations, rows * size_of::<u32>())?;
        let [at, stride] = self.at(output);
        let params = vec![at / 4, stride / 4, self.cols(output) as u32, 0];
        let kernel = Kernel::ArgMax { ahead: 8 };
        let cost = Cost::row("arg_max", self.cols(output) * F32);
        let buffers = vec![BufferId::Own(tokens), self.slot(output)];
        let launch = self.launch(kernel, params, buffers, Grid::rows(1), cost);
        let variant = When { transfer: Some(Transfer::Tokens), ..When::default() }.launches(vec![launch]);
        self.dispatch(output, vec![variant, Variant::default()]);
        self.scratch.tokens = Some(tokens);
        Ok(())
    }
}

struct ShardRef<'a> {
    weight: WeightId,
    matrix: &'a MatrixLayout,
    index: usize,
    shard: &'a Shard,
}
