//! Tokens with a task: beginning and end of text, end of a turn, and what ends generation.
//!
//! A file names some of them by id. The others are known by their text, with the lists of
//! llama.cpp's `llama-vocab.cpp`; a token found by its text is a control token whatever the file says.

use std::collections::BTreeSet;

use gguf::{Metadata, WrongType};

use crate::vocab::{Kind, Pieces, Vocab};

/// Ids of the tokens that have a task; `None` where a vocabulary has no such token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Beginning of text.
    pub bos: Option<u32>,
    /// End of text.
    pub eos: Option<u32>,
    /// End of turn.
    pub eot: Option<u32>,
    /// End of message: the turn goes on after a tool has answered.
    pub eom: Option<u32>,
    /// Unknown.
    pub unk: Option<u32>,
    /// Separator.
    pub sep: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
    /// Mask.
    pub mask: Option<u32>,
    /// Fill in the middle: what comes before.
    pub fim_pre: Option<u32>,
    /// Fill in the middle: what comes after.
    pub fim_suf: Option<u32>,
    /// Fill in the middle: what is to be filled in.
    pub fim_mid: Option<u32>,
    /// Fill in the middle: padding.
    pub fim_pad: Option<u32>,
    /// Fill in the middle: name of the repository.
    pub fim_rep: Option<u32>,
    /// Fill in the middle: next file.
    pub fim_sep: Option<u32>,
    /// Tokens after which nothing more is generated.
    pub end_of_generation: BTreeSet<u32>,
}

const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];
const END_OF_MESSAGE: &[&str] = &["<|eom_id|>"];
const FIM_PRE: &[&str] = &[
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
];
const FIM_SUF: &[&str] = &[
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
];
const FIM_MID: &[&str] = &[
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];
const FIM_PAD: &[&str] = &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"];
const FIM_REP: &[&str] = &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const FIM_SEP: &[&str] = &["<|file_sep|>"];

/// Texts that end generation besides those of [`END_OF_TURN`] and [`END_OF_MESSAGE`].
const END_OF_GENERATION: &[&str] = &[
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
];

impl SpecialIds {
    /// Reads the ids the file names, with `self` for those it does not, finds the others by their
    /// text, and makes what was found that way control tokens.
    pub(crate) fn complete(
        mut self,
        metadata: &Metadata,
        vocab: &mut Vocab,
    ) -> Result<SpecialIds, WrongType> {
        let n_tokens = vocab.len();
        let mut by_text = Pieces::with_capacity(n_tokens);
        vocab.iter().for_each(|(id, text, _)| by_text.insert(text.as_bytes(), id));
        if by_text.len() < n_tokens {
            tracing::warn!(
                "{} of {n_tokens} tokens repeat the text of another; the last of each text is used",
                n_tokens - by_text.len(),
            );
        }
        let mut find = |known_texts: &[&str]| {
            let id = known_texts.iter().find_map(|text| by_text.get(text.as_bytes()))?;
            *vocab.kinds.get_mut(id as usize)? = Kind::Control;
            Some(id)
        };

        let roles: [(&mut Option<u32>, &[&str], &[&str]); 14] = [
            (&mut self.bos, &["bos"], &[]),
            (&mut self.eos, &["eos"], &[]),
            (&mut self.eot, &["eot"], END_OF_TURN),
            (&mut self.eom, &["eom"], END_OF_MESSAGE),
            (&mut self.unk, &["unknown"], &[]),
            (&mut self.sep, &["seperator"], &[]),
            (&mut self.pad, &["padding"], &[]),
            (&mut self.mask, &["mask"], &[]),
            (&mut self.fim_pre, &["prefix", "fim_pre"], FIM_PRE),
            (&mut self.fim_suf, &["suffix", "fim_suf"], FIM_SUF),
            (&mut self.fim_mid, &["middle", "fim_mid"], FIM_MID),
            (&mut self.fim_pad, &["fim_pad"], FIM_PAD),
            (&mut self.fim_rep, &["fim_rep"], FIM_REP),
            (&mut self.fim_sep, &["fim_sep"], FIM_SEP),
        ];
        for (id, names, known_texts) in roles {
            *id = id.filter(|&id| (id as usize) < n_tokens);
            for name in names {
                let key = format!("tokenizer.ggml.{name}_token_id");
                match metadata.u32(&key)? {
                    Some(named) if (named as usize) < n_tokens => *id = Some(named),
                    Some(named) => tracing::warn!(
                        "`{key}` is {named}, outside the vocabulary of {n_tokens} tokens; it is ignored"
                    ),
                    None => {}
                }
            }
            if id.is_none() {
                *id = find(known_texts);
            }
        }

        self.end_of_generation = [END_OF_TURN, END_OF_MESSAGE, END_OF_GENERATION]
            .into_iter()
            .flatten()
            .filter_map(|&text| find(&[text]))
            .chain(
                [self.eos, self.eot, self.eom, self.fim_pad, self.fim_rep, self.fim_sep]
                    .into_iter()
                    .flatten(),
            )
            .collect();
        Ok(self)
    }
}
