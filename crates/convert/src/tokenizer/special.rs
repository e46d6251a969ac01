//! Special tokens by role, whether prompts begin and end with them, merges, and chat templates.
//!
//! Source: `SpecialVocab` of llama.cpp's `gguf-py`. Its order of precedence is kept where it looks accidental: files
//! converted by both must be the same.

use gguf::Metadata;
use indexmap::IndexMap;
use serde_json::Value;

use super::folder::{Folder, token_text};
use super::template;
use super::tokenizer_json::{Normalizer, Part, PostProcessor, TokenizerJson};
use crate::error::{Error, invalid};

/// Roles, and the names of their ids in the metadata; a GGUF file has no CLS.
const ROLES: [(&str, Option<&str>); 7] = [
    ("bos", Some("bos")),
    ("eos", Some("eos")),
    ("unk", Some("unknown")),
    ("sep", Some("seperator")),
    ("pad", Some("padding")),
    ("cls", None),
    ("mask", Some("mask")),
];

/// Roles that appear if a template ends with another token than EOS.
const ENDS: [&str; 2] = ["eot", "eom"];

#[derive(Debug, Default)]
pub(super) struct Special {
    pub(super) merges: Vec<String>,
    ids: IndexMap<&'static str, u32>,
    adds: IndexMap<&'static str, bool>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
    chat_templates: Vec<template::Named>,
}

impl Special {
    /// Reads the files of `folder`; ids from `size` on are ignored.
    pub(super) fn load(
        folder: &Folder,
        json: Option<&TokenizerJson>,
        size: Option<usize>,
    ) -> Result<Special, Error> {
        let config = folder.json::<IndexMap<String, Value>>("tokenizer_config.json")?;
        let mut roles: Vec<&'static str> = ROLES.iter().map(|(role, _)| *role).collect();
        let mut special = Special::default();
        let mut texts = Texts { config: config.filter(|config| !config.is_empty()), roles: &mut roles };
        if let Some(json) = json {
            json.normalizer.iter().for_each(|normalizer| special.normalizer(normalizer));
            texts.stand_in("bos", "cls");
            texts.stand_in("eos", "sep");
            let processor = json.post_processor.as_ref();
            let processors =
                processor.map(|one| one.processors.as_deref().unwrap_or(std::slice::from_ref(one)));
            for processor in processors.unwrap_or_default() {
                special.post_processor(processor, &mut texts);
            }
        }
        let config = texts.config;
        if let Some(config) = &config {
            special.chat_templates = template::read(folder, config.get("chat_template"))?;
            let added = json.map(|json| json.added_tokens.as_slice()).unwrap_or_default();
            for &role in &roles {
                if let Some(Value::Bool(adds)) = config.get(&format!("add_{role}_token")) {
                    // What the tokenizer does counts.
                    special.adds.entry(role).or_insert(*adds);
                }
                let text = config.get(&token(role)).and_then(token_text);
                if let Some(added) = added.iter().find(|added| Some(added.content.as_str()) == text) {
                    special.set_within(role, added.id, size);
                }
            }
        }
        let model: Value = folder.json("config.json")?.unwrap_or_default();
        for &role in &roles {
            let key = format!("{role}_token_id");
            let of = |config: &Value| config.get(&key).filter(|id| !id.is_null()).cloned();
            let Some(id) = of(&model).or_else(|| of(model.get("text_config")?)).filter(|id| id.is_i64())
            else {
                continue;
            };
            let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok()) else {
                let expected = "a token id, or null";
                return Err(invalid(&folder.path("config.json"), format!("`{key}`"), id, expected));
            };
            special.set_within(role, id, size);
        }
        Ok(special)
    }

    /// Names a token unless the files do.
    pub(super) fn set(&mut self, role: &'static str, id: u32) {
        self.ids.entry(role).or_insert(id);
    }

    fn set_within(&mut self, role: &'static str, id: u32, size: Option<usize>) {
        match size {
            Some(size) if id as usize >= size => {
                tracing::warn!(
                    "the {role} token {id} is outside the vocabulary of {size} tokens; it is ignored"
                );
            }
            _ => self.set(role, id),
        }
    }

    pub(super) fn write(self, metadata: &mut Metadata) {
        if !self.merges.is_empty() {
            metadata.insert("tokenizer.ggml.merges", self.merges);
        }
        for (role, id) in self.ids {
            let known = ROLES.iter().find(|(known, _)| *known == role);
            if let Some(name) = known.map_or(Some(role), |(_, name)| *name) {
                metadata.insert(format!("tokenizer.ggml.{name}_token_id"), id);
            }
        }
        for (role, adds) in self.adds {
            if matches!(role, "bos" | "eos" | "sep") {
                metadata.insert(format!("tokenizer.ggml.add_{role}_token"), adds);
            }
        }
        for (name, flag) in [("lowercase", self.lowercase), ("strip_accents", self.strip_accents)] {
            if let Some(flag) = flag {
                metadata.insert(format!("tokenizer.ggml.normalizer.{name}"), flag);
            }
        }
        template::write(self.chat_templates, metadata);
    }

    fn normalizer(&mut self, normalizer: &Normalizer) {
        match normalizer.r#type.as_str() {
            "Lowercase" => self.lowercase = Some(true),
            "StripAccents" => self.strip_accents = Some(true),
            "BertNormalizer" => {
                self.lowercase = normalizer.lowercase.or(self.lowercase);
                self.strip_accents = normalizer.strip_accents.or(self.strip_accents);
            }
            "Sequence" => normalizer.normalizers.iter().for_each(|part| self.normalizer(part)),
            _ => {}
        }
    }

    fn post_processor(&mut self, processor: &PostProcessor, texts: &mut Texts) {
        match processor.r#type.as_deref() {
            Some("ByteLevel") => {
                for role in ["bos", "eos"] {
                    self.adds.entry(role).or_insert(false);
                }
            }
            Some("RobertaProcessing") => {
                for role in ["bos", "eos", "sep"] {
                    self.adds.insert(role, true);
                }
                for (role, stated, other) in [("cls", &processor.cls, "bos"), ("sep", &processor.sep, "eos")]
                {
                    if !texts.has(role) {
                        let text = stated.as_ref().map(|(text, _)| Value::from(text.as_str()));
                        texts.set(role, text.or_else(|| texts.get(other)));
                    }
                }
            }
            Some("TemplateProcessing") => self.template(processor, texts),
            _ => {}
        }
    }

    /// What the template of a text and that of two texts begin and end with, and have between the texts.
    fn template(&mut self, processor: &PostProcessor, texts: &mut Texts) {
        let (mut first, mut last) = (None, None);
        if let [start, .., end] = processor.single.as_slice() {
            (first, last) = (start.token(), end.token());
        }
        if let Some(first) = first {
            if !texts.is("bos", first) && !texts.is("cls", first) {
                for role in ["bos", "cls"].into_iter().filter(|role| !texts.has(role)).collect::<Vec<_>>() {
                    texts.set(role, Some(first.into()));
                }
            }
            let adds = texts.config.is_none() || texts.is("bos", first) || texts.is("cls", first);
            self.adds.insert("bos", adds);
        }
        if let Some(last) = last {
            if texts.config.is_some() && !texts.is("eos", last) {
                texts.replace_eos(last);
            }
            self.adds.insert("eos", true);
        }
        let end_is_sep = |part: &Part, texts: &Texts| {
            let text = part.token();
            text.is_some_and(|text| match texts.config {
                Some(_) => texts.is("sep", text) || texts.is("eos", text),
                None => last == Some(text),
            })
        };
        let is =
            |part: Option<&Part>, token: Option<&str>| token.is_some() && part.and_then(Part::token) == token;
        let mut pair = processor.pair.as_slice();
        let (starts, ends) = (is(pair.first(), first), is(pair.last(), last));
        pair = pair.get(usize::from(starts)..).unwrap_or_default();
        pair = pair.get(..pair.len().saturating_sub(usize::from(ends))).unwrap_or_default();
        let [start, between @ .., end] = pair else { return };
        let Some(separator) = between.first().filter(|_| start.is_sequence("A") && end.is_sequence("B"))
        else {
            return;
        };
        let mut adds = end_is_sep(separator, texts) && last.is_none();
        if let [_, second] = between {
            adds |= end_is_sep(second, texts);
        }
        self.adds.insert("sep", adds);
        if adds && !texts.has("sep") {
            let eos = texts.get("eos");
            texts.set("sep", eos);
        }
    }
}

fn token(role: &str) -> String {
    format!("{role}_token")
}

/// The texts of special tokens in `tokenizer_config.json`, if it exists.
struct Texts<'a> {
    config: Option<IndexMap<String, Value>>,
    roles: &'a mut Vec<&'static str>,
}

impl Texts<'_> {
    fn get(&self, role: &str) -> Option<Value> {
        self.config.as_ref()?.get(&token(role)).cloned()
    }

    fn has(&self, role: &str) -> bool {
        self.get(role).is_some_and(|text| !matches!(text, Value::Null | Value::Bool(false)) && text != "")
    }

    /// Whether a role has this text; not if it is in an object.
    fn is(&self, role: &str, text: &str) -> bool {
        self.get(role).is_some_and(|found| found == text)
    }

    fn set(&mut self, role: &str, text: Option<Value>) {
        if let Some(config) = &mut self.config {
            config.insert(token(role), text.unwrap_or_default());
        }
    }

    fn stand_in(&mut self, role: &str, other: &str) {
        if !self.has(role) && self.has(other) {
            let text = self.get(other);
            self.set(role, text);
        }
    }

    /// Makes `last` EOS; the former one ends a turn or a message.
    fn replace_eos(&mut self, last: &str) {
        let free = ENDS.into_iter().find(|end| !self.roles.contains(end));
        if let Some(end) = free {
            self.roles.push(end);
            let former = self.get("eos");
            self.set(end, former);
        }
        self.set("eos", Some(last.into()));
    }
}
