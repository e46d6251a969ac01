//! From a plan to pipelines and bound buffers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use backend::{Bound, Error};
use graph::{Op, Pairing, Rope, Rows, ValueId, WeightId};

use crate::device::{Device, lock};
use crate::formats::CHUNK;
use crate::kernels::{self, Kernel};
use crate::kv::Kv;
use crate::plan::{Norm, Part, Pass, Plan, Rest, Shape};
use crate::policy::{self, Abilities, Product};
use crate::program::{Angles, GpuProgram, HEAD, Inputs, Kept, SPLIT_ROWS, SPLITS, Variant, When, Work};
use crate::weights::{Matrix, Shard};
use crate::{Matrices, State};

/// Bytes of workgroup memory that every device has.
const MEMORY: usize = 16 << 10;

/// Sequences of a step whose pages there is room for.
const SEQUENCES: usize = 256;

const F32: usize = size_of::<f32>();

/// What is at hand while a graph is compiled.
struct Compiler<'a> {
    device: &'a Device,
    bound: &'a Bound,
    plan: Plan,
    matrices: &'a Matrices,
    kv: Option<&'a Kv>,
    slots: Vec<wgpu::Buffer>,
    vectors: HashMap<WeightId, wgpu::Buffer>,
    inputs: Inputs,
    /// What parts of split attention find.
    parts: Option<wgpu::Buffer>,
    work: Vec<Work>,
}

/// Compiles `bound`, whose matrices are at hand.
pub(crate) fn compile(
    device: &Arc<Device>,
    bound: Bound,
    matrices: &Matrices,
    state: &Arc<Mutex<State>>,
) -> Result<GpuProgram, Error> {
    let mut guard = lock(state);
    let plan = Plan::new(&bound);
    let bucket = bound.bucket();
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let mut bytes = 0;
    let mut slots = Vec::new();
    for slot in &plan.slots {
        let rows = match slot.rows {
            Rows::Step => bucket.rows,
            Rows::Wanted => bucket.wanted,
        };
        let size = (rows.max(1) * slot.cols * F32) as u64;
        if size > device.limits.max_storage_buffer_binding_size {
            return Err(Error::OutOfMemory {
                what: "activations, which the device must bind as a whole",
                bytes: size,
                hint: "use smaller batches (-b)",
            });
        }
        bytes += size;
        slots.push(device.buffer("activations", size, usage)?);
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
        parts: None,
        work: Vec::new(),
    };
    let (mut kept, mut staged) = (Vec::new(), 0);
    let passes = compiler.plan.passes.clone();
    let mut passes = passes.iter().peekable();
    while let Some(pass) = passes.next() {
        // Queries are turned where keys are, when they lie in the same buffer.
        let mut made = pass.makes();
        match (pass, passes.peek()) {
            (
                Pass::Turn { x, rope, y },
                Some(Pass::Store { k, v, k_rope: Some(k_rope), layer, kv_heads }),
            ) if rope == k_rope && compiler.plan.place(*x).slot == compiler.plan.place(*k).slot => {
                passes.next();
                compiler.rotate(Some((*x, *y)), Some((*k, *v, *layer, *kv_heads, true)), Some(rope));
            }
            _ => compiler.pass(pass)?,
        }
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
    bytes += (staged * F32) as u64 + compiler.parts.as_ref().map_or(0, wgpu::Buffer::size);
    let Compiler { inputs, work, .. } = compiler;
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
    })
}

/// Room for what changes from step to step.
fn inputs(device: &Device, bound: &Bound, kv: Option<&Kv>) -> Result<Inputs, Error> {
    let bucket = bound.bucket();
    let positions = HEAD + bucket.rows;
    let tables = positions + bucket.rows;
    let wanted = tables + bucket.rows;
    let mut end = wanted + bucket.wanted;
    let mut angles = Vec::<Angles>::new();
    for value in bound.values() {
        let Op::Rope { rope, .. } = &value.op else { continue };
        if angles.iter().any(|angles| angles.rope == *rope) {
            continue;
        }
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
    let pages = kv.map_or(1, |kv| kv.layout.pages);
    let words = vec![0; end + bucket.rows.min(SEQUENCES) * pages];
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
    let buffer = device.buffer("inputs of a step", (words.len() * size_of::<u32>()) as u64, usage)?;
    Ok(Inputs { words, buffer, angles, at: [positions, tables, wanted, end] })
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
                self.work.push(Work::Input { buffer, cols: self.cols(y), stride });
            }
            Pass::Embed { table, y } => self.embed(table, y),
            Pass::Linear { x, norm, ref parts, shape, ref rest } => self.linear(x, norm, parts, shape, rest),
            Pass::Norm { x, norm, y } => {
                let weight = self.vector(norm.weight);
                self.rows("rms_norm", x, Some((&weight, [0, 0])), y, norm.eps);
            }
            Pass::Add { a, b, y } => {
                let (b, at) = (self.slot(b).clone(), self.at(b));
                self.rows("add", a, Some((&b, at)), y, 0.0);
            }
            Pass::AddBias { x, weight, y } => {
                let weight = self.vector(weight);
                self.rows("add", x, Some((&weight, [0, 0])), y, 0.0);
            }
            Pass::SwiGlu { gate, up, y } => {
                let (up, at) = (self.slot(up).clone(), self.at(up));
                self.rows("swiglu", gate, Some((&up, at)), y, 0.0);
            }
            Pass::Take { x, y } => self.rows("take", x, None, y, 0.0),
            Pass::Turn { x, ref rope, y } => self.rotate(Some((x, y)), None, Some(rope)),
            Pass::Store { k, v, ref k_rope, layer, kv_heads } => {
                self.rotate(None, Some((k, v, layer, kv_heads, k_rope.is_some())), k_rope.as_ref());
            }
            Pass::Attend { q, y, layer, heads, kv_heads, scale } => {
                self.attend(q, y, layer, heads, kv_heads, scale)?;
            }
        }
        Ok(())
    }

    fn slot(&self, id: ValueId) -> &wgpu::Buffer {
        &self.slots[self.plan.place(id).slot]
    }

    /// Where a value begins in its buffer, and its stride.
    fn at(&self, id: ValueId) -> [u32; 2] {
        let place = self.plan.place(id);
        [place.col as u32, self.plan.slots[place.slot].cols as u32]
    }

    fn cols(&self, id: ValueId) -> usize {
        self.bound.value(id).cols
    }

    /// A weight of one row as f32, whole vectors.
    fn vector(&mut self, id: WeightId) -> wgpu::Buffer {
        let make = || {
            let words: Vec<u32> = vector(self.bound, id).iter().map(|x| x.to_bits()).collect();
            self.device.constants(&words, wgpu::BufferUsages::STORAGE)
        };
        self.vectors.entry(id).or_insert_with(make).clone()
    }

    /// A kernel for up to `up_to` rows, with its parameters and buffers.
    fn variant(
        &self,
        kernel: &Kernel,
        params: &[u32],
        buffers: &[&wgpu::Buffer],
        (up_to, groups, tile): (usize, usize, usize),
    ) -> Variant {
        let params = self.device.constants(params, wgpu::BufferUsages::UNIFORM);
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
        Variant {
            up_to,
            pipeline: self.device.pipeline(kernel),
            group,
            groups: groups as u32,
            tile: tile as u32,
        }
    }

    fn dispatch(&mut self, made: ValueId, when: When, variants: Vec<Variant>) {
        self.work.push(Work::Dispatch { rows: self.bound.value(made).rows, when, variants });
    }

    fn embed(&mut self, table: WeightId, y: ValueId) {
        let matrix = self.matrices[&table].clone();
        for shard in &matrix.shards {
            let [at, stride] = self.at(y);
            let mut params = shard.layout.numbers().to_vec();
            params.extend([shard.rows.start as u32, shard.rows.end as u32, 0, 0, at / 4, stride / 4, 0, 0]);
            let kernel = Kernel::Embed(kernels::Embed { format: shard.layout.kept.name() });
            let buffers = [self.slot(y), &shard.buffer];
            let groups = shard.layout.chunks.div_ceil(64);
            let variant = self.variant(&kernel, &params, &buffers, (usize::MAX, groups, 1));
            self.dispatch(y, When::Always, vec![variant]);
        }
    }

    fn rows(
        &mut self,
        operation: &'static str,
        a: ValueId,
        b: Option<(&wgpu::Buffer, [u32; 2])>,
        y: ValueId,
        eps: f32,
    ) {
        let b_at = b.map_or([0, 0], |(_, at)| at);
        let mut params = [self.at(a), b_at, self.at(y)].as_flattened().to_vec();
        params.extend([self.cols(y) as u32, eps.to_bits()]);
        let mut buffers = vec![self.slot(y), self.slot(a)];
        buffers.extend(b.map(|(b, _)| b));
        let kernel = Kernel::Rows(kernels::Rows { operation });
        let variant = self.variant(&kernel, &params, &buffers, (usize::MAX, 1, 1));
        self.dispatch(y, When::Always, vec![variant]);
    }

    fn linear(&mut self, x: ValueId, norm: Option<Norm>, parts: &[Part], shape: Shape, rest: &Rest) {
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
                Some((self.device.constants(&words, wgpu::BufferUsages::STORAGE), [0, 0]))
            }
        };
        let is_whole = matrices.iter().all(|matrix| matrix.shards.len() == 1);
        let first_shards = || matrices.iter().map(|matrix| &matrix.shards[0]).collect::<Vec<&Shard>>();
        // Shards that one dispatch multiplies, and the part that makes what comes of them.
        let dispatches: Vec<(&[Part], Vec<&Shard>)> = match shape {
            _ if is_whole => vec![(parts, first_shards())],
            Shape::Each => parts
                .iter()
                .zip(&matrices)
                .flat_map(|(part, matrix)| {
                    matrix.shards.iter().map(move |shard| (std::slice::from_ref(part), vec![shard]))
                })
                .collect(),
            Shape::Glu => {
                let pairs = matrices[0].shards.iter().zip(&matrices[1].shards);
                pairs.map(|(gate, up)| (&parts[..1], vec![gate, up])).collect()
            }
        };
        for (parts, shards) in dispatches {
            let rest = rest.as_ref().map(|(buffer, [at, stride])| {
                let at = *at as usize + offset(self, &parts[0]) + shards[0].rows.start;
                (buffer, [at as u32, *stride])
            });
            self.products(x, norm, parts, &shards, shape, rest);
        }
    }

    /// Products with weights that lie in a buffer each.
    fn products(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        shards: &[&Shard],
        shape: Shape,
        rest: Option<(&wgpu::Buffer, [u32; 2])>,
    ) {
        let y = parts[0].y;
        let is_glu = shape == Shape::Glu;
        let gates = if is_glu { 2 } else { 1 };
        let (cols, chunks) = (self.cols(x), shards[0].layout.chunks);
        let mut params: Vec<[u32; 4]> = vec![[0; 4]; 3];
        let (mut outputs, mut places) = ([0; 4], [0; 4]);
        for (i, shard) in shards.iter().enumerate() {
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
        let scales = norm.map(|norm| self.vector(norm.weight));

        let mut buffers = vec![self.slot(x), self.slot(y)];
        buffers.extend(shards.iter().map(|shard| &shard.buffer));
        buffers.extend(&scales);
        buffers.extend(rest.map(|(rest, _)| rest));
        let bucket = match self.bound.value(y).rows {
            Rows::Step => self.bound.bucket().rows,
            Rows::Wanted => self.bound.bucket().wanted,
        };
        let abilities =
            Abilities { subgroups: self.device.has_subgroups.then_some(self.device.info.subgroup_max_size) };
        let mut variants = Vec::new();
        let mut up_to = 0;
        while up_to < bucket {
            let product = policy::product(up_to + 1, chunks, gates, abilities);
            let (tile_outputs, tile_rows) = product.tile(gates);
            up_to = match product {
                Product::Few { columns, .. } => columns,
                Product::Many => usize::MAX,
            };
            let products = kernels::Products {
                parts: shards.iter().map(|shard| shard.layout.kept.name()).collect(),
                norm: norm.is_some(),
                glu: is_glu,
                rest: rest.is_some(),
                ragged: !cols.is_multiple_of(CHUNK),
            };
            let kernel = match product {
                Product::Few { columns, outputs, lanes, subgroups } => {
                    let threads = policy::THREADS;
                    Kernel::Linear(kernels::Linear { products, columns, outputs, lanes, subgroups, threads })
                }
                Product::Many => Kernel::Matmul(products),
            };
            let counted = shards.iter().take(if is_glu { 1 } else { 3 });
            let groups = match product {
                Product::Few { outputs, lanes, .. } => {
                    let of_outputs: usize = counted.map(|shard| shard.rows.len().div_ceil(outputs)).sum();
                    of_outputs.div_ceil(policy::THREADS / lanes)
                }
                Product::Many => counted.map(|shard| shard.rows.len().div_ceil(tile_outputs)).sum(),
            };
            let flat = params.as_flattened();
            variants.push(self.variant(&kernel, flat, &buffers, (up_to, groups, tile_rows)));
        }
        self.dispatch(y, When::Always, variants);
    }

    /// Turns queries `(x, y)`, and writes `(keys, values, layer, heads, whether keys turn)` to the cache.
    fn rotate(
        &mut self,
        turn: Option<(ValueId, ValueId)>,
        store: Option<(ValueId, ValueId, usize, usize, bool)>,
        rope: Option<&Rope>,
    ) {
        let heads = |compiler: &Self, id: ValueId, heads: usize| {
            let [at, stride] = compiler.at(id);
            [at, stride, heads as u32, (compiler.cols(id) / heads) as u32]
        };
        let mut params = Vec::new();
        let turned_heads = turn.map(|(x, _)| self.cols(x) / rope.map_or(1, |rope| rope.head_dim));
        params.extend(turn.map_or([0; 4], |(x, _)| heads(self, x, turned_heads.unwrap_or(1))));
        params.extend(store.map_or([0; 4], |(k, _, _, kv_heads, _)| heads(self, k, kv_heads)));
        params.extend(store.map_or([0; 4], |(_, v, _, kv_heads, _)| heads(self, v, kv_heads)));
        params.extend(turn.map_or([0; 2], |(_, y)| self.at(y)));
        let angles = rope.and_then(|rope| self.inputs.angles.iter().find(|angles| angles.rope == *rope));
        params.extend([rope.map_or(0, |rope| rope.dims as u32), angles.map_or(0, |angles| angles.at as u32)]);

        let x = turn.map(|(x, _)| x).or(store.map(|(k, ..)| k)).expect("one or the other");
        let mut buffers = vec![self.slot(x)];
        buffers.extend(turn.map(|(_, y)| self.slot(y)));
        let mut elements: u32 = 0;
        let mut count = |heads: &[u32]| elements += heads[2] * heads[3].div_ceil(2);
        count(&params[0..4]);
        count(&params[4..8]);
        count(&params[8..12]);
        let (mut separate, mut wide, mut keys_turn) = (false, false, false);
        if let Some((k, v, layer, _, turns)) = store {
            let kv = self.kv.expect("compiling has checked that there is a store");
            let [keys, values] = &kv.layers[layer];
            buffers.extend([keys, values]);
            separate = self.plan.place(k).slot != self.plan.place(v).slot;
            if separate {
                buffers.push(self.slot(v));
            }
            (wide, keys_turn) = (kv.is_wide(), turns);
        }
        let pairing = match rope.map(|rope| rope.pairing) {
            Some(Pairing::Halves) => "halves",
            _ => "interleaved",
        };
        let (turn, store) = (turn.is_some(), store.is_some());
        let kernel = Kernel::Rotate(kernels::Rotate { turn, store, keys_turn, separate, wide, pairing });
        let groups = (elements as usize).div_ceil(64);
        let variant = self.variant(&kernel, &params, &buffers, (usize::MAX, groups, 1));
        self.dispatch(x, When::Always, vec![variant]);
    }

    fn attend(
        &mut self,
        q: ValueId,
        y: ValueId,
        layer: usize,
        heads: usize,
        kv_heads: usize,
        scale: f32,
    ) -> Result<(), Error> {
        let kv = self.kv.expect("compiling has checked that there is a store");
        let (k_dim, v_dim) = (kv.layout.k_dim, kv.layout.v_dim);
        let share = heads / kv_heads;
        // Heads that a workgroup's memory holds: queries, weights, and what is left over from both.
        let fixed = 128 * F32 + 128 * 2 * F32;
        let of_head = (k_dim.next_multiple_of(2) + 128 + 1) * F32;
        let together = share.min(8).min((MEMORY - fixed) / of_head).max(1);
        let groups = kv_heads * share.div_ceil(together);
        let [keys, values] = kv.layers[layer].clone();
        let kernel = |split: bool| {
            let wide = kv.is_wide();
            Kernel::Attention(kernels::Attention { heads: together, k_dim, v_dim, wide, split })
        };
        let params = |y: [u32; 2]| {
            let mut params = [self.at(q), y].as_flattened().to_vec();
            params.extend([heads as u32, kv_heads as u32, scale.to_bits(), 0]);
            params
        };
        let buffers = |y| [self.slot(q), y, &keys, &values];
        let sizes = (usize::MAX, groups, 1);
        let whole = self.variant(&kernel(false), &params(self.at(y)), &buffers(self.slot(y)), sizes);

        let rows = self.bound.bucket().rows.min(SPLIT_ROWS);
        let bytes = (rows * heads * SPLITS * (v_dim + 2) * F32) as u64;
        let parts = match &self.parts {
            Some(parts) if parts.size() >= bytes => parts.clone(),
            _ => self.device.buffer("parts of attention", bytes, wgpu::BufferUsages::STORAGE)?,
        };
        let split = self.variant(&kernel(true), &params([0, 0]), &buffers(&parts), sizes);
        let mut of_result = self.at(y).to_vec();
        of_result.extend([heads as u32, 0]);
        let combine = self.variant(
            &Kernel::Combine(kernels::Combine { v_dim }),
            &of_result,
            &[self.slot(y), &parts],
            (usize::MAX, heads, 1),
        );
        self.parts = Some(parts);
        self.dispatch(y, When::Whole, vec![whole]);
        self.dispatch(y, When::Split, vec![split]);
        self.dispatch(y, When::Combine, vec![combine]);
        Ok(())
    }
}
