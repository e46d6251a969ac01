//! Hunyuan with experts.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "hunyuan-moe",
    classes: &["HunYuanMoEV1ForCausalLM"],
    tokenizer: Kind::HunyuanMoe,
    parameters,
    rules: &[
        rename("layers.{}.self_attn.{query,key}_layernorm", &["blk.{}.attn_{q,k}_norm"]),
        rename("layers.{}.mlp.gate.wg", &["blk.{}.ffn_gate_inp"]),
        rename("layers.{}.mlp.shared_mlp.{gate,up,down}_proj", &["blk.{}.ffn_{gate,up,down}_shexp"]),
    ],
    ..BASE
};

/// The context that the scaled frequencies are made for.
const CONTEXT: u32 = 256 * 1024;

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.set("expert_shared_feed_forward_length", config.need_u32(&["intermediate_size"])?);
    keys.set("expert_feed_forward_length", same(config, "moe_intermediate_size")?);
    keys.set("expert_used_count", same(config, "moe_topk")?);
    keys.set("expert_shared_count", same(config, "num_shared_expert")?);
    let rope = Rope::of(config)?;
    if rope.kind() == "dynamic" {
        let (alpha, base) = (rope.f32("alpha")?.unwrap_or(1000.0), rope.theta()?.unwrap_or(10000.0));
        let len = config.hidden()? as f64 / config.heads()? as f64;
        let scaled = f64::from(base) * f64::from(alpha).powf(len / (len - 2.0));
        keys.set("rope.freq_base", scaled as f32);
        keys.set("rope.scaling.type", "none");
        keys.set("rope.scaling.factor", 1.0f32);
        keys.set("rope.scaling.original_context_length", CONTEXT);
        keys.set("context_length", CONTEXT);
    }
    Ok(())
}

/// A count that is given once or, equal, for each layer.
fn same(config: &Config, key: &str) -> Result<u32, Error> {
    match config.value(key).and_then(serde_json::Value::as_array) {
        None => config.need_u32(&[key]),
        Some(_) => match config.u32s(key)?.unwrap_or_default().as_slice() {
            [first, others @ ..] if others.iter().all(|other| other == first) => Ok(*first),
            _ => Err(config.error(format!("{key:?} differs between layers, which is not supported"))),
        },
    }
}
