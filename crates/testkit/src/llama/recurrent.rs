//! The random models of families with recurrent layers.

use synth::{Key, Spec};

use super::{GRANITE, LATENT, like_llama};

/// States of 8 heads of 16 columns.
const STATE: [(&str, Key); 5] = [
    ("ssm.conv_kernel", Key::Size(4)),
    ("ssm.inner_size", Key::Size(128)),
    ("ssm.state_size", Key::Size(16)),
    ("ssm.time_step_rank", Key::Size(8)),
    ("ssm.group_count", Key::Size(2)),
];

/// The keys of [`STATE`] and further ones.
macro_rules! with_state {
    ($($key:expr),* $(,)?) => {
        &[STATE[0], STATE[1], STATE[2], STATE[3], STATE[4], $($key),*]
    };
}

/// Layers without KV heads are recurrent.
const SOME_KV_HEADS: (&str, Key) = ("attention.head_count_kv", Key::Sizes(&[0, 2, 0, 2]));

const NO_ROPE: [(&str, Key); 2] = [("rope.dimension_count", Key::Absent), ("rope.freq_base", Key::Absent)];

/// A small model of each architecture with recurrent layers of its own kind, by name.
pub(super) fn recurrent() -> [(&'static str, Spec); 10] {
    use Key::{Absent, Flag, Number, Size, Sizes};
    let like = |architecture| Spec { layers: 4, ..like_llama(architecture) };
    let delta_net = |architecture| Spec {
        layers: 3,
        experts: Some([4, 2]),
        optional: &["ffn_gate_inp_shexp.weight"],
        ..like(architecture)
    };
    let mamba =
        |architecture| Spec { biases: &["ssm_conv1d"], optional: &["ssm_norm.weight"], ..like(architecture) };
    [
        (
            "qwen35",
            Spec {
                keys: with_state![
                    ("full_attention_interval", Size(3)),
                    ("rope.dimension_count", Size(8)),
                    ("rope.dimension_sections", Sizes(&[2, 1, 1, 0])),
                ],
                ..like("qwen35")
            },
        ),
        (
            "qwen35moe",
            Spec {
                keys: with_state![
                    ("full_attention_interval", Size(3)),
                    ("rope.dimension_sections", Sizes(&[3, 3, 2, 0])),
                    ("expert_shared_feed_forward_length", Size(64)),
                ],
                seed: 26,
                ..delta_net("qwen35moe")
            },
        ),
        (
            "qwen3next",
            Spec {
                keys: with_state![
                    ("full_attention_interval", Size(3)),
                    ("rope.dimension_count", Size(8)),
                    ("expert_shared_feed_forward_length", Size(64)),
                ],
                seed: 14,
                ..delta_net("qwen3next")
            },
        ),
        (
            "lfm2moe",
            Spec {
                tied: true,
                experts: Some([4, 2]),
                biases: &["exp_probs_b"],
                keys: &[
                    SOME_KV_HEADS,
                    LATENT[4],
                    LATENT[5],
                    ("shortconv.l_cache", Size(3)),
                    ("expert_gating_func", Size(2)),
                ],
                seed: 42,
                ..like("lfm2moe")
            },
        ),
        (
            "nemotron_h_moe",
            Spec {
                experts: Some([8, 3]),
                keys: with_state![
                    LATENT[5],
                    ("attention.head_count_kv", Sizes(&[0, 0, 2, 0])),
                    ("feed_forward_length", Sizes(&[0, 96, 0, 96])),
                    ("attention.layer_norm_epsilon", Number(1e-5)),
                    ("expert_shared_feed_forward_length", Size(60)),
                    ("expert_weights_norm", Flag(true)),
                    ("expert_weights_scale", Number(2.5)),
                    ("moe_latent_size", Size(40)),
                ],
                biases: &["ssm_conv1d", "exp_probs_b"],
                seed: 4,
                ..mamba("nemotron_h_moe")
            },
        ),
        ("lfm2", Spec { tied: true, keys: &[SOME_KV_HEADS, ("shortconv.l_cache", Size(3))], ..like("lfm2") }),
        ("mamba2", Spec { keys: with_state![NO_ROPE[0], NO_ROPE[1]], ..mamba("mamba2") }),
        (
            "granitehybrid",
            Spec {
                keys: with_state![
                    SOME_KV_HEADS,
                    GRANITE[0],
                    GRANITE[2],
                    ("rope.scaling.finetuned", Key::Flag(false)),
                ],
                ..mamba("granitehybrid")
            },
        ),
        ("falcon-h1", Spec { keys: with_state![], ..mamba("falcon-h1") }),
        (
            "nemotron_h",
            Spec {
                keys: with_state![
                    ("attention.head_count_kv", Sizes(&[0, 0, 2, 0])),
                    ("feed_forward_length", Sizes(&[0, 96, 0, 0])),
                    ("attention.layer_norm_rms_epsilon", Absent),
                    ("attention.layer_norm_epsilon", Number(1e-5)),
                ],
                ..mamba("nemotron_h")
            },
        ),
    ]
}
