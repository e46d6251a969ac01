//! Passes of attention: RoPE, KV cache writes, and the attention kernels.

use backend::{Error, Remedy};
use gpu::{
    Attend, BufferId, Cost, Each, F32, Grid, Operand, Scratch, Variant, When, max_tiles, out_of_memory,
    partials_bytes,
};
use graph::{Mask, Pairing, Rope, Score, Store, ValueId};

use crate::compile::{Compiler, LaunchPlan};
use crate::kernels::{self, Kernel};
use crate::model::is_kv_f32;
use crate::policy::{self, Attention};

/// Parameters of kernels for heads without RoPE.
const NO_ROPE: kernels::Rope = kernels::Rope {
    rope: false,
    store: false,
    keys_rope: false,
    separate: false,
    kv_f32: false,
    pairing: "interleaved",
};

fn pairing(rope: &Rope) -> &'static str {
    if rope.pairing == Pairing::Halves { "halves" } else { "interleaved" }
}

/// Bits of the cap of scores, which kernels without one do not read.
fn cap(score: Score) -> u32 {
    score.cap.unwrap_or_default().to_bits()
}

impl Compiler<'_> {
    /// RoPE as a separate pass, if another operation also reads the heads before or after RoPE.
    pub(crate) fn rope(&self, x: ValueId, rope: &Rope, (y, at): Operand) -> LaunchPlan {
        let heads = self.heads(x, self.cols(x) / rope.head_dim);
        let mut params = [heads, [0; 4], [0; 4]].as_flattened().to_vec();
        params.extend(at);
        params.extend(self.rope_table(Some(rope)));
        params.extend([self.inputs.positions as u32, 0, 0]);
        let kernel = kernels::Rope { rope: true, pairing: pairing(rope), ..NO_ROPE };
        self.launch_rope(kernel, params, vec![self.slot(x), y])
    }

    /// Writes keys and values to the KV cache. With `roped`, also ropes the queries into it: they share slot and
    /// RoPE parameters with the keys.
    fn store_rows(&self, attend: &Attend, [k, v]: [ValueId; 2], roped: Option<BufferId>) -> LaunchPlan {
        let Attend { q, ref k_rope, heads, .. } = *attend;
        let layout = self.store(attend.store);
        let kv_heads = layout.store.heads;
        let queries = roped.map_or([0; 4], |_| self.heads(q, heads));
        let mut params = [queries, self.heads(k, kv_heads), self.heads(v, kv_heads)].as_flattened().to_vec();
        params.extend([0, queries[2] * queries[3]]);
        params.extend(self.rope_table(k_rope.as_ref()));
        params.extend(self.table_offsets(attend.store));
        let separate = self.plan.location(k).slot != self.plan.location(v).slot;
        let mut buffers = vec![self.slot(k)];
        buffers.extend(roped);
        buffers.extend([0, 1].map(|which| BufferId::Store(attend.store, which)));
        buffers.extend(separate.then(|| self.slot(v)));
        let kernel = kernels::Rope {
            rope: roped.is_some(),
            store: true,
            keys_rope: k_rope.is_some(),
            separate,
            kv_f32: is_kv_f32(&layout),
            pairing: k_rope.as_ref().map_or(NO_ROPE.pairing, pairing),
        };
        self.launch_rope(kernel, params, buffers)
    }

    fn launch_rope(&self, rope: kernels::Rope, params: Vec<u32>, buffers: Vec<BufferId>) -> LaunchPlan {
        let pairs = |heads: &[u32]| heads[2] * heads[3].div_ceil(2);
        let elements = (pairs(&params[0..4]) + pairs(&params[4..8]) + pairs(&params[8..12])) as usize;
        let cost = Cost::row("rope", 2 * elements * F32);
        let grid = Grid::rows(elements.div_ceil(64));
        self.launch(Kernel::Rope(rope), params, buffers, grid, cost)
    }

    pub(crate) fn attend(&mut self, attend: &Attend) -> Result<(), Error> {
        let Attend { q, kv, ref q_rope, ref k_rope, y, store, heads, score } = *attend;
        let (layout, group) = (self.store(store), self.bound.graph().store_group(store));
        let Store { heads: kv_heads, k_dim, v_dim, mask } = layout.store;
        if !policy::fits_attention(k_dim, v_dim) {
            let what = "a head of attention, which must fit in workgroup memory";
            let bytes = k_dim.saturating_add(v_dim).saturating_mul(F32);
            return Err(out_of_memory(what, bytes as u64, Remedy::UseCpu));
        }
        let sinks = score.sinks.map(|sinks| self.vector(sinks));
        let share = heads / kv_heads;
        let together = policy::heads_per_workgroup(share, k_dim);
        let groups = kv_heads * share.div_ceil(together);
        let [keys, values] = [0, 1].map(|which| BufferId::Store(store, which));
        let kernel = |split: bool, fresh: bool| {
            Kernel::Attention(kernels::Attention {
                heads: together,
                teams: policy::teams(k_dim),
                k_dim,
                v_dim,
                kv_f32: is_kv_f32(&layout),
                split,
                rope: q_rope.is_some(),
                fresh,
                masked: mask != Mask::Causal,
                capped: score.cap.is_some(),
                alibi: score.alibi.is_some(),
                sinks: score.sinks.is_some() && !split,
                pairing: q_rope.as_ref().map_or(NO_ROPE.pairing, pairing),
            })
        };
        let params = |compiler: &Self, y: [u32; 2]| {
            let mut params = [compiler.at(q), y].as_flattened().to_vec();
            params.extend([heads as u32, kv_heads as u32, score.scale.to_bits()]);
            params.extend(compiler.rope_table(q_rope.as_ref()));
            params.extend(compiler.table_offsets(store));
            params.extend(kv.map_or([0; 2], |kv| kv.map(|id| compiler.at(id)[0])));
            params.extend([compiler.inputs.split(group), compiler.inputs.visible(group), cap(score)]);
            params.push(score.alibi.unwrap_or_default().to_bits());
            params
        };
        let whole = |compiler: &Self, fresh: bool| {
            let buffers = [compiler.slot(q), compiler.slot(y), keys, values];
            let buffers = buffers.into_iter().chain(sinks).collect();
            let params = params(compiler, compiler.at(y));
            let cost = compiler.attention_cost("attention", attend);
            compiler.launch(kernel(false, fresh), params, buffers, Grid::rows(groups), cost)
        };

        let bytes = partials_bytes(&layout, self.bound.bucket().rows, heads) as usize;
        let parts = self.scratch(Scratch::Parts, bytes);
        let split = |compiler: &Self, fresh: bool| {
            let buffers = vec![compiler.slot(q), parts, keys, values];
            let grid = Grid { groups, each: Each::Part(group) };
            let params = params(compiler, [0, 0]);
            let cost = compiler.attention_cost("attention in parts", attend);
            compiler.launch(kernel(true, fresh), params, buffers, grid, cost)
        };
        let combine = |compiler: &Self| {
            let mut params = compiler.at(y).to_vec();
            params.extend([heads as u32, compiler.inputs.split(group)]);
            let kernel = Kernel::Combine { v_dim, sinks: sinks.is_some() };
            let cost = Cost::row("combine", heads * v_dim * F32);
            let buffers = [compiler.slot(y), parts].into_iter().chain(sinks).collect();
            compiler.launch(kernel, params, buffers, Grid::rows(heads), cost)
        };
        let mut variants = Vec::new();
        let slot = |id: ValueId| self.plan.location(id).slot;
        let same_slot = kv.is_some_and(|kv| kv.iter().all(|&id| slot(id) == slot(q)));
        let fused_qkv = q_rope == k_rope && same_slot;
        if fused_qkv {
            let launches = vec![split(self, true), combine(self)];
            let is_decode = true;
            variants.push(When { is_decode, split: Some(group), ..When::default() }.launches(launches));
            let launches = vec![whole(self, true)];
            variants.push(When { is_decode, ..When::default() }.launches(launches));
        }
        let flash = self.flash(attend, fused_qkv);
        variants.extend(flash.map(|launches| When { is_tiled: true, ..When::default() }.launches(launches)));
        let stored = || kv.map(|kv| self.store_rows(attend, kv, None)).into_iter();
        let launches = stored().chain([split(self, false), combine(self)]).collect();
        variants.push(When { split: Some(group), ..When::default() }.launches(launches));
        variants.push(Variant::always(stored().chain([whole(self, false)]).collect()));
        self.dispatch(y, variants);
        Ok(())
    }

    /// Flash attention, where a kernel supports the head dimensions. `fused_qkv`: the cache-write launch can rope
    /// the queries too.
    fn flash(&mut self, attend: &Attend, fused_qkv: bool) -> Option<Vec<LaunchPlan>> {
        let Attend { q, kv, ref q_rope, y, store, heads, score, .. } = *attend;
        let layout = self.store(attend.store);
        let Store { heads: kv_heads, k_dim, v_dim, mask } = layout.store;
        let kv_f32 = is_kv_f32(&layout);
        let kind = policy::attention(k_dim, v_dim, kv_f32, self.device.caps);
        // Flash kernels have no ALiBi.
        if kind == Attention::Rows || score.alibi.is_some() || max_tiles(self.bound.bucket().rows) == 0 {
            return None;
        }
        let coop = kind == Attention::FlashCoop;
        // The flash kernels read queries that are already roped.
        let bytes = self.bound.bucket().rows * self.cols(q) * F32;
        let roped = q_rope.is_some().then(|| self.scratch(Scratch::Roped, bytes));
        let roped_at = [0, self.cols(q) as u32];
        let mut launches = Vec::new();
        match (roped, q_rope) {
            (Some(roped), Some(rope)) if !fused_qkv => {
                launches.push(self.rope(q, rope, (roped, roped_at)));
                launches.extend(kv.map(|kv| self.store_rows(attend, kv, None)));
            }
            _ => launches.extend(kv.map(|kv| self.store_rows(attend, kv, roped))),
        }
        let (queries, at) = roped.map_or(self.operand(q), |roped| (roped, roped_at));
        let mut params = [at, self.at(y)].as_flattened().to_vec();
        params.extend([heads as u32, kv_heads as u32, score.scale.to_bits()]);
        params.extend(self.table_offsets(attend.store));
        let visible = self.inputs.visible(self.bound.graph().store_group(store));
        params.extend([self.inputs.tiles as u32, visible, cap(score), 0]);
        let (masked, capped) = (mask != Mask::Causal, score.cap.is_some());
        let sinks = score.sinks.map(|sinks| self.vector(sinks));
        let flash = kernels::Flash { k_dim, v_dim, kv_f32, masked, capped, sinks: sinks.is_some(), coop };
        let grid = Grid { groups: heads, each: Each::Tile };
        let [keys, values] = [0, 1].map(|which| BufferId::Store(store, which));
        let buffers = [queries, self.slot(y), keys, values].into_iter().chain(sinks).collect();
        let cost = self.attention_cost("flash attention", attend);
        launches.push(self.launch(Kernel::Flash(flash), params, buffers, grid, cost));
        Some(launches)
    }
}
