//! ERNIE 4.5.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "ernie4_5",
    classes: &["Ernie4_5_ForCausalLM", "Ernie4_5ForCausalLM"],
    tokenizer: Kind::Ernie,
    parameters: common,
    rules: &[
        split("layers.{}.self_attn.qkv_proj", &["blk.{}.attn_q", "blk.{}.attn_k", "blk.{}.attn_v"], qkv),
        split("layers.{}.mlp.up_gate_proj", &["blk.{}.ffn_gate", "blk.{}.ffn_up"], |view, _| halves(view, 0)),
    ],
    ..BASE
};

fn qkv(view: View, config: &Config) -> Result<Vec<View>, Error> {
    let len = config.head_dim()?;
    let (queries, keys) = (config.heads()? * len, config.kv_heads()? * len);
    Ok(vec![
        view.clone().narrow(0, 0..queries)?,
        view.clone().narrow(0, queries..queries + keys)?,
        view.narrow(0, queries + keys..queries + 2 * keys)?,
    ])
}
