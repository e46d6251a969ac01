//! Attention of local and global layers, whose heads differ in width; the last layers share stores (Gemma Team 2026, Gemma 4).

use graph::{Mask, NormKind, Pairing, Rope, Store, StoreId, ValueId};

use super::attention::check_kv_heads;
use super::{ATTN_OUTPUT, GraphContext, LINEAR_OR_YARN, Linear, Mixer, rope};
use crate::{Config, Error, Keys};

#[derive(Clone, Copy, Debug)]
struct Kind {
    width: usize,
    rope: Rope,
    mask: Mask,
}

#[derive(Clone, Debug)]
pub(crate) struct SharedAttention {
    heads: Vec<usize>,
    kv_heads: Vec<usize>,
    is_local: Vec<bool>,
    local: Kind,
    global: Kind,
    /// The first layer without keys and values of its own.
    first_shared: usize,
    stores: Vec<StoreId>,
    eps: f32,
}

impl SharedAttention {
    pub(crate) fn read(c: &Config, keys: &mut Keys<'_>, pairing: Pairing) -> Result<SharedAttention, Error> {
        let layers = c.block_count;
        let heads = keys.sizes("attention.head_count", "the number of query heads")?;
        let kv_heads = keys.sizes_or("attention.head_count_kv", &heads)?;
        check_kv_heads(keys, &heads, &kv_heads)?;
        let names = [
            ["attention.key_length", "attention.value_length"],
            ["attention.key_length_swa", "attention.value_length_swa"],
        ];
        let mut widths = [0; 2];
        for (width, [key, value]) in widths.iter_mut().zip(names) {
            *width = keys.size(key, "the columns of a head")?;
            let values = keys.size_or(value, *width)?;
            if values != *width {
                return Err(keys.bad(value, values, format!("{width}, like {key}")));
            }
        }
        let [global, local] = widths;
        let (scaled, _) = rope::read(c, keys, global, pairing, LINEAR_OR_YARN)?;
        let theta = keys.positive_or("rope.freq_base_swa", 10_000.0)?;
        let dims = keys.size_or("rope.dimension_count_swa", local)?;
        if !dims.is_multiple_of(2) || dims > local {
            let expected = format!("an even number up to the key's width {local}");
            return Err(keys.bad("rope.dimension_count_swa", dims, expected));
        }
        let window = keys.size("attention.sliding_window", "the window of local layers")?;
        let is_local = keys.pattern("attention.sliding_window_pattern", 6)?;
        let shared = keys.count("attention.shared_kv_layers")?;
        let first_shared = layers.saturating_sub(shared);
        // Local layers read the store two layers before, global ones the store of the layer before.
        let sources = first_shared.checked_sub(2).map(|first| [is_local[first], !is_local[first + 1]]);
        if shared > 0 && sources != Some([true, true]) {
            let expected =
                "a number that leaves a local and then a global layer before the first that shares";
            return Err(keys.bad("attention.shared_kv_layers", shared, expected));
        }
        Ok(SharedAttention {
            heads,
            kv_heads,
            is_local,
            local: Kind {
                width: local,
                rope: Rope { dims, ..Rope::new(local, pairing, theta) },
                mask: Mask::Window(window),
            },
            global: Kind { width: global, rope: scaled, mask: Mask::Causal },
            first_shared,
            stores: Vec::new(),
            eps: keys.rms_epsilon()?,
        })
    }

    /// Declares the stores and the divisors of the global layers' frequencies.
    pub(crate) fn declare(&mut self, ctx: &mut GraphContext<'_>) {
        if ctx.has("rope_freqs.weight") {
            self.global.rope.factors = Some(ctx.g.weight("rope_freqs.weight", 1, self.global.rope.dims / 2));
        }
        for il in 0..self.heads.len() {
            let store = match il.checked_sub(self.first_shared) {
                None => {
                    let (Kind { width, mask, .. }, heads) = (*self.kind(il), self.kv_heads[il]);
                    ctx.g.store(Store { heads, k_dim: width, v_dim: width, mask })
                }
                Some(_) => self.stores[self.first_shared - 1 - usize::from(self.is_local[il])],
            };
            self.stores.push(store);
        }
    }

    fn kind(&self, il: usize) -> &Kind {
        if self.is_local[il] { &self.local } else { &self.global }
    }
}

impl Mixer for SharedAttention {
    fn output(&self, il: usize) -> (&'static Linear, usize) {
        (&ATTN_OUTPUT, self.heads[il] * self.kind(il).width)
    }

    fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let (Kind { width, rope, .. }, hidden) = (self.kind(il), ctx.hidden());
        let project = |ctx: &mut GraphContext<'_>, [tensor, name]: [&'static str; 2], heads: usize| {
            let weight = ctx.g.weight(format!("blk.{il}.{tensor}.weight"), heads * width, hidden);
            ctx.linear((name, il), x, weight) // [rows, heads * width]
        };
        let (heads, kv_heads) = (self.heads[il], self.kv_heads[il]);
        let q = project(ctx, ["attn_q", "Qcur_pre"], heads);
        let q = ctx.head_norm(("Qcur_normed", il), q, "attn_q_norm", *width);
        let q = ctx.g.rope(("Qcur", il), q, rope);
        let kv = (il < self.first_shared).then(|| {
            let projected = project(ctx, ["attn_k", "Kcur_pre"], kv_heads);
            // Without a matrix of their own, values are made of the same product as keys.
            let has_values = ctx.has(&format!("blk.{il}.attn_v.weight"));
            let v = if has_values { project(ctx, ["attn_v", "Vcur_pre"], kv_heads) } else { projected };
            let k = ctx.head_norm(("Kcur_normed", il), projected, "attn_k_norm", *width);
            let k = ctx.g.rope(("Kcur", il), k, rope);
            [k, ctx.g.norm(("Vcur", il), v, NormKind::Rms, *width, None, self.eps)]
        });
        ctx.g.attention(("kqv_out", il), q, kv, self.stores[il], heads, 1.0)
    }
}
