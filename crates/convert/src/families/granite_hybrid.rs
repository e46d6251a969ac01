//! Granite 4, with layers of Mamba 2 or with attention only.

use super::*;

const CLASSES: &[&str] = &["GraniteMoeHybridForCausalLM"];

pub(super) const DENSE: Family = Family {
    architecture: "granitehybrid",
    classes: CLASSES,
    fits: |config| is_recurrent(config) && !has_experts(config),
    rules: RULES,
    ..EXPERTS
};

pub(super) const EXPERTS: Family = Family {
    architecture: "granitehybrid",
    classes: CLASSES,
    fits: is_recurrent,
    tokenizer: Kind::Mamba2(8),
    parameters,
    rules: granite::RULES,
    shared: mamba::MIXER,
    alias: mamba::mixer,
    ..BASE
};

pub(super) const ATTENTION: Family = Family {
    architecture: "granite",
    fits: |config| !has_experts(config),
    rules: RULES,
    ..ATTENTION_EXPERTS
};

pub(super) const ATTENTION_EXPERTS: Family =
    Family { architecture: "granitemoe", fits: |_| true, tokenizer: Kind::Mamba2(1), ..EXPERTS };

/// Without experts, the shared one is the feed-forward network.
const RULES: &[Rule] = &[
    llama::Q,
    llama::K,
    split("layers.{}.shared_mlp.input_linear", &["blk.{}.ffn_gate", "blk.{}.ffn_up"], |view, _| {
        halves(view.with_axes(2)?, 0)
    }),
    rename("layers.{}.shared_mlp.output_linear", &["blk.{}.ffn_down"]),
];

/// Whether each layer has attention; the names of its type are those of all versions of transformers.
fn attends(config: &Config) -> Vec<bool> {
    let types = config.strs("layer_types").ok().flatten().unwrap_or_default();
    types.iter().map(|kind| ["attention", "full_attention"].contains(kind)).collect()
}

fn is_recurrent(config: &Config) -> bool {
    attends(config).contains(&false)
}

fn has_experts(config: &Config) -> bool {
    config.u32(&["num_local_experts"]).is_ok_and(|count| count.is_some_and(|count| count > 0))
}

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    granite::experts(config, keys)?;
    let expand = config.need_u32(&["mamba_expand"])? as usize;
    mamba::hybrid_parameters(config, expand * config.hidden()?, keys)?;
    let attends = attends(config);
    if attends.len() != config.layers()? {
        return Err(
            config.error(format!("\"layer_types\" has not one type for each of {} layers", config.layers()?))
        );
    }
    let heads = config.kv_heads()?;
    keys.counts("attention.head_count_kv", attends.iter().map(|&attends| if attends { heads } else { 0 }));
    let has_positions = !is_recurrent(config);
    keys.set("rope.scaling.finetuned", has_positions);
    if !has_positions {
        keys.count("context_length", mamba::ENDLESS);
    }
    Ok(())
}
