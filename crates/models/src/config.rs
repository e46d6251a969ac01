//! The hyper-parameters that all models have, read and validated once.

use gguf::Value;

use crate::{Error, Keys, Pooling, Tensors};

/// The hyper-parameters of a model; fields are named as the metadata keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `general.architecture`: the name of the model's [`crate::Family`].
    pub architecture: &'static str,
    /// Context length in training.
    pub context_length: usize,
    /// Columns of the residual stream.
    pub embedding_length: usize,
    /// Number of layers.
    pub block_count: usize,
    /// Further blocks of the file, which predict several tokens at once and are not used.
    pub prediction_blocks: usize,
    /// Vocabulary size: the length of `tokenizer.ggml.tokens`, or `vocab_size` in a file without a tokenizer.
    pub vocab_size: usize,
    /// The pooling of embeddings; `None` for a model of logits.
    pub pooling: Option<Pooling>,
    /// The keys that the family reads and their values, in the order of reading. Keys have no architecture prefix: an example is
    /// (`attention.head_count`, 32).
    pub hyper_parameters: Vec<(&'static str, Value)>,
}

impl Config {
    pub(crate) fn read(keys: &mut Keys<'_>, has: Tensors<'_>) -> Result<Config, Error> {
        let all = keys.size("block_count", "the number of layers")?;
        let prediction_blocks = keys.count("nextn_predict_layers")?;
        let Some(block_count) = all.checked_sub(prediction_blocks).filter(|&layers| layers > 0) else {
            let expected = format!("less than the {all} blocks");
            return Err(keys.bad("nextn_predict_layers", prediction_blocks, expected));
        };
        (keys.blocks, keys.layers) = (all, block_count);
        // Every layer has one of these.
        let names =
            |block: usize| ["attn_norm", "attn_output"].map(|part| format!("blk.{block}.{part}.weight"));
        if let Some(block) = (0..block_count).find(|&block| !names(block).iter().any(|name| has(name))) {
            let expected = format!("at most {block}, because tensor `{}` is missing", names(block)[0]);
            return Err(keys.bad("block_count", block_count, expected));
        }
        let split = |block| format!("blk.{block}.ffn_gate.0.weight");
        if let Some(name) = (0..block_count).map(split).find(|name| has(name)) {
            return Err(Error::SplitExperts { name });
        }
        Ok(Config {
            architecture: keys.architecture,
            context_length: keys.size("context_length", "the context length of the model in training")?,
            embedding_length: keys.size("embedding_length", "the hidden size of the model")?,
            block_count,
            prediction_blocks,
            vocab_size: keys.vocab_size()?,
            pooling: None,
            hyper_parameters: Vec::new(),
        })
    }
}
