//! ModernBERT.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "modern-bert",
    classes: &["ModernBertModel", "ModernBertForSequenceClassification"],
    tokenizer: Kind::ModernBert,
    parameters,
    shared: RULES,
    alias: bert::classifier,
    ..BASE
};

/// Without the head that guesses tokens.
pub(super) const MASKED: Family = Family {
    classes: &["ModernBertForMaskedLM"],
    rules: &[skip("head.dense"), skip("head.norm"), skip("decoder")],
    ..FAMILY
};

const RULES: &[Rule] = &[
    rename("embeddings.{tok_embeddings,norm}", &["token_{embd,embd_norm}"]),
    rename("final_norm", &["output_norm"]),
    rename("layers.{}.attn_norm", &["blk.{}.attn_norm"]),
    rename("layers.{}.attn.{Wqkv,Wo}", &["blk.{}.attn_{qkv,output}"]),
    rename("layers.{}.mlp_norm", &["blk.{}.ffn_norm"]),
    rename("layers.{}.mlp.{Wi,Wo}", &["blk.{}.ffn_{up,down}"]),
    rename("head.dense", &["cls"]),
    rename("head.norm", &["cls.norm"]),
    rename("classifier", &["cls"]),
    rename("classifier.out_proj", &["cls.output"]),
];

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    // Engines read this one; older files have both.
    keys.optional("attention.layer_norm_epsilon", config.f32(&["norm_eps"])?);
    bert::encoder(config, keys)?;
    keys.set("attention.sliding_window", config.need_u32(&["local_attention"])?);
    keys.optional("attention.sliding_window_pattern", config.u32(&["global_attn_every_n_layers"])?);
    keys.set("rope.scaling.type", "none");
    keys.set("vocab_size", config.need_u32(&["vocab_size"])?);
    keys.optional("hidden_activation", config.str(&["hidden_activation"])?);
    Ok(())
}
