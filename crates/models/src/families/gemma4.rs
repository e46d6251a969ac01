//! Architecture `gemma4`: Gemma 4 (Gemma Team 2026). Local and global layers have heads of their own; the last layers share keys
//! and values. Small models add an embedding per layer, the 26B model has experts beside its dense network.

use super::prelude::*;

pub(super) const FAMILY: Family = Family { name: "gemma4", harmless: &[], graph };

const ACT: Activation = Activation::GeluTanh;
const INP_GATE: Linear = Linear { tensor: "inp_gate", name: "pe_gate", biased: ["pe_gate_mm", "pe_gate"] };
const PROJ: Linear = Linear { tensor: "proj", name: "pe_proj", biased: ["pe_proj_mm", "pe_proj"] };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let per_layer = keys.count("embedding_length_per_layer_input")?;
    let moe = Moe::read(keys)?.map(|moe| Moe { glu: ACT.into(), ..moe });
    let expert = if moe.is_some() { keys.expert_width()? } else { 0 };
    let mut attention = SharedAttention::read(c, keys, Pairing::Halves)?;
    let cap = keys.positive_or_zero("final_logit_softcapping")?;
    let eps = keys.rms_epsilon()?;
    let mut ctx = GraphContext::new(c, eps, tensors);

    let x = ctx.embed("embd"); // [rows, hidden]
    let mut x = ctx.g.scale("inp_scaled", x, (c.embedding_length as f32).sqrt());
    attention.declare(&mut ctx);
    let inputs = (per_layer > 0).then(|| layer_inputs(c, &mut ctx, x, per_layer));
    for (il, ffn) in widths.into_iter().enumerate() {
        let h = ctx.norm(("attn_norm", il), x, "attn_norm");
        let a = attention.mix(&mut ctx, il, h); // [rows, heads * head]
        let (a, residual) = ctx.keep_outputs(il, a, x);
        let (output, cols) = attention.output(il);
        let a = ctx.project(output, il, a, [cols, c.embedding_length]); // [rows, hidden]
        let a = ctx.norm(("attn_post_norm", il), a, "post_attention_norm");
        let a = ctx.g.add(("sa_out", il), a, residual);
        let h = ctx.norm(("ffn_norm", il), a, "ffn_norm");
        let mut h = ctx.geglu(il, h, ffn); // [rows, hidden]
        if let Some(moe) = &moe {
            h = beside_experts(&mut ctx, il, moe, [a, h], (expert, eps));
        }
        let h = ctx.norm(("ffn_post_norm", il), h, "post_ffw_norm");
        x = ctx.g.add(("ffn_residual", il), h, a);
        if let Some(inputs) = inputs {
            x = add_layer_input(&mut ctx, il, x, inputs, (c.block_count, per_layer));
        }
        if ctx.has(&format!("blk.{il}.layer_output_scale.weight")) {
            let scale = ctx.g.weight(format!("blk.{il}.layer_output_scale.weight"), 1, 1);
            x = ctx.g.mul_weight(("l_out", il), x, scale);
        }
        ctx.g.end_layer(x);
    }
    Ok(ctx.capped_logits(x, cap))
}

/// The inputs of all layers: the tokens' own embeddings and a projection of the shared ones, `[rows, layers * cols]`.
fn layer_inputs(c: &Config, ctx: &mut GraphContext<'_>, x: ValueId, cols: usize) -> ValueId {
    let (hidden, all) = (c.embedding_length, c.block_count * cols);
    let table = ctx.g.weight("per_layer_token_embd.weight", c.vocab_size, all);
    let own = ctx.g.embed("inp_per_layer_embd", table);
    let own = ctx.g.scale("inp_per_layer_selected", own, (cols as f32).sqrt());
    let weight = ctx.g.weight("per_layer_model_proj.weight", all, hidden);
    let shared = ctx.linear("per_layer_proj_mm", x, weight); // [rows, layers * cols]
    let shared = ctx.g.scale("per_layer_proj_scaled", shared, 1.0 / (hidden as f32).sqrt());
    let shared = ctx.norm_by("per_layer_proj", shared, "per_layer_proj_norm.weight", cols);
    let sum = ctx.g.add("inp_per_layer_sum", own, shared);
    ctx.g.scale("inp_per_layer", sum, 0.5f32.sqrt())
}

fn add_layer_input(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    inputs: ValueId,
    (layers, cols): (usize, usize),
) -> ValueId {
    let hidden = ctx.hidden();
    let input = ctx.g.slice(("pe_input", il), inputs, 1, il * cols..(il + 1) * cols);
    let input = if il + 1 < layers { input } else { ctx.keep_output("pe_input_outputs", il, input) };
    let gate = ctx.project(&INP_GATE, il, x, [hidden, cols]); // [rows, cols]
    let gated = ctx.g.gate(("pe_gated", il), gate, input, ACT);
    let projected = ctx.project(&PROJ, il, gated, [cols, hidden]); // [rows, hidden]
    let normed = ctx.norm(("per_layer_embd_out", il), projected, "post_norm");
    ctx.g.add(("pe_residual", il), normed, x)
}

/// The normed outputs of dense network and experts, added. Experts and router read `a`, the residual stream: `[rows, hidden]`.
fn beside_experts(
    ctx: &mut GraphContext<'_>,
    il: usize,
    moe: &Moe,
    [a, dense]: [ValueId; 2],
    (ffn, eps): (usize, f32),
) -> ValueId {
    let hidden = ctx.hidden();
    let dense = ctx.norm(("ffn_mlp", il), dense, "post_ffw_norm_1");
    let h = ctx.g.norm(("ffn_moe_inp_normed", il), a, NormKind::Rms, hidden, None, eps);
    let h = ctx.g.scale(("ffn_moe_inp_scaled", il), h, 1.0 / (hidden as f32).sqrt());
    let scale = ctx.g.weight(format!("blk.{il}.ffn_gate_inp.scale"), 1, hidden);
    let h = ctx.g.mul_weight(("ffn_moe_inp", il), h, scale);
    let logits = moe.logits(ctx, il, h); // [rows, experts]
    let routes = moe.route(ctx, il, logits);
    let h = ctx.norm(("ffn_norm_2", il), a, "pre_ffw_norm_2");
    let experts = moe.experts(ctx, il, h, routes, ffn); // [rows, hidden]
    let experts = ctx.norm(("ffn_moe", il), experts, "post_ffw_norm_2");
    ctx.g.add(("ffn_moe_combined", il), experts, dense)
}
