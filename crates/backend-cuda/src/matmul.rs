//! Passes of matmuls: linear layers, alone and per head. Experts use the same kernels.

use backend::Error;
use graph::{Activation, Glu, ValueId, WeightId};
use passes::{
    Addend, CHUNK, Cost, DeviceFormat, GROUP_ROWS, Layout, LinearOutput, Norm, Part, Purpose, Variant,
};

use crate::compile::{Compiler, Operand};
use crate::driver::Device;
use crate::launch::{BufferId, Each, F32, Grid, LaunchPlan};

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

/// Activation rows from which tensor cores pay off.
const GEMM_MIN_ROWS: usize = 9;

/// Outputs of a block of `gemm`, and of `gemm_f32`.
const GEMM_OUTPUTS: usize = 128;
const F32_OUTPUTS: usize = 64;
const F32_ROWS: usize = 32;

/// The ring of a GEMV kernel, as in `kernels/gemv.cuh`: warps of a block, and bytes of all stages.
struct Ring {
    warps: usize,
    bytes: usize,
}

impl Ring {
    /// With stages of 64 chunks if `is_large`, else of 32.
    fn new(format: DeviceFormat, is_large: bool) -> Ring {
        let chunks = if is_large { 64 } else { 32 };
        let stage = Layout::new(format, 1, chunks * CHUNK, 1).pitches().sum::<usize>().next_multiple_of(16);
        let (warps, stages) = match stage {
            _ if is_large => (16, 4),
            2049.. => (8, 3),
            1201.. => (8, 4),
            _ => (16, 5),
        };
        Ring { warps, bytes: warps * stages * stage }
    }
}

/// Shared memory of a block in bytes so that a multiprocessor has one of them. With two, it could get both blocks of the
/// same launch, and finish late.
const MIN_SHARED: usize = 116 << 10;

/// Static shared memory of a GEMV kernel in bytes, at most.
const STATIC_SHARED: usize = 4096;

/// Dynamic shared memory of `gemm` in bytes: two stages of weights, three of activations, in rows of 64 f16 values.
fn gemm_bytes(tile: usize) -> usize {
    (2 * GEMM_OUTPUTS + 3 * tile) * 128
}

fn is_float(format: DeviceFormat) -> bool {
    matches!(format, DeviceFormat::F32 | DeviceFormat::F16 | DeviceFormat::BF16)
}

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

    fn words(&self, compiler: &Compiler<'_>, x16_stride: usize) -> Vec<u32> {
        let chunks = self.cols.div_ceil(CHUNK);
        let [segments, segment] = self.x_segments;
        let (_, [x_at, x_stride]) = self.x;
        let mut words = vec![x_at, x_stride];
        words.extend([self.cols, chunks, segments, segment].map(|n| n as u32));
        words.push(self.rows_word);
        let mut outputs = [0; 3];
        let mut y_at = [0; 3];
        let mut planes = [[0; 7]; 3];
        for (i, &(weight, n, at)) in self.parts.iter().enumerate() {
            (outputs[i], y_at[i]) = (n as u32, at);
            planes[i] = compiler.model.matrix(weight).planes();
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
        words.extend(planes.as_flattened());
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
        assert_eq!(words.len(), 53, "words of `MatmulArgs`");
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

    /// Dynamic shared memory of a GEMV kernel for `columns` activation rows, quantised to 8 bits, in bytes.
    fn q8_bytes(&self, ring: &Ring, columns: usize) -> usize {
        let chunks = self.x_segments[0] * self.cols.div_ceil(CHUNK);
        // A chunk has 32 integers, a scale and two sums.
        ring.bytes + columns * chunks * (32 + 8)
    }

    /// Whether this many activation rows, quantised to 8 bits, fit in shared memory.
    pub(crate) fn fits_q8(&self, device: &Device, format: DeviceFormat, columns: usize) -> bool {
        let ring = Ring::new(format, self.mode == Mode::Plain && device.has_large_stages());
        let is_kernel = columns == 1 || self.mode == Mode::Plain;
        is_kernel && self.q8_bytes(&ring, columns) + STATIC_SHARED <= device.shared_memory
    }
}

/// The kernel of a matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// `gemv_q8`: up to this many activation rows at a time, quantised to 8 bits.
    Q8(usize),
    /// `gemv_f32`.
    F32(usize),
    /// `gemm`: tiles of this many rows on tensor cores; all weight values must be finite in f16.
    Gemm(usize),
    /// `gemm_f32`.
    GemmF32,
}

/// The kernels for up to `max_rows` rows, each with its maximum number of rows. `fits_q8`: whether this many activation rows,
/// quantised to 8 bits, fit in shared memory; `f16_tile`: the largest tile of f16 activation rows, or 0. The last kernel is the
/// fallback for weights with values that packing finds not to be finite in f16.
pub(crate) fn algorithms(
    format: DeviceFormat,
    f32_activations: bool,
    f16_tile: usize,
    fits_q8: impl Fn(usize) -> bool,
) -> Vec<(Algorithm, usize)> {
    let mut chosen = Vec::new();
    if !f32_activations && !is_float(format) {
        chosen.extend([1, 2, 4, 8].into_iter().filter(|&n| fits_q8(n)).map(|n| (Algorithm::Q8(n), n)));
    }
    let reached = chosen.last().map_or(0, |&(_, rows)| rows);
    let rest = [(Algorithm::F32(1), 1), (Algorithm::F32(4), GEMM_MIN_ROWS - 1)];
    chosen.extend(rest.into_iter().filter(|&(_, rows)| rows > reached));
    if !f32_activations && format.may_fit_f16() {
        let tiles = [32, 64, 128, 256].into_iter().filter(|&tile| tile <= f16_tile);
        let rows = |tile| if tile == f16_tile { usize::MAX } else { tile };
        chosen.extend(tiles.map(|tile| (Algorithm::Gemm(tile), rows(tile))));
    }
    chosen.push((Algorithm::GemmF32, usize::MAX));
    chosen
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
        };
        let name = |part: &Part| self.model.matrix(part.weight).format.name();
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
            self.matmul(y, &Matmul { parts: of_launch, addend, ..matmul.clone() });
        }
        Ok(())
    }

    /// Multiplies each head of `x` with its own matrix of `weight`.
    pub(crate) fn head_linear(&mut self, x: ValueId, weight: WeightId, y: ValueId) {
        let matrix = self.model.matrix(weight);
        let (per_head, cols, heads) = (matrix.rows, matrix.cols, self.bound.weight(weight).count);
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
        };
        self.matmul(y, &matmul);
    }

    /// A matmul pass with result `y`.
    fn matmul(&mut self, y: ValueId, matmul: &Matmul) {
        let format = self.model.matrix(matmul.parts[0].0).format;
        let max_rows = self.max_rows_of(y);
        let f32_activations = self.device.f32_activations;
        let f16_tile = self.f16_tile(matmul, max_rows);
        let fits_q8 = |n: usize| matmul.fits_q8(self.device, format, n);
        let mut variants = Vec::new();
        let mut reached = 0;
        for (algorithm, rows) in algorithms(format, f32_activations, f16_tile, fits_q8) {
            let is_f16 = matches!(algorithm, Algorithm::Gemm(_));
            // Of kernels for f16, those of enough rows suffice; behind them comes the fallback.
            if is_f16 && reached >= max_rows {
                continue;
            }
            let f16_weights =
                if is_f16 { matmul.parts.iter().map(|part| part.0).collect() } else { Vec::new() };
            let launches = self.matmul_launches(matmul, algorithm, max_rows, Each::Rows(1));
            variants.push(Variant { max_rows: rows, f16_weights, launches, ..Variant::default() });
            reached = rows;
            if rows >= max_rows && !is_f16 {
                break;
            }
        }
        self.dispatch(y, variants);
    }

    /// The largest tile of f16 activation rows for steps of up to `max_rows`; 0 if there are no kernels for it.
    fn f16_tile(&self, matmul: &Matmul, max_rows: usize) -> usize {
        // The rows of a head start at a multiple of 16 bytes.
        if matmul.x_segments[0] > 1 && !matmul.cols.is_multiple_of(8) {
            return 0;
        }
        // Fewer than two large tiles per multiprocessor would leave some idle.
        let blocks = self.tiles(matmul, GEMM_OUTPUTS, 256).groups * max_rows.div_ceil(256);
        let fits = gemm_bytes(256) + STATIC_SHARED <= self.device.shared_memory;
        if fits && blocks >= 2 * self.device.multiprocessors { 256 } else { 128 }
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
        let format = self.model.matrix(matmul.parts[0].0).format;
        let name = format.name();
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
                let is_large = is_q8 && matmul.mode == Mode::Plain && self.device.has_large_stages();
                let ring = Ring::new(format, is_large);
                let units = match matmul.mode {
                    Mode::IntoHidden => matmul.experts.used * matmul.parts[0].1,
                    Mode::OutOfHidden => matmul.parts[0].1,
                    Mode::Plain | Mode::PerHead(_) if glu => outputs / 2,
                    Mode::Plain | Mode::PerHead(_) => outputs,
                };
                let blocks = self.device.multiprocessors * 16 / ring.warps;
                let grid = Grid { groups: units.div_ceil(ring.warps).min(blocks), each: Each::Rows(columns) };
                let words = matmul.words(self, 0);
                let cost = cost(&kernel);
                let mut launch = self.launch(kernel, matmul.buffers(None), words, grid, cost);
                launch.threads = 32 * ring.warps as u32;
                launch.shared = if is_q8 { matmul.q8_bytes(&ring, columns) } else { ring.bytes };
                if is_large {
                    launch.shared = launch.shared.max(MIN_SHARED);
                }
                vec![launch]
            }
            Algorithm::Gemm(tile) => {
                let [segments, segment] = matmul.x_segments;
                let is_heads = matches!(matmul.mode, Mode::PerHead(_));
                let x_cols = if is_heads { segments * segment } else { matmul.cols };
                // A step of the kernel may read past the last head.
                let stride = (x_cols + if is_heads { 64 } else { 0 }).next_multiple_of(64);
                let bytes = max_rows * stride * size_of::<half::f16>();
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
                ];
                let f16_cost = Cost::row("f16_rows", x_cols * (F32 + size_of::<half::f16>()));
                let grid = Grid { groups: 1, each };
                let f16_rows = self.launch("f16_rows/f16_rows", buffers, words, grid, f16_cost);
                let kernel = format!("{name}/gemm_{tile}");
                let words = matmul.words(self, stride);
                let cost = cost(&kernel);
                let grid = self.tiles(matmul, GEMM_OUTPUTS, tile);
                let buffers = matmul.buffers(Some([rows, scales]));
                let mut launch = self.launch(kernel, buffers, words, grid, cost);
                launch.shared = gemm_bytes(tile);
                vec![f16_rows, launch]
            }
            Algorithm::GemmF32 => {
                let kernel = format!("{name}/gemm_f32");
                let words = matmul.words(self, 0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_cover_all_rows() {
        use Algorithm::{F32, Gemm, GemmF32, Q8};
        const ALL: usize = usize::MAX;
        let of =
            |format, f32_activations, tile, q8: usize| algorithms(format, f32_activations, tile, |n| n <= q8);
        let gemms = [(Gemm(32), 32), (Gemm(64), 64), (Gemm(128), 128), (Gemm(256), ALL), (GemmF32, ALL)];
        let q8 = [(Q8(1), 1), (Q8(2), 2), (Q8(4), 4), (Q8(8), 8)];
        assert_eq!(of(DeviceFormat::Q4_K, false, 256, 8), [&q8[..], &gemms].concat());
        // What does not fit in shared memory is read from global memory.
        let rows =
            [(Q8(1), 1), (F32(4), 8), (Gemm(32), 32), (Gemm(64), 64), (Gemm(128), ALL), (GemmF32, ALL)];
        assert_eq!(of(DeviceFormat::Q8_0, false, 128, 1), rows);
        let exact = [(F32(1), 1), (F32(4), 8), (GemmF32, ALL)];
        assert_eq!(of(DeviceFormat::Q6_K, true, 256, 8), exact);
        assert_eq!(of(DeviceFormat::BF16, false, 256, 8), exact);
        assert_eq!(of(DeviceFormat::F16, false, 128, 8)[2], (Gemm(32), 32));
    }

    /// Sizes as in `kernels/gemv.cuh`.
    #[test]
    fn rings_have_whole_stages() {
        let bytes = |format, is_large| Ring::new(format, is_large).bytes;
        assert_eq!(bytes(DeviceFormat::Q4_K, true), 16 * 4 * 2 * (512 + 64));
        assert_eq!(bytes(DeviceFormat::Q6_K, true), 16 * 4 * 2 * (512 + 256 + 64 + 8));
        assert_eq!(bytes(DeviceFormat::Q6_K, false), 16 * 5 * 848);
        assert_eq!(bytes(DeviceFormat::F16, false), 8 * 4 * 2048);
        assert_eq!(bytes(DeviceFormat::F32, false), 8 * 3 * 4096);
    }
}
