//! Small random models of encoders and of decoders for embeddings, with golden embeddings.

use quant::Format;
use synth::{Key, Spec};

/// Layer norms in place of RMS norms.
const NORMS: [(&str, Key); 2] =
    [("attention.layer_norm_rms_epsilon", Key::Absent), ("attention.layer_norm_epsilon", Key::Number(1e-5))];

const BIASES: &[&str] = &[
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "attn_output_norm",
    "layer_output_norm",
    "ffn_up",
    "ffn_down",
];

const NORM_OF_EMBEDDINGS: &str = "token_embd_norm.bias";

fn small(architecture: &'static str) -> Spec {
    let kv_heads = 4;
    Spec {
        architecture,
        layers: 3,
        hidden: 64,
        heads: 4,
        kv_heads,
        ffn: 96,
        tied: true,
        ..Spec::new(Format::F32)
    }
}

/// The models, by name.
pub fn models() -> Vec<(String, Spec)> {
    let models = [
        (
            "bert",
            Spec {
                keys: &[NORMS[0], NORMS[1], ("pooling_type", Key::Size(2))],
                biases: BIASES,
                optional: &[NORM_OF_EMBEDDINGS, "token_types.weight", "position_embd.weight"],
                context: 512,
                ..small("bert")
            },
        ),
        (
            "bert-reranker",
            Spec {
                keys: &[NORMS[0], NORMS[1], ("pooling_type", Key::Size(4))],
                biases: BIASES,
                optional: &[
                    NORM_OF_EMBEDDINGS,
                    "token_types.weight",
                    "position_embd.weight",
                    "cls.weight",
                    "cls.bias",
                    "cls.output.weight",
                    "cls.output.bias",
                ],
                context: 512,
                ..small("bert")
            },
        ),
        (
            "nomic-bert",
            Spec {
                keys: &[NORMS[0], NORMS[1], ("pooling_type", Key::Size(1))],
                biases: &["attn_output_norm", "layer_output_norm"],
                optional: &[NORM_OF_EMBEDDINGS, "token_types.weight", "attn_qkv.weight"],
                ..small("nomic-bert")
            },
        ),
        (
            "nomic-bert-moe",
            Spec {
                layers: 4,
                experts: Some([6, 2]),
                keys: &[
                    NORMS[0],
                    NORMS[1],
                    ("pooling_type", Key::Size(1)),
                    ("moe_every_n_layers", Key::Size(2)),
                ],
                biases: &[
                    "attn_qkv",
                    "attn_output",
                    "attn_output_norm",
                    "layer_output_norm",
                    "ffn_up",
                    "ffn_down",
                ],
                optional: &[NORM_OF_EMBEDDINGS, "token_types.weight", "attn_qkv.weight"],
                ..small("nomic-bert-moe")
            },
        ),
        (
            "jina-bert-v2",
            Spec {
                heads: 2,
                kv_heads: 2,
                keys: &[NORMS[0], NORMS[1], ("pooling_type", Key::Size(1))],
                biases: BIASES,
                optional: &[NORM_OF_EMBEDDINGS, "token_types.weight", "ffn_gate.weight"],
                ..small("jina-bert-v2")
            },
        ),
        (
            "modern-bert",
            Spec {
                layers: 4,
                keys: &[
                    NORMS[0],
                    NORMS[1],
                    ("pooling_type", Key::Size(1)),
                    ("attention.sliding_window", Key::Size(24)),
                ],
                optional: &["attn_qkv.weight"],
                ..small("modern-bert")
            },
        ),
        (
            "gemma-embedding",
            Spec {
                layers: 3,
                kv_heads: 2,
                head_length: Some(24),
                keys: &[
                    ("pooling_type", Key::Size(1)),
                    ("attention.sliding_window", Key::Size(24)),
                    ("attention.sliding_window_pattern", Key::Size(3)),
                    ("dense_2_feat_out", Key::Size(80)),
                    ("dense_3_feat_in", Key::Size(80)),
                ],
                optional: &["dense_2.weight", "dense_3.weight"],
                ..small("gemma-embedding")
            },
        ),
    ];
    models.map(|(name, spec)| (format!("F32-{name}"), spec)).into()
}
