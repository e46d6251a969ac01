//! Compiles a plan to launches, without touching device memory.

use std::ops::{Deref, DerefMut, Range};

use backend::{BoundProgram, Error, Remedy, Taps, Transfer};
use gpu::{
    Addend, BufferId, CHUNK, Compiler as Common, Cost, Each, F32, Grid, Inputs, LinearOutput, Lower, Norm,
    Operand, Part, Pass, Plan, Purpose, RowWise, Scratch, Splits, Variant, When, kernel_name, out_of_memory,
};
use graph::{Activation, Index, ValueId, WeightId};

use crate::device::{Device, allocated_size};
use crate::kernels::{self, Kernel, Matrices, Rows};
use crate::model::ModelPlan;
use crate::policy::{self, Algorithm, MatmulShape};
use crate::weights::{MatrixLayout, Shard};

/// Fills the margins around values: a NaN that no computation produces.
pub(crate) const CANARY: f32 = f32::from_bits(0x7fc5_7ead);

#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    pub(crate) kernel: Kernel,
    pub(crate) params: Vec<u32>,
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
}

pub(crate) struct Blueprint {
    pub(crate) common: gpu::Blueprint<LaunchPlan>,
    /// Indices of the input buffer and of the staging buffer for readback.
    pub(crate) uploaded: usize,
    pub(crate) staging: usize,
    /// Index of the buffer with the argmax of each output row; `None` unless the graph's output is logits.
    pub(crate) tokens: Option<usize>,
}

pub(crate) struct Compiler<'a> {
    common: Common<'a, LaunchPlan>,
    pub(crate) device: &'a Device,
    pub(crate) model: &'a ModelPlan,
    tokens: Option<usize>,
}

impl<'a> Deref for Compiler<'a> {
    type Target = Common<'a, LaunchPlan>;

    fn deref(&self) -> &Common<'a, LaunchPlan> {
        &self.common
    }
}

impl<'a> DerefMut for Compiler<'a> {
    fn deref_mut(&mut self) -> &mut Common<'a, LaunchPlan> {
        &mut self.common
    }
}

impl Blueprint {
    pub(crate) fn new(
        device: &Device,
        model: &ModelPlan,
        bound: &BoundProgram,
        taps: Taps<'_>,
    ) -> Result<Blueprint, Error> {
        let rows = bound.bucket().rows;
        // Some kernels use one workgroup per row.
        if rows > device.limits.max_compute_workgroups_per_dimension as usize {
            let what = "activations of more rows than a dispatch can have";
            return Err(out_of_memory(what, rows.saturating_mul(F32) as u64, Remedy::SmallerBatch));
        }
        let plan = Plan::new(bound, device.margin());
        let inputs = Inputs::new(bound, vec![Splits::default(); bound.graph().groups().len()]);
        let common = Common::new(bound, plan, device.margin(), inputs);
        let mut compiler = Compiler { common, device, model, tokens: None };
        // Tokens come first in the staging buffer, and logits, as the last value, come last: a step that asks for
        // tokens only maps just the tokens.
        let readbacks = compiler.passes(taps, bound.bucket().outputs)?;
        let (words, tokens) = (compiler.inputs.words.len(), compiler.tokens);
        let uploaded = compiler.buffer(Purpose::Inputs, words * F32);
        let staging = compiler.buffer(Purpose::Results, readbacks.1 * F32);
        let common = compiler.common.finish(readbacks);
        for buffer in &common.buffers {
            device.check_size(buffer.purpose, buffer.bytes)?;
        }
        Ok(Blueprint { common, uploaded, staging, tokens })
    }

    /// Size of all buffers in bytes, parameters included.
    pub(crate) fn bytes(&self) -> u64 {
        let own = self.common.buffers.iter().map(|buffer| buffer.bytes);
        let params = self.common.launches().map(|launch| (launch.params.len() * F32) as u64);
        own.chain(params).map(allocated_size).sum()
    }
}

impl<'a> Lower<'a> for Compiler<'a> {
    type Launch = LaunchPlan;

    fn launches(&mut self, pass: &Pass) -> Result<(), Error> {
        match *pass {
            Pass::Input { .. } | Pass::Same { .. } => {}
            Pass::Embed { table, index, y } => self.embed(table, index, y),
            Pass::Linear { x, norm, ref parts, output, ref addend } => {
                self.linear(x, norm, parts, output, addend)
            }
            Pass::HeadLinear { x, weight, y } => self.head_linear(x, weight, y),
            Pass::Rows { ref op, y } => {
                let row = RowWise::new(self, op);
                self.row_wise(&row, y);
            }
            Pass::Rope { x, ref rope, y } => {
                let launch = self.rope(x, rope, self.operand(y));
                self.dispatch_always(y, launch);
            }
            Pass::Recurrent { op, y } => self.recurrent(op, y)?,
            Pass::Attend(ref attend) => self.attend(attend)?,
            Pass::Route { logits, bias, router, list, y } => self.route(logits, bias, router, list, y)?,
            Pass::Experts(ref experts) => self.experts(experts),
            Pass::AllReduce { .. } => {
                return Err(Error::Shard("Vulkan and Metal have no sums over ranks".to_owned()));
            }
        }
        Ok(())
    }

    /// Argmax over the logits, in steps that request only tokens.
    fn choose(&mut self, output: ValueId) {
        let rows = self.bound.bucket().outputs;
        let tokens = self.buffer(Purpose::Activations, rows * size_of::<u32>());
        let [at, stride] = self.at(output);
        let params = vec![at / 4, stride / 4, self.cols(output) as u32, 0];
        let kernel = Kernel::ArgMax { ahead: 8 };
        let cost = Cost::row("arg_max", self.cols(output) * F32);
        let buffers = vec![BufferId::Own(tokens), self.slot(output)];
        let launch = self.launch(kernel, params, buffers, Grid::rows(1), cost);
        let variant = When { transfer: Some(Transfer::Tokens), ..When::default() }.launches(vec![launch]);
        self.dispatch(output, vec![variant, Variant::nothing()]);
        self.tokens = Some(tokens);
    }
}

impl Compiler<'_> {
    pub(crate) fn launch(
        &self,
        kernel: Kernel,
        params: Vec<u32>,
        buffers: Vec<BufferId>,
        grid: Grid,
        cost: Cost,
    ) -> LaunchPlan {
        LaunchPlan { kernel, params, buffers, grid, cost }
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
            self.dispatch_always(y, launch);
        }
    }

    /// A row-wise operation with result `y`; `rows.wgsl` documents the parameters.
    fn row_wise(&mut self, row: &RowWise, y: ValueId) {
        let &RowWise { operation, a: (a, a_at), b, act, is_limited, cols, scalar, head, step } = row;
        let y_cols = self.cols(y);
        let b_at = b.map_or([step as u32, 0], |((_, at), _)| at);
        let mut params = [a_at, b_at, self.at(y)].as_flattened().to_vec();
        params.extend([cols as u32, y_cols as u32, scalar.to_bits(), b.map_or(0, |(_, cols)| cols as u32)]);
        // A vector of three starts at a multiple of 16 bytes.
        params.extend([0, 0]);
        params.extend(head.map(|n| n as u32));
        params.push(0);
        let mut buffers = vec![self.slot(y), a];
        buffers.extend(b.map(|((b, _), _)| b));
        let kernel = Rows::new(operation, b.is_some(), act.map_or("", Activation::name), is_limited);
        let cost = Cost::row(kernel.operation, y_cols * F32 * if b.is_some() { 3 } else { 2 });
        let grid = Grid::rows(y_cols.div_ceil(cols));
        let launch = self.launch(Kernel::Rows(kernel), params, buffers, grid, cost);
        self.dispatch_always(y, launch);
    }

    fn linear(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        output: LinearOutput,
        addend: &Addend,
    ) {
        let addend = self.addend(parts, addend);
        let model = self.model;
        let of = |part: &Part| (part.weight, model.matrix(part.weight));
        let matrices: Vec<(WeightId, &MatrixLayout)> = parts.iter().map(of).collect();
        let is_whole = matrices.iter().all(|(_, matrix)| matrix.shards.len() == 1);
        fn shards<'a>(&(id, matrix): &(WeightId, &'a MatrixLayout)) -> impl Iterator<Item = ShardRef<'a>> {
            let shard = move |(index, shard)| ShardRef { weight: id, matrix, index, shard };
            matrix.shards.iter().enumerate().map(shard)
        }
        // The shards of each dispatch, with the parts it computes.
        let dispatches: Vec<(Range<usize>, Vec<ShardRef<'_>>)> = match output {
            _ if is_whole => vec![(0..parts.len(), matrices.iter().flat_map(shards).collect())],
            LinearOutput::Separate => {
                let parts = (0..parts.len()).zip(&matrices);
                let each = |(part, matrix)| shards(matrix).map(move |shard| (part..part + 1, vec![shard]));
                parts.flat_map(each).collect()
            }
            LinearOutput::Glu(_) => {
                let pairs = shards(&matrices[0]).zip(shards(&matrices[1]));
                pairs.map(|(gate, up)| (0..1, vec![gate, up])).collect()
            }
        };
        for (range, shards) in dispatches {
            let addend = addend.as_ref().map(|&((buffer, [at, stride]), ref offsets)| {
                (buffer, [at + offsets[range.start] + shards[0].shard.rows.start as u32, stride])
            });
            self.matmul(x, norm, &parts[range], &shards, output, addend);
        }
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
    ) {
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
        let scales = norm.map(|norm| self.vector(norm.weight));
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
            rows: self.max_rows(y),
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
            let mut variant = When { max_rows: Some(max_rows), ..When::default() }.launches(Vec::new());
            let mut params = params.clone();
            let mut buffers;
            if let Kernel::GemmCoop(_) = kernel {
                let bytes = shapes.rows * cols * size_of::<half::f16>();
                let values = self.scratch(Scratch::F16Rows, bytes);
                let factors = self.scratch(Scratch::F16Scales, shapes.rows * F32);
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
    }
}

struct ShardRef<'a> {
    weight: WeightId,
    matrix: &'a MatrixLayout,
    index: usize,
    shard: &'a Shard,
}
