//! The random models of tests, of every family.

mod recurrent;

use quant::Format;
use synth::Key;
pub use synth::{RopeFreqs, RopeScaling, Spec};

/// The linear layers of Qwen 2 that have a bias.
const QKV: [&str; 3] = ["attn_q", "attn_k", "attn_v"];

/// All linear layers of a dense layer.
const ALL_LINEARS: [&str; 7] =
    ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

/// Factors of linear layers, as files in NVFP4 have them.
const DENSE_SCALES: [&str; 5] =
    ["attn_q.scale", "attn_v.scale", "attn_output.scale", "ffn_gate.scale", "ffn_down.scale"];

/// A model small enough that the goldens of `crates/trace` have all its values.
pub fn small() -> Spec {
    Spec {
        layers: 2,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        ffn: 96,
        rope_freqs: RopeFreqs::Rising,
        ..Spec::new(Format::F32)
    }
}

/// A model of the same size with RoPE scaling.
fn scaled(scaling: RopeScaling) -> Spec {
    Spec { rope_freqs: RopeFreqs::None, rope_scaling: Some(scaling), ..small() }
}

/// A model of the same size, of architecture `qwen2`.
pub fn small_qwen2() -> Spec {
    Spec { rope_freqs: RopeFreqs::None, ..qwen2(small()) }
}

/// The same model with architecture `qwen2`: biases of queries, keys and values.
fn qwen2(spec: Spec) -> Spec {
    Spec { architecture: "qwen2", biases: &QKV, ..qwen(spec) }
}

/// The same model as small Qwens: tied embeddings, another RoPE base.
fn qwen(spec: Spec) -> Spec {
    Spec { tied: true, rms_eps: 1e-6, rope_base: 1e6, ..spec }
}

/// A small model of architecture `qwen3`, with `heads * key_length` larger than the hidden size.
pub fn qwen3(format: Format) -> Spec {
    let (hidden, heads, head_length) = (128, 4, Some(48));
    Spec { architecture: "qwen3", hidden, heads, head_length, ffn: 192, ..qwen(Spec::new(format)) }
}

/// A small model of architecture `qwen3moe`: eight experts, three per row.
pub fn qwen3moe(format: Format) -> Spec {
    let (ffn, experts) = (256, Some([8, 3]));
    Spec { architecture: "qwen3moe", ffn, experts, tied: false, seed: 22, ..qwen(Spec::new(format)) }
}

/// A small Mixtral: eight experts, two per row.
pub fn mixtral(format: Format) -> Spec {
    let experts = Some([8, 2]);
    let spec = Spec { layers: 2, hidden: 128, heads: 4, ffn: 160, ..Spec::new(format) };
    Spec { experts, rope_base: 1e6, seed: 20, ..spec }
}

/// A small model of architecture `gemma3`: seven layers; the sixth is global, the others have a window of 40.
pub fn gemma3(format: Format) -> Spec {
    Spec {
        architecture: "gemma3",
        layers: 7,
        hidden: 128,
        heads: 4,
        head_length: Some(48),
        ffn: 192,
        window: Some(40),
        rope_scaling: Some(RopeScaling::Linear(8.0)),
        ..qwen(Spec::new(format))
    }
}

/// A model of the size of [`small`] and another architecture that has no tensor of RoPE's divisors.
fn like_llama(architecture: &'static str) -> Spec {
    Spec { architecture, rope_freqs: RopeFreqs::None, ..small() }
}

/// The factors of Granite.
const GRANITE: [(&str, Key); 4] = [
    ("logit_scale", Key::Number(3.0)),
    ("embedding_scale", Key::Number(6.0)),
    ("residual_scale", Key::Number(0.4)),
    ("attention.scale", Key::Number(0.15)),
];

/// Layer norms in place of RMS norms.
const LAYER_NORMS: [(&str, Key); 2] =
    [("attention.layer_norm_rms_epsilon", Key::Absent), ("attention.layer_norm_epsilon", Key::Number(1e-5))];

/// A small model of each architecture that is a variant of Llama's layer, by name.
fn variants_of_llama() -> [(&'static str, Spec); 16] {
    use Key::{Flag, Size, Sizes};
    [
        ("ernie4_5", Spec { tied: true, ..like_llama("ernie4_5") }),
        (
            "qwen3vl",
            Spec {
                architecture: "qwen3vl",
                keys: &[("rope.dimension_sections", Sizes(&[10, 8, 6, 0])), ("n_deepstack_layers", Size(3))],
                ..qwen3(Format::F32)
            },
        ),
        ("granite", Spec { keys: &GRANITE, ..like_llama("granite") }),
        (
            "granite-nope",
            Spec { keys: &[GRANITE[0], ("rope.scaling.finetuned", Flag(false))], ..like_llama("granite") },
        ),
        (
            "granitemoe",
            Spec {
                keys: &[GRANITE[0], GRANITE[2], ("expert_shared_feed_forward_length", Size(64))],
                experts: Some([4, 2]),
                seed: 8,
                ..like_llama("granitemoe")
            },
        ),
        ("smollm3", Spec { layers: 4, tied: true, ..like_llama("smollm3") }),
        (
            "olmo2",
            Spec {
                layers: 4,
                keys: &[
                    ("attention.sliding_window", Size(24)),
                    ("attention.sliding_window_pattern", Size(2)),
                ],
                rope_scaling: Some(RopeScaling::Yarn(4.0, 128)),
                ..like_llama("olmo2")
            },
        ),
        ("glm4", Spec { biases: &QKV, keys: &[("rope.dimension_count", Size(8))], ..like_llama("glm4") }),
        (
            "glm4-mrope",
            Spec { keys: &[("rope.dimension_sections", Sizes(&[4, 2, 2, 0]))], ..like_llama("glm4") },
        ),
        (
            "gemma2",
            Spec {
                layers: 4,
                head_length: Some(24),
                tied: true,
                keys: &[
                    ("attention.sliding_window", Size(24)),
                    ("attn_logit_softcapping", Key::Number(3.0)),
                    ("final_logit_softcapping", Key::Number(6.0)),
                ],
                ..like_llama("gemma2")
            },
        ),
        (
            "command-r",
            Spec {
                keys: &[LAYER_NORMS[0], LAYER_NORMS[1], ("logit_scale", Key::Number(0.5))],
                tied: true,
                ..like_llama("command-r")
            },
        ),
        (
            "cohere2",
            Spec {
                layers: 4,
                keys: &[
                    ("logit_scale", Key::Number(0.5)),
                    LAYER_NORMS[0],
                    LAYER_NORMS[1],
                    ("attention.sliding_window", Size(24)),
                ],
                tied: true,
                ..like_llama("cohere2")
            },
        ),
        (
            "starcoder2",
            Spec {
                keys: &LAYER_NORMS,
                biases: &[
                    "attn_norm",
                    "ffn_norm",
                    "attn_q",
                    "attn_k",
                    "attn_v",
                    "attn_output",
                    "ffn_up",
                    "ffn_down",
                ],
                optional: &["output_norm.bias"],
                ..like_llama("starcoder2")
            },
        ),
        (
            "stablelm",
            Spec {
                keys: &[
                    LAYER_NORMS[0],
                    LAYER_NORMS[1],
                    ("rope.dimension_count", Size(4)),
                    ("use_parallel_residual", Flag(false)),
                ],
                biases: &["attn_norm", "ffn_norm"],
                optional: &["output_norm.bias", "ffn_norm.weight"],
                ..like_llama("stablelm")
            },
        ),
        (
            "stablelm-parallel",
            Spec {
                keys: &[LAYER_NORMS[0], LAYER_NORMS[1], ("use_parallel_residual", Flag(true))],
                biases: &["attn_norm", "attn_q", "attn_k", "attn_v"],
                optional: &["output_norm.bias"],
                ..like_llama("stablelm")
            },
        ),
        (
            "phi3",
            Spec {
                optional: &["attn_qkv.weight"],
                rope_scaling: Some(RopeScaling::LongRope(128)),
                keys: &[("attention.sliding_window", Size(33))],
                ..like_llama("phi3")
            },
        ),
    ]
}

/// Keys and values of heads that share one vector per row.
const LATENT: [(&str, Key); 7] = [
    ("attention.kv_lora_rank", Key::Size(24)),
    ("attention.q_lora_rank", Key::Size(40)),
    ("rope.dimension_count", Key::Size(8)),
    ("rope.scaling.yarn_log_multiplier", Key::Number(0.1)),
    ("leading_dense_block_count", Key::Size(1)),
    ("expert_feed_forward_length", Key::Size(96)),
    ("expert_shared_count", Key::Size(2)),
];

/// Which layers of the models of Gemma 4 are local.
const LOCAL: [bool; 5] = [true, true, false, true, false];

const GEMMA4: [(&str, Key); 7] = [
    ("attention.sliding_window", Key::Size(24)),
    ("attention.sliding_window_pattern", Key::Flags(&LOCAL)),
    ("attention.head_count_kv", Key::Sizes(&[2, 2, 1, 2, 1])),
    ("attention.key_length_swa", Key::Size(16)),
    ("attention.value_length_swa", Key::Size(16)),
    ("rope.dimension_count_swa", Key::Size(16)),
    ("final_logit_softcapping", Key::Number(6.0)),
];

/// A small Gemma 4.
fn gemma4() -> Spec {
    let rope_freqs = RopeFreqs::Rising;
    Spec { layers: 5, head_length: Some(24), tied: true, rope_freqs, ..like_llama("gemma4") }
}

/// A small model of each architecture with a router or with stores of its own, by name.
fn variants_of_experts() -> [(&'static str, Spec); 11] {
    use Key::{Flag, Number, Size};
    let experts = Some([8, 3]);
    [
        (
            "qwen2moe",
            Spec {
                experts,
                biases: &QKV,
                keys: &[("expert_shared_feed_forward_length", Size(64))],
                optional: &["ffn_gate_inp_shexp.weight"],
                seed: 14,
                ..like_llama("qwen2moe")
            },
        ),
        (
            "llama4",
            Spec {
                layers: 5,
                experts: Some([4, 1]),
                keys: &[
                    LATENT[5],
                    ("interleave_moe_layer_step", Size(2)),
                    ("attention.sliding_window", Size(8192)),
                ],
                seed: 8,
                ..like_llama("llama4")
            },
        ),
        (
            "mistral3",
            Spec {
                rope_scaling: Some(RopeScaling::Yarn(4.0, 128)),
                keys: &[
                    ("rope.scaling.yarn_log_multiplier", Number(1.0)),
                    ("attention.temperature_scale", Number(0.1)),
                ],
                ..like_llama("mistral3")
            },
        ),
        (
            "gpt-oss",
            Spec {
                layers: 4,
                experts: Some([4, 2]),
                biases: &["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate_inp", "ffn_gate_exps"],
                optional: &["attn_sinks.weight"],
                rope_scaling: Some(RopeScaling::Yarn(4.0, 128)),
                keys: &[("attention.sliding_window", Size(24)), ("expert_feed_forward_length", Size(64))],
                seed: 31,
                ..like_llama("gpt-oss")
            },
        ),
        (
            "glm4moe",
            Spec {
                layers: 3,
                experts,
                biases: &["attn_q", "attn_k", "attn_v", "exp_probs_b"],
                optional: &["attn_q_norm.weight"],
                keys: &[
                    LATENT[2],
                    LATENT[4],
                    LATENT[5],
                    ("expert_shared_count", Size(1)),
                    ("expert_weights_norm", Flag(true)),
                    ("expert_weights_scale", Number(1.5)),
                ],
                seed: 7,
                ..like_llama("glm4moe")
            },
        ),
        (
            "minimax-m2",
            Spec {
                experts,
                biases: &["exp_probs_b"],
                keys: &[LATENT[2], LATENT[5], ("expert_gating_func", Size(2))],
                seed: 17,
                ..like_llama("minimax-m2")
            },
        ),
        (
            "hunyuan-moe",
            Spec { experts, tied: true, keys: &[LATENT[5]], seed: 35, ..like_llama("hunyuan-moe") },
        ),
        (
            "deepseek2",
            Spec {
                layers: 3,
                experts,
                head_length: Some(32),
                biases: &["exp_probs_b"],
                rope_scaling: Some(RopeScaling::Yarn(4.0, 128)),
                keys: &[
                    LATENT[0],
                    LATENT[1],
                    LATENT[2],
                    LATENT[3],
                    LATENT[4],
                    LATENT[5],
                    LATENT[6],
                    ("attention.head_count_kv", Size(1)),
                    ("attention.value_length", Size(24)),
                    ("attention.key_length_mla", Size(20)),
                    ("attention.value_length_mla", Size(14)),
                    ("expert_gating_func", Size(2)),
                    ("expert_weights_norm", Flag(true)),
                    ("expert_weights_scale", Number(2.5)),
                    ("expert_group_count", Size(4)),
                    ("expert_group_used_count", Size(2)),
                ],
                seed: 5,
                ..like_llama("deepseek2")
            },
        ),
        (
            "deepseek2-old",
            Spec {
                layers: 3,
                experts,
                head_length: Some(20),
                kv_heads: 4,
                rope_scaling: Some(RopeScaling::Yarn(4.0, 128)),
                keys: &[LATENT[0], LATENT[1], LATENT[2], LATENT[3], LATENT[4], LATENT[5], LATENT[6]],
                seed: 18,
                ..like_llama("deepseek2")
            },
        ),
        (
            "gemma4-e",
            Spec {
                optional: &["attn_v.weight", "layer_output_scale.weight"],
                keys: &[
                    GEMMA4[0],
                    GEMMA4[1],
                    GEMMA4[2],
                    GEMMA4[3],
                    GEMMA4[4],
                    GEMMA4[5],
                    GEMMA4[6],
                    ("attention.shared_kv_layers", Size(2)),
                    ("embedding_length_per_layer_input", Size(16)),
                ],
                ..gemma4()
            },
        ),
        (
            "gemma4-experts",
            Spec {
                experts: Some([4, 2]),
                optional: &["ffn_gate_up_exps.weight", "ffn_down_exps.scale"],
                keys: &[
                    GEMMA4[0],
                    GEMMA4[1],
                    GEMMA4[2],
                    GEMMA4[3],
                    GEMMA4[4],
                    GEMMA4[5],
                    GEMMA4[6],
                    LATENT[5],
                    ("embedding_length_per_layer_input", Size(0)),
                ],
                ..gemma4()
            },
        ),
    ]
}

/// The models with golden logits, by name: one per format, and variants.
pub fn models() -> Vec<(String, Spec)> {
    let f32 = || Spec::new(Format::F32);
    let variants = [
        ("F32-tied", Spec { tied: true, ..f32() }),
        (
            "F32-rope",
            Spec {
                rope_freqs: RopeFreqs::Rising,
                rope_scaling: Some(RopeScaling::Linear(4.0)),
                rope_base: 500.0,
                ..f32()
            },
        ),
        ("F32-heads", Spec { head_length: Some(48), rms_eps: 0.5, ..f32() }),
        ("F32-qwen2", qwen2(f32())),
        ("Q8_0-qwen2", qwen2(Spec::new(Format::Q8_0))),
        ("Q4_K-qwen2", Spec { tied: false, ..qwen2(Spec::new(Format::Q4_K)) }),
        ("Q4_K-qwen3moe", qwen3moe(Format::Q4_K)),
        ("Q8_0-gemma3", gemma3(Format::Q8_0)),
    ];
    let formats = Format::ALL.map(|format| (format.to_string(), Spec::new(format)));
    formats.into_iter().chain(variants.map(|(name, spec)| (name.to_owned(), spec))).collect()
}

/// The models with goldens over 300 tokens: the families after Llama and Qwen2. Their seeds avoid near ties between the
/// last chosen expert and the next one, so that rounding does not change the choice.
pub fn families() -> Vec<(String, Spec)> {
    let families = [
        ("F32-qwen3", qwen3(Format::F32)),
        ("F32-qwen3moe", Spec { layers: 2, ffn: 96, ..qwen3moe(Format::F32) }),
        ("F32-mixtral", mixtral(Format::F32)),
        ("F32-gemma3", gemma3(Format::F32)),
        ("F32-llama-biases", Spec { biases: &ALL_LINEARS, ..small() }),
        ("F32-llama-scales", Spec { optional: &DENSE_SCALES, ..small() }),
        (
            "F32-mixtral-scales",
            Spec {
                optional: &["ffn_gate_exps.scale", "ffn_up_exps.scale", "ffn_down_exps.scale"],
                seed: 103,
                ..mixtral(Format::F32)
            },
        ),
        ("F32-qwen2-no-biases", Spec { biases: &[], ..small_qwen2() }),
        ("F32-llama-yarn", scaled(RopeScaling::Yarn(8.0, 64))),
        ("F32-qwen2-yarn", Spec { heads: 2, ..qwen2(scaled(RopeScaling::Yarn(4.0, 2048))) }),
        // Of 300 positions, once in a long context and once in one that is not.
        ("F32-longrope", scaled(RopeScaling::LongRope(128))),
        ("F32-longrope-short", scaled(RopeScaling::LongRope(512))),
    ];
    let variants = variants_of_llama().into_iter().chain(variants_of_experts()).chain(recurrent::recurrent());
    let variants = variants.map(|(name, spec)| (format!("F32-{name}"), spec));
    families.map(|(name, spec)| (name.to_owned(), spec)).into_iter().chain(variants).collect()
}
