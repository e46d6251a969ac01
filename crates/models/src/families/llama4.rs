//! Architecture `llama4`: Llama 4, text only (Meta 2025). Most layers attend within chunks; every fourth has no RoPE, but
//! queries that grow with the position. Each row uses experts, whose inputs the routes multiply, and a shared network.

use super::prelude::*;

pub(super) const FAMILY: Family = Family {
    name: "llama4",
    // llama.cpp has constants in place of these.
    harmless: &[
        "attention.chunk_size",
        "attention.temperature_length",
        "attention.temperature_scale",
        "expert_gating_func",
    ],
    graph,
};

/// Positions per chunk, and the interval of positions in which queries grow.
const CHUNK: usize = 8192;

/// The last of so many layers has no RoPE.
const PERIOD: usize = 4;

/// Models with so many experts do not norm queries and keys.
const EXPERTS_WITHOUT_NORM: usize = 128;

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut moe = Moe::required(keys)?;
    (moe.router.gating, moe.weighs_inputs) = (Gating::Sigmoid, true);
    let step = keys.count("interleave_moe_layer_step")?;
    let widths = keys.ffn_widths()?;
    let expert_widths = keys.sizes("expert_feed_forward_length", "the hidden size of an expert")?;
    if keys.has("attention.sliding_window") && keys.count("attention.sliding_window")? == 0 {
        let expected = "a window; models without one are not supported";
        return Err(keys.bad("attention.sliding_window", 0, expected));
    }
    let is_local = keys.pattern("attention.sliding_window_pattern", PERIOD as u32)?;
    let mut global = Attention::read(c, keys, Pairing::Interleaved, LINEAR_OR_YARN)?;
    let eps = keys.rms_epsilon()?;
    let theta = keys.positive_or("rope.freq_base_swa", global.rope.map_or(10_000.0, |rope| rope.theta))?;
    let mut ctx = GraphContext::new(c, eps, tensors);
    global.add_rope_factors(&mut ctx);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for il in 0..c.block_count {
        let mut attention = global.clone();
        if is_local[il] {
            attention.mask = Mask::Chunk(CHUNK);
            attention.rope = attention.rope.map(|rope| Rope { theta, ..rope });
        }
        if (il + 1).is_multiple_of(PERIOD) {
            attention.rope = None;
            attention.growth = Some(Growth { beta: 0.1, offset: 1.0, interval: CHUNK as f32 });
        } else if moe.count != EXPERTS_WITHOUT_NORM {
            attention.qk_norm = QkNorm::HeadAfterRopeUnweighted;
        }
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| {
            if step > 0 && (il + 1).is_multiple_of(step) {
                return Moe { shared: expert_widths[il], ..moe }.mix(ctx, il, h, expert_widths[il]);
            }
            ctx.swiglu(il, h, widths[il])
        }); // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
