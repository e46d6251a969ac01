//! From a plan to launches and the buffers they need: all that a program is, but for the device's memory.
//!
//! What a model would take is asked by making a [`Blueprint`] and nothing of it.

use std::collections::HashMap;

use backend::{BoundProgram, Error, MemoryKind, Remedy, Taps};
use graph::{Rows, ValueId, WeightId};

use crate::device::{Device, Purpose, WRITTEN, taken};
use crate::formats::CHUNK;
use crate::inputs::{Inputs, vector};
use crate::kernels::{self, Kernel};
use crate::launch::{BufferId, BufferPlan, Cost, Each, F32, Grid, LaunchPlan, Variant, Work};
use crate::model::ModelPlan;
use crate::plan::{Norm, Part, Pass, Place, Plan, Rest, Shape};
use crate::policy::{self, Product, Shapes};
use crate::weights::{MatrixLayout, Shard};

/// What lies beside the columns of a value: nobody's values.
pub(crate) const BESIDE: f32 = f32::from_bits(0x7fc5_7ead);

/// Constants that kernels read as storage.
const CONSTANTS: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_DST);

/// A compiled graph, of which nothing is on the device yet.
pub(crate) struct Blueprint {
    pub(crate) bound: BoundProgram,
    #[cfg(test)]
    pub(crate) plan: Plan,
    #[cfg(test)]
    pub(crate) scratch: Scratch,
    /// Those of the plan's slots first.
    pub(crate) buffers: Vec<BufferPlan>,
    pub(crate) work: Vec<Work<LaunchPlan>>,
    pub(crate) inputs: Inputs,
    /// The buffer of the inputs, and the one that results are read back from.
    pub(crate) uploaded: usize,
    pub(crate) staging: usize,
    pub(crate) readbacks: Vec<Readback>,
    /// Where the tokens of output rows are that the device chooses, when the graph ends with logits.
    pub(crate) tokens: Option<usize>,
}

/// A value that is read back after a step.
pub(crate) struct Readback {
    pub(crate) id: ValueId,
    /// The buffer that holds it when it has been made, and its values a row.
    pub(crate) buffer: usize,
    pub(crate) place: Place,
    pub(crate) stride: usize,
    /// Where it goes in the staging buffer, in values.
    pub(crate) at: usize,
    /// Whether it is the output and nobody wants it where tokens are asked for only.
    pub(crate) is_logits: bool,
    pub(crate) values: Vec<f32>,
}

/// Buffers that passes use in turn, beside values, as long as the pass needs that needs most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// What parts of split attention find.
    pub(crate) parts: Option<usize>,
    /// Queries that flash attention reads, roped.
    pub(crate) roped: Option<usize>,
    /// Rows as f16 for matrix units, and their scales.
    pub(crate) f16_rows: Option<usize>,
    pub(crate) f16_scales: Option<usize>,
    /// What comes out of the first matrices of experts.
    pub(crate) hidden: Option<usize>,
    /// Tokens that are chosen.
    pub(crate) tokens: Option<usize>,
    /// Lists of the experts that rows use.
    pub(crate) lists: Vec<usize>,
}

/// What is at hand while a graph is compiled.
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
    /// Compiles `bound`, of a model that lies like this.
    ///
    /// # Errors
    /// When the device cannot bind what the bucket needs, however much room it has.
    pub(crate) fn new(
        device: &Device,
        model: &ModelPlan,
        bound: BoundProgram,
        taps: Taps<'_>,
    ) -> Result<Blueprint, Error> {
        let rows = bound.bucket().rows;
        // A row is a workgroup of some kernels.
        if rows > device.limits.max_compute_workgroups_per_dimension as usize {
            return Err(Error::OutOfMemory {
                what: "activations of more rows than the device computes at once",
                bytes: (rows as u64).saturating_mul(F32 as u64),
                memory: MemoryKind::Device,
                remedy: Remedy::SmallerBatch,
            });
        }
        let plan = Plan::new(&bound, device.margin());
        let inputs = Inputs::new(&bound);
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
            let rows = compiler.room(slot.rows).max(1);
            compiler.buffer(Purpose::Activations, (rows * slot.cols - device.margin()) * F32)?;
        }
        for list in compiler.plan.lists.clone() {
            let bytes = compiler.room(list.rows).max(1) * list.words() * F32;
            let list = compiler.buffer(Purpose::Activations, bytes)?;
            compiler.scratch.lists.push(list);
        }
        let output = bound.output();
        let is_tapped = taps.contains(&bound.value(output).name);
        // Tokens are before the rest: where there are any, logits, which come last, need not be read.
        let (mut readbacks, mut staged) = (Vec::new(), bound.bucket().outputs);
        for pass in compiler.plan.passes.clone() {
            compiler.pass(&pass)?;
            for id in pass.makes().into_iter().filter(|&id| bound.is_readable(id)) {
                let place = compiler.plan.place(id);
                let slot = compiler.plan.slots[place.slot];
                compiler.work.push(Work::Keep(readbacks.len()));
                let is_logits = id == output && slot.rows == Rows::Output && !is_tapped;
                readbacks.push(Readback {
                    id,
                    buffer: place.slot,
                    place,
                    stride: slot.cols,
                    at: staged,
                    is_logits,
                    values: Vec::new(),
                });
                staged += compiler.room(slot.rows) * slot.cols;
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

    /// Bytes of all buffers, those of parameters included.
    pub(crate) fn bytes(&self) -> u64 {
        let own: u64 = self.buffers.iter().map(|buffer| taken(buffer.bytes)).sum();
        let variants = self.work.iter().filter_map(|work| match work {
            Work::Dispatch { variants, .. } => Some(variants),
            Work::Input { .. } | Work::Keep(_) => None,
        });
        let launches = variants.flatten().flat_map(|variant| &variant.launches);
        own + launches.map(|launch| taken((launch.params.len() * F32) as u64)).sum::<u64>()
    }
}

impl Compiler<'_> {
    fn pass(&mut self, pass: &Pass) -> Result<(), Error> {
        match *pass {
            Pass::Input { y } => {
                let place = self.plan.place(y);
                let stride = self.plan.slots[place.slot].cols;
                let rows = vec![BESIDE; taken(self.buffers[place.slot].bytes) as usize / F32];
                let (col, cols) = (place.col, self.cols(y));
                self.work.push(Work::Input { buffer: place.slot, col, cols, stride, rows });
            }
            Pass::Embed { table, y } => self.embed(table, y),
            Pass::Linear { x, norm, ref parts, shape, ref rest } => {
                self.linear(x, norm, parts, shape, rest)?
            }
            Pass::Norm { x, norm, y } => {
                let weight = self.vector(norm.weight)?;
                // A row, or each head of it.
                let cols = self.bound.weight(norm.weight).cols;
                self.rows_of(["rms_norm", ""], x, Some((weight, [0, 0])), y, norm.eps, cols);
            }
            Pass::Add { a, b, y } => self.rows("add", a, Some((self.slot(b), self.at(b))), y, 0.0),
            Pass::AddBias { x, weight, y } => {
                let weight = self.vector(weight)?;
                self.rows("add", x, Some((weight, [0, 0])), y, 0.0);
            }
            Pass::Gate { gate, up, act, y } => {
                let up = (self.slot(up), self.at(up));
                self.rows_of(["gate", act.name()], gate, Some(up), y, 0.0, self.cols(y));
            }
            Pass::Scale { x, factor, y } => self.rows("scale", x, None, y, factor),
            Pass::OutputRows { x, y } => self.rows("output_rows", x, None, y, 0.0),
            Pass::Rope { x, ref rope, y } => {
                let launch = self.rope(x, rope, self.slot(y), self.at(y));
                self.dispatch(y, vec![Variant::always(vec![launch])]);
            }
            Pass::Attend(ref attend) => self.attend(attend)?,
            Pass::Route { logits, used, list, y } => self.route(logits, used, list, y)?,
            Pass::Experts(ref experts) => self.experts(experts)?,
        }
        Ok(())
    }

    /// A new buffer.
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

    /// A new buffer that kernels write.
    pub(crate) fn buffer(&mut self, purpose: Purpose, bytes: usize) -> Result<usize, Error> {
        self.add(purpose, bytes, WRITTEN, Vec::new())
    }

    /// A new buffer that holds `words`.
    fn constants(&mut self, words: Vec<u32>) -> Result<BufferId, Error> {
        self.add(Purpose::Constants, words.len() * F32, CONSTANTS, words).map(BufferId::Own)
    }

    /// A buffer that passes use in turn, with room for so many bytes.
    pub(crate) fn room_in(
        &mut self,
        of: fn(&mut Scratch) -> &mut Option<usize>,
        purpose: Purpose,
        bytes: usize,
    ) -> Result<BufferId, Error> {
        let number = match *of(&mut self.scratch) {
            Some(number) => {
                let bytes = self.buffers[number].bytes.max(bytes as u64);
                self.device.check_size(purpose, bytes, WRITTEN)?;
                self.buffers[number].bytes = bytes;
                number
            }
            None => self.buffer(purpose, bytes)?,
        };
        *of(&mut self.scratch) = Some(number);
        Ok(BufferId::Own(number))
    }

    /// Rows that there is room for.
    fn room(&self, rows: Rows) -> usize {
        match rows {
            Rows::Step => self.bound.bucket().rows,
            Rows::Output => self.bound.bucket().outputs,
        }
    }

    pub(crate) fn slot(&self, id: ValueId) -> BufferId {
        BufferId::Own(self.plan.place(id).slot)
    }

    /// Where a value begins in its buffer, and its stride.
    pub(crate) fn at(&self, id: ValueId) -> [u32; 2] {
        let place = self.plan.place(id);
        [place.col as u32, self.plan.slots[place.slot].cols as u32]
    }

    pub(crate) fn cols(&self, id: ValueId) -> usize {
        self.bound.value(id).cols
    }

    /// A weight of one row as f32.
    pub(crate) fn vector(&mut self, id: WeightId) -> Result<BufferId, Error> {
        if let Some(&buffer) = self.vectors.get(&id) {
            return Ok(buffer);
        }
        let buffer = self.constants(vector(self.bound, id).iter().map(|x| x.to_bits()).collect())?;
        self.vectors.insert(id, buffer);
        Ok(buffer)
    }

    /// A launch of `kernel`.
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

    pub(crate) fn dispatch(&mut self, made: ValueId, variants: Vec<Variant<LaunchPlan>>) {
        self.work.push(Work::Dispatch { rows: self.bound.value(made).rows, variants });
    }

    /// The most rows of a value.
    pub(crate) fn most_rows(&self, id: ValueId) -> usize {
        self.room(self.bound.value(id).rows)
    }

    /// Where a step's inputs say how many rows a value has.
    pub(crate) fn word_of_rows(&self, id: ValueId) -> u32 {
        match self.bound.value(id).rows {
            Rows::Step => 0,
            Rows::Output => 1,
        }
    }

    fn embed(&mut self, table: WeightId, y: ValueId) {
        for (number, shard) in self.model.matrix(table).shards.iter().enumerate() {
            let [at, stride] = self.at(y);
            let mut params = shard.layout.numbers().to_vec();
            params.extend([shard.rows.start as u32, shard.rows.end as u32, 0, 0]);
            let tokens = self.inputs.tokens as u32;
            params.extend([at / 4, stride / 4, self.cols(y).div_ceil(4) as u32, tokens]);
            let kernel = Kernel::Embed(kernels::Embed { format: shard.layout.format.name() });
            let buffers = vec![self.slot(y), BufferId::Weight(table, number)];
            let grid = Grid::rows(shard.layout.chunks.div_ceil(64));
            let cost = Cost::row("embed", stride as usize * F32 * 2);
            let launch = self.launch(kernel, params, buffers, grid, cost);
            self.dispatch(y, vec![Variant::always(vec![launch])]);
        }
    }

    fn rows(
        &mut self,
        operation: &'static str,
        a: ValueId,
        b: Option<(BufferId, [u32; 2])>,
        y: ValueId,
        number: f32,
    ) {
        self.rows_of([operation, ""], a, b, y, number, self.cols(y));
    }

    /// An operation, with its activation if it has one, on groups of `cols` columns, a workgroup each.
    fn rows_of(
        &mut self,
        [operation, act]: [&'static str; 2],
        a: ValueId,
        b: Option<(BufferId, [u32; 2])>,
        y: ValueId,
        number: f32,
        cols: usize,
    ) {
        let b_at = b.map_or([self.inputs.outputs as u32, 0], |(_, at)| at);
        let mut params = [self.at(a), b_at, self.at(y)].as_flattened().to_vec();
        params.extend([cols as u32, number.to_bits()]);
        let mut buffers = vec![self.slot(y), self.slot(a)];
        buffers.extend(b.map(|(b, _)| b));
        let rows = kernels::Rows { operation, act, reads_b: b.is_some() };
        let cost = Cost::row(operation, self.cols(y) * F32 * if b.is_some() { 3 } else { 2 });
        let launch = self.launch(Kernel::Rows(rows), params, buffers, Grid::rows(self.cols(y) / cols), cost);
        self.dispatch(y, vec![Variant::always(vec![launch])]);
    }

    fn linear(
        &mut self,
        x: ValueId,
        norm: Option<Norm>,
        parts: &[Part],
        shape: Shape,
        rest: &Rest,
    ) -> Result<(), Error> {
        // What is added, and for each part where it begins.
        let first = self.plan.place(parts[0].y).col;
        let offset = |compiler: &Self, part: &Part| compiler.plan.place(part.y).col - first;
        let rest = match rest {
            Rest::None => None,
            Rest::Residual(id) => Some((self.slot(*id), self.at(*id))),
            Rest::Biases(biases) => {
                let mut words = Vec::new();
                for (part, bias) in parts.iter().zip(biases) {
                    words.resize(offset(self, part), 0);
                    let values = bias.map_or(vec![0.0; self.cols(part.y)], |bias| vector(self.bound, bias));
                    words.extend(values.iter().map(|x| x.to_bits()));
                }
                Some((self.constants(words)?, [0, 0]))
            }
        };
        let model = self.model;
        let of = |part: &Part| (part.weight, model.matrix(part.weight));
        let matrices: Vec<(WeightId, &MatrixLayout)> = parts.iter().map(of).collect();
        let is_whole = matrices.iter().all(|(_, matrix)| matrix.shards.len() == 1);
        fn shards<'a>(&(id, matrix): &(WeightId, &'a MatrixLayout)) -> impl Iterator<Item = OfShard<'a>> {
            let shard = move |(number, shard)| OfShard { weight: id, matrix, number, shard };
            matrix.shards.iter().enumerate().map(shard)
        }
        // Shards that one dispatch multiplies, and the part that makes what comes of them.
        let dispatches: Vec<(&[Part], Vec<OfShard<'_>>)> = match shape {
            _ if is_whole => vec![(parts, matrices.iter().flat_map(shards).collect())],
            Shape::Each => {
                let parts = parts.iter().map(std::slice::from_ref).zip(&matrices);
                parts
                    .flat_map(|(part, matrix)| shards(matrix).map(move |shard| (part, vec![shard])))
                    .collect()
            }
            Shape::Glu(_) => {
                let pairs = shards(&matrices[0]).zip(shards(&matrices[1]));
                pairs.map(|(gate, up)| (&parts[..1], vec![gate, up])).collect()
            }
        };
        for (parts, shards) in dispatches {
            let rest = rest.map(|(buffer, [at, stride])| {
                let at = at as usize + offset(self, &parts[0]) + shards[0].shard.rows.start;
                (buffer, [at as u32, stride])
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
        shards: &[OfShard<'_>],
        shape: Shape,
        rest: Option<(BufferId, [u32; 2])>,
    ) -> Result<(), Error> {
        let y = parts[0].y;
        let act = shape.act();
        let gates = if act.is_some() { 2 } else { 1 };
        let cols = self.cols(x);
        let mut params: Vec<[u32; 4]> = vec![[0; 4]; 3];
        let (mut outputs, mut places) = ([0; 4], [0; 4]);
        for (i, OfShard { shard, .. }) in shards.iter().enumerate() {
            params[i] = shard.layout.numbers();
            outputs[i] = shard.rows.len() as u32;
            places[i] = self.at(parts.get(i).unwrap_or(&parts[0]).y)[0] + shard.rows.start as u32;
        }
        let [x_at, x_stride] = self.at(x);
        places[3] = self.at(y)[1];
        params.extend([outputs, places, [x_at / 4, x_stride / 4, cols as u32, self.word_of_rows(y)]]);
        let [rest_at, rest_stride] = rest.map_or([0, 0], |(_, at)| at);
        let eps = norm.map_or(0, |norm| norm.eps.to_bits());
        params.push([rest_at, rest_stride, eps, 0]);
        let scales = norm.map(|norm| self.vector(norm.weight)).transpose()?;
        let products = kernels::Products {
            parts: shards.iter().map(|of| of.shard.layout.format.name()).collect(),
            norm: norm.is_some(),
            glu: act.is_some(),
            act: act.map_or("", |act| act.name()),
            rest: rest.is_some(),
            ragged: !cols.is_multiple_of(CHUNK),
        };
        let counted = || shards.iter().take(if gates == 2 { 1 } else { 3 }).map(|of| of.shard.rows.len());
        let all: usize = shards.iter().map(|of| of.shard.rows.len()).sum();
        let cost = |kernel: &Kernel| Cost {
            what: format!("{} {} {cols} to {all}", kernel.file(), products.parts.join("+")),
            bytes: shards.iter().map(|of| of.shard.layout.bytes() as u64).sum(),
            row_bytes: ((cols + counted().sum::<usize>()) * F32) as u64,
            row_multiply_adds: (cols * all) as u64,
            ..Cost::default()
        };

        let shapes = Shapes {
            rows: self.most_rows(y),
            cols,
            outputs: shards.iter().map(|of| of.matrix.rows).sum::<usize>() / gates,
            gates,
            fits_f16: shards.iter().all(|of| of.matrix.may_fit_f16()),
        };
        let weights = || shards.iter().map(|of| BufferId::Weight(of.weight, of.number));
        let mut variants = Vec::new();
        for (chosen, up_to) in policy::products(shapes, self.device.abilities) {
            let (tile_outputs, tile) = chosen.tile(gates);
            let groups: usize = counted().map(|rows| rows.div_ceil(tile_outputs)).sum();
            let grid = Grid { groups, each: Each::Rows(tile) };
            let products = products.clone();
            let kernel = match chosen {
                Product::Few { columns, outputs, lanes, threads, subgroups } => {
                    let experts = "";
                    Kernel::Linear(kernels::Linear {
                        products,
                        columns,
                        outputs,
                        lanes,
                        threads,
                        subgroups,
                        experts,
                    })
                }
                Product::Tiles { tile, size } => {
                    let vectors = size == 16;
                    Kernel::Tiles(kernels::Tiles { products, tile, size, vectors })
                }
                Product::Many => Kernel::Matmul(products),
            };
            let mut variant = Variant { up_to, ..Variant::default() };
            let mut params = params.clone();
            let mut buffers;
            if let Kernel::Tiles(_) = kernel {
                let bytes = shapes.rows * cols * size_of::<half::f16>();
                let values = self.room_in(|own| &mut own.f16_rows, Purpose::Activations, bytes)?;
                let bytes = shapes.rows * F32;
                let factors = self.room_in(|own| &mut own.f16_scales, Purpose::Activations, bytes)?;
                buffers = vec![self.slot(x), values, factors];
                buffers.extend(scales);
                let of_rows = vec![x_at / 4, x_stride / 4, cols as u32 / 4, eps];
                let f16_rows = Kernel::F16Rows(kernels::F16Rows { norm: norm.is_some() });
                let of_f16_rows = Cost::row("f16_rows", cols * (F32 + size_of::<half::f16>()));
                variant.launches.push(self.launch(f16_rows, of_rows, buffers, Grid::rows(1), of_f16_rows));
                variant.f16_weights = shards.iter().map(|of| of.weight).collect();

                buffers = vec![values, self.slot(y), factors];
                buffers.extend(weights());
                params[5][..2].copy_from_slice(&[0, cols as u32 / 4]);
            } else {
                buffers = vec![self.slot(x), self.slot(y)];
                buffers.extend(weights());
                buffers.extend(scales);
            }
            buffers.extend(rest.map(|(rest, _)| rest));
            let (params, cost) = (params.as_flattened().to_vec(), cost(&kernel));
            variant.launches.push(self.launch(kernel, params, buffers, grid, cost));
            variants.push(variant);
        }
        self.dispatch(y, variants);
        Ok(())
    }

    /// What chooses tokens from the output, in steps that ask for tokens only.
    fn choose_tokens(&mut self, output: ValueId) -> Result<(), Error> {
        if self.bound.value(output).rows != Rows::Output {
            return Ok(());
        }
        let rows = self.bound.bucket().outputs;
        let tokens = self.buffer(Purpose::Activations, rows * size_of::<u32>())?;
        let [at, stride] = self.at(output);
        let params = vec![at / 4, stride / 4, self.cols(output) as u32, 0];
        let kernel = Kernel::ArgMax(kernels::ArgMax { ahead: 8 });
        let cost = Cost::row("arg_max", self.cols(output) * F32);
        let buffers = vec![BufferId::Own(tokens), self.slot(output)];
        let launch = self.launch(kernel, params, buffers, Grid::rows(1), cost);
        let nothing = Variant::default();
        let variant = Variant { is_tokens_only: true, launches: vec![launch], ..Variant::default() };
        self.dispatch(output, vec![variant, nothing]);
        self.scratch.tokens = Some(tokens);
        Ok(())
    }
}

/// A shard of a weight.
struct OfShard<'a> {
    weight: WeightId,
    matrix: &'a MatrixLayout,
    number: usize,
    shard: &'a Shard,
}
