//! Tokens with a role: beginning and end of text, end of turn, and those that end generation.
//!
//! A file names some of them by id. The others are known by their text, with the lists of llama.cpp's
//! `llama-vocab.cpp`; a token found by its text becomes a control token.

use std::collections::{BTreeMap, BTreeSet};

use gguf::{Metadata, WrongType};

use crate::vocab::{Kind, Pieces, Vocab};

/// Ids of the tokens that have a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Ids by role, named as in llama.cpp: `bos`, `eos`, `eot` (end of turn), `eom` (end of message), `unk`, `sep`,
    /// `pad`, `mask`, and for fill in the middle `fim_pre`, `fim_suf`, `fim_mid`, `fim_pad`, `fim_rep` and `fim_sep`.
    pub roles: BTreeMap<&'static str, u32>,
    /// Tokens that end generation.
    pub end_of_generation: BTreeSet<u32>,
    /// Tokens that the model must never generate, such as Gemma 4's ends of images.
    pub suppressed: BTreeSet<u32>,
}

const END_OF_TURN: &str = "<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> _<EOT> \
    [EOT] <｜end▁of▁sentence｜> <end_of_utterance>";
const END_OF_MESSAGE: &str = "<|eom_id|>";

/// Texts that end generation besides those of [`END_OF_TURN`] and [`END_OF_MESSAGE`].
const END_OF_GENERATION: &str =
    "<|return|> <|call|> <|flush|> <|calls|> </s> [EOS] <eos> <turn|> <|tool_response> [e~[";

/// Role, names in the keys `tokenizer.ggml.NAME_token_id`, and known texts.
const ROLES: [(&str, &str, &str); 14] = [
    ("bos", "bos", ""),
    ("eos", "eos", ""),
    ("eot", "eot", END_OF_TURN),
    ("eom", "eom", END_OF_MESSAGE),
    ("unk", "unknown", ""),
    ("sep", "seperator", ""),
    ("pad", "padding", ""),
    ("mask", "mask", ""),
    (
        "fim_pre",
        "prefix fim_pre",
        "<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|> <|prefix|>",
    ),
    (
        "fim_suf",
        "suffix fim_suf",
        "<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|> <|suffix|>",
    ),
    (
        "fim_mid",
        "middle fim_mid",
        "<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|> <|middle|>",
    ),
    ("fim_pad", "fim_pad", "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]"),
    ("fim_rep", "fim_rep", "<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>"),
    ("fim_sep", "fim_sep", "<|file_sep|>"),
];

/// Roles whose tokens end generation.
const ENDING: [&str; 6] = ["eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"];

impl SpecialIds {
    /// The token at the beginning of a text.
    pub fn bos(&self) -> Option<u32> {
        self.roles.get("bos").copied()
    }

    /// The token at the end of a text.
    pub fn eos(&self) -> Option<u32> {
        self.roles.get("eos").copied()
    }

    /// Reads the ids that the file names, with `defaults` for the others, and finds the remaining ones by their text,
    /// which makes them control tokens.
    pub(crate) fn new(
        defaults: &[(&'static str, u32)],
        metadata: &Metadata,
        vocab: &mut Vocab,
    ) -> Result<SpecialIds, WrongType> {
        let n_tokens = vocab.len();
        let mut by_text = Pieces::with_capacity(n_tokens);
        vocab.iter().for_each(|(id, text, _)| by_text.insert(text.as_bytes(), id));
        if by_text.len() < n_tokens {
            tracing::warn!(
                "{} of {n_tokens} tokens have the text of another; the last of each text is used",
                n_tokens - by_text.len(),
            );
        }
        let mut find = |text: &str| {
            let id = by_text.get(text.as_bytes())?;
            *vocab.kinds.get_mut(id as usize)? = Kind::Control;
            Some(id)
        };

        let mut ids = SpecialIds::default();
        for (role, names, known_texts) in ROLES {
            let default = defaults.iter().find(|(name, id)| *name == role && (*id as usize) < n_tokens);
            let mut id = default.map(|(_, id)| *id);
            for name in names.split(' ') {
                let key = format!("tokenizer.ggml.{name}_token_id");
                match metadata.u32(&key)? {
                    Some(named) if (named as usize) < n_tokens => id = Some(named),
                    Some(named) => tracing::warn!(
                        "`{key}` is {named}, outside the vocabulary of {n_tokens} tokens; it is ignored"
                    ),
                    None => {}
                }
            }
            let id = id.or_else(|| known_texts.split_terminator(' ').find_map(&mut find));
            ids.roles.extend(id.map(|id| (role, id)));
        }
        let known = [END_OF_TURN, END_OF_MESSAGE, END_OF_GENERATION];
        ids.end_of_generation =
            known.into_iter().flat_map(|texts| texts.split(' ')).filter_map(find).collect();
        ids.end_of_generation.extend(ENDING.iter().filter_map(|role| ids.roles.get(role)));
        let key = "tokenizer.ggml.suppress_tokens";
        for &id in metadata.i32s(key)?.unwrap_or_default() {
            match u32::try_from(id).ok().filter(|&id| (id as usize) < n_tokens) {
                Some(id) => drop(ids.suppressed.insert(id)),
                None => tracing::warn!(
                    "`{key}` has {id}, outside the vocabulary of {n_tokens} tokens; it is ignored"
                ),
            }
        }
        ids.leave_out(vocab);
        Ok(ids)
    }

    /// Removes texts that do not end generation beside certain others: `<|end|>` ends a message where another token ends
    /// the turn, and `</s>` is text where it is markup.
    fn leave_out(&mut self, vocab: &mut Vocab) {
        let id_of =
            |text: &str| self.end_of_generation.iter().copied().find(|&id| vocab.text(id) == Some(text));
        let has = |text: &str| id_of(text).is_some();
        let calls = has("<|call|>") || has("<|calls|>");
        let end = id_of("<|end|>").filter(|_| calls && (has("<|return|>") || has("<|flush|>")));
        let markup = id_of("</s>").filter(|_| has("<|tool_response>"));
        if let Some(id) = markup {
            vocab.kinds[id as usize] = Kind::Normal;
        }
        self.end_of_generation.retain(|&id| Some(id) != end && Some(id) != markup);
    }
}
