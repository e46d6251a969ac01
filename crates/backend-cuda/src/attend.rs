//! Passes of attention: RoPE, KV cache writes, and the attention kernels.

use std::sync::Arc;

use backend::{Error, KV_BLOCK, KvType, Remedy};
use gpu::{
    Attend, BufferId, Cost, Each, F32, Grid, MAX_SPLIT_ROWS, Operand, Scratch, Variant, When, max_tiles,
    out_of_memory, partials_bytes,
};
use graph::{Mask, Pairing, Rope, Score, Store, ValueId};

use crate::arguments::{AttentionArgs, Pointer, RopeArgs};
use crate::compile::{Compiler, THREADS};
use crate::decode;
use crate::launch::LaunchPlan;
use crate::shared_memory::{flash_bytes, flash_wgmma_bytes};

/// Columns of values that a block of `attention.cu` has threads for.
const MAX_V_DIM: usize = 2048;

/// Columns of keys, so that a query fits in shared memory.
const MAX_K_DIM: usize = 8192;

/// Offset, stride, heads and head dimension.
type Heads = [u32; 4];

fn kv_number(kind: KvType) -> u32 {
    match kind {
        KvType::F16 => 0,
        KvType::F32 => 1,
        KvType::BF16 => 2,
        KvType::FP8 => 3,
        // `store_q8_0` does not read it.
        KvType::Q8_0 => 4,
        KvType::Q4_0 => unreachable!("refused when the model is planned"),
    }
}

/// Columns that a cache has for a head of `dim` columns, as in `kernels/attention.cuh`.
fn padded(kind: KvType, dim: usize) -> usize {
    dim.next_multiple_of(if kind == KvType::Q8_0 { 32 } else { 8 })
}

fn cache(attend: &Attend) -> [Pointer; 2] {
    [0, 1].map(|which| BufferId::Store(attend.store, which).into())
}

fn is_halves(rope: Option<&Rope>) -> u32 {
    u32::from(rope.is_some_and(|rope| rope.pairing == Pairing::Halves))
}

/// Query heads per block of `attention.cu`, all of one K/V head, that share `share` query heads.
fn heads_per_block(share: usize, k_dim: usize) -> usize {
    let most = match k_dim {
        0..=1024 => decode::HEADS,
        1025..=2048 => 4,
        _ => 1,
    };
    let enough = match share {
        1 => 1,
        2..=4 => 4,
        _ => decode::HEADS,
    };
    enough.min(most)
}

impl Compiler<'_> {
    /// RoPE as a separate pass, if another operation also reads the heads before or after RoPE.
    pub(crate) fn rope(&mut self, x: ValueId, rope: &Rope, y: ValueId) {
        let heads = self.heads(x, self.cols(x) / rope.head_dim);
        let launch = self.rope_store(Some(((self.slot(x), heads), self.operand(y))), None, Some(rope));
        self.dispatch_always(y, launch);
    }

    /// Ropes queries, and writes keys and values to the KV cache: keys are roped if `attend` says so, by the same rope. In
    /// Q8_0, these are two launches.
    fn rope_store(
        &self,
        queries: Option<((BufferId, Heads), Operand)>,
        stored: Option<(&Attend, [ValueId; 2])>,
        rope: Option<&Rope>,
    ) -> LaunchPlan {
        let [dims, cos_sin] = self.rope_table(rope);
        let mut args = RopeArgs { dims, cos_sin, halves: is_halves(rope), ..RopeArgs::default() };
        let mut threads = 0;
        if let Some(((q, heads), (out, at))) = queries {
            (args.q, args.q_out) = (q.into(), out.into());
            (args.q_at, args.y_at) = (heads, at);
            threads += heads[2] * heads[3].div_ceil(2);
        }
        let kinds = stored.map(|(attend, _)| self.store(attend.store).format);
        let is_q8_0 = kinds.is_some_and(|format| format.k == KvType::Q8_0);
        if let Some((attend, [k, v])) = stored {
            let layout = self.store(attend.store);
            let kv = [k, v].map(|id| self.heads(id, layout.store.heads));
            (args.k, args.v) = (self.slot(k).into(), self.slot(v).into());
            [args.keys, args.values] = cache(attend);
            [args.k_at, args.v_at] = kv;
            [args.positions, args.tables, args.pages] = self.table_offsets(attend.store);
            args.ropes_keys = u32::from(attend.k_rope.is_some());
            (args.k_type, args.v_type) = (kv_number(layout.format.k), kv_number(layout.format.v));
            // A thread has two columns, or one in Q8_0.
            let columns = |[_, _, heads, dim]: Heads| heads * padded(layout.format.k, dim as usize) as u32;
            threads += kv.map(|heads| columns(heads) / if is_q8_0 { 1 } else { 2 }).iter().sum::<u32>();
        }
        assert!(!is_q8_0 || queries.is_none(), "`store_q8_0` ropes no queries");
        let moved = if is_q8_0 { F32 + 1 } else { 4 * F32 };
        let cost = Cost::row("rope", threads as usize * moved);
        let kernel = if is_q8_0 { "rope/store_q8_0" } else { "rope/rope_store" };
        self.launch(kernel, args, Grid::rows(threads.div_ceil(THREADS) as usize), cost)
    }

    /// The arguments of the attention kernels. `q` is where queries are and how they are roped on load; `kv`, the rows' own
    /// keys and values if the kernel writes them to the cache.
    fn attention_args(
        &mut self,
        attend: &Attend,
        ((q, q_at), q_rope): (Operand, Option<&Rope>),
        kv: Option<[ValueId; 2]>,
    ) -> AttentionArgs {
        let Attend { y, store, heads, score, .. } = *attend;
        let Store { heads: kv_heads, k_dim, v_dim, mask } = self.store(store).store;
        let group = self.bound.graph().store_group(store);
        let Score { scale, cap, alibi, sinks } = score;
        let sinks = sinks.map(|sinks| self.vector(sinks));
        let own = kv.map(|kv| kv.map(|id| self.operand(id)));
        let [heads, kv_heads, k_dim, v_dim] = [heads, kv_heads, k_dim, v_dim].map(|n| n as u32);
        let [dims, cos_sin] = self.rope_table(q_rope);
        let [k_dims, k_cos_sin] = self.rope_table(attend.k_rope.as_ref());
        let [positions, tables, pages] = self.table_offsets(store);
        let [keys, values] = cache(attend);
        AttentionArgs {
            q: q.into(),
            k: own.map(|[(k, _), _]| k).into(),
            v: own.map(|[_, (v, _)]| v).into(),
            y: self.slot(y).into(),
            keys,
            values,
            sinks: sinks.into(),
            q_at,
            k_at: own.map_or([0; 2], |[(_, at), _]| at),
            v_at: own.map_or([0; 2], |[_, (_, at)]| at),
            y_at: self.at(y),
            heads,
            kv_heads,
            k_dim,
            v_dim,
            scale,
            dims,
            cos_sin,
            halves: is_halves(q_rope),
            k_dims,
            k_cos_sin,
            k_halves: is_halves(attend.k_rope.as_ref()),
            positions,
            tables,
            pages,
            split: self.inputs.split(group),
            visible: self.inputs.visible(group),
            tiles: self.inputs.tiles as u32,
            masked: u32::from(mask != Mask::Causal),
            cap: cap.unwrap_or_default(),
            alibi: alibi.unwrap_or_default(),
            ..AttentionArgs::default()
        }
    }

    pub(crate) fn attend(&mut self, attend: &Attend) -> Result<(), Error> {
        let Attend { q, kv, ref q_rope, y, store, heads, .. } = *attend;
        let (layout, group) = (self.store(store), self.bound.graph().store_group(store));
        let Store { heads: kv_heads, k_dim, v_dim, .. } = layout.store;
        if v_dim > MAX_V_DIM || k_dim > MAX_K_DIM {
            let what = "a head of attention, which must fit in shared memory";
            let bytes = k_dim.saturating_add(v_dim).saturating_mul(F32);
            return Err(out_of_memory(what, bytes as u64, Remedy::UseCpu));
        }
        let is_q8_0 = layout.format.k == KvType::Q8_0;
        let share = heads / kv_heads;
        let together = heads_per_block(share, k_dim);
        let groups = kv_heads * share.div_ceil(together);
        let max_rows = self.bound.bucket().rows;
        let bytes = partials_bytes(&layout, max_rows, heads) as usize;
        let parts = Pointer::from(self.scratch(Scratch::Parts, bytes));
        let bytes = max_rows.min(MAX_SPLIT_ROWS) * groups * F32;
        let counters = Pointer::from(self.scratch(Scratch::Counters, bytes));
        let by_row = |compiler: &mut Self, kv: Option<[ValueId; 2]>| {
            let queries = (compiler.operand(q), q_rope.as_ref());
            let args = AttentionArgs { parts, counters, ..compiler.attention_args(attend, queries, kv) };
            let kernel = format!("attention/attention_{}_{together}", layout.format.k.name());
            let grid = Grid { groups, each: Each::Part(group) };
            let mut launch =
                compiler.launch(kernel, args, grid, compiler.attention_cost("attention", attend));
            // The queries, and the columns that all threads have summed.
            launch.shared = (together * padded(layout.format.k, k_dim) + 8 * THREADS as usize) * F32;
            (launch, args)
        };
        let mut variants = Vec::new();
        let stored = kv.map(|kv| self.rope_store(None, Some((attend, kv)), attend.k_rope.as_ref()));
        let [stages, fixed] = decode::bytes(&self.device.card, layout.format.k, k_dim);
        let fits = stages + fixed <= self.device.limits.block_shared;
        if decode::has_kernel(&layout) && fits {
            // Another kernel writes Q8_0.
            let (before, own) = if is_q8_0 { (stored.clone(), None) } else { (None, kv) };
            let (mut launch, args) = by_row(self, own);
            launch.kernel = format!("decode/decode_{}_{k_dim}", layout.format.k.name());
            launch.threads = 32 * decode::WARPS as u32;
            launch.shared = stages;
            if decode::is_bulk(&self.device.card, layout.format.k) {
                launch.kernel = decode::bulk_kernel(k_dim, false);
                launch.args = Arc::new(AttentionArgs { tensor_maps: Pointer::TensorMaps(store), ..args });
                let mut clusters = launch.clone();
                clusters.kernel = decode::bulk_kernel(k_dim, true);
                clusters.grid.each = Each::Cluster(group);
                let when = When { is_decode: true, in_cluster: Some(group), ..When::default() };
                variants.push(when.launches(vec![clusters]));
            }
            let launches = before.into_iter().chain([launch]).collect();
            variants.push(When { is_decode: true, ..When::default() }.launches(launches));
        } else if kv.is_some() && !is_q8_0 {
            let launches = vec![by_row(self, kv).0];
            variants.push(When { is_decode: true, ..When::default() }.launches(launches));
        }
        let flash = self.flash(attend);
        variants.extend(flash.map(|launches| When { is_tiled: true, ..When::default() }.launches(launches)));
        variants.push(Variant::always(stored.into_iter().chain([by_row(self, None).0]).collect()));
        self.dispatch(y, variants);
        Ok(())
    }

    /// Flash attention, where a kernel supports the heads.
    fn flash(&mut self, attend: &Attend) -> Option<Vec<LaunchPlan>> {
        let Attend { q, kv, ref q_rope, ref k_rope, store, heads, score, .. } = *attend;
        let layout = self.store(store);
        let Store { k_dim, v_dim, .. } = layout.store;
        let dim = [64, 128, 256].into_iter().find(|&dim| k_dim.max(v_dim) <= dim)?;
        let (share, kind) = (heads / layout.store.heads, layout.format.k.name());
        let has_wgmma = self.device.card.has_wgmma();
        // Query heads of a block.
        let together = if has_wgmma && share > 1 { 2 } else { 1 };
        let (kernel, shared) = if has_wgmma {
            (format!("flash_wgmma/flash_{kind}_{dim}_{together}"), flash_wgmma_bytes(dim, together))
        } else {
            (format!("flash/flash_{kind}_{dim}"), flash_bytes(dim))
        };
        if ![KvType::F16, KvType::FP8, KvType::Q8_0].contains(&layout.format.k)
            || score.alibi.is_some()
            || max_tiles(self.bound.bucket().rows) == 0
            || shared + 4096 > self.device.limits.block_shared
        {
            return None;
        }
        let bytes = self.bound.bucket().rows * self.cols(q) * F32;
        let mut launches = Vec::new();
        let (mut queries, mut stored) = (self.operand(q), kv.map(|kv| (attend, kv)));
        if let Some(rope) = q_rope {
            let roped = (self.scratch(Scratch::Roped, bytes), [0, self.cols(q) as u32]);
            let heads = Some(((self.slot(q), self.heads(q, heads)), roped));
            let is_shared = layout.format.k != KvType::Q8_0 && (k_rope.is_none() || k_rope == q_rope);
            launches.push(self.rope_store(heads, stored.take_if(|_| is_shared), Some(rope)));
            queries = roped;
        }
        launches.extend(stored.map(|stored| self.rope_store(None, Some(stored), k_rope.as_ref())));
        let mut args = self.attention_args(attend, (queries, None), None);
        if has_wgmma && layout.format.k == KvType::F16 {
            args.tensor_maps = Pointer::TensorMaps(store);
        }
        let grid = Grid { groups: layout.store.heads * share.div_ceil(together), each: Each::Tile };
        let mut launch = self.launch(kernel, args, grid, self.attention_cost("flash attention", attend));
        launch.threads = 128 * together as u32;
        launch.shared = shared;
        launches.push(launch);
        Some(launches)
    }
}

const _: () = assert!(KV_BLOCK == 32, "the kernels' pages have 32 positions");
