//! What all models have, read once and checked: after that nothing is missing or absurd.

use gguf::Value;

use crate::{Error, Keys, Tensors};

/// What a model is, for whoever runs it or tells of it; fields are named as the metadata keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `general.architecture`: the name of the model's [`crate::Family`].
    pub architecture: &'static str,
    /// Positions the model was trained on.
    pub context_length: usize,
    /// Width of the residual stream.
    pub embedding_length: usize,
    /// Layers.
    pub block_count: usize,
    /// Tokens: as many as `tokenizer.ggml.tokens`, or `vocab_size` in a file without a tokenizer.
    pub vocab_size: usize,
    /// Every key that the family reads, without the architecture's name before it, and its value or default, in the
    /// order of reading: such as `attention.head_count` and a u32.
    pub hyper_parameters: Vec<(&'static str, Value)>,
}

impl Config {
    /// Reads what all families have.
    pub(crate) fn read(keys: &mut Keys<'_>, has: Tensors<'_>) -> Result<Config, Error> {
        let block_count = keys.size("block_count", "the number of layers")?;
        let first = |block: usize| format!("blk.{block}.attn_norm.weight");
        if let Some(block) = (0..block_count).find(|&block| !has(&first(block))) {
            let expected = format!("at most {block}, as there is no tensor `{}`", first(block));
            return Err(keys.bad("block_count", block_count, expected));
        }
        Ok(Config {
            architecture: keys.architecture(),
            context_length: keys.size("context_length", "the positions the model was trained on")?,
            embedding_length: keys.size("embedding_length", "the width of the residual stream")?,
            block_count,
            vocab_size: keys.vocab_size()?,
            hyper_parameters: Vec::new(),
        })
    }
}
