//! A vocabulary on its way to the metadata.

use gguf::Metadata;
pub(super) use tokenizer::Kind as TokenType;

/// Maximum number of tokens, the same as in `crates/tokenizer`.
pub(super) const MAX_TOKENS: usize = 1 << 20;

/// Texts, types and, unless it is BPE or WordPiece, scores of the tokens, by id.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub(super) texts: Vec<String>,
    pub(super) types: Vec<TokenType>,
    pub(super) scores: Option<Vec<f32>>,
}

impl Vocabulary {
    /// `size` unused tokens with names of llama.cpp's converter.
    pub(super) fn unused(size: usize) -> Vocabulary {
        Vocabulary {
            texts: (0..size).map(padding).collect(),
            types: vec![TokenType::Unused; size],
            scores: Some(vec![-10000.0; size]),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn push(&mut self, text: String, kind: TokenType) {
        self.texts.push(text);
        self.types.push(kind);
    }

    /// Replaces token `id`, which must be below the length.
    pub(super) fn set(&mut self, id: usize, text: String, kind: TokenType, score: f32) {
        self.texts[id] = text;
        self.types[id] = kind;
        if let Some(scores) = &mut self.scores {
            scores[id] = score;
        }
    }

    /// Moves all tokens by one; the last one is dropped.
    pub(super) fn rotate(&mut self) {
        self.texts.rotate_right(1);
        self.types.rotate_right(1);
        if let Some(scores) = &mut self.scores {
            scores.rotate_right(1);
        }
    }

    pub(super) fn write(self, model: &str, pre: Option<&str>, metadata: &mut Metadata) {
        metadata.insert("tokenizer.ggml.model", model);
        if let Some(pre) = pre {
            metadata.insert("tokenizer.ggml.pre", pre);
        }
        metadata.insert("tokenizer.ggml.tokens", self.texts);
        if let Some(scores) = self.scores {
            metadata.insert("tokenizer.ggml.scores", scores);
        }
        let types: Vec<i32> = self.types.into_iter().map(|kind| kind as i32).collect();
        metadata.insert("tokenizer.ggml.token_type", types);
    }
}

/// The text of a token that only makes the vocabulary as large as the model's.
pub(crate) fn padding(id: usize) -> String {
    format!("[PAD{id}]")
}

/// Whether an added token is a control token even if its file does not say so.
pub(super) fn looks_special(text: &str) -> bool {
    let between = |start, end| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || between("<|", "|>")
        || between("<｜", "｜>")
        || between("<unused", ">")
}
