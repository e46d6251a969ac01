//! The tokenizer of a folder as the Python package `transformers` loads it: `tokenizer.json`, or the files of older
//! checkpoints, and the added tokens of the other files.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use gguf::quoted;
use indexmap::IndexMap;
use serde_json::{Value, json};
use tokenizers::{AddedToken, Tokenizer};

use super::folder::{Added, Folder, TokenizerConfig, token_text};
use super::older;
use super::tokenizer_json::{Merges, TokenizerJson};
use super::vocabulary::MAX_TOKENS;
use crate::error::{Error, invalid};

/// Named special tokens, in the order of `transformers`.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Those of a tokenizer's class, if no file names them.
const DEFAULTS: [(&str, [&str; 7]); 4] = [
    ("LlamaTokenizer", ["<s>", "</s>", "<unk>", "", "", "", ""]),
    ("GemmaTokenizer", ["<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"]),
    ("BertTokenizer", ["", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"]),
    ("XLMRobertaTokenizer", ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"]),
];

pub(super) struct HfTokenizer {
    /// The file that errors name.
    pub(super) path: PathBuf,
    /// `tokenizer.json`, or what it would be.
    pub(super) json: TokenizerJson,
    has_json: bool,
    pub(super) config: TokenizerConfig,
    tokenizer: Tokenizer,
    /// Texts of the tokens with a role.
    special: Vec<String>,
    /// What the configuration puts around a text, where there is no `tokenizer.json`.
    around: (Option<u32>, Option<u32>),
}

impl HfTokenizer {
    pub(super) fn load(folder: &Folder) -> Result<HfTokenizer, Error> {
        const JSON: &str = "tokenizer.json";
        let config = folder.tokenizer_config()?;
        let bytes = folder.bytes(JSON)?;
        let has_json = bytes.is_some();
        let (name, bytes) = match bytes {
            Some(bytes) => (JSON, bytes),
            None => older::tokenizer_json(folder, &config)?,
        };
        let path = folder.path(name);
        let json: TokenizerJson = folder.parse(name, &bytes)?;
        json.check(&path)?;
        let tokenizer = guarded(&path, || Tokenizer::from_bytes(&bytes))?;
        let mut this = HfTokenizer {
            path,
            json,
            has_json,
            config,
            tokenizer,
            special: Vec::new(),
            around: (None, None),
        };
        this.add_tokens(folder)?;
        // Only what encodes one text matters.
        this.tokenizer.with_padding(None);
        let _ = this.tokenizer.with_truncation(None);
        Ok(this)
    }

    /// Adds the tokens that other files than `tokenizer.json` list, and special tokens that are none yet.
    fn add_tokens(&mut self, folder: &Folder) -> Result<(), Error> {
        let mut entries = self.config.entries.clone();
        let mut listed: BTreeMap<u32, Added> = BTreeMap::new();
        if self.config.added_tokens_decoder.is_some() {
            listed.extend(self.config.added(folder)?.into_iter().map(|(id, added)| (id, added.clone())));
        } else {
            let map: IndexMap<String, Value> = folder.json("special_tokens_map.json")?.unwrap_or_default();
            entries.extend(map);
            let special = special_texts(&entries, self.config.class());
            for (content, id) in folder.added_tokens()? {
                let special = Some(special.iter().any(|(text, _)| *text == content));
                listed.insert(id, Added { content, special, ..Added::default() });
            }
        }
        for (&id, added) in &listed {
            if id as usize >= MAX_TOKENS {
                let place = format!("the id of the added token {}", quoted(&added.content));
                return Err(invalid(folder.0, place, id, format!("an id below {MAX_TOKENS}")));
            }
        }
        self.add(listed.into_values().map(Added::into))?;
        let special = special_texts(&entries, self.config.class());
        let known = self.tokenizer.get_added_tokens_decoder();
        let known: HashSet<&str> = known.values().map(|added| added.content.as_str()).collect();
        let missing = special.iter().filter(|(text, _)| !known.contains(text.as_str()));
        let missing: Vec<AddedToken> = missing.map(|(_, added)| added.clone()).collect();
        self.add(missing)?;
        self.special = special.into_iter().map(|(text, _)| text).collect();
        if !self.has_json {
            let around = |role: &str| {
                let adds = entries.get(&format!("add_{role}_token")) == Some(&Value::Bool(true));
                entries
                    .get(&format!("{role}_token"))
                    .filter(|_| adds)
                    .and_then(token_text)
                    .and_then(|text| self.tokenizer.token_to_id(text))
            };
            self.around = (around("bos"), around("eos"));
        }
        Ok(())
    }

    fn add(&mut self, tokens: impl IntoIterator<Item = AddedToken>) -> Result<(), Error> {
        guarded(&self.path, || self.tokenizer.add_tokens(tokens)).map(drop)
    }

    pub(super) fn file(&self) -> Option<&TokenizerJson> {
        Some(&self.json).filter(|_| self.has_json)
    }

    /// The merges, of `tokenizer.json` if it has some.
    pub(super) fn merges(&mut self, folder: &Folder) -> Result<Vec<String>, Error> {
        let Merges(merges) = std::mem::take(&mut self.json.model.merges);
        if merges.is_empty() { older::merges(folder) } else { Ok(merges) }
    }

    /// Texts by id, with those of added tokens.
    pub(super) fn texts(&self) -> BTreeMap<u32, String> {
        self.tokenizer.get_vocab(true).into_iter().map(|(text, id)| (id, text)).collect()
    }

    /// Number of tokens without those that were added.
    pub(super) fn base_size(&self) -> usize {
        self.tokenizer.get_vocab_size(false)
    }

    pub(super) fn added(&self) -> BTreeMap<u32, AddedToken> {
        self.tokenizer.get_added_tokens_decoder().into_iter().collect()
    }

    pub(super) fn has_role(&self, text: &str) -> bool {
        self.special.iter().any(|special| special == text)
    }

    pub(super) fn added_id(&self, text: &str) -> Option<u32> {
        self.tokenizer.get_added_vocabulary().get_vocab().get(text).copied()
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = guarded(&self.path, || self.tokenizer.encode(text, true))?;
        Ok(self.around.0.into_iter().chain(encoding.get_ids().iter().copied()).chain(self.around.1).collect())
    }

    /// What the ids of `text` spell.
    pub(super) fn respell(&self, text: &str) -> Result<String, Error> {
        guarded(&self.path, || {
            let encoding = self.tokenizer.encode(text, false)?;
            self.tokenizer.decode(encoding.get_ids(), false)
        })
    }
}

/// What `call` of the library returns; it panics on some damaged files.
fn guarded<T>(path: &Path, call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|why| Error::invalid(path, why.to_string())),
        Err(_) => Err(Error::invalid(path, "the library `tokenizers` failed; the file is damaged")),
    }
}

/// The special tokens in `entries`, named ones first, else those of the class.
fn special_texts(entries: &IndexMap<String, Value>, class: Option<&str>) -> Vec<(String, AddedToken)> {
    let defaults = DEFAULTS.into_iter().find(|(name, _)| Some(*name) == class);
    let defaults = defaults.map(|(_, tokens)| tokens).unwrap_or_default();
    let mut special: IndexMap<String, AddedToken> = IndexMap::new();
    let mut push = |entry: &Value| {
        if let Some(text) = token_text(entry).filter(|text| !text.is_empty()) {
            let flag = |name: &str| entry.get(name) == Some(&Value::Bool(true));
            let token = AddedToken::from(text, true)
                .lstrip(flag("lstrip"))
                .rstrip(flag("rstrip"))
                .single_word(flag("single_word"));
            special.entry(text.to_owned()).or_insert(token.normalized(flag("normalized")));
        }
    };
    for (name, default) in NAMED.into_iter().zip(defaults) {
        push(entries.get(name).unwrap_or(&default.into()));
    }
    for (name, entry) in entries {
        if name.ends_with("_token") && !NAMED.contains(&name.as_str()) && entry.is_string() {
            push(entry);
        }
    }
    let none = [Value::Null, json!([]), json!({})];
    let extra = entries.get("extra_special_tokens").filter(|extra| !none.contains(extra));
    match extra.or_else(|| entries.get("additional_special_tokens")) {
        Some(Value::Array(tokens)) => tokens.iter().for_each(&mut push),
        Some(Value::Object(tokens)) => tokens.values().for_each(push),
        _ => {}
    }
    special.into_iter().collect()
}
