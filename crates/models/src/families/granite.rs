//! Architectures `granite`, `granitemoe` and `granitehybrid`: Granite 3 and 4, dense, with experts and with layers of Mamba 2
//! (IBM 2024). Embeddings, the outputs of attention and feed-forward network, and logits are scaled.

use super::prelude::*;

/// Files of Granite 4 have the sizes of Mamba 2 also where no layer is of that kind.
const MAMBA: &[&str] =
    &["ssm.conv_kernel", "ssm.group_count", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"];

pub(super) const GRANITE: Family = Family { name: "granite", harmless: MAMBA, graph };
pub(super) const GRANITEMOE: Family = Family { name: "granitemoe", harmless: MAMBA, graph };
pub(super) const GRANITEHYBRID: Family = Family { name: "granitehybrid", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let shared = keys.count("expert_shared_feed_forward_length")?;
    let moe = Moe::read(keys)?.map(|moe| Moe { shared, ..moe });
    let is_hybrid = c.architecture == GRANITEHYBRID.name;
    let read = if is_hybrid { Attention::read_hybrid } else { Attention::read };
    let mut attention = read(c, keys, Pairing::Interleaved, SCALINGS)?;
    attention.scale = keys.positive_or_zero("attention.scale")?.unwrap_or(attention.scale);
    // Granite uses the key as a switch.
    let has_positions = keys.flag_or("rope.scaling.finetuned", true)?;
    let layer = Layer { residual_scale: keys.positive_or_zero("residual_scale")?.unwrap_or(1.0), ..PRE_NORM };
    let embedding_scale = keys.positive_or_zero("embedding_scale")?;
    let what = "the divisor of the logits";
    let logit_scale =
        keys.positive_or_zero("logit_scale")?.ok_or_else(|| keys.missing("logit_scale", what))?;
    let eps = keys.rms_epsilon()?;
    let mamba = if is_hybrid { Some(Mamba::read(keys, eps)?) } else { None };
    let mut ctx = GraphContext::new(c, eps, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    if let Some(factor) = embedding_scale {
        x = ctx.g.scale("inp_scaled", x, factor);
    }
    if has_positions {
        attention.add_rope_factors(&mut ctx);
    } else {
        attention.rope = None;
    }
    let mixer = |il: usize| -> &dyn Mixer {
        match &mamba {
            Some(mamba) if attention.kv_heads[il] == 0 => mamba,
            _ => &attention,
        }
    };
    let x = layer.stack(&mut ctx, x, mixer, |ctx, il, h| ctx.swiglu_or_moe(il, h, widths[il], moe.as_ref()));
    Ok(ctx.scaled_logits(x, 1.0 / logit_scale))
}
