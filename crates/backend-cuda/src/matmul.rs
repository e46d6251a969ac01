//! Passes of matmuls: linear layers, alone and per head. Experts use the same kernels.

use gpu::{
    Addend, BufferId, CHUNK, Cost, Each, F32, GROUP_ROWS, Grid, LinearOutput, MatrixLayout as _, Norm,
    Operand, Part, Scratch, When, kernel_name, may_fit_f16,
};
use graph::{Activation, Glu, ValueId, WeightId};
use quant::Format;

use crate::algorithm::{Algorithm, TensorCores, algorithms, is_float};
use crate::arguments::{F16RowsArgs, MatmulArgs, Pointer};
use crate::compile::Compiler;
use crate::driver::Device;
use crate::launch::{Cluster, LaunchPlan};
use crate::shared_memory::{
    GEMM_OUTPUTS, MAX_SUMS, MIN_WARPS, STATIC_SHARED, WINDOW, gemm_bytes, ring_bytes, sums_bytes, wgmma_bytes,
};

/// How a matmul's weights and outputs are laid out (`kernels/matmul.cuh`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    IntoHidden,
    OutOfHidden,
    /// With this many outputs per head.
    PerHead(usize),
}

/// A matmul: its arguments, but for those that depend on the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Matmul {
    pub(crate) args: MatmulArgs,
    /// Weights of one format, each with its outputs.
    pub(crate) parts: Vec<(WeightId, usize)>,
    pub(crate) mode: Mode,
    pub(crate) beside: Beside,
}

/// A matmul's neighbours that read the same activations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Whether one before it converts the activations to f16, if it needs them so.
    is_converted: bool,
    /// The weights of all of them that are multiplied in f16: either all are finite, or none is.
    f16_weights: Vec<WeightId>,
    /// Whether it runs beside the launch before, which multiplies the same single row in 8 bits (SECOND in `kernels/matmul.cuh`).
    follows: bool,
    /// Whether the launch after runs beside it (FIRST).
    leads: bool,
}

/// Flags of `kernels/matmul.cuh`.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const PAIRED: u32 = 4;

const F16_ROWS_THREADS: u32 = 512;

/// The kernel that converts rows of `stride` columns: the smallest whose threads keep all of a row, if there is one.
fn f16_rows(stride: usize) -> String {
    let vectors = stride.div_ceil(4 * F16_ROWS_THREADS as usize);
    let kept = [2, 4].into_iter().find(|kept| vectors <= *kept).unwrap_or(8);
    format!("f16_rows/f16_rows_{kept}")
}

/// Outputs and rows of a block of `gemm_f32`.
const F32_OUTPUTS: usize = 64;
const F32_ROWS: usize = 32;

const MAX_CLUSTER: usize = 8;

impl MatmulArgs {
    pub(crate) fn with_glu(self, Glu { act, limit }: Glu) -> MatmulArgs {
        let (limited, limit) = (u32::from(limit.is_some()), limit.unwrap_or_default());
        MatmulArgs { glu: 1, act: act as u32, limited, limit, ..self }
    }
}

impl Matmul {
    pub(crate) fn weights(&self) -> impl Iterator<Item = WeightId> {
        self.parts.iter().map(|part| part.0)
    }

    fn outputs(&self) -> usize {
        self.parts.iter().map(|part| part.1).sum()
    }

    /// Shared memory of `columns` activation rows, quantised to 8 bits, in bytes.
    fn q8_bytes(&self, columns: usize) -> usize {
        let chunks = (self.args.x_segments * self.args.chunks) as usize;
        // A chunk has 32 integers, a scale and two sums.
        (columns * chunks * (32 + 8)).next_multiple_of(16)
    }

    /// Whether this many activation rows, quantised to 8 bits, fit in shared memory.
    pub(crate) fn fits_q8(&self, device: &Device, format: Format, columns: usize) -> bool {
        let is_kernel = columns == 1 || self.mode == Mode::Plain;
        let ring = ring_bytes(format, device.card.has_wgmma());
        let bytes = self.q8_bytes(columns) + MIN_WARPS * ring + STATIC_SHARED;
        is_kernel && bytes <= device.limits.block_shared
    }
}

impl Compiler<'_> {
    /// Arguments of a matmul of `cols` columns of `x` that computes `y`, without weights.
    pub(crate) fn matmul_args(
        &mut self,
        (x, x_at): Operand,
        cols: usize,
        norm: Option<Norm>,
        y: ValueId,
    ) -> MatmulArgs {
        MatmulArgs {
            x: x.into(),
            y: self.slot(y).into(),
            g: norm.map(|norm| self.vector(norm.weight)).into(),
            x_at,
            cols: cols as u32,
            chunks: cols.div_ceil(CHUNK) as u32,
            x_segments: 1,
            rows: self.row_count_word(y),
            y_stride: self.at(y)[1],
            eps: norm.map_or(0.0, |norm| norm.eps),
            act: Activation::Identity as u32,
            used: 1,
            per_expert: 1,
            factors: u32::MAX,
            ..MatmulArgs::default()
        }
    }

    /// A matmul of weights of one format, each with its outputs and their column in `y`.
    pub(crate) fn matmul(&self, mode: Mode, parts: &[(WeightId, usize, u32)], args: MatmulArgs) -> Matmul {
        let mut args = args;
        for (i, &(weight, outputs, at)) in parts.iter().enumerate() {
            args.w[i] = BufferId::Weight(weight, 0).into();
            (args.outputs[i], args.y_at[i]) = (outputs as u32, at);
        }
        args.mode = match mode {
            Mode::Plain => 0,
            Mode::IntoHidden => 1,
            Mode::OutOfHidden => 2,
            Mode::PerHead(per_head) => {
                args.outputs[1] = per_head as u32;
                3
            }
        };
        let (pitch, is_paired) = self.model.matrix(parts[0].0).pitch_and_pairs();
        (args.pitch, args.flags) = (pitch, u32::from(is_paired) * PAIRED);
        let parts = parts.iter().map(|&(weight, outputs, _)| (weight, outputs)).collect();
        Matmul { args, parts, mode, beside: Beside::default() }
    }

    pub(crate) fn linear(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        output: LinearOutput,
        addend: &Addend,
    ) {
        let addend = self.addend(parts, addend);
        let y = parts[0].y;
        let args = self.matmul_args(self.operand(x), self.cols(x), norm, y);
        let name = |part: &Part| kernel_name(self.model.matrix(part.weight).layout.format);
        let outputs = |part: &Part| self.model.matrix(part.weight).rows;
        if let LinearOutput::Glu(glu) = output {
            let at = self.at(y)[0];
            let is_uniform = name(&parts[0]) == name(&parts[1]);
            if is_uniform {
                let parts: Vec<_> = parts.iter().map(|part| (part.weight, outputs(part), at)).collect();
                return self.multiply(y, &self.matmul(Mode::Plain, &parts, args.with_glu(glu)));
            }
            let n = outputs(&parts[0]);
            let stride = 2 * n.next_multiple_of(4);
            let bytes = self.max_rows(y).max(1) * stride * F32;
            let gates = self.scratch(Scratch::Gates, bytes);
            for (i, part) in parts.iter().enumerate() {
                let args = MatmulArgs { y: gates.into(), y_stride: stride as u32, ..args };
                let part = (part.weight, n, (i * stride / 2) as u32);
                self.multiply(y, &self.matmul(Mode::Plain, &[part], args));
            }
            let operand = |at: usize| (gates, [at as u32, stride as u32]);
            let launch = self.gate(operand(0), operand(stride / 2), n, glu, self.operand(y));
            return self.dispatch_always(y, launch);
        }
        // Weights of one format are multiplied by one launch.
        let mut done = vec![false; parts.len()];
        let in_f16 = |part: &&Part| may_fit_f16(self.model.matrix(part.weight).layout.format);
        let f16_weights: Vec<WeightId> = parts.iter().filter(in_f16).map(|part| part.weight).collect();
        let mut is_converted = false;
        let mut follows = false;
        for i in 0..parts.len() {
            if done[i] {
                continue;
            }
            let same: Vec<usize> =
                (i..parts.len()).filter(|&j| !done[j] && name(&parts[j]) == name(&parts[i])).collect();
            same.iter().for_each(|&j| done[j] = true);
            let group = same.iter().map(|&j| &parts[j]);
            let group: Vec<_> = group.map(|part| (part.weight, outputs(part), self.at(part.y)[0])).collect();
            let (r, r_at) = addend
                .as_ref()
                .map(|&((buffer, [at, stride]), ref offsets)| (buffer, [at + offsets[i], stride]))
                .unzip();
            let r_at = r_at.unwrap_or_default();
            let args = MatmulArgs { r: r.into(), r_at, ..args };
            let is_f16 = may_fit_f16(self.model.matrix(parts[i].weight).layout.format);
            let f16_weights = if is_f16 { f16_weights.clone() } else { Vec::new() };
            let mut matmul = self.matmul(Mode::Plain, &group, args);
            let is_q8 = |part: &Part| self.is_q8(&matmul, part.weight);
            let next = (0..parts.len()).find(|&j| !done[j]);
            let leads = next.is_some_and(|next| is_q8(&parts[i]) && is_q8(&parts[next]));
            matmul.beside = Beside { is_converted, f16_weights, follows, leads };
            is_converted |= is_f16;
            follows = leads;
            self.multiply(y, &matmul);
        }
    }

    /// Multiplies each head of `x` with its own matrix of `weight`.
    pub(crate) fn head_linear(&mut self, x: ValueId, weight: WeightId, y: ValueId) {
        let matrix = self.model.matrix(weight);
        let (per_head, cols, heads) = (matrix.rows, matrix.layout.cols, self.bound.weight(weight).count);
        let args = self.matmul_args(self.operand(x), cols, None, y);
        let args = MatmulArgs { x_segments: heads as u32, x_segment: cols as u32, ..args };
        let part = (weight, heads * per_head, self.at(y)[0]);
        self.multiply(y, &self.matmul(Mode::PerHead(per_head), &[part], args));
    }

    fn multiply(&mut self, y: ValueId, matmul: &Matmul) {
        let format = self.model.matrix(matmul.parts[0].0).layout.format;
        let max_rows = self.max_rows(y);
        let f32_activations = self.device.f32_activations;
        let tensor_cores = self.tensor_cores(matmul, max_rows);
        let fits_q8 = |n: usize| matmul.fits_q8(self.device, format, n);
        let mut variants = Vec::new();
        let mut reached = 0;
        for (algorithm, rows) in algorithms(format, f32_activations, tensor_cores, fits_q8) {
            let is_f16 = matches!(algorithm, Algorithm::Gemm(_) | Algorithm::Wgmma(_));
            // Of kernels for f16, those of enough rows suffice; behind them comes the fallback.
            if is_f16 && reached >= max_rows {
                continue;
            }
            let mut f16_weights = Vec::new();
            if is_f16 {
                f16_weights.extend(matmul.weights());
                f16_weights.extend(&matmul.beside.f16_weights);
            }
            let launches = self.matmul_launches(matmul, algorithm, rows.min(max_rows), Each::Rows(1));
            variants.push(When { max_rows: Some(rows), f16_weights, ..When::default() }.launches(launches));
            reached = rows;
            if rows >= max_rows && !is_f16 {
                break;
            }
        }
        self.dispatch(y, variants);
    }

    /// Whether a single row is multiplied with these weights in 8 bits.
    fn is_q8(&self, matmul: &Matmul, weight: WeightId) -> bool {
        let format = self.model.matrix(weight).layout.format;
        !self.device.f32_activations && !is_float(format) && matmul.fits_q8(self.device, format, 1)
    }

    /// Whether `wgmma` can multiply. A head must start with a window.
    pub(crate) fn is_wgmma(&self, matmul: &Matmul) -> bool {
        let is_head = matches!(matmul.mode, Mode::PerHead(_));
        self.device.card.has_wgmma() && (!is_head || matmul.args.cols.is_multiple_of(WINDOW as u32))
    }

    fn tensor_cores(&self, matmul: &Matmul, max_rows: usize) -> TensorCores {
        if self.is_wgmma(matmul) {
            return TensorCores::Wgmma;
        }
        // The rows of a head start at a multiple of 16 bytes.
        if matmul.args.x_segments > 1 && !matmul.args.cols.is_multiple_of(8) {
            return TensorCores::None;
        }
        // Fewer than two large tiles per multiprocessor would leave some idle.
        let blocks = self.tiles(matmul, GEMM_OUTPUTS, 256).groups * max_rows.div_ceil(256);
        let fits = gemm_bytes(256) + STATIC_SHARED <= self.device.limits.block_shared;
        TensorCores::Tiles(if fits && blocks >= 2 * self.device.multiprocessors { 256 } else { 128 })
    }

    /// The launches of a matmul of up to `max_rows` rows of `x`. `each` says what `x` has a row of, unless it is an
    /// activation row.
    pub(crate) fn matmul_launches(
        &mut self,
        matmul: &Matmul,
        algorithm: Algorithm,
        max_rows: usize,
        each: Each,
    ) -> Vec<LaunchPlan> {
        let format = self.model.matrix(matmul.parts[0].0).layout.format;
        let name = kernel_name(format);
        let Matmul { args, mode, .. } = *matmul;
        let (outputs, cols, has_glu) = (matmul.outputs(), args.cols as usize, args.glu != 0);
        let weights = matmul.weights().map(|id| self.model.matrix(id).bytes());
        let bytes: u64 = weights.sum::<u64>() / u64::from(args.experts.max(1));
        let cost = |kernel: &str| Cost {
            what: format!("{kernel} {cols} to {outputs}"),
            bytes,
            row_bytes: ((cols + outputs) * F32) as u64,
            row_multiply_adds: (cols * outputs) as u64,
            ..Cost::default()
        };
        match algorithm {
            Algorithm::Q8(columns) | Algorithm::F32(columns) => {
                let is_q8 = matches!(algorithm, Algorithm::Q8(_));
                let kind = match (mode, columns) {
                    (Mode::Plain, _) => columns.to_string(),
                    (_, 1) => "experts".to_owned(),
                    _ => "heads".to_owned(),
                };
                let kernel = format!("{name}/gemv_{}_{kind}", if is_q8 { "q8" } else { "f32" });
                // Pairs of outputs, or outputs of a gated linear unit of experts.
                let pairs = match mode {
                    Mode::IntoHidden if has_glu => args.used as usize * matmul.parts[0].1,
                    Mode::IntoHidden => args.used as usize * outputs.div_ceil(2),
                    Mode::Plain if has_glu => matmul.parts[0].1.div_ceil(2),
                    Mode::PerHead(per_head) => outputs / per_head * per_head.div_ceil(2),
                    Mode::OutOfHidden | Mode::Plain => {
                        matmul.parts.iter().map(|part| part.1.div_ceil(2)).sum()
                    }
                };
                let blocks = self.device.multiprocessors * self.device.limits.blocks();
                // Whole waves of blocks that have room for their sums; one if there is nothing, since a launch beside it relies on it.
                let sums_per_pair = if has_glu && mode == Mode::Plain { 2 } else { 1 };
                let room = MAX_SUMS / 2 / columns / sums_per_pair;
                let groups = pairs.min(blocks * pairs.div_ceil(blocks * room)).max(1);
                let grid = Grid { groups, each: Each::Rows(columns) };
                let cost = cost(&kernel);
                let Beside { leads, follows, .. } = matmul.beside;
                let mut args = args;
                if algorithm == Algorithm::Q8(1) && mode == Mode::Plain {
                    args.flags |= (u32::from(leads) * FIRST) | (u32::from(follows) * SECOND);
                }
                let mut launch = self.launch(kernel, args, grid, cost);
                let activations = if is_q8 { matmul.q8_bytes(columns) } else { 0 };
                launch.shared = activations + sums_bytes(columns, sums_per_pair * pairs.div_ceil(groups));
                launch.shared_per_warp = ring_bytes(format, self.device.card.has_wgmma());
                vec![launch]
            }
            Algorithm::Gemm(tile) | Algorithm::Wgmma(tile) => {
                let is_wgmma = matches!(algorithm, Algorithm::Wgmma(_));
                let is_heads = matches!(mode, Mode::PerHead(_));
                let x_cols = if is_heads { (args.x_segments * args.x_segment) as usize } else { cols };
                // `gemm` may read past the last head.
                let stride = (x_cols + if is_heads { 64 } else { 0 }).next_multiple_of(WINDOW);
                let is_grouped = args.groups != Pointer::Null;
                let rows = if is_wgmma { max_rows.next_multiple_of(tile) } else { max_rows };
                let bytes = rows * stride * size_of::<half::f16>();
                let rows = self.scratch(Scratch::F16Rows, bytes);
                let scales = self.scratch(Scratch::F16Scales, max_rows * F32);
                let chosen = if mode == Mode::OutOfHidden { args.chosen } else { Pointer::Null };
                let rows_args = F16RowsArgs {
                    x: args.x,
                    y: rows.into(),
                    scales: scales.into(),
                    g: args.g,
                    chosen,
                    x_at: args.x_at,
                    cols: x_cols as u32,
                    y_stride: stride as u32,
                    used: args.used,
                    eps: args.eps,
                    tile: match (is_wgmma, is_grouped) {
                        (false, _) => 0,
                        (true, true) => 1,
                        (true, false) => tile as u32,
                    },
                };
                let f16_cost = Cost::row("f16_rows", x_cols * (F32 + size_of::<half::f16>()));
                let grid = Grid { groups: 1, each };
                let mut f16_rows = self.launch(f16_rows(stride), rows_args, grid, f16_cost);
                f16_rows.threads = F16_ROWS_THREADS;
                let kernel = match (is_wgmma, is_grouped) {
                    (false, _) => format!("{name}/gemm_{tile}"),
                    (true, true) => format!("{name}/wgmma_groups"),
                    (true, false) => format!("{name}/wgmma_{tile}"),
                };
                let cost = cost(&kernel);
                let grid = self.tiles(matmul, GEMM_OUTPUTS, tile);
                let args = MatmulArgs {
                    g: Pointer::Null,
                    x16: rows.into(),
                    x16_scales: scales.into(),
                    x16_stride: stride as u32,
                    ..args
                };
                let mut launch = self.launch(kernel, args, grid, cost);
                launch.shared =
                    if is_wgmma { wgmma_bytes(format, tile, is_grouped) } else { gemm_bytes(tile) };
                if is_wgmma && !is_grouped {
                    let blocks = grid.groups * max_rows.div_ceil(tile);
                    // A block of fewer windows would spend its time beginning and ending.
                    let most = (cols.div_ceil(WINDOW) / 4).clamp(1, MAX_CLUSTER);
                    launch.cluster = Cluster { most, grid: blocks };
                }
                if matmul.beside.is_converted { vec![launch] } else { vec![f16_rows, launch] }
            }
            Algorithm::GemmF32 => {
                let kernel = format!("{name}/gemm_f32");
                let cost = cost(&kernel);
                let grid = self.tiles(matmul, F32_OUTPUTS, F32_ROWS);
                vec![self.launch(kernel, args, grid, cost)]
            }
        }
    }

    /// The grid of a GEMM with tiles of this many outputs and rows.
    fn tiles(&self, matmul: &Matmul, outputs: usize, rows: usize) -> Grid {
        let groups = match matmul.mode {
            Mode::PerHead(per_head) => matmul.parts[0].1 / per_head * per_head.div_ceil(outputs),
            _ if matmul.args.glu != 0 => matmul.parts[0].1.div_ceil(outputs / 2),
            Mode::Plain | Mode::IntoHidden | Mode::OutOfHidden => {
                matmul.parts.iter().map(|part| part.1.div_ceil(outputs)).sum()
            }
        };
        let each = if matmul.args.groups == Pointer::Null {
            Each::Rows(rows)
        } else {
            assert_eq!(rows, GROUP_ROWS, "tiles of experts");
            Each::Group { experts: matmul.args.experts as usize, used: matmul.args.used as usize }
        };
        Grid { groups, each }
    }
}
