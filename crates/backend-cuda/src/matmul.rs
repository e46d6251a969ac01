//! Passes of matmuls: linear layers, alone and per head. Experts use the same kernels.

use backend::Error;
use graph::{Activation, Glu, ValueId, WeightId};
use passes::{
    Addend, CHUNK, Cost, GROUP_ROWS, LinearOutput, Norm, Part, Purpose, Variant, When, kernel_name,
    may_fit_f16,
};
use quant::Format;

use crate::algorithm::{Algorithm, TensorCores, algorithms, is_float};
use crate::compile::{Compiler, Operand};
use crate::driver::Device;
use crate::launch::{BufferId, Cluster, Each, F32, Grid, LaunchPlan};
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

/// The arguments of a matmul kernel, named as in `kernels/matmul.cuh`.
#[derive(Clone, Debug)]
pub(crate) struct Matmul {
    pub(crate) x: Operand,
    pub(crate) y: BufferId,
    /// Weights of one format, each with its outputs and their column in `y`.
    pub(crate) parts: Vec<(WeightId, usize, u32)>,
    pub(crate) y_stride: u32,
    pub(crate) norm: Option<(BufferId, f32)>,
    pub(crate) addend: Option<Operand>,
    pub(crate) cols: usize,
    /// Number of segments of a row of `x`, and the values between them.
    pub(crate) x_segments: [usize; 2],
    pub(crate) rows_word: u32,
    pub(crate) glu: Option<Glu>,
    pub(crate) act: Activation,
    pub(crate) mode: Mode,
    pub(crate) experts: ExpertArgs,
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

/// Arguments for experts.
#[derive(Clone, Debug)]
pub(crate) struct ExpertArgs {
    pub(crate) chosen: Option<BufferId>,
    pub(crate) biases: Option<BufferId>,
    /// The buffer of groups, and the offset of the entries in it.
    pub(crate) groups: Option<(BufferId, u32)>,
    pub(crate) used: usize,
    pub(crate) per_expert: usize,
    pub(crate) up: usize,
    pub(crate) count: usize,
    pub(crate) weighs_inputs: bool,
    pub(crate) has_biases: bool,
    pub(crate) up_biases: usize,
    pub(crate) factors: Option<usize>,
}

impl ExpertArgs {
    pub(crate) const NONE: ExpertArgs = ExpertArgs {
        chosen: None,
        biases: None,
        groups: None,
        used: 1,
        per_expert: 1,
        up: 0,
        count: 0,
        weighs_inputs: false,
        has_biases: false,
        up_biases: 0,
        factors: None,
    };
}

/// Threads of `f16_rows`.
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

/// Blocks of a cluster at most.
const MAX_CLUSTER: usize = 8;

pub(crate) fn act_number(act: Activation) -> u32 {
    match act {
        Activation::Silu => 0,
        Activation::GeluTanh => 1,
        Activation::GeluSigmoid => 2,
        Activation::Sigmoid => 3,
        Activation::Softplus => 4,
        Activation::Relu => 5,
        Activation::ReluSquared => 6,
        Activation::Identity => 7,
    }
}

impl Matmul {
    fn outputs(&self) -> usize {
        self.parts.iter().map(|part| part.1).sum()
    }

    fn words(&self, compiler: &Compiler<'_>, x16_stride: usize, algorithm: Algorithm) -> Vec<u32> {
        let chunks = self.cols.div_ceil(CHUNK);
        let [segments, segment] = self.x_segments;
        let (_, [x_at, x_stride]) = self.x;
        let mut words = vec![x_at, x_stride];
        words.extend([self.cols, chunks, segments, segment].map(|n| n as u32));
        words.push(self.rows_word);
        let mut outputs = [0; 3];
        let mut y_at = [0; 3];
        for (i, &(_, n, at)) in self.parts.iter().enumerate() {
            (outputs[i], y_at[i]) = (n as u32, at);
        }
        if let Mode::PerHead(per_head) = self.mode {
            outputs[1] = per_head as u32;
        }
        words.extend(outputs);
        words.extend(y_at);
        words.push(self.y_stride);
        words.extend(self.addend.map_or([0, 0], |(_, at)| at));
        words.push(self.norm.map_or(0, |(_, eps)| eps.to_bits()));
        let limit = self.glu.and_then(|glu| glu.limit);
        let act = self.glu.map_or(self.act, |glu| glu.act);
        words.extend([u32::from(self.glu.is_some()), act_number(act), u32::from(limit.is_some())]);
        words.push(limit.map_or(0, f32::to_bits));
        let (pitch, is_paired) = compiler.model.matrix(self.parts[0].0).pitch_and_pairs();
        words.push(pitch);
        let mode = match self.mode {
            Mode::Plain => 0,
            Mode::IntoHidden => 1,
            Mode::OutOfHidden => 2,
            Mode::PerHead(_) => 3,
        };
        let ExpertArgs { used, per_expert, up, count, weighs_inputs, has_biases, up_biases, .. } =
            self.experts;
        words.extend([mode, used as u32, per_expert as u32, up as u32, count as u32]);
        words.extend([u32::from(weighs_inputs), u32::from(has_biases), up_biases as u32]);
        words.push(self.experts.factors.map_or(u32::MAX, |at| at as u32));
        words.extend([x16_stride as u32, self.experts.groups.map_or(0, |(_, entries)| entries)]);
        // FIRST, SECOND and PAIRED.
        let Beside { leads, follows, .. } = self.beside;
        let is_single = algorithm == Algorithm::Q8(1) && self.mode == Mode::Plain;
        let flags = if is_single { u32::from(leads) | u32::from(follows) << 1 } else { 0 };
        words.push(flags | u32::from(is_paired) << 2);
        assert_eq!(words.len(), 34, "words of `MatmulArgs`");
        words
    }

    fn buffers(&self, f16: Option<[BufferId; 2]>) -> Vec<Option<BufferId>> {
        let weight = |i: usize| self.parts.get(i).map(|part| BufferId::Weight(part.0));
        let ExpertArgs { chosen, biases, groups, .. } = self.experts;
        let norm = self.norm.map(|norm| norm.0).filter(|_| f16.is_none());
        vec![
            Some(self.x.0),
            Some(self.y),
            weight(0),
            weight(1),
            weight(2),
            norm,
            self.addend.map(|addend| addend.0),
            chosen,
            biases,
            f16.map(|[rows, _]| rows),
            f16.map(|[_, scales]| scales),
            groups.map(|(groups, _)| groups),
        ]
    }

    /// Shared memory of `columns` activation rows, quantised to 8 bits, in bytes.
    fn q8_bytes(&self, columns: usize) -> usize {
        let chunks = self.x_segments[0] * self.cols.div_ceil(CHUNK);
        // A chunk has 32 integers, a scale and two sums.
        (columns * chunks * (32 + 8)).next_multiple_of(16)
    }

    /// Whether this many activation rows, quantised to 8 bits, fit in shared memory.
    pub(crate) fn fits_q8(&self, device: &Device, format: Format, columns: usize) -> bool {
        let is_kernel = columns == 1 || self.mode == Mode::Plain;
        let ring = ring_bytes(format, device.card.has_wgmma());
        let bytes = self.q8_bytes(columns) + MIN_WARPS * ring + STATIC_SHARED;
        is_kernel && bytes <= device.limits.shared_of_block
    }
}

impl Compiler<'_> {
    pub(crate) fn linear(
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
                Some((self.constants(words), [0, 0]))
            }
        };
        let norm = norm.map(|norm| (self.vector(norm.weight), norm.eps));
        let y = parts[0].y;
        let cols = self.cols(x);
        let matmul = Matmul {
            x: (self.slot(x), self.at(x)),
            y: self.slot(y),
            parts: Vec::new(),
            y_stride: self.at(y)[1],
            norm,
            addend: None,
            cols,
            x_segments: [1, 0],
            rows_word: self.row_count_word(y),
            glu: None,
            act: Activation::Identity,
            mode: Mode::Plain,
            experts: ExpertArgs::NONE,
            beside: Beside::default(),
        };
        let name = |part: &Part| kernel_name(self.model.matrix(part.weight).layout.format);
        let outputs = |part: &Part| self.model.matrix(part.weight).rows;
        if let LinearOutput::Glu(glu) = output {
            let at = self.at(y)[0];
            let is_uniform = name(&parts[0]) == name(&parts[1]);
            if is_uniform {
                let parts = parts.iter().map(|part| (part.weight, outputs(part), at)).collect();
                self.matmul(y, &Matmul { parts, glu: Some(glu), ..matmul });
                return Ok(());
            }
            let n = outputs(&parts[0]);
            let stride = 2 * n.next_multiple_of(4);
            let bytes = self.max_rows_of(y).max(1) * stride * F32;
            let gates = self.scratch_buffer(|own| &mut own.gates, Purpose::Activations, bytes);
            for (i, part) in parts.iter().enumerate() {
                let at = (i * stride / 2) as u32;
                let parts = vec![(part.weight, n, at)];
                self.matmul(y, &Matmul { y: gates, y_stride: stride as u32, parts, ..matmul.clone() });
            }
            let operand = |at: usize| (gates, [at as u32, stride as u32]);
            let launch = self.gate(operand(0), operand(stride / 2), n, glu, (self.slot(y), self.at(y)));
            self.dispatch(y, vec![Variant::always(vec![launch])]);
            return Ok(());
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
            let of_launch = group.map(|part| (part.weight, outputs(part), self.at(part.y)[0])).collect();
            let addend =
                addend.map(|(buffer, [at, stride])| (buffer, [at + offset(self, &parts[i]) as u32, stride]));
            let is_f16 = may_fit_f16(self.model.matrix(parts[i].weight).layout.format);
            let f16_weights = if is_f16 { f16_weights.clone() } else { Vec::new() };
            let is_q8 = |part: &Part| self.is_q8(&matmul, part.weight);
            let next = (0..parts.len()).find(|&j| !done[j]);
            let leads = next.is_some_and(|next| is_q8(&parts[i]) && is_q8(&parts[next]));
            let beside = Beside { is_converted, f16_weights, follows, leads };
            is_converted |= is_f16;
            follows = leads;
            self.matmul(y, &Matmul { parts: of_launch, addend, beside, ..matmul.clone() });
        }
        Ok(())
    }

    /// Multiplies each head of `x` with its own matrix of `weight`.
    pub(crate) fn head_linear(&mut self, x: ValueId, weight: WeightId, y: ValueId) {
        let matrix = self.model.matrix(weight);
        let (per_head, cols, heads) = (matrix.rows, matrix.layout.cols, self.bound.weight(weight).count);
        let matmul = Matmul {
            x: (self.slot(x), self.at(x)),
            y: self.slot(y),
            parts: vec![(weight, heads * per_head, self.at(y)[0])],
            y_stride: self.at(y)[1],
            norm: None,
            addend: None,
            cols,
            x_segments: [heads, cols],
            rows_word: self.row_count_word(y),
            glu: None,
            act: Activation::Identity,
            mode: Mode::PerHead(per_head),
            experts: ExpertArgs::NONE,
            beside: Beside::default(),
        };
        self.matmul(y, &matmul);
    }

    /// A matmul pass with result `y`.
    fn matmul(&mut self, y: ValueId, matmul: &Matmul) {
        let format = self.model.matrix(matmul.parts[0].0).layout.format;
        let max_rows = self.max_rows_of(y);
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
                f16_weights.extend(matmul.parts.iter().map(|part| part.0));
                f16_weights.extend(&matmul.beside.f16_weights);
            }
            let launches = self.matmul_launches(matmul, algorithm, rows.min(max_rows), Each::Rows(1));
            variants.push(When { max_rows: rows, f16_weights, ..When::default() }.launches(launches));
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
        self.device.card.has_wgmma() && (!is_head || matmul.cols.is_multiple_of(WINDOW))
    }

    /// The kernels on tensor cores for steps of up to `max_rows`.
    fn tensor_cores(&self, matmul: &Matmul, max_rows: usize) -> TensorCores {
        if self.is_wgmma(matmul) {
            return TensorCores::Wgmma;
        }
        // The rows of a head start at a multiple of 16 bytes.
        if matmul.x_segments[0] > 1 && !matmul.cols.is_multiple_of(8) {
            return TensorCores::None;
        }
        // Fewer than two large tiles per multiprocessor would leave some idle.
        let blocks = self.tiles(matmul, GEMM_OUTPUTS, 256).groups * max_rows.div_ceil(256);
        let fits = gemm_bytes(256) + STATIC_SHARED <= self.device.limits.shared_of_block;
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
        let (outputs, glu) = (matmul.outputs(), matmul.glu.is_some());
        let weights = matmul.parts.iter().map(|part| self.model.matrix(part.0).bytes());
        let experts = matmul.experts.count.max(1) as u64;
        let bytes: u64 = weights.sum::<u64>() / experts;
        let cost = |kernel: &str| Cost {
            what: format!("{kernel} {} to {outputs}", matmul.cols),
            bytes,
            row_bytes: ((matmul.cols + outputs) * F32) as u64,
            row_multiply_adds: (matmul.cols * outputs) as u64,
            ..Cost::default()
        };
        match algorithm {
            Algorithm::Q8(columns) | Algorithm::F32(columns) => {
                let is_q8 = matches!(algorithm, Algorithm::Q8(_));
                let kind = match (matmul.mode, columns) {
                    (Mode::Plain, _) => columns.to_string(),
                    (_, 1) => "experts".to_owned(),
                    _ => "heads".to_owned(),
                };
                let kernel = format!("{name}/gemv_{}_{kind}", if is_q8 { "q8" } else { "f32" });
                // Pairs of outputs, or outputs of a gated linear unit of experts.
                let pairs = match matmul.mode {
                    Mode::IntoHidden if glu => matmul.experts.used * matmul.parts[0].1,
                    Mode::IntoHidden => matmul.experts.used * outputs.div_ceil(2),
                    Mode::Plain if glu => matmul.parts[0].1.div_ceil(2),
                    Mode::PerHead(per_head) => outputs / per_head * per_head.div_ceil(2),
                    Mode::OutOfHidden | Mode::Plain => {
                        matmul.parts.iter().map(|part| part.1.div_ceil(2)).sum()
                    }
                };
                let blocks = self.device.multiprocessors * self.device.limits.blocks();
                // Whole waves of blocks that have room for their sums; one if there is nothing, since a launch beside it relies on it.
                let of_pair = if glu && matmul.mode == Mode::Plain { 2 } else { 1 };
                let room = MAX_SUMS / 2 / columns / of_pair;
                let groups = pairs.min(blocks * pairs.div_ceil(blocks * room)).max(1);
                let grid = Grid { groups, each: Each::Rows(columns) };
                let words = matmul.words(self, 0, algorithm);
                let cost = cost(&kernel);
                let mut launch = self.launch(kernel, matmul.buffers(None), words, grid, cost);
                let activations = if is_q8 { matmul.q8_bytes(columns) } else { 0 };
                launch.shared = activations + sums_bytes(columns, of_pair * pairs.div_ceil(groups));
                launch.shared_of_warp = ring_bytes(format, self.device.card.has_wgmma());
                vec![launch]
            }
            Algorithm::Gemm(tile) | Algorithm::Wgmma(tile) => {
                let is_wgmma = matches!(algorithm, Algorithm::Wgmma(_));
                let [segments, segment] = matmul.x_segments;
                let is_heads = matches!(matmul.mode, Mode::PerHead(_));
                let x_cols = if is_heads { segments * segment } else { matmul.cols };
                // `gemm` may read past the last head.
                let stride = (x_cols + if is_heads { 64 } else { 0 }).next_multiple_of(WINDOW);
                let is_grouped = matmul.experts.groups.is_some();
                let rows = if is_wgmma { max_rows.next_multiple_of(tile) } else { max_rows };
                let bytes = rows * stride * size_of::<half::f16>();
                let rows = self.scratch_buffer(|own| &mut own.f16_rows, Purpose::Activations, bytes);
                let scales =
                    self.scratch_buffer(|own| &mut own.f16_scales, Purpose::Activations, max_rows * F32);
                let (x, [x_at, x_stride]) = matmul.x;
                let chosen = matmul.experts.chosen.filter(|_| matmul.mode == Mode::OutOfHidden);
                let buffers = vec![Some(x), Some(rows), Some(scales), matmul.norm.map(|norm| norm.0), chosen];
                let words = vec![
                    x_at,
                    x_stride,
                    x_cols as u32,
                    stride as u32,
                    matmul.experts.used as u32,
                    matmul.norm.map_or(0, |(_, eps)| eps.to_bits()),
                    match (is_wgmma, is_grouped) {
                        (false, _) => 0,
                        (true, true) => 1,
                        (true, false) => tile as u32,
                    },
                ];
                let f16_cost = Cost::row("f16_rows", x_cols * (F32 + size_of::<half::f16>()));
                let grid = Grid { groups: 1, each };
                let mut f16_rows = self.launch(f16_rows(stride), buffers, words, grid, f16_cost);
                f16_rows.threads = F16_ROWS_THREADS;
                let kernel = match (is_wgmma, is_grouped) {
                    (false, _) => format!("{name}/gemm_{tile}"),
                    (true, true) => format!("{name}/wgmma_groups"),
                    (true, false) => format!("{name}/wgmma_{tile}"),
                };
                let words = matmul.words(self, stride, algorithm);
                let cost = cost(&kernel);
                let grid = self.tiles(matmul, GEMM_OUTPUTS, tile);
                let buffers = matmul.buffers(Some([rows, scales]));
                let mut launch = self.launch(kernel, buffers, words, grid, cost);
                launch.shared =
                    if is_wgmma { wgmma_bytes(format, tile, is_grouped) } else { gemm_bytes(tile) };
                if is_wgmma && !is_grouped {
                    let blocks = grid.groups * max_rows.div_ceil(tile);
                    // A block of fewer windows would spend its time beginning and ending.
                    let most = (matmul.cols.div_ceil(WINDOW) / 4).clamp(1, MAX_CLUSTER);
                    launch.cluster = Cluster { most, grid: blocks };
                }
                if matmul.beside.is_converted { vec![launch] } else { vec![f16_rows, launch] }
            }
            Algorithm::GemmF32 => {
                let kernel = format!("{name}/gemm_f32");
                let words = matmul.words(self, 0, algorithm);
                let cost = cost(&kernel);
                let grid = self.tiles(matmul, F32_OUTPUTS, F32_ROWS);
                vec![self.launch(kernel, matmul.buffers(None), words, grid, cost)]
            }
        }
    }

    /// The grid of a GEMM with tiles of this many outputs and rows.
    fn tiles(&self, matmul: &Matmul, outputs: usize, rows: usize) -> Grid {
        let groups = match matmul.mode {
            Mode::PerHead(per_head) => matmul.parts[0].1 / per_head * per_head.div_ceil(outputs),
            _ if matmul.glu.is_some() => matmul.parts[0].1.div_ceil(outputs / 2),
            Mode::Plain | Mode::IntoHidden | Mode::OutOfHidden => {
                matmul.parts.iter().map(|part| part.1.div_ceil(outputs)).sum()
            }
        };
        let each = match matmul.experts.groups {
            Some(_) => {
                assert_eq!(rows, GROUP_ROWS, "tiles of experts");
                Each::Group { experts: matmul.experts.count, used: matmul.experts.used }
            }
            None => Each::Rows(rows),
        };
        Grid { groups, each }
    }
}
