//! Architectures `bert`: BERT and its kin, such as BGE, E5 and MiniLM, also with XLM-R's vocabulary (Devlin et al. 2019);
//! `nomic-bert`: Nomic Embed (Nussbaum et al. 2024), with RoPE and SwiGLU; `nomic-bert-moe`: Nomic Embed 2 (Nussbaum and
//! Duderstadt 2025), with RoPE and experts; `jina-bert-v2`: Jina Embeddings 2 (Guenther et al. 2023), with ALiBi and GEGLU.
//! Norms follow the residual sums.

use super::prelude::*;

/// Numbers of the classifier's training, which its weights imply.
const HARMLESS: &[&str] = &["classifier.pooling_type"];

pub(super) const BERT: Family = Family { name: "bert", harmless: HARMLESS, graph: bert };
pub(super) const NOMIC_BERT: Family = Family { name: "nomic-bert", harmless: HARMLESS, graph: nomic_bert };
pub(super) const NOMIC_BERT_MOE: Family =
    Family { name: "nomic-bert-moe", harmless: HARMLESS, graph: nomic_bert_moe };
pub(super) const JINA_BERT_V2: Family =
    Family { name: "jina-bert-v2", harmless: HARMLESS, graph: jina_bert_v2 };

const ALIBI: f32 = 8.0;

type FeedForward<'a> = &'a dyn Fn(&mut GraphContext<'_>, usize, ValueId, usize) -> ValueId;

fn bert(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let attention = Attention { rope: None, ..attention(c, keys)? };
    graph(c, keys, tensors, attention, &|ctx, il, h, ffn| ctx.ungated_ffn(il, h, ffn, Activation::GeluTanh))
}

fn nomic_bert(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let attention = attention(c, keys)?;
    // Biases of the feed-forward network are not added.
    let used = |name: &str| tensors(name) && !UNUSED.iter().any(|bias| name.ends_with(bias));
    graph(c, keys, &used, attention, &|ctx, il, h, ffn| ctx.swiglu(il, h, ffn))
}

fn nomic_bert_moe(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let attention = attention(c, keys)?;
    let interval = keys.count("moe_every_n_layers")?;
    let mut moe = if interval > 0 { Some(Moe::required(keys)?) } else { None };
    moe.iter_mut().for_each(|moe| moe.router.gating = Gating::Softmax);
    graph(c, keys, tensors, attention, &|ctx, il, h, ffn| match &moe {
        Some(moe) if il % interval == 1 => {
            let logits = moe.logits(ctx, il, h);
            let (routes, hidden) = (moe.route(ctx, il, logits), ctx.hidden());
            moe.ungated_experts(ctx, il, h, routes, [ffn, hidden], Activation::GeluTanh)
        }
        _ => ctx.ungated_ffn(il, h, ffn, Activation::GeluTanh),
    })
}

fn jina_bert_v2(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let norms_heads = tensors("blk.0.attn_q_norm.weight");
    let qk_norm = if norms_heads { QkNorm::Row } else { QkNorm::None };
    keys.implied("attention.max_alibi_bias", ALIBI);
    let attention = Attention { rope: None, alibi: Some(ALIBI), qk_norm, ..attention(c, keys)? };
    graph(c, keys, tensors, attention, &|ctx, il, h, ffn| {
        if ctx.in_layers("ffn_gate.weight") {
            return ctx.geglu(il, h, ffn);
        }
        ctx.fused_ffn(il, h, ffn, Activation::GeluTanh)
    })
}

fn attention(c: &Config, keys: &mut Keys<'_>) -> Result<Attention, Error> {
    Ok(Attention { mask: full_mask(keys)?, ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)? })
}

fn graph(
    c: &Config,
    keys: &mut Keys<'_>,
    tensors: Tensors<'_>,
    attention: Attention,
    feed_forward: FeedForward<'_>,
) -> Result<Graph, Error> {
    let hidden = c.embedding_length;
    let widths = keys.ffn_widths()?;
    let labels = labels(keys)?;
    let mut ctx = GraphContext::with_layer_norms(c, keys.layer_norm_epsilon()?, tensors);
    ctx.labels = labels;

    let mut x = ctx.embed("embd"); // [rows, hidden]
    if ctx.has("token_types.weight") {
        // All tokens are of type 0.
        let types = keys.token_types()?;
        let first = ctx.g.weight_rows("token_types.weight", types, 0..1, hidden);
        x = ctx.g.add_bias("inp_embd_typed", x, first);
    }
    if ctx.has("position_embd.weight") {
        let table = ctx.g.weight("position_embd.weight", c.context_length, hidden);
        let positions = ctx.g.embed_positions("pos_embd", table); // [rows, hidden]
        x = ctx.g.add("inp_embd", x, positions);
    }
    let mut x = ctx.global_norm("inp_norm", x, "token_embd_norm");
    for (il, ffn) in widths.into_iter().enumerate() {
        let a = attention.mix(&mut ctx, il, x); // [rows, cols]
        let (output, cols) = attention.output(il);
        let a = ctx.project(output, il, a, [cols, hidden]); // [rows, hidden]
        let a = ctx.g.add(("attn_out_sum", il), a, x);
        let mut a = ctx.norm(("attn_out_norm", il), a, "attn_output_norm");
        if ctx.in_layers("attn_norm_2.weight") {
            a = ctx.g.add(("attn_out_sum_2", il), a, x);
            a = ctx.norm(("attn_norm_2", il), a, "attn_norm_2");
        }
        let h = feed_forward(&mut ctx, il, a, ffn); // [rows, hidden]
        let h = ctx.g.add(("ffn_sum", il), h, a);
        x = ctx.norm(("layer_out_norm", il), h, "layer_output_norm");
        ctx.g.end_layer(x);
    }
    Ok(ctx.embeddings(x, Activation::Identity))
}
