//! Passes of attention: rotations, the cache, queries, keys and values.

use backend::Error;
use graph::{Pairing, Rope, ValueId};

use crate::compile::{Compiler, F32};
use crate::device::{Buffer, WRITTEN};
use crate::kernels::{self, Kernel};
use crate::kv::Kv;
use crate::plan::Attend;
use crate::policy::{self, Attention};
use crate::program::{Cost, Each, Grid, Launch, Variant, bytes_of_parts};

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
    pub(crate) fn turn(&self, x: ValueId, rope: &Rope, y: &Buffer, at: [u32; 2]) -> Result<Launch, Error> {
        let heads = self.heads(x, self.cols(x) / rope.head_dim);
        let mut params = [heads, [0; 4], [0; 4]].as_flattened().to_vec();
        params.extend(at);
        params.extend(self.turns(Some(rope)));
        params.extend(self.places_of_rows());
        let of_rotate = kernels::Rotate { turn: true, store: false, pairing: pairing(rope), ..NO_ROTATION };
        self.rotate(of_rotate, &params, &[self.slot(x), y])
    }

    /// Writes keys and values to the cache, and to `turned` queries that are turned like keys and lie beside them.
    fn store(&self, attend: &Attend, kv: &Kv, turned: Option<&Buffer>) -> Result<Launch, Error> {
        let Attend { q, k, v, ref k_rope, layer, heads, kv_heads, .. } = *attend;
        let queries = turned.map_or([0; 4], |_| self.heads(q, heads));
        let mut params = [queries, self.heads(k, kv_heads), self.heads(v, kv_heads)].as_flattened().to_vec();
        params.extend([0, queries[2] * queries[3]]);
        params.extend(self.turns(k_rope.as_ref()));
        params.extend(self.places_of_rows());
        let [keys, values] = &kv.layers[layer];
        let separate = self.plan.place(k).slot != self.plan.place(v).slot;
        let mut buffers = vec![self.slot(k)];
        buffers.extend(turned);
        buffers.extend([keys, values]);
        buffers.extend(separate.then(|| self.slot(v)));
        let of_rotate = kernels::Rotate {
            turn: turned.is_some(),
            store: true,
            keys_turn: k_rope.is_some(),
            separate,
            wide: kv.is_wide(),
            pairing: k_rope.as_ref().map_or(NO_ROTATION.pairing, pairing),
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
        let together = policy::heads_together(share, k_dim);
        let groups = kv_heads * share.div_ceil(together);
        let [keys, values] = kv.layers[layer].clone();
        let kernel = |split: bool, fresh: bool| {
            let (wide, turn) = (kv.is_wide(), q_rope.is_some());
            let pairing = q_rope.as_ref().map_or(NO_ROTATION.pairing, pairing);
            Kernel::Attention(kernels::Attention {
                heads: together,
                teams: policy::teams(k_dim),
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
        let parts = match &self.scratch.parts {
            Some(parts) if parts.size() >= bytes => parts.clone(),
            _ => self.device.buffer("parts of attention", bytes, WRITTEN)?,
        };
        let turned = self.room_for_turned(attend, kv)?;
        let split = |fresh: bool| {
            let buffers = [self.slot(q), &parts, &keys, &values];
            let grid = Grid { groups, each: Each::Part };
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
        let is_together = q_rope == k_rope && slots.iter().all(|&slot| slot == slots[0]);
        if is_together {
            let alone = Variant { is_alone: true, ..Variant::default() };
            let launches = vec![split(true)?, combine()?];
            variants.push(Variant { is_split: true, launches, ..alone.clone() });
            variants.push(Variant { launches: vec![whole(true)?], ..alone });
        }
        let flash = self.flash(attend, kv, turned.as_ref(), is_together, cost("flash attention"))?;
        variants.extend(flash.map(|launches| Variant { is_tiled: true, launches, ..Variant::default() }));
        let launches = vec![self.store(attend, kv, None)?, split(false)?, combine()?];
        variants.push(Variant { is_split: true, launches, ..Variant::default() });
        let launches = vec![self.store(attend, kv, None)?, whole(false)?];
        variants.push(Variant { launches, ..Variant::default() });
        self.scratch.parts = Some(parts);
        self.scratch.turned = turned.or(self.scratch.turned.take());
        self.dispatch(y, variants);
        Ok(())
    }

    /// How attention is computed in tiles of rows, if it is.
    fn of_tiles(&self, kv: &Kv) -> Attention {
        match policy::most_tiles(self.bound.bucket().rows) {
            0 => Attention::Rows,
            _ => policy::attention(kv.layout.k_dim, kv.layout.v_dim, kv.is_wide(), self.device.abilities),
        }
    }

    /// Where queries go that flash attention reads, if they have to be turned for it.
    fn room_for_turned(&self, attend: &Attend, kv: &Kv) -> Result<Option<Buffer>, Error> {
        if attend.q_rope.is_none() || self.of_tiles(kv) == Attention::Rows {
            return Ok(None);
        }
        let bytes = (self.bound.bucket().rows * self.cols(attend.q) * F32) as u64;
        match &self.scratch.turned {
            Some(turned) if turned.size() >= bytes => Ok(Some(turned.clone())),
            _ => self.device.buffer("activations", bytes, WRITTEN).map(Some),
        }
    }

    /// Flash attention, if it can be; `is_together`: queries lie beside keys and turn like them.
    fn flash(
        &self,
        attend: &Attend,
        kv: &Kv,
        turned: Option<&Buffer>,
        is_together: bool,
        cost: Cost,
    ) -> Result<Option<Vec<Launch>>, Error> {
        let Attend { q, ref q_rope, y, layer, heads, kv_heads, scale, .. } = *attend;
        let units = match self.of_tiles(kv) {
            Attention::Rows => return Ok(None),
            Attention::Flash => false,
            Attention::FlashUnits => true,
        };
        let of_turned = [0, self.cols(q) as u32];
        let mut launches = match (turned, q_rope) {
            (Some(turned), Some(rope)) if !is_together => {
                vec![self.turn(q, rope, turned, of_turned)?, self.store(attend, kv, None)?]
            }
            _ => vec![self.store(attend, kv, turned)?],
        };
        let (queries, at) = turned.map_or((self.slot(q), self.at(q)), |turned| (turned, of_turned));
        let mut params = [at, self.at(y)].as_flattened().to_vec();
        params.extend([heads as u32, kv_heads as u32, scale.to_bits()]);
        params.extend(self.places_of_rows());
        let [.., tiles, _] = self.inputs.at;
        params.push(tiles as u32);
        let [keys, values] = &kv.layers[layer];
        let (k_dim, v_dim) = (kv.layout.k_dim, kv.layout.v_dim);
        let kernel = Kernel::Flash(kernels::Flash { k_dim, v_dim, wide: kv.is_wide(), units });
        let grid = Grid { groups: heads, each: Each::Tile };
        launches.push(self.launch(&kernel, &params, &[queries, self.slot(y), keys, values], grid, cost)?);
        Ok(Some(launches))
    }
}
