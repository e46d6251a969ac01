//! Qwen 2 and 3, dense and with experts, embedding models and rerankers.

use super::*;

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
        split("embed_tokens", &["token_embd", "cls.output", "cls.output"], |view, config| {
            let tied = if config.bool("tie_word_embeddings")? { scores(&view, config)? } else { Vec::new() };
            Ok([vec![view], tied].concat())
        }),
        split("lm_head", &["cls.output", "cls.output"], |view, config| {
            if config.bool("tie_word_embeddings")? { Ok(Vec::new()) } else { scores(&view, config) }
        }),
    ],
    ..QWEN3
};

pub(super) const QWEN3VL: Family = Family {
    architecture: "qwen3vl",
    classes: &["Qwen3VLForConditionalGeneration"],
    parameters: vision,
    ..QWEN2
};

pub(super) const QWEN2MOE: Family = Family {
    architecture: "qwen2moe",
    classes: &["Qwen2MoeForCausalLM"],
    tokenizer: Kind::Bpe,
    parameters: experts,
    ..QWEN2
};

pub(super) const QWEN3MOE: Family =
    Family { architecture: "qwen3moe", classes: &["Qwen3MoeForCausalLM"], ..QWEN2MOE };

/// What the reranker is asked; it is part of the model.
const QUESTION: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct \
    provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, \
    retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n\
    <think>\n\n</think>\n\n";

/// Nothing but its name tells it from other models.
fn is_reranker(config: &Config) -> bool {
    let name = config.folder_name().to_lowercase();
    let own = config.str(&["_name_or_path"]).ok().flatten().unwrap_or_default().to_lowercase();
    let page = config.text_beside("README.md").to_lowercase();
    ["qwen3-reranker", "qwen3-vl-reranker"].iter().any(|reranker| {
        name.contains(reranker) || own.contains(reranker) || page.contains(&format!("# {reranker}"))
    })
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

/// The language model must know which of its layers add features of images. Keys that are missing have transformers' defaults.
fn vision(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    const SECTIONS: [usize; 4] = [24, 20, 20, 0];
    const DEEPSTACK: usize = 3;
    if is_reranker(config) {
        return Err(config.error("rerankers of texts and images cannot be converted; those of texts can"));
    }
    keys.counts("rope.dimension_sections", SECTIONS);
    dense(config, keys)?;
    let vision = config.value("vision_config");
    let layers = vision.and_then(|vision| vision.get("deepstack_visual_indexes"));
    let layers = layers.map(|layers| match layers.as_array() {
        Some(layers) => Ok(layers.len()),
        None => Err(config.error(format!("\"deepstack_visual_indexes\" is {layers}, which is no list"))),
    });
    keys.count("n_deepstack_layers", layers.transpose()?.unwrap_or(DEEPSTACK));
    Ok(())
}

fn reranker(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    dense(config, keys)?;
    keys.set("pooling_type", RANK);
    keys.set("classifier.output_labels", vec!["yes".to_owned(), "no".to_owned()]);
    keys.metadata.insert("tokenizer.chat_template.rerank", QUESTION);
    keys.metadata.insert("tokenizer.chat_templates", vec!["rerank".to_owned()]);
    Ok(())
}

pub(super) fn experts(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.optional("expert_feed_forward_length", config.u32(&["moe_intermediate_size"])?);
    keys.optional("expert_shared_feed_forward_length", config.u32(&["shared_expert_intermediate_size"])?);
    Ok(())
}
