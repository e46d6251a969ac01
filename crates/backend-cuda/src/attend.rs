//! Passes of attention: RoPE, KV cache writes, and the attention kernels.

use backend::{Error, KvType, PAGE, Remedy, StoreLayout};
use graph::{Mask, Pairing, Rope, Score, Store, ValueId};
use passes::{
    Attend, Cost, MAX_SPLIT_ROWS, Purpose, Variant, When, max_tiles, out_of_memory, partials_bytes,
};

use crate::compile::{Compiler, Operand, THREADS};
use crate::decode;
use crate::launch::{BufferId, Each, F32, Grid, LaunchPlan};
use crate::shared_memory::{flash_bytes, flash_wgmma_bytes};

/// Columns of values that a block of `attention.cu` has threads for.
const MAX_V_DIM: usize = 2048;

/// Columns of keys, so that a query fits in shared memory.
const MAX_K_DIM: usize = 8192;

/// Offset, stride, heads and head dimension; the heads that a kernel takes, or none.
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

fn is_halves(rope: Option<&Rope>) -> u32 {
    u32::from(rope.is_some_and(|rope| match rope.pairing {
        Pairing::Halves => true,
        Pairing::Interleaved => false,
    }))
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
    /// Offset, stride, number of heads and head dimension of a value.
    fn heads(&self, id: ValueId, heads: usize) -> Heads {
        let [at, stride] = self.at(id);
        [at, stride, heads as u32, (self.cols(id) / heads) as u32]
    }

    /// Roped columns per head, and the offset of the cos/sin table in the step inputs.
    fn rope_table(&self, rope: Option<&Rope>) -> [u32; 2] {
        let table = rope.and_then(|rope| self.inputs.rope_tables.iter().find(|table| table.rope == *rope));
        [rope.map_or(0, |rope| rope.dims as u32), table.map_or(0, |table| table.at as u32)]
    }

    /// RoPE as a separate pass, if another operation also reads the heads before or after RoPE.
    pub(crate) fn rope(&self, x: ValueId, rope: &Rope, y: BufferId, at: [u32; 2]) -> LaunchPlan {
        let heads = self.heads(x, self.cols(x) / rope.head_dim);
        self.rope_store(Some(((self.slot(x), heads), (y, at))), None, Some(rope))
    }

    /// Ropes queries, and writes keys and values to the KV cache: keys are roped if `attend` says so, by the same rope. In
    /// Q8_0, these are two launches.
    fn rope_store(
        &self,
        queries: Option<((BufferId, Heads), Operand)>,
        stored: Option<(&Attend, [ValueId; 2])>,
        rope: Option<&Rope>,
    ) -> LaunchPlan {
        let ((q, q_heads), (q_out, q_at)) = match queries {
            Some(((q, heads), (out, at))) => ((Some(q), heads), (Some(out), at)),
            None => ((None, [0; 4]), (None, [0; 2])),
        };
        let mut buffers = vec![q, q_out];
        let mut words = q_heads.to_vec();
        let elements = q_heads[2] * q_heads[3].div_ceil(2);
        let (of_k, of_v, tables, flags) = match stored {
            Some((attend, [k, v])) => {
                let layout = self.layout(attend);
                let kv_heads = layout.store.heads;
                buffers.extend([Some(self.slot(k)), Some(self.slot(v))]);
                buffers.extend([0, 1].map(|which| Some(BufferId::Store(attend.store, which))));
                let flags = [
                    u32::from(attend.k_rope.is_some()),
                    is_halves(rope),
                    kv_number(layout.format.k),
                    kv_number(layout.format.v),
                ];
                (self.heads(k, kv_heads), self.heads(v, kv_heads), self.table_offsets(attend), flags)
            }
            None => {
                buffers.extend([None; 4]);
                ([0; 4], [0; 4], [0; 3], [0, is_halves(rope), 0, 0])
            }
        };
        words.extend(of_k);
        words.extend(of_v);
        words.extend(q_at);
        words.extend(self.rope_table(rope));
        words.extend(tables);
        words.extend(flags);
        let is_q8_0 = stored.is_some_and(|(attend, _)| self.layout(attend).format.k == KvType::Q8_0);
        assert!(!is_q8_0 || queries.is_none(), "`store_q8_0` ropes no queries");
        // A thread has two columns, or one in Q8_0.
        let of_cache = |heads: Heads| match stored {
            Some((attend, _)) => {
                let kind = self.layout(attend).format.k;
                heads[2] * padded(kind, heads[3] as usize) as u32 / if is_q8_0 { 1 } else { 2 }
            }
            None => 0,
        };
        let threads = elements + of_cache(of_k) + of_cache(of_v);
        let moved = if is_q8_0 { F32 + 1 } else { 4 * F32 };
        let cost = Cost::row("rope", threads as usize * moved);
        let kernel = if is_q8_0 { "rope/store_q8_0" } else { "rope/rope_store" };
        self.launch(kernel, buffers, words, Grid::rows(threads.div_ceil(THREADS) as usize), cost)
    }

    fn layout(&self, attend: &Attend) -> StoreLayout {
        self.model.bound.stores()[attend.store.index()]
    }

    fn group(&self, attend: &Attend) -> usize {
        self.bound.graph().store_group(attend.store)
    }

    /// Offsets of positions, block tables and pages in the step inputs.
    fn table_offsets(&self, attend: &Attend) -> [u32; 3] {
        self.inputs.table_offsets(self.group(attend))
    }

    /// The words of the attention kernels. `q` is where queries are and how they are roped on load; `kv`, the rows' own
    /// keys and values if the kernel writes them to the cache.
    fn attention_words(
        &self,
        attend: &Attend,
        (q_at, q_rope): ([u32; 2], Option<&Rope>),
        kv: Option<[ValueId; 2]>,
    ) -> Vec<u32> {
        let Attend { y, heads, score, .. } = *attend;
        let Store { heads: kv_heads, k_dim, v_dim, mask } = self.layout(attend).store;
        let group = self.group(attend);
        let Score { scale, cap, alibi, sinks: _ } = score;
        let mut words = q_at.to_vec();
        words.extend(kv.map_or([[0; 2]; 2], |kv| kv.map(|id| self.at(id))).as_flattened());
        words.extend(self.at(y));
        words.extend([heads, kv_heads, k_dim, v_dim].map(|n| n as u32));
        words.push(scale.to_bits());
        for rope in [q_rope, attend.k_rope.as_ref()] {
            words.extend(self.rope_table(rope));
            words.push(is_halves(rope));
        }
        words.extend(self.table_offsets(attend));
        words.extend([self.inputs.split(group), self.inputs.visible(group), self.inputs.tiles as u32]);
        words.push(u32::from(mask != Mask::Causal));
        words.extend([cap, alibi].map(|bits| bits.unwrap_or_default().to_bits()));
        assert_eq!(words.len(), 28, "words of `AttentionArgs`");
        words
    }

    pub(crate) fn attend(&mut self, attend: &Attend) -> Result<(), Error> {
        let Attend { q, kv, ref q_rope, y, store, heads, score, .. } = *attend;
        let (layout, group) = (self.layout(attend), self.group(attend));
        let Store { heads: kv_heads, k_dim, v_dim, mask } = layout.store;
        if v_dim > MAX_V_DIM || k_dim > MAX_K_DIM {
            let what = "a head of attention, which must fit in shared memory";
            let bytes = k_dim.saturating_add(v_dim).saturating_mul(F32);
            return Err(out_of_memory(what, bytes as u64, Remedy::UseCpu));
        }
        let sinks = score.sinks.map(|sinks| self.vector(sinks));
        let is_q8_0 = layout.format.k == KvType::Q8_0;
        let share = heads / kv_heads;
        let together = heads_per_block(share, k_dim);
        let groups = kv_heads * share.div_ceil(together);
        let values_of_row = heads * (k_dim + v_dim);
        let cost = |what: &str| Cost {
            what: format!("{what} {heads} heads of {k_dim}, {kv_heads} of K/V"),
            row_bytes: (values_of_row * F32) as u64,
            position_bytes: (kv_heads * layout.format.row_bytes(&layout.store)) as u64,
            pair_multiply_adds: values_of_row as u64,
            mask,
            ..Cost::default()
        };
        let bytes = partials_bytes(&layout, self.bound.bucket().rows, heads) as usize;
        let parts = self.scratch_buffer(|own| &mut own.parts, Purpose::AttentionParts, bytes);
        let rows = self.bound.bucket().rows.min(MAX_SPLIT_ROWS);
        let bytes = rows * groups * F32;
        let counters = self.scratch_buffer(|own| &mut own.counters, Purpose::AttentionParts, bytes);
        let cache = [0, 1].map(|which| Some(BufferId::Store(store, which)));
        let by_row = |compiler: &Self, kv: Option<[ValueId; 2]>| {
            let own = kv.map(|kv| kv.map(|id| compiler.slot(id)));
            let mut buffers = vec![Some(compiler.slot(q)), own.map(|kv| kv[0]), own.map(|kv| kv[1])];
            buffers.push(Some(compiler.slot(y)));
            buffers.extend(cache);
            buffers.extend([sinks, Some(parts), Some(counters), None]);
            let words = compiler.attention_words(attend, (compiler.at(q), q_rope.as_ref()), kv);
            let kernel = format!("attention/attention_{}_{together}", layout.format.k.name());
            let grid = Grid { groups, each: Each::Part(group) };
            let mut launch = compiler.launch(kernel, buffers, words, grid, cost("attention"));
            // The queries, and the columns that all threads have summed.
            launch.shared = (together * padded(layout.format.k, k_dim) + 8 * THREADS as usize) * F32;
            launch
        };
        let mut variants = Vec::new();
        let stored = kv.map(|kv| self.rope_store(None, Some((attend, kv)), attend.k_rope.as_ref()));
        let [stages, fixed] = decode::bytes(&self.device.card, layout.format.k, k_dim);
        let fits = stages + fixed <= self.device.limits.shared_of_block;
        if decode::has_kernel(&layout) && fits {
            // Another kernel writes Q8_0.
            let (before, own) = if is_q8_0 { (stored.clone(), None) } else { (None, kv) };
            let mut launch = by_row(self, own);
            launch.kernel = format!("decode/decode_{}_{k_dim}", layout.format.k.name());
            launch.threads = 32 * decode::WARPS as u32;
            launch.shared = stages;
            if decode::is_bulk(&self.device.card, layout.format.k) {
                launch.kernel = decode::bulk_kernel(k_dim, false);
                launch.buffers.pop();
                launch.buffers.push(Some(BufferId::TensorMaps(store)));
                let mut of_cluster = launch.clone();
                of_cluster.kernel = decode::bulk_kernel(k_dim, true);
                of_cluster.grid.each = Each::Cluster(group);
                let when = When { is_decode: true, in_cluster: Some(group), ..When::default() };
                variants.push(when.launches(vec![of_cluster]));
            }
            let launches = before.into_iter().chain([launch]).collect();
            variants.push(When { is_decode: true, ..When::default() }.launches(launches));
        } else if kv.is_some() && !is_q8_0 {
            let launches = vec![by_row(self, kv)];
            variants.push(When { is_decode: true, ..When::default() }.launches(launches));
        }
        let flash = self.flash(attend, cost("flash attention"));
        variants.extend(flash.map(|launches| When { is_tiled: true, ..When::default() }.launches(launches)));
        variants.push(Variant::always(stored.into_iter().chain([by_row(self, None)]).collect()));
        self.dispatch(y, variants);
        Ok(())
    }

    /// Flash attention, where a kernel supports the heads.
    fn flash(&mut self, attend: &Attend, cost: Cost) -> Option<Vec<LaunchPlan>> {
        let Attend { q, kv, ref q_rope, ref k_rope, y, store, heads, score, .. } = *attend;
        let layout = self.layout(attend);
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
            || shared + 4096 > self.device.limits.shared_of_block
        {
            return None;
        }
        let bytes = self.bound.bucket().rows * self.cols(q) * F32;
        let of_roped = [0, self.cols(q) as u32];
        let mut launches = Vec::new();
        let (queries, at) = match q_rope {
            Some(rope) => {
                let roped = self.scratch_buffer(|own| &mut own.roped, Purpose::Activations, bytes);
                let of_q = Some(((self.slot(q), self.heads(q, heads)), (roped, of_roped)));
                let is_shared = layout.format.k != KvType::Q8_0 && (k_rope.is_none() || k_rope == q_rope);
                let stored = kv.filter(|_| is_shared).map(|kv| (attend, kv));
                launches.push(self.rope_store(of_q, stored, Some(rope)));
                if let Some(kv) = kv.filter(|_| !is_shared) {
                    launches.push(self.rope_store(None, Some((attend, kv)), k_rope.as_ref()));
                }
                (roped, of_roped)
            }
            None => {
                launches.extend(kv.map(|kv| self.rope_store(None, Some((attend, kv)), k_rope.as_ref())));
                (self.slot(q), self.at(q))
            }
        };
        let sinks = score.sinks.map(|sinks| self.vector(sinks));
        let mut buffers = vec![Some(queries), None, None, Some(self.slot(y))];
        buffers.extend([0, 1].map(|which| Some(BufferId::Store(store, which))));
        let has_maps = has_wgmma && layout.format.k == KvType::F16;
        buffers.extend([sinks, None, None, has_maps.then_some(BufferId::TensorMaps(store))]);
        let words = self.attention_words(attend, (at, None), None);
        let grid = Grid { groups: layout.store.heads * share.div_ceil(together), each: Each::Tile };
        let mut launch = self.launch(kernel, buffers, words, grid, cost);
        launch.threads = 128 * together as u32;
        launch.shared = shared;
        launches.push(launch);
        Some(launches)
    }
}

const _: () = assert!(PAGE == 32, "the kernels' pages have 32 positions");
