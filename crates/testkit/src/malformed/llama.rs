//! A tiny but complete Llama model whose parts can be removed or changed.

use super::raw::{Raw, Value, le};

/// Tokens of the base model: three special tokens, 256 bytes and five pieces.
pub(super) const VOCABULARY: u64 = 264;

/// Hidden size 8, 2 heads of 4, 1 KV head, FFN size 16, 2 blocks, all F32.
#[derive(Clone, Debug)]
pub(super) struct Llama {
    keys: Vec<(String, Value)>,
    tensors: Vec<(String, Vec<u64>)>,
}

impl Llama {
    pub(super) fn new() -> Llama {
        const NORMAL: i32 = 1;
        let model = Llama { keys: vec![], tensors: vec![] }
            .set("general.architecture", "llama")
            .set("llama.attention.layer_norm_rms_epsilon", 1e-5f32)
            .set("llama.rope.freq_base", 10000f32)
            .set("llama.block_count", 2u32)
            .set("llama.context_length", 64u32)
            .set("llama.embedding_length", 8u32)
            .set("llama.feed_forward_length", 16u32)
            .set("llama.attention.head_count", 2u32)
            .set("llama.attention.head_count_kv", 1u32)
            .set("llama.rope.dimension_count", 4u32)
            .pieces(["▁", "a", "b", "▁a", "ab"], NORMAL)
            .tensor("token_embd.weight", &[8, VOCABULARY]);
        let model = (0..2).fold(model, Llama::block);
        model.tensor("output_norm.weight", &[8]).tensor("output.weight", &[8, VOCABULARY])
    }

    /// The keys of a SentencePiece tokenizer with these pieces of one type, after the special tokens and bytes.
    fn pieces<'a>(self, pieces: impl IntoIterator<Item = &'a str>, kind: i32) -> Llama {
        const UNKNOWN: i32 = 2;
        const CONTROL: i32 = 3;
        const BYTE: i32 = 6;
        let bytes: Vec<String> = (0..=255u8).map(|byte| format!("<0x{byte:02X}>")).collect();
        let special = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)];
        let mut tokens: Vec<(&str, f32, i32)> = special.into();
        tokens.extend(bytes.iter().map(|byte| (&**byte, 0.0, BYTE)));
        tokens.extend(pieces.into_iter().zip(1..).map(|(text, rank)| (text, -rank as f32, kind)));
        self.set("tokenizer.ggml.model", "llama")
            .set("tokenizer.ggml.tokens", tokens.iter().map(|token| token.0).collect::<Vec<_>>())
            .set("tokenizer.ggml.scores", tokens.iter().map(|token| token.1).collect::<Vec<_>>())
            .set("tokenizer.ggml.token_type", tokens.iter().map(|token| token.2).collect::<Vec<_>>())
            .set("tokenizer.ggml.bos_token_id", 1u32)
            .set("tokenizer.ggml.eos_token_id", 2u32)
            .set("tokenizer.ggml.unknown_token_id", 0u32)
    }

    /// The model with `texts` as user-defined tokens instead of its pieces, and matching matrices.
    pub(super) fn user_defined(self, texts: &[String]) -> Llama {
        const USER_DEFINED: i32 = 4;
        let tokens = 3 + 256 + texts.len() as u64;
        let model = self.pieces(texts.iter().map(String::as_str), USER_DEFINED);
        model.tensor("token_embd.weight", &[8, tokens]).tensor("output.weight", &[8, tokens])
    }

    /// Adds tensors with a single value.
    pub(super) fn scalars(mut self, count: usize) -> Llama {
        self.tensors.extend((0..count).map(|i| (format!("t{i}"), vec![])));
        self
    }

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
        let add = |model: Llama, (name, dims)| model.tensor(&format!("blk.{block}.{name}.weight"), dims);
        shapes.into_iter().fold(self, add)
    }

    /// Sets a key; an existing key keeps its position.
    pub(super) fn set(mut self, key: &str, value: impl Into<Value>) -> Llama {
        match self.keys.iter_mut().find(|(name, _)| name == key) {
            Some((_, place)) => *place = value.into(),
            None => self.keys.push((key.to_owned(), value.into())),
        }
        self
    }

    pub(super) fn without(mut self, name: &str) -> Llama {
        let before = self.keys.len() + self.tensors.len();
        self.keys.retain(|(key, _)| key != name);
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
}

impl From<Llama> for Vec<u8> {
    /// The file: norms are 1, other weights small values of both signs.
    fn from(model: Llama) -> Vec<u8> {
        let keys = model.keys.into_iter();
        let mut file = keys.fold(Raw::new(), |file, (key, value)| file.key(&key, value));
        let mut data = vec![];
        for (name, dims) in &model.tensors {
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
