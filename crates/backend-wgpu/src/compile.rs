//! From a plan to pipelines and bound buffers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use backend::{Bound, Error, KvLayout};
use graph::{Op, Rope, Rows, ValueId, WeightId};

use crate::device::{Buffer, Device, WRITTEN, lock};
use crate::formats::CHUNK;
use crate::kernels::{self, Kernel};
use crate::kv::Kv;
use crate::plan::{Norm, Part, Pass, Plan, Rest, Shape};
use crate::policy::{self, Product, Shapes};
use crate::program::{
    Angles, BESIDE, Cost, Each, GpuProgram, Grid, HEAD, Inputs, Kept, Launch, Variant, Work,
};
use crate::weights::{Matrix, Shard};
use crate::{Matrices, State};

/// Sequences of a step whose pages there is room for.
const SEQUENCES: usize = 256;

pub(crate) const F32: usize = size_of::<f32>();

/// What is at hand while a graph is compiled.
pub(crate) struct Compiler<'a> {
    pub(crate) device: &'a Device,
    pub(crate) bound: &'a Bound,
    pub(crate) plan: Plan,
    pub(crate) matrices: &'a Matrices,
    pub(crate) kv: Option<&'a Kv>,
    pub(crate) slots: Vec<Buffer>,
    pub(crate) vectors: HashMap<WeightId, Buffer>,
    pub(crate) inputs: Inputs,
    pub(crate) scratch: Scratch,
    pub(crate) work: Vec<Work>,
}

/// What passes use in turn, beside values.
#[derive(Clone, Default)]
pub(crate) struct Scratch {
    /// What parts of split attention find.
    pub(crate) parts: Option<Buffer>,
    /// Queries that flash attention reads, turned.
    pub(crate) turned: Option<Buffer>,
    /// Rows as f16 for matrix units, and their scales.
    pub(crate) narrow: Option<[Buffer; 2]>,
}

impl Scratch {
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.parts.iter().chain(&self.turned).chain(self.narrow.iter().flatten())
    }
}

/// Compiles `bound`, whose matrices are at hand.
pub(crate) fn compile(
    device: &Arc<Device>,
    bound: Bound,
    matrices: &Matrices,
    state: &Arc<Mutex<State>>,
) -> Result<GpuProgram, Error> {
    let mut guard = lock(state);
    let plan = Plan::new(&bound, device.margin());
    let bucket = bound.bucket();
    let mut bytes = 0;
    let mut slots = Vec::new();
    for slot in &plan.slots {
        let rows = match slot.rows {
            Rows::Step => bucket.rows,
            Rows::Wanted => bucket.wanted,
        };
        let size = ((rows.max(1) * slot.cols - device.margin()) * F32) as u64;
        if size > device.limits.max_storage_buffer_binding_size {
            return Err(Error::OutOfMemory {
                what: "activations, which the device must bind as a whole",
                bytes: size,
                hint: "use smaller batches (-b)",
            });
        }
        bytes += size;
        slots.push(device.buffer("activations", size, WRITTEN)?);
    }
    let inputs = inputs(device, &bound, guard.kv.as_ref())?;
    bytes += (inputs.words.len() * F32) as u64;
    let mut compiler = Compiler {
        device,
        bound: &bound,
        plan,
        matrices,
        kv: guard.kv.as_ref(),
        slots,
        vectors: HashMap::new(),
        inputs,
        scratch: Scratch::default(),
        work: Vec::new(),
    };
    compiler.make_room_for_narrow_rows()?;
    let (mut kept, mut staged) = (Vec::new(), 0);
    let passes = compiler.plan.passes.clone();
    for pass in &passes {
        compiler.pass(pass)?;
        let mut made = pass.makes();
        made.retain(|&id| bound.is_kept(id));
        for id in made {
            let place = compiler.plan.place(id);
            let slot = compiler.plan.slots[place.slot];
            let rows = match slot.rows {
                Rows::Step => bucket.rows,
                Rows::Wanted => bucket.wanted,
            };
            compiler.work.push(Work::Keep(kept.len()));
            let buffer = compiler.slots[place.slot].clone();
            kept.push(Kept { id, buffer, place, stride: slot.cols, at: staged, numbers: Vec::new() });
            staged += rows * slot.cols;
        }
    }
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let staging = device.buffer("results", (staged * F32) as u64, usage)?;
    let Compiler { inputs, work, scratch, .. } = compiler;
    bytes += (staged * F32) as u64 + scratch.buffers().map(|buffer| buffer.size()).sum::<u64>();
    #[cfg(test)]
    let watched = crate::guard::Watched::new(&compiler.plan, &compiler.slots, &scratch, guard.kv.as_ref());
    let used = bound.values().iter().filter_map(|value| match value.op {
        Op::Embed { table: weight } | Op::Linear { weight, .. } => Some(matrices[&weight].clone()),
        _ => None,
    });
    let matrices = used.collect();
    guard.activation_bytes += bytes;
    drop(guard);
    device.check()?;
    Ok(GpuProgram {
        device: device.clone(),
        state: state.clone(),
        bound,
        matrices,
        work,
        inputs,
        kept,
        staging,
        bytes,
        ahead: None,
        #[cfg(test)]
        watched,
    })
}

/// The kinds of rotation in a graph.
fn ropes(bound: &Bound) -> Vec<&Rope> {
    let mut ropes = Vec::new();
    for value in bound.values() {
        if let Op::Rope { rope, .. } = &value.op
            && !ropes.contains(&rope)
        {
            ropes.push(rope);
        }
    }
    ropes
}

/// Words of a step's inputs: a head; tokens, positions and tables of rows; rows wanted; tiles; sines and
/// cosines; pages.
pub(crate) fn words_of_inputs(bound: &Bound, kv: Option<KvLayout>) -> usize {
    let bucket = bound.bucket();
    let of_row = 3 + ropes(bound).iter().map(|rope| rope.dims / 2 * 2).sum::<usize>();
    let pages = kv.map_or(1, |kv| kv.pages);
    let tiles = 2 * policy::most_tiles(bucket.rows);
    HEAD + bucket.rows * of_row + bucket.wanted + tiles + bucket.rows.min(SEQUENCES) * pages
}

/// Room for what changes from step to step.
fn inputs(device: &Device, bound: &Bound, kv: Option<&Kv>) -> Result<Inputs, Error> {
    let bucket = bound.bucket();
    let positions = HEAD + bucket.rows;
    let tables = positions + bucket.rows;
    let wanted = tables + bucket.rows;
    let tiles = wanted + bucket.wanted;
    let mut end = tiles + 2 * policy::most_tiles(bucket.rows);
    let mut angles = Vec::<Angles>::new();
    for rope in ropes(bound) {
        let factors = rope.factors.map(|id| vector(bound, id));
        let frequency = |i: usize| {
            let frequency = f64::from(rope.theta).powf(-2.0 * i as f64 / rope.dims as f64);
            f64::from(rope.scale) * frequency / factors.as_ref().map_or(1.0, |factors| f64::from(factors[i]))
        };
        let frequencies: Vec<f64> = (0..rope.dims / 2).map(frequency).collect();
        let words = 2 * frequencies.len() * bucket.rows;
        angles.push(Angles { rope: rope.clone(), frequencies, at: end });
        end += words;
    }
    let words = vec![0; words_of_inputs(bound, kv.map(|kv| kv.layout))];
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
    let buffer = device.buffer("inputs of a step", (words.len() * size_of::<u32>()) as u64, usage)?;
    Ok(Inputs { words, buffer, angles, at: [positions, tables, wanted, tiles, end] })
}

/// A weight of one row.
fn vector(bound: &Bound, id: WeightId) -> Vec<f32> {
    let weight = bound.weight(id);
    let mut numbers = vec![0.0; weight.cols];
    weight.format.dequantize(&weight.bytes, &mut numbers);
    numbers
}

impl Compiler<'_> {
    fn pass(&mut self, pass: &Pass) -> Result<(), Error> {
        match *pass {
            Pass::Input { y } => {
                let place = self.plan.place(y);
                let stride = self.plan.slots[place.slot].cols;
                let buffer = self.slots[place.slot].clone();
                let rows = vec![BESIDE; buffer.size() as usize / F32];
                let (col, cols) = (place.col, self.cols(y));
                self.work.push(Work::Input { buffer, col, cols, stride, rows });
            }
            Pass::Embed { table, y } => self.embed(table, y)?,
            Pass::Linear { x, norm, ref parts, shape, ref rest } => {
                self.linear(x, norm, parts, shape, rest)?
            }
            Pass::Norm { x, norm, y } => {
                let weight = self.vector(norm.weight)?;
                self.rows("rms_norm", x, Some((&weight, [0, 0])), y, norm.eps)?;
            }
            Pass::Add { a, b, y } => {
                let (b, at) = (self.slot(b).clone(), self.at(b));
                self.rows("add", a, Some((&b, at)), y, 0.0)?;
            }
            Pass::AddBias { x, weight, y } => {
                let weight = self.vector(weight)?;
                self.rows("add", x, Some((&weight, [0, 0])), y, 0.0)?;
            }
            Pass::SwiGlu { gate, up, y } => {
                let (up, at) = (self.slot(up).clone(), self.at(up));
                self.rows("swiglu", gate, Some((&up, at)), y, 0.0)?;
            }
            Pass::Take { x, y } => self.rows("take", x, None, y, 0.0)?,
            Pass::Turn { x, ref rope, y } => {
                let launch = self.turn(x, rope, self.slot(y), self.at(y))?;
                self.dispatch(y, vec![Variant::always(launch)]);
            }
            Pass::Attend(ref attend) => self.attend(attend)?,
        }
        Ok(())
    }

    pub(crate) fn slot(&self, id: ValueId) -> &Buffer {
        &self.slots[self.plan.place(id).slot]
    }

    /// Where a value begins in its buffer, and its stride.
    pub(crate) fn at(&self, id: ValueId) -> [u32; 2] {
        let place = self.plan.place(id);
        [place.col as u32, self.plan.slots[place.slot].cols as u32]
    }

    /// Where a step's inputs have positions, where rows' pages begin among them, and pages.
    pub(crate) fn places_of_rows(&self) -> [u32; 3] {
        let [positions, tables, _, _, pages] = self.inputs.at;
        [positions, tables, pages].map(|at| at as u32)
    }

    pub(crate) fn cols(&self, id: ValueId) -> usize {
        self.bound.value(id).cols
    }

    /// A weight of one row as f32, whole vectors.
    fn vector(&mut self, id: WeightId) -> Result<Buffer, Error> {
        if let Some(buffer) = self.vectors.get(&id) {
            return Ok(buffer.clone());
        }
        let words: Vec<u32> = vector(self.bound, id).iter().map(|x| x.to_bits()).collect();
        let buffer = self.device.constants(&words, wgpu::BufferUsages::STORAGE)?;
        self.vectors.insert(id, buffer.clone());
        Ok(buffer)
    }

    /// A kernel with its parameters and buffers.
    pub(crate) fn launch(
        &self,
        kernel: &Kernel,
        params: &[u32],
        buffers: &[&Buffer],
        grid: Grid,
        cost: Cost,
    ) -> Result<Launch, Error> {
        let params = self.device.constants(params, wgpu::BufferUsages::UNIFORM)?;
        let all = [&[&params, &self.inputs.buffer], buffers].concat();
        let bindings = kernel.bindings();
        assert_eq!(all.len(), bindings.len(), "buffers of {kernel:?}");
        let (layout, _) = self.device.layouts(&bindings);
        let entries = (0..).zip(&all).map(|(binding, buffer)| {
            let resource = buffer.as_entire_binding();
            wgpu::BindGroupEntry { binding, resource }
        });
        let entries: Vec<_> = entries.collect();
        let group = self.device.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(kernel.file()),
            layout: &layout,
            entries: &entries,
        });
        Ok(Launch { pipeline: self.device.pipeline(kernel), group, grid, cost })
    }

    pub(crate) fn dispatch(&mut self, made: ValueId, variants: Vec<Variant>) {
        self.work.push(Work::Dispatch { rows: self.bound.value(made).rows, variants });
    }

    /// The most rows of a value.
    fn most_rows(&self, id: ValueId) -> usize {
        match self.bound.value(id).rows {
            Rows::Step => self.bound.bucket().rows,
            Rows::Wanted => self.bound.bucket().wanted,
        }
    }

    /// Room for the widest rows that a product by matrix units may have.
    fn make_room_for_narrow_rows(&mut self) -> Result<(), Error> {
        let (mut rows, mut bytes) = (0, 0);
        for pass in &self.plan.passes {
            let Pass::Linear { x, parts, .. } = pass else { continue };
            let most = self.most_rows(*x);
            let shapes = self.shapes(*x, parts.iter().map(|part| &*self.matrices[&part.weight]), 1, most);
            if matches!(policy::product(shapes, self.device.abilities), Product::Tiles { .. }) {
                rows = rows.max(most);
                bytes = bytes.max(most * shapes.cols * size_of::<half::f16>());
            }
        }
        if bytes > 0 {
            let numbers = self.device.buffer("activations", bytes as u64, WRITTEN)?;
            let scales = self.device.buffer("activations", (rows * F32) as u64, WRITTEN)?;
            self.scratch.narrow = Some([numbers, scales]);
        }
        Ok(())
    }

    fn shapes<'a>(
        &self,
        x: ValueId,
        matrices: impl Iterator<Item = &'a Matrix> + Clone,
        gates: usize,
        rows: usize,
    ) -> Shapes {
        let outputs = matrices.clone().map(|matrix| matrix.weight().rows).sum::<usize>() / gates;
        let narrow = matrices.clone().all(Matrix::may_be_narrow);
        Shapes { rows, cols: self.cols(x), outputs, gates, narrow }
    }

    fn embed(&mut self, table: WeightId, y: ValueId) -> Result<(), Error> {
        let matrix = self.matrices[&table].clone();
        for shard in &matrix.shards {
            let [at, stride] = self.at(y);
            let mut params = shard.layout.numbers().to_vec();
            params.extend([shard.rows.start as u32, shard.rows.end as u32, 0, 0]);
            params.extend([at / 4, stride / 4, self.cols(y).div_ceil(4) as u32, 0]);
            let kernel = Kernel::Embed(kernels::Embed { format: shard.layout.kept.name() });
            let buffers = [self.slot(y), &shard.buffer];
            let grid = Grid::rows(shard.layout.chunks.div_ceil(64));
            let cost = Cost::row("embed", stride as usize * F32 * 2);
            let launch = self.launch(&kernel, &params, &buffers, grid, cost)?;
            self.dispatch(y, vec![Variant::always(launch)]);
        }
        Ok(())
    }

    fn rows(
        &mut self,
        operation: &'static str,
        a: ValueId,
        b: Option<(&Buffer, [u32; 2])>,
        y: ValueId,
        eps: f32,
    ) -> Result<(), Error> {
        let [_, _, wanted, ..] = self.inputs.at;
        let b_at = b.map_or([wanted as u32, 0], |(_, at)| at);
        let mut params = [self.at(a), b_at, self.at(y)].as_flattened().to_vec();
        params.extend([self.cols(y) as u32, eps.to_bits()]);
        let mut buffers = vec![self.slot(y), self.slot(a)];
        buffers.extend(b.map(|(b, _)| b));
        let kernel = Kernel::Rows(kernels::Rows { operation });
        let cost = Cost::row(operation, self.cols(y) * F32 * if b.is_some() { 3 } else { 2 });
        let launch = self.launch(&kernel, &params, &buffers, Grid::rows(1), cost)?;
        self.dispatch(y, vec![Variant::always(launch)]);
        Ok(())
    }

    fn linear(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        shape: Shape,
        rest: &Rest,
    ) -> Result<(), Error> {
        let matrices: Vec<Arc<Matrix>> =
            parts.iter().map(|part| self.matrices[&part.weight].clone()).collect();
        // What is added, and for each part where it begins.
        let first = self.plan.place(parts[0].y).col;
        let offset = |compiler: &Self, part: &Part| compiler.plan.place(part.y).col - first;
        let rest = match rest {
            Rest::None => None,
            Rest::Residual(id) => Some((self.slot(*id).clone(), self.at(*id))),
            Rest::Biases(biases) => {
                let mut words = Vec::new();
                for (part, bias) in parts.iter().zip(biases) {
                    words.resize(offset(self, part), 0);
                    let numbers = bias.map_or(vec![0.0; self.cols(part.y)], |bias| vector(self.bound, bias));
                    words.extend(numbers.iter().map(|x| x.to_bits()));
                }
                Some((self.device.constants(&words, wgpu::BufferUsages::STORAGE)?, [0, 0]))
            }
        };
        let is_whole = matrices.iter().all(|matrix| matrix.shards.len() == 1);
        // Shards that one dispatch multiplies, and the part that makes what comes of them.
        type Shards<'a> = Vec<(&'a Arc<Matrix>, &'a Shard)>;
        fn shards(matrix: &Arc<Matrix>) -> impl Iterator<Item = (&Arc<Matrix>, &Shard)> {
            matrix.shards.iter().map(move |shard| (matrix, shard))
        }
        let dispatches: Vec<(&[Part], Shards<'_>)> = match shape {
            _ if is_whole => vec![(parts, matrices.iter().flat_map(shards).collect())],
            Shape::Each => {
                let parts = parts.iter().map(std::slice::from_ref).zip(&matrices);
                parts
                    .flat_map(|(part, matrix)| shards(matrix).map(move |shard| (part, vec![shard])))
                    .collect()
            }
            Shape::Glu => {
                let pairs = shards(&matrices[0]).zip(shards(&matrices[1]));
                pairs.map(|(gate, up)| (&parts[..1], vec![gate, up])).collect()
            }
        };
        for (parts, shards) in dispatches {
            let rest = rest.as_ref().map(|(buffer, [at, stride])| {
                let at = *at as usize + offset(self, &parts[0]) + shards[0].1.rows.start;
                (buffer, [at as u32, *stride])
            });
            self.products(x, norm, parts, &shards, shape, rest)?;
        }
        Ok(())
    }

    /// Products with weights that lie in a buffer each.
    fn products(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        shards: &[(&Arc<Matrix>, &Shard)],
        shape: Shape,
        rest: Option<(&Buffer, [u32; 2])>,
    ) -> Result<(), Error> {
        let y = parts[0].y;
        let gates = if shape == Shape::Glu { 2 } else { 1 };
        let cols = self.cols(x);
        let mut params: Vec<[u32; 4]> = vec![[0; 4]; 3];
        let (mut outputs, mut places) = ([0; 4], [0; 4]);
        for (i, (_, shard)) in shards.iter().enumerate() {
            params[i] = shard.layout.numbers();
            outputs[i] = shard.rows.len() as u32;
            places[i] = self.at(parts.get(i).unwrap_or(&parts[0]).y)[0] + shard.rows.start as u32;
        }
        let [x_at, x_stride] = self.at(x);
        places[3] = self.at(y)[1];
        let rows = match self.bound.value(y).rows {
            Rows::Step => 0,
            Rows::Wanted => 1,
        };
        params.extend([outputs, places, [x_at / 4, x_stride / 4, cols as u32, rows]]);
        let [rest_at, rest_stride] = rest.map_or([0, 0], |(_, at)| at);
        params.push([rest_at, rest_stride, norm.map_or(0, |norm| norm.eps.to_bits()), 0]);
        let scales = norm.map(|norm| self.vector(norm.weight)).transpose()?;
        let products = kernels::Products {
            parts: shards.iter().map(|(_, shard)| shard.layout.kept.name()).collect(),
            norm: norm.is_some(),
            glu: shape == Shape::Glu,
            rest: rest.is_some(),
            ragged: !cols.is_multiple_of(CHUNK),
        };
        let counted =
            || shards.iter().take(if gates == 2 { 1 } else { 3 }).map(|(_, shard)| shard.rows.len());
        let all: usize = shards.iter().map(|(_, shard)| shard.rows.len()).sum();
        let cost = |kernel: &Kernel| Cost {
            what: format!("{} {} {cols} to {all}", kernel.file(), products.parts.join("+")),
            bytes: shards.iter().map(|(_, shard)| shard.layout.bytes() as u64).sum(),
            row_bytes: ((cols + counted().sum::<usize>()) * F32) as u64,
            row_multiply_adds: (cols * all) as u64,
            ..Cost::default()
        };

        let most = self.most_rows(y);
        let matrices = shards.iter().map(|(matrix, _)| &***matrix);
        let shapes = self.shapes(x, matrices, gates, most);
        let mut variants = Vec::new();
        for (chosen, up_to) in policy::products(shapes, self.device.abilities) {
            let (tile_outputs, tile) = chosen.tile(gates);
            let groups: usize = counted().map(|rows| rows.div_ceil(tile_outputs)).sum();
            let grid = Grid { groups, each: Each::Rows(tile) };
            let products = products.clone();
            let kernel = match chosen {
                Product::Few { columns, outputs, lanes, threads, subgroups } => {
                    Kernel::Linear(kernels::Linear { products, columns, outputs, lanes, threads, subgroups })
                }
                Product::Tiles { tile, size } => {
                    let vectors = size == 16;
                    Kernel::Tiles(kernels::Tiles { products, tile, size, vectors })
                }
                Product::Many => Kernel::Matmul(products),
            };
            let mut variant = Variant { up_to, ..Variant::default() };
            let weights = shards.iter().map(|(_, shard)| &shard.buffer);
            if let (Kernel::Tiles(_), Some([numbers, factors])) = (&kernel, &self.scratch.narrow) {
                let mut buffers = vec![self.slot(x), numbers, factors];
                buffers.extend(&scales);
                let eps = norm.map_or(0, |norm| norm.eps.to_bits());
                let of_rows = [x_at / 4, x_stride / 4, cols as u32 / 4, eps];
                let narrow = Kernel::Narrow(kernels::Narrow { norm: norm.is_some() });
                let of_narrow = Cost::row("narrow", cols * (F32 + size_of::<half::f16>()));
                variant.launches.push(self.launch(&narrow, &of_rows, &buffers, Grid::rows(1), of_narrow)?);
                variant.narrow = shards.iter().map(|(matrix, _)| (*matrix).clone()).collect();

                let mut buffers = vec![numbers, self.slot(y), factors];
                buffers.extend(weights);
                buffers.extend(rest.map(|(rest, _)| rest));
                let mut params = params.clone();
                params[5][..2].copy_from_slice(&[0, cols as u32 / 4]);
                let cost = cost(&kernel);
                variant.launches.push(self.launch(&kernel, params.as_flattened(), &buffers, grid, cost)?);
            } else {
                let mut buffers = vec![self.slot(x), self.slot(y)];
                buffers.extend(weights);
                buffers.extend(&scales);
                buffers.extend(rest.map(|(rest, _)| rest));
                let cost = cost(&kernel);
                variant.launches.push(self.launch(&kernel, params.as_flattened(), &buffers, grid, cost)?);
            }
            variants.push(variant);
        }
        self.dispatch(y, variants);
        Ok(())
    }
}
