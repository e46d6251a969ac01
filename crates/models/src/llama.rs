//! Architecture `llama`: Llama 1 to 3, TinyLlama, Mistral 7B and what shares their tensors. Architecture
//! `qwen2` is the same but for biases and for which columns rotate together.
//!
//! Touvron et al. 2023; grouped-query attention after Ainslie et al. 2023; Qwen2 after Yang et al. 2024.

use graph::{Activation, Builder, Graph, Rope, Store};

use crate::Config;

/// The graph from tokens to logits. `has` says whether the file holds a tensor.
pub(crate) fn graph(c: &Config, has: impl Fn(&str) -> bool) -> Graph {
    let mut g = Builder::new();
    let (hidden, ffn) = (c.embedding_length, c.feed_forward_length);
    let (heads, kv_heads) = (c.head_count, c.head_count_kv);
    let factors =
        has("rope_freqs.weight").then(|| g.weight("rope_freqs.weight", 1, c.rope_dimension_count / 2));
    let rope = Rope {
        head_dim: c.key_length,
        dims: c.rope_dimension_count,
        pairing: c.architecture.pairing(),
        theta: c.rope_freq_base,
        scale: c.rope_scaling.scale(),
        factors,
    };
    let scale = 1.0 / (c.key_length as f32).sqrt();

    let token_embd = g.weight("token_embd.weight", c.vocab_size, hidden);
    let mut x = g.embed("embd", token_embd); // [rows, hidden]
    for il in 0..c.block_count {
        let weight =
            |g: &mut Builder, name, rows, cols| g.weight(format!("blk.{il}.{name}.weight"), rows, cols);

        let norm = weight(&mut g, "attn_norm", 1, hidden);
        let h = g.rms_norm(("attn_norm", il), x, norm, c.rms_epsilon); // [rows, hidden]
        let project = |g: &mut Builder, [product, sum]: [&'static str; 2], name, cols| {
            let w = weight(g, name, cols, hidden);
            if !c.architecture.has_qkv_bias() {
                return g.linear((sum, il), h, w);
            }
            let bias = g.weight(format!("blk.{il}.{name}.bias"), 1, cols);
            let x = g.linear((product, il), h, w);
            g.add_bias((sum, il), x, bias)
        };
        let q = project(&mut g, ["Qcur_mm", "Qcur_pre"], "attn_q", heads * c.key_length); // [rows, heads * key_length]
        let k = project(&mut g, ["Kcur_mm", "Kcur_pre"], "attn_k", kv_heads * c.key_length); // [rows, kv_heads * key_length]
        let v = project(&mut g, ["Vcur_mm", "Vcur"], "attn_v", kv_heads * c.value_length); // [rows, kv_heads * value_length]
        let q = g.rope(("Qcur", il), q, &rope);
        let k = g.rope(("Kcur", il), k, &rope);
        let store = g.store(Store {
            heads: kv_heads,
            k_dim: c.key_length,
            v_dim: c.value_length,
            window: None,
        });
        let mut a = g.attention(("kqv_out", il), q, Some([k, v]), store, heads, scale); // [rows, heads * value_length]
        if il + 1 == c.block_count {
            // From here on only the output rows.
            a = g.output_rows("kqv_out_outputs", a);
            x = g.output_rows("l_inp_outputs", x);
        }
        let wo = weight(&mut g, "attn_output", hidden, heads * c.value_length);
        let a = g.linear(("attn_out", il), a, wo); // [rows, hidden]
        let a = g.add(("ffn_inp", il), a, x);

        let norm = weight(&mut g, "ffn_norm", 1, hidden);
        let h = g.rms_norm(("ffn_norm", il), a, norm, c.rms_epsilon); // [rows, hidden]
        let (gate, up) = (weight(&mut g, "ffn_gate", ffn, hidden), weight(&mut g, "ffn_up", ffn, hidden));
        let gate = g.linear(("ffn_gate", il), h, gate); // [rows, ffn]
        let up = g.linear(("ffn_up", il), h, up); // [rows, ffn]
        let h = g.gate(("ffn_swiglu", il), gate, up, Activation::Silu);
        let down = weight(&mut g, "ffn_down", hidden, ffn);
        let h = g.linear(("ffn_out", il), h, down); // [rows, hidden]
        x = g.add(("l_out", il), h, a);
        g.end_layer(x);
    }
    let norm = g.weight("output_norm.weight", 1, hidden);
    let x = g.rms_norm("result_norm", x, norm, c.rms_epsilon); // [outputs, hidden]
    let output = match has("output.weight") {
        true => g.weight("output.weight", c.vocab_size, hidden),
        false => token_embd,
    };
    let logits = g.linear("result_output", x, output); // [outputs, vocab]
    g.finish(logits)
}
