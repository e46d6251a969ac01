//! Qwen3-Next and Qwen 3.5: gated delta nets and gated attention, dense and with experts.

use super::*;

pub(super) const QWEN3NEXT: Family = Family {
    architecture: "qwen3next",
    classes: &["Qwen3NextForCausalLM"],
    parameters,
    rules: QWEN3NEXT_RULES,
    shared: RULES,
    alias,
    ..BASE
};

pub(super) const QWEN35: Family = Family {
    architecture: "qwen35",
    classes: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
    parameters: with_sections,
    rules: QWEN35_RULES,
    ..QWEN3NEXT
};

pub(super) const QWEN35MOE: Family = Family {
    architecture: "qwen35moe",
    classes: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
    ..QWEN35
};

/// Norms multiply by 1 + weight, but those of delta nets.
const RULES: &[Rule] = &[
    change("norm", &["output_norm"], plus_one),
    change("layers.{}.{input,post_attention}_layernorm", &["blk.{}.{attn,post_attention}_norm"], plus_one),
    change("layers.{}.self_attn.{q,k}_norm", &["blk.{}.attn_{q,k}_norm"], plus_one),
    rename("layers.{}.linear_attn.{norm,out_proj}", &["blk.{}.ssm_{norm,out}"]),
    change("layers.{}.linear_attn.conv1d", &["blk.{}.ssm_conv1d"], |view, _| Ok(view.squeeze())),
    change("layers.{}.linear_attn.A_log", &["blk.{}.ssm_a"], |view, _| Ok(mamba::decay(view))),
    rename("layers.{}.linear_attn.dt_bias", &["blk.{}.ssm_dt.bias"]),
    rename("layers.{}.fc", &["blk.{}.nextn.eh_proj"]),
    change("layers.{}.norm", &["blk.{}.nextn.shared_head_norm"], plus_one),
    change("layers.{}.pre_fc_norm_{embedding,hidden}", &["blk.{}.nextn.{enorm,hnorm}"], plus_one),
];

const QKV: &str = "blk.{}.attn_qkv";

const QWEN3NEXT_RULES: &[Rule] = &[
    split("layers.{}.linear_attn.in_proj_qkvz", &[QKV, QKV, QKV, "blk.{}.attn_gate"], qkvz),
    rename("layers.{}.linear_attn.in_proj_ba", &["blk.{}.ssm_ba"]),
];

/// llama.cpp has the value heads of Qwen 3.5 in another order.
const QWEN35_RULES: &[Rule] = &[
    split("layers.{}.linear_attn.in_proj_qkv", &[QKV, QKV], values_tiled),
    change("layers.{}.linear_attn.in_proj_{z,a,b}", &["blk.{}.{attn_gate,ssm_alpha,ssm_beta}"], rows_tiled),
    split("layers.{}.linear_attn.conv1d", &["blk.{}.ssm_conv1d"; 2], |view, config| {
        values_tiled(view.squeeze(), config)
    }),
    change("layers.{}.linear_attn.A_log", &["blk.{}.ssm_a"], |view, config| {
        Ok(mamba::decay(rows_tiled(view, config)?))
    }),
    change("layers.{}.linear_attn.dt_bias", &["blk.{}.ssm_dt.bias"], rows_tiled),
    change("layers.{}.linear_attn.out_proj", &["blk.{}.ssm_out"], |view, config| tiled(view, 1, config)),
];

struct DeltaNet {
    key_heads: usize,
    value_heads: usize,
    key_len: usize,
    value_len: usize,
}

impl DeltaNet {
    fn of(config: &Config) -> Result<DeltaNet, Error> {
        let count = |key| config.need_count(&[key]);
        let net = DeltaNet {
            key_heads: count("linear_num_key_heads")?,
            value_heads: count("linear_num_value_heads")?,
            key_len: count("linear_key_head_dim")?,
            value_len: count("linear_value_head_dim")?,
        };
        if net.value_heads.is_multiple_of(net.key_heads) {
            return Ok(net);
        }
        let (values, keys) = (net.value_heads, net.key_heads);
        Err(config.error(format!("{values} value heads of a delta net do not divide among {keys} key heads")))
    }
}

/// Rows of each key head, q, k, v and z, as all of q, all of k, all of v and all of z.
fn qkvz(view: View, config: &Config) -> Result<Vec<View>, Error> {
    let net = DeltaNet::of(config)?;
    let values = net.value_heads / net.key_heads * net.value_len;
    let view = view.split(0, &[net.key_heads, 0])?;
    let mut start = 0;
    let parts = [net.key_len, net.key_len, values, values].into_iter().map(|rows| {
        start += rows;
        Ok(view.clone().narrow(1, start - rows..start)?.merge(0..2))
    });
    parts.collect()
}

/// Value heads in the order of their index within a key head, then of the key heads, along an axis.
fn tiled(view: View, axis: usize, config: &Config) -> Result<View, Error> {
    let net = DeltaNet::of(config)?;
    let per_key = net.value_heads / net.key_heads;
    Ok(view.split(axis, &[net.key_heads, per_key, 0])?.swap(axis, axis + 1).merge(axis..axis + 3))
}

fn rows_tiled(view: View, config: &Config) -> Result<View, Error> {
    tiled(view, 0, config)
}

/// The rows of q and k, and those of v in the other order.
fn values_tiled(view: View, config: &Config) -> Result<Vec<View>, Error> {
    let net = DeltaNet::of(config)?;
    let keys = 2 * net.key_heads * net.key_len;
    let rows = view.shape().first().copied().unwrap_or_default();
    let values = view.clone().narrow(0, keys..rows)?;
    Ok(vec![view.narrow(0, 0..keys)?, rows_tiled(values, config)?])
}

/// Blocks of multi-token prediction follow the others.
fn alias(name: &str, config: &Config) -> Result<Option<String>, Error> {
    let Some(rest) = name.strip_prefix("mtp.") else { return Ok(None) };
    let layers = config.layers()?;
    let block = rest.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    let block = block.and_then(|(index, rest)| Some((index.parse::<usize>().ok()?, rest)));
    let (index, rest) = block.unwrap_or((0, rest));
    Ok(Some(format!("layers.{}.{rest}", layers.saturating_add(index))))
}

/// Blocks of multi-token prediction among the tensors.
fn predicting(config: &Config) -> usize {
    let rest = config.tensors.iter().filter_map(|name| Some(name.split_once("mtp.layers.")?.1));
    rest.filter_map(|rest| Some(rest.split_once('.')?.0)).collect::<IndexSet<&str>>().len()
}

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    qwen::experts(config, keys)?;
    let (layers, predicting) = (config.layers()?, predicting(config));
    if predicting > 0 {
        keys.count("block_count", layers + predicting);
        keys.count("nextn_predict_layers", predicting);
    }
    let net = DeltaNet::of(config)?;
    keys.set("ssm.conv_kernel", config.need_u32(&["linear_conv_kernel_dim"])?);
    keys.count("ssm.state_size", net.key_len);
    keys.count("ssm.group_count", net.key_heads);
    keys.count("ssm.time_step_rank", net.value_heads);
    keys.count("ssm.inner_size", net.value_len * net.value_heads);
    let interval = config.u32(&["full_attention_interval"])?.unwrap_or(4).max(1);
    keys.set("full_attention_interval", interval);
    let mut recurrent: Vec<bool> = match config.layers_are("linear_attention")? {
        Some(recurrent) => recurrent,
        None => (1..=layers).map(|layer| !layer.is_multiple_of(interval as usize)).collect(),
    };
    recurrent.resize(layers + predicting, false);
    keys.set("attention.recurrent_layers", recurrent);
    let rotated = config.head_dim()? as f32 * Rope::of(config)?.partial()?.unwrap_or(0.25);
    keys.count("rope.dimension_count", rotated as usize);
    Ok(())
}

/// Sections are always there, as llama.cpp needs them.
fn with_sections(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    keys.counts("rope.dimension_sections", [11, 11, 10, 0]);
    parameters(config, keys)
}
