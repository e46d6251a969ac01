//! Qwen 2 and 3, dense and with experts, embedding models and rerankers.

use gguf::{Array, Value};

use super::{BASE, Family};
use crate::Error;
use crate::checkpoint::View;
use crate::config::Config;
use crate::keys::Keys;
use crate::parameters::common;
use crate::pooling::{RANK, pooling, write_labels};
use crate::rules::change;
use crate::tokenizer::Kind;

pub(super) const QWEN2: Family = Family {
    architecture: "qwen2",
    classes: &["Qwen2ForCausalLM", "Qwen2Model"],
    tokenizer: Kind::SentencePieceOrBpe,
    parameters: dense,
    rules: &[],
    ..BASE
};

pub(super) const QWEN3: Family =
    Family { architecture: "qwen3", classes: &["Qwen3ForCausalLM", "Qwen3Model"], ..QWEN2 };

/// A decoder whose logits of two words are the scores of a text.
pub(super) const QWEN3_RERANKER: Family = Family {
    fits: is_reranker,
    parameters: reranker,
    rules: &[
        change("embed_tokens", &["token_embd", "cls.output", "cls.output"], |view, config, _| {
            let tied = if config.bool("tie_word_embeddings")? { scores(&view, config)? } else { Vec::new() };
            Ok([vec![view], tied].concat())
        }),
        change("lm_head", &["cls.output", "cls.output"], |view, config, _| {
            match config.bool("tie_word_embeddings")? {
                true => Ok(Vec::new()),
                false => scores(&view, config),
            }
        }),
    ],
    ..QWEN3
};

pub(super) const QWEN2MOE: Family = Family {
    architecture: "qwen2moe",
    classes: &["Qwen2MoeForCausalLM"],
    tokenizer: Kind::Bpe,
    parameters: experts,
    ..QWEN2
};

pub(super) const QWEN3MOE: Family = Family {
    architecture: "qwen3moe",
    classes: &["Qwen3MoeForCausalLM"],
    parameters: |config, keys| match config.bool("norm_topk_prob")? {
        true => experts(config, keys),
        // Engines normalise.
        false => Err(config.error(
            "\"norm_topk_prob\" is not true: weights of experts that do not sum to 1 cannot be expressed",
        )),
    },
    ..QWEN2MOE
};

/// What the reranker is asked; it is part of the model.
const QUESTION: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct \
    provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, \
    retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n\
    <think>\n\n</think>\n\n";

/// Nothing but its name tells it from other models.
fn is_reranker(config: &Config) -> bool {
    let name = config.folder_name().to_lowercase();
    let own = config.str(&["_name_or_path"]).ok().flatten().unwrap_or_default().to_lowercase();
    name.contains("qwen3-reranker")
        || own.contains("qwen3-reranker")
        || config.text_beside("README.md").to_lowercase().contains("# qwen3-reranker")
}

/// The rows of the two words.
fn scores(view: &View, config: &Config) -> Result<Vec<View>, Error> {
    let vocabulary = config.beside("tokenizer.json")?.unwrap_or_default();
    let row = |word: &str| {
        let id = vocabulary.pointer("/model/vocab").and_then(|words| words.get(word)?.as_u64());
        let id = id.ok_or_else(|| {
            config.error(format!("a reranker answers yes or no, but tokenizer.json lacks {word:?}"))
        })?;
        let id = usize::try_from(id).unwrap_or(usize::MAX);
        view.clone().narrow(0, id..id.saturating_add(1))
    };
    Ok(vec![row("yes")?, row("no")?])
}

fn dense(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    pooling(config, keys)
}

fn reranker(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    dense(config, keys)?;
    keys.set("pooling_type", RANK);
    write_labels(vec!["yes".to_owned(), "no".to_owned()], keys);
    keys.metadata().insert("tokenizer.chat_template.rerank", QUESTION);
    keys.metadata()
        .insert("tokenizer.chat_templates", Value::Array(Array::String(vec!["rerank".to_owned()])));
    Ok(())
}

pub(super) fn experts(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.optional("expert_feed_forward_length", config.u32(&["moe_intermediate_size"])?);
    keys.optional("expert_shared_feed_forward_length", config.u32(&["shared_expert_intermediate_size"])?);
    Ok(())
}
