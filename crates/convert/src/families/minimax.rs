//! MiniMax M2.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "minimax-m2",
    classes: &["MiniMaxM2ForCausalLM"],
    parameters,
    rules: &[
        rename("layers.{}.block_sparse_moe.gate", &["blk.{}.ffn_gate_inp"]),
        rename("layers.{}.block_sparse_moe.e_score_correction_bias", &["blk.{}.exp_probs_b.bias"]),
        rename("layers.{}.block_sparse_moe.experts.{}.{w1,w2,w3}", &["blk.{}.ffn_{gate,down,up}_exps"]),
    ],
    ..BASE
};

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.set("expert_feed_forward_length", config.need_u32(&["intermediate_size"])?);
    keys.set("rope.dimension_count", config.need_u32(&["rotary_dim"])?);
    Ok(())
}
