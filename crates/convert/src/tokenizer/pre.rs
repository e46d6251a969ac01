//! The name of a pre-tokenizer: by the hash of what it makes of llama.cpp's test text, else by its regular expressions.

use gguf::quoted;
use sha2::{Digest, Sha256};

use super::hf::HfTokenizer;
use super::tokenizer_json::{Normalizer, Pattern, PreTokenizer, TokenizerJson};
use crate::Error;
use crate::splits;

/// llama.cpp's test text (`get_vocab_base_pre`).
const TEXT: &str = "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\u{200d}🌫\u{fe0f} (multiple emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ------======= нещо на Български ''''''```````\"\"\"\"......!!!!!!?????? I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? We'Ve a'lL";

/// Hashes, names, and the models that they are of.
const HASHES: &str = include_str!("hashes.txt");

/// Other ways to write the splits of some pre-tokenizers.
const FORMS: &str = include_str!("forms.txt");

/// The pre-tokenizer of GPT-2, which `ByteLevel` has built in.
const GPT_2: &str = "gpt-2";

/// The value of `tokenizer.ggml.pre`; `stated` overrides what the tokenizer says.
pub(super) fn name(tokenizer: &HfTokenizer, stated: Option<&str>) -> Result<String, Error> {
    if let Some(name) = stated {
        let known = tokenizer::pre_tokenizer(name).map(|_| name.to_owned());
        return known.ok_or_else(|| Error::PreTokenizerName { name: name.to_owned() });
    }
    let hash = hash(&tokenizer.encode(TEXT)?);
    if let Some(name) = by_hash(&hash) {
        return Ok(name.to_owned());
    }
    let adds_first = !tokenizer.encode("")?.is_empty();
    let splits = Splits::of(&tokenizer.json, adds_first);
    let name = splits.and_then(|splits| splits.name().ok_or_else(|| splits.to_string()));
    name.map_err(|found| Error::PreTokenizer { path: tokenizer.path.clone(), found, hash })
}

/// The hash of ids, written as a list of Python.
fn hash(ids: &[u32]) -> String {
    let list: Vec<String> = ids.iter().map(u32::to_string).collect();
    let digest = Sha256::digest(format!("[{}]", list.join(", ")));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn by_hash(hash: &str) -> Option<&'static str> {
    let rows = HASHES.lines().filter(|line| !line.starts_with('#'));
    rows.map(str::split_whitespace)
        .find_map(|mut row| row.next().filter(|known| *known == hash).and_then(|_| row.next()))
}

#[derive(Default)]
struct Splits {
    /// Regular expressions, in the way that crates/tokenizer writes them if possible.
    patterns: Vec<String>,
    /// Tokens are written in characters, `▁` for spaces.
    characters: bool,
    ignores_merges: bool,
    adds_first: bool,
}

impl Splits {
    /// Fails with a part that no pre-tokenizer has.
    fn of(json: &TokenizerJson, adds_first: bool) -> Result<Splits, String> {
        let ignores_merges = json.model.ignore_merges.unwrap_or(false);
        let mut splits = Splits { ignores_merges, adds_first, ..Splits::default() };
        splits.characters = json.normalizer.as_ref().is_some_and(writes_spaces);
        if let Some(pre_tokenizer) = &json.pre_tokenizer {
            splits.push(pre_tokenizer)?;
        }
        Ok(splits)
    }

    fn push(&mut self, pre_tokenizer: &PreTokenizer) -> Result<(), String> {
        let behavior = pre_tokenizer.behavior.as_deref().unwrap_or("Isolated");
        match (pre_tokenizer.r#type.as_str(), &pre_tokenizer.pattern) {
            ("Sequence", _) => {
                return pre_tokenizer.pretokenizers.iter().try_for_each(|part| self.push(part));
            }
            ("ByteLevel", _) if pre_tokenizer.use_regex == Some(false) => {}
            ("ByteLevel", _) => {
                self.patterns.extend(tokenizer::pre_tokenizer(GPT_2).map(|row| row.patterns.concat()))
            }
            ("Digits", _) => {
                let pattern =
                    if pre_tokenizer.individual_digits == Some(true) { r"\p{N}" } else { r"\p{N}+" };
                self.patterns.push(pattern.to_owned());
            }
            ("Punctuation", _) if behavior == "Contiguous" => self.patterns.push("<punctuation>".to_owned()),
            // Of text in which `▁` stands for spaces, it splits nothing.
            ("Split", Some(Pattern::String(text))) if text == " " && self.characters => {}
            ("Split", Some(Pattern::Regex(pattern)))
                if matches!((behavior, pre_tokenizer.invert), ("Isolated", false) | ("Removed", true)) =>
            {
                self.patterns.push(pattern.clone());
            }
            (other, pattern) => {
                let pattern = pattern.as_ref().and_then(|pattern| serde_json::to_string(pattern).ok());
                let (other, pattern) = (quoted(other), pattern.unwrap_or_default());
                return Err(format!("`pre_tokenizer` has {other} {pattern} {behavior}"));
            }
        }
        Ok(())
    }

    /// The pre-tokenizer that splits in the same way.
    fn name(&self) -> Option<String> {
        let forms = FORMS.lines().filter(|line| !line.starts_with('#'));
        let form = forms
            .filter_map(|line| line.split_once('\t'))
            .find(|(_, patterns)| patterns.split('\t').eq(&self.patterns));
        let written: Vec<String> = self.patterns.iter().map(|pattern| splits::normal_form(pattern)).collect();
        let is_same = |row: &tokenizer::PreTokenizerRow| match form {
            Some((name, _)) => row.names().any(|other| other == name),
            None => {
                let known = row.patterns.iter().map(|pattern| splits::normal_form(pattern));
                let exported = row.patterns.iter().map(|pattern| splits::exported(pattern));
                row.characters && self.characters && written.is_empty()
                    || row.characters == self.characters
                        && (known.eq(written.iter().cloned()) || exported.eq(self.patterns.iter().cloned()))
            }
        };
        let rows = tokenizer::pre_tokenizer_rows().iter().filter(|row| is_same(row));
        let fits = |row: &&tokenizer::PreTokenizerRow| {
            2 * usize::from(row.whole_words == self.ignores_merges)
                + usize::from((row.bos != tokenizer::Bos::Stated) == self.adds_first)
        };
        // The first of the best.
        let best = rows.rev().max_by_key(fits)?;
        best.names().next().map(str::to_owned)
    }
}

impl std::fmt::Display for Splits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.patterns.is_empty() {
            return f.write_str("`pre_tokenizer` splits nothing");
        }
        write!(f, "`pre_tokenizer` splits by {}", self.patterns.join(", then "))
    }
}

/// Whether text is normalised to `▁` for spaces.
fn writes_spaces(normalizer: &Normalizer) -> bool {
    let is_replace = normalizer.r#type == "Replace" && normalizer.content.as_deref() == Some("▁");
    let of_space = matches!(&normalizer.pattern, Some(Pattern::String(text)) if text == " ");
    is_replace && of_space || normalizer.normalizers.iter().any(writes_spaces)
}
