//! BERT and its kin: RoBERTa, XLM-R, DistilBERT, Nomic Embed and Jina Embeddings 2.

use super::*;

pub(super) const BERT: Family = Family {
    architecture: "bert",
    classes: &["BertModel", "BertForMaskedLM"],
    tokenizer: Kind::WordPiece,
    parameters,
    shared: RULES,
    alias: classifier,
    ..BASE
};

/// The classifier reads what BERT calls the pooler, a layer with tanh.
pub(super) const CLASSIFIER: Family = Family {
    classes: &["BertForSequenceClassification"],
    rules: &[rename("pooler.dense", &["cls"])],
    ..BERT
};

pub(super) const DISTILBERT: Family = Family {
    classes: &["DistilBertModel", "DistilBertForMaskedLM"],
    parameters: |config, keys| {
        keys.set("attention.layer_norm_epsilon", 1e-12_f32);
        parameters(config, keys)
    },
    rules: DISTILBERT_RULES,
    ..BERT
};

pub(super) const ROBERTA: Family = Family {
    classes: &["RobertaModel", "RobertaForSequenceClassification"],
    tokenizer: Kind::Roberta,
    parameters: roberta,
    rules: &[change("embeddings.position_embeddings", &["position_embd"], positions)],
    ..BERT
};

pub(super) const XLM_ROBERTA: Family = Family {
    classes: &["XLMRobertaModel", "XLMRobertaForSequenceClassification"],
    tokenizer: Kind::Unigram,
    ..ROBERTA
};

pub(super) const NOMIC_BERT: Family = Family {
    architecture: "nomic-bert",
    classes: &["NomicBertModel"],
    fits: |config| config.value("moe_every_n_layers").is_none_or(|every| every.as_u64() == Some(0)),
    tokenizer: Kind::NomicBert,
    parameters: nomic,
    ..BERT
};

pub(super) const NOMIC_BERT_MOE: Family = Family {
    architecture: "nomic-bert-moe",
    fits: |_| true,
    parameters: nomic_moe,
    rules: NOMIC_BERT_MOE_RULES,
    ..NOMIC_BERT
};

pub(super) const JINA_BERT_V2: Family = Family {
    architecture: "jina-bert-v2",
    classes: &["JinaBertModel", "JinaBertForMaskedLM"],
    tokenizer: Kind::JinaBertV2,
    ..BERT
};

const RULES: &[Rule] = &[
    rename("embeddings.{word,position,token_type}_embeddings", &["{token_embd,position_embd,token_types}"]),
    rename("embeddings.LayerNorm", &["token_embd_norm"]),
    rename("encoder.layer.{}.attention.self.{query,key,value}", &["blk.{}.attn_{q,k,v}"]),
    rename("encoder.layer.{}.attention.output.{dense,LayerNorm}", &["blk.{}.attn_{output,output_norm}"]),
    rename("encoder.layer.{}.{intermediate,output}.dense", &["blk.{}.ffn_{up,down}"]),
    rename("encoder.layer.{}.output.LayerNorm", &["blk.{}.layer_output_norm"]),
    // Jina.
    rename("encoder.layer.{}.attention.self.layer_norm_{q,k}", &["blk.{}.attn_{q,k}_norm"]),
    rename("encoder.layer.{}.layer_norm_{1,2}", &["blk.{}.{attn_norm_2,layer_output_norm}"]),
    rename("encoder.layer.{}.mlp.{gated_layers,up_gated_layer,wo}", &["blk.{}.ffn_{up,up,down}"]),
    rename("encoder.layer.{}.mlp.{down_layer,layernorm}", &["blk.{}.{ffn_down,layer_output_norm}"]),
    // Nomic, and Jina with fused attention.
    rename("emb_ln", &["token_embd_norm"]),
    rename("encoder.layers.{}.attn.{Wqkv,out_proj}", &["blk.{}.attn_{qkv,output}"]),
    rename("encoder.layers.{}.mixer.{Wqkv,out_proj}", &["blk.{}.attn_{qkv,output}"]),
    rename("encoder.layers.{}.{norm1,norm2}", &["blk.{}.{attn,layer}_output_norm"]),
    rename("encoder.layers.{}.mlp.{fc1,fc11,fc12,fc2}", &["blk.{}.ffn_{up,up,gate,down}"]),
    rename("classifier", &["cls"]),
    rename("classifier.dense", &["cls"]),
    rename("classifier.out_proj", &["cls.output"]),
    // Heads for other purposes.
    skip("embeddings.position_ids"),
    skip("pooler.dense"),
    skip("cls.predictions"),
    skip("cls.predictions.transform.dense"),
    skip("cls.predictions.transform.LayerNorm"),
    skip("cls.predictions.decoder"),
    skip("cls.seq_relationship"),
];

const DISTILBERT_RULES: &[Rule] = &[
    rename("layer.{}.attention.{q,k,v,out}_lin", &["blk.{}.attn_{q,k,v,output}"]),
    rename("layer.{}.sa_layer_norm", &["blk.{}.attn_output_norm"]),
    rename("layer.{}.ffn.{lin1,lin2}", &["blk.{}.ffn_{up,down}"]),
    rename("layer.{}.output_layer_norm", &["blk.{}.layer_output_norm"]),
    skip("vocab_transform"),
    skip("vocab_layer_norm"),
    skip("vocab_projector"),
];

const NOMIC_BERT_MOE_RULES: &[Rule] = &[
    rename("encoder.layers.{}.mlp.router.layer", &["blk.{}.ffn_gate_inp"]),
    change("encoder.layers.{}.mlp.experts.mlp.w1", &["blk.{}.ffn_up_exps.weight"], expert_matrices),
    change("encoder.layers.{}.mlp.experts.mlp.w2", &["blk.{}.ffn_down_exps.weight"], |view, config| {
        Ok(expert_matrices(view, config)?.swap(1, 2))
    }),
    // llama.cpp leaves it out.
    skip("encoder.layers.{}.mlp.experts"),
];

/// Rows of all experts, as one matrix for each.
fn expert_matrices(view: View, config: &Config) -> Result<View, Error> {
    view.with_axes(2)?.split(0, &[config.need_count(&["num_local_experts", "num_experts"])?, 0])
}

/// A classifier whose scores have names has one layer.
pub(super) fn classifier(name: &str, config: &Config) -> Result<Option<String>, Error> {
    let ending =
        ["weight", "bias"].into_iter().find(|ending| name.strip_prefix("classifier.") == Some(ending));
    Ok(ending.filter(|_| labels(config).is_some()).map(|ending| format!("classifier.out_proj.{ending}")))
}

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    let types = config.u32(&["type_vocab_size"])?.unwrap_or(1);
    keys.metadata.insert("tokenizer.ggml.token_type_count", types);
    encoder(config, keys)
}

pub(super) fn encoder(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.set("attention.causal", false);
    pooling(config, keys)?;
    keys.optional("classifier.output_labels", labels(config));
    Ok(())
}

/// Positions count from the padding token's number on, so that the first rows are of no use.
fn unused_positions(config: &Config) -> Result<usize, Error> {
    Ok(config.u32(&["pad_token_id"])?.map_or(0, |padding| padding as usize + 1))
}

fn positions(view: View, config: &Config) -> Result<View, Error> {
    let rows = view.shape().first().copied().unwrap_or_default();
    view.narrow(0, unused_positions(config)?..rows)
}

fn roberta(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    if config.value("lora_adaptations").is_some() {
        return Err(
            config.error("this is Jina Embeddings 3, whose adapters are not converted; take a later version")
        );
    }
    parameters(config, keys)?;
    let positions = config.need_u32(&["max_position_embeddings"])? as usize;
    keys.count("context_length", positions.saturating_sub(unused_positions(config)?));
    Ok(())
}

/// The models are trained for fewer tokens than they say.
fn nomic(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    parameters(config, keys)?;
    let trained = config.u32(&["max_trained_positions"])?.unwrap_or(2048);
    match config.u32(&["n_positions"])? {
        Some(2048) if trained == 2048 => keys.count("context_length", 512),
        Some(positions) => keys.set("context_length", positions.min(trained)),
        None => {}
    }
    Ok(())
}

fn nomic_moe(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    nomic(config, keys)?;
    keys.set("moe_every_n_layers", config.need_u32(&["moe_every_n_layers"])?);
    keys.set("expert_used_count", config.need_u32(&["moe_top_k"])?);
    Ok(())
}
