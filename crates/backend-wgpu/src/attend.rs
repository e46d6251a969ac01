//! Passes of attention: rotations, the cache, queries, keys and values.

use backend::Error;
use graph::{Pairing, Rope, ValueId};

use crate::compile::{Compiler, F32};
use crate::device::Buffer;
use crate::kernels::{self, Kernel};
use crate::kv::Kv;
use crate::plan::Attend;
use crate::program::{Cost, Grid, Launch, Variant, bytes_of_parts};

/// Bytes of workgroup memory that every device has.
const MEMORY: usize = 16 << 10;

/// Query heads that a workgroup takes at most, so that a row keeps several of them busy.
const HEADS: usize = 4;

/// What there is none of.
const NO_ROTATION: kernels::Rotate = kernels::Rotate {
    turn: false,
    store: false,
    keys_turn: false,
    separate: false,
    wide: false,
    pairing: "interleaved",
};

fn pairing(rope: &Rope) -> &'static str {
    match rope.pairing {
        Pairing::Halves => "halves",
        Pairing::Interleaved => "interleaved",
    }
}

impl Compiler<'_> {
    /// Where heads of a value begin, their stride, how many there are and numbers of each.
    fn heads(&self, id: ValueId, heads: usize) -> [u32; 4] {
        let [at, stride] = self.at(id);
        [at, stride, heads as u32, (self.cols(id) / heads) as u32]
    }

    /// Columns that turn, and where a step's inputs have cosines and sines.
    fn turns(&self, rope: Option<&Rope>) -> [u32; 2] {
        let angles = rope.and_then(|rope| self.inputs.angles.iter().find(|angles| angles.rope == *rope));
        [rope.map_or(0, |rope| rope.dims as u32), angles.map_or(0, |angles| angles.at as u32)]
    }

    /// Turns heads that are read as they are, too, or by several.
    pub(crate) fn turn(&self, x: ValueId, rope: &Rope, y: ValueId) -> Result<Launch, Error> {
        let heads = self.heads(x, self.cols(x) / rope.head_dim);
        let mut params = [heads, [0; 4], [0; 4]].as_flattened().to_vec();
        params.extend(self.at(y));
        params.extend(self.turns(Some(rope)));
        params.extend(self.places_of_rows());
        let of_rotate = kernels::Rotate { turn: true, store: false, pairing: pairing(rope), ..NO_ROTATION };
        self.rotate(of_rotate, &params, &[self.slot(x), self.slot(y)])
    }

    /// Writes keys and values to the cache.
    fn store(&self, attend: &Attend, kv: &Kv) -> Result<Launch, Error> {
        let Attend { k, v, ref k_rope, layer, kv_heads, .. } = *attend;
        let mut params = [[0; 4], self.heads(k, kv_heads), self.heads(v, kv_heads)].as_flattened().to_vec();
        params.extend([0; 2]);
        params.extend(self.turns(k_rope.as_ref()));
        params.extend(self.places_of_rows());
        let [keys, values] = &kv.layers[layer];
        let separate = self.plan.place(k).slot != self.plan.place(v).slot;
        let mut buffers = vec![self.slot(k), keys, values];
        buffers.extend(separate.then(|| self.slot(v)));
        let of_rotate = kernels::Rotate {
            store: true,
            keys_turn: k_rope.is_some(),
            separate,
            wide: kv.is_wide(),
            pairing: k_rope.as_ref().map_or(NO_ROTATION.pairing, pairing),
            ..NO_ROTATION
        };
        self.rotate(of_rotate, &params, &buffers)
    }

    fn rotate(&self, rotate: kernels::Rotate, params: &[u32], buffers: &[&Buffer]) -> Result<Launch, Error> {
        let pairs = |heads: &[u32]| heads[2] * heads[3].div_ceil(2);
        let elements = (pairs(&params[0..4]) + pairs(&params[4..8]) + pairs(&params[8..12])) as usize;
        let cost = Cost::row("rotate", 2 * elements * F32);
        let grid = Grid::rows(elements.div_ceil(64));
        self.launch(&Kernel::Rotate(rotate), params, buffers, grid, cost)
    }

    pub(crate) fn attend(&mut self, attend: &Attend) -> Result<(), Error> {
        let Attend { q, k, v, ref q_rope, ref k_rope, y, layer, heads, kv_heads, scale } = *attend;
        let kv = self.kv.expect("compiling has checked that there is a store");
        let (k_dim, v_dim) = (kv.layout.k_dim, kv.layout.v_dim);
        let share = heads / kv_heads;
        // Heads that a workgroup's memory holds: queries, weights and results, and the row's own keys.
        let fixed = 128 * F32 + k_dim.next_multiple_of(2) * F32;
        let of_head = (k_dim.next_multiple_of(2) + 128 + 2 * 128 + 1) * F32;
        let together = share.min(HEADS).min((MEMORY - fixed) / of_head).max(1);
        let groups = kv_heads * share.div_ceil(together);
        let [keys, values] = kv.layers[layer].clone();
        let kernel = |split: bool, fresh: bool| {
            let (wide, turn) = (kv.is_wide(), q_rope.is_some());
            let pairing = q_rope.as_ref().map_or(NO_ROTATION.pairing, pairing);
            Kernel::Attention(kernels::Attention {
                heads: together,
                k_dim,
                v_dim,
                wide,
                split,
                turn,
                fresh,
                pairing,
            })
        };
        let params = |y: [u32; 2]| {
            let mut params = [self.at(q), y].as_flattened().to_vec();
            params.extend([heads as u32, kv_heads as u32, scale.to_bits()]);
            params.extend(self.turns(q_rope.as_ref()));
            params.extend(self.places_of_rows());
            params.extend([self.at(k)[0], self.at(v)[0]]);
            params
        };
        let numbers = heads * (k_dim + v_dim);
        let cost = |what: &str| Cost {
            what: format!("{what} {heads} heads of {k_dim}, {kv_heads} of K/V"),
            row_bytes: (numbers * F32) as u64,
            position_bytes: (kv_heads * (k_dim + v_dim) * kv.layout.format.bytes()) as u64,
            pair_multiply_adds: numbers as u64,
            ..Cost::default()
        };
        let whole = |fresh: bool| {
            let buffers = [self.slot(q), self.slot(y), &keys, &values];
            let grid = Grid::rows(groups);
            self.launch(&kernel(false, fresh), &params(self.at(y)), &buffers, grid, cost("attention"))
        };

        let bytes = bytes_of_parts(kv.layout, self.bound.bucket().rows, heads);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let parts = match &self.parts {
            Some(parts) if parts.size() >= bytes => parts.clone(),
            _ => self.device.buffer("parts of attention", bytes, usage)?,
        };
        let split = |fresh: bool| {
            let buffers = [self.slot(q), &parts, &keys, &values];
            let grid = Grid { is_split: true, ..Grid::rows(groups) };
            let cost = cost("attention in parts");
            self.launch(&kernel(true, fresh), &params([0, 0]), &buffers, grid, cost)
        };
        let mut of_result = self.at(y).to_vec();
        of_result.extend([heads as u32, 0]);
        let combine = || {
            self.launch(
                &Kernel::Combine(kernels::Combine { v_dim }),
                &of_result,
                &[self.slot(y), &parts],
                Grid::rows(heads),
                Cost::row("combine", heads * v_dim * F32),
            )
        };
        let mut variants = Vec::new();
        let slots = [q, k, v].map(|id| self.plan.place(id).slot);
        if q_rope == k_rope && slots.iter().all(|&slot| slot == slots[0]) {
            let alone = Variant { is_alone: true, ..Variant::default() };
            let launches = vec![split(true)?, combine()?];
            variants.push(Variant { is_split: true, launches, ..alone.clone() });
            variants.push(Variant { launches: vec![whole(true)?], ..alone });
        }
        let launches = vec![self.store(attend, kv)?, split(false)?, combine()?];
        variants.push(Variant { is_split: true, launches, ..Variant::default() });
        let launches = vec![self.store(attend, kv)?, whole(false)?];
        variants.push(Variant { launches, ..Variant::default() });
        self.parts = Some(parts);
        self.dispatch(y, variants);
        Ok(())
    }
}
