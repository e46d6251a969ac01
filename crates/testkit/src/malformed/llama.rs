//! A tiny but complete Llama model whose parts can be removed or changed.

use super::raw::{Raw, array, id, le, string};

/// Tokens of the base model: three special tokens, 256 bytes and five pieces.
pub(super) const VOCABULARY: u64 = 264;

/// Hidden size 8, 2 heads of 4, 1 KV head, FFN size 16, 2 blocks, all F32.
#[derive(Clone, Debug)]
pub(super) struct Llama {
    keys: Vec<(String, u32, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>)>,
}

impl Llama {
    pub(super) fn new() -> Llama {
        let u32_keys: [(&str, u32); 7] = [
            ("llama.block_count", 2),
            ("llama.context_length", 64),
            ("llama.embedding_length", 8),
            ("llama.feed_forward_length", 16),
            ("llama.attention.head_count", 2),
            ("llama.attention.head_count_kv", 1),
            ("llama.rope.dimension_count", 4),
        ];
        let mut model = Llama { keys: vec![], tensors: vec![] }
            .set("general.architecture", id::STRING, string("llama"))
            .set("llama.attention.layer_norm_rms_epsilon", id::F32, le(1e-5f32))
            .set("llama.rope.freq_base", id::F32, le(10000f32));
        for (key, value) in u32_keys {
            model = model.set(key, id::U32, le(value));
        }
        model = model.vocabulary();
        model = model.tensor("token_embd.weight", &[8, VOCABULARY]);
        for block in 0..2 {
            model = model.block(block);
        }
        model.tensor("output_norm.weight", &[8]).tensor("output.weight", &[8, VOCABULARY])
    }

    /// The keys of a SentencePiece tokenizer.
    fn vocabulary(self) -> Llama {
        const NORMAL: i32 = 1;
        self.pieces(&["▁", "a", "b", "▁a", "ab"].map(|text| (text.to_owned(), NORMAL)))
    }

    /// The keys of a SentencePiece tokenizer with these pieces and their types, after the special tokens and bytes.
    fn pieces(self, pieces: &[(String, i32)]) -> Llama {
        const UNKNOWN: i32 = 2;
        const CONTROL: i32 = 3;
        const BYTE: i32 = 6;
        let special = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)];
        let mut tokens: Vec<(String, f32, i32)> = vec![];
        tokens.extend(special.map(|(text, kind)| (text.to_owned(), 0.0, kind)));
        tokens.extend((0..=255u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, BYTE)));
        let ranks = (1..).map(|rank: u32| -(rank as f32));
        tokens.extend(pieces.iter().zip(ranks).map(|((text, kind), rank)| (text.clone(), rank, *kind)));
        let column = |id, pick: fn(&(String, f32, i32)) -> Vec<u8>| {
            array(id, &tokens.iter().map(pick).collect::<Vec<_>>())
        };
        self.set("tokenizer.ggml.model", id::STRING, string("llama"))
            .set("tokenizer.ggml.tokens", id::ARRAY, column(id::STRING, |(text, _, _)| string(text)))
            .set("tokenizer.ggml.scores", id::ARRAY, column(id::F32, |(_, score, _)| le(*score)))
            .set("tokenizer.ggml.token_type", id::ARRAY, column(id::I32, |(_, _, kind)| le(*kind)))
            .set("tokenizer.ggml.bos_token_id", id::U32, le(1u32))
            .set("tokenizer.ggml.eos_token_id", id::U32, le(2u32))
            .set("tokenizer.ggml.unknown_token_id", id::U32, le(0u32))
    }

    /// The model with `texts` as user-defined tokens instead of its pieces, and matching matrices.
    pub(super) fn user_defined(self, texts: impl IntoIterator<Item = String>) -> Llama {
        const USER_DEFINED: i32 = 4;
        let pieces: Vec<_> = texts.into_iter().map(|text| (text, USER_DEFINED)).collect();
        let tokens = 3 + 256 + pieces.len() as u64;
        let model = self.pieces(&pieces);
        model.tensor("token_embd.weight", &[8, tokens]).tensor("output.weight", &[8, tokens])
    }

    /// Adds tensors with a single value.
    pub(super) fn scalars(mut self, count: usize) -> Llama {
        self.tensors.extend((0..count).map(|i| (format!("t{i}"), vec![])));
        self
    }

    /// The tensors of a block.
    pub(super) fn block(self, block: u32) -> Llama {
        let shapes: [(&str, &[u64]); 9] = [
            ("attn_norm", &[8]),
            ("attn_q", &[8, 8]),
            ("attn_k", &[8, 4]),
            ("attn_v", &[8, 4]),
            ("attn_output", &[8, 8]),
            ("ffn_norm", &[8]),
            ("ffn_gate", &[8, 16]),
            ("ffn_up", &[8, 16]),
            ("ffn_down", &[16, 8]),
        ];
        shapes
            .into_iter()
            .fold(self, |model, (name, dims)| model.tensor(&format!("blk.{block}.{name}.weight"), dims))
    }

    /// Sets a key; an existing key keeps its position.
    pub(super) fn set(mut self, key: &str, id: u32, value: impl Into<Vec<u8>>) -> Llama {
        let entry = (key.to_owned(), id, value.into());
        match self.keys.iter_mut().find(|(name, _, _)| name == key) {
            Some(place) => *place = entry,
            None => self.keys.push(entry),
        }
        self
    }

    /// Removes a key or tensor.
    pub(super) fn without(mut self, name: &str) -> Llama {
        let before = self.keys.len() + self.tensors.len();
        self.keys.retain(|(key, _, _)| key != name);
        self.tensors.retain(|(tensor, _)| tensor != name);
        assert_eq!(self.keys.len() + self.tensors.len() + 1, before, "{name} is not in the base model");
        self
    }

    /// Adds a tensor, or changes its dimensions.
    pub(super) fn tensor(mut self, name: &str, dims: &[u64]) -> Llama {
        match self.tensors.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = dims.to_vec(),
            None => self.tensors.push((name.to_owned(), dims.to_vec())),
        }
        self
    }

    /// The file: norms are 1, other weights small values of both signs.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut file = Raw::new();
        for (key, id, value) in &self.keys {
            file = file.key(key, *id, value);
        }
        let mut data = vec![];
        for (name, dims) in &self.tensors {
            file = file.tensor(name, dims, 0, data.len() as u64);
            for i in 0..dims.iter().product() {
                let small = ((i * 37 + 11) % 64) as f32 / 128.0 - 0.25;
                data.extend(le(if name.contains("norm") { 1.0 } else { small }));
            }
            data.resize(data.len().next_multiple_of(file.alignment), 0);
        }
        file.data(data).bytes()
    }
}
