//! The source of a grammar.

use llguidance::api::TopLevelGrammar;
use sha2::{Digest, Sha256};

use crate::vocabulary::Vocabulary;
use crate::{Error, gbnf, lark, schema};

pub(crate) const MAX_BYTES: usize = 256 << 10;

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Any JSON object.
    JsonObject,
    /// JSON that this schema (draft 2020-12) accepts. Keys are in the schema's order.
    JsonSchema(String),
    /// A regular expression (of the crate `regex`), which matches the whole answer.
    Regex(String),
    /// A Lark grammar, in the dialect of llguidance; its rule `start` matches the answer.
    Lark(String),
    /// A GBNF grammar of llama.cpp; its rule `root` matches the answer.
    Gbnf(String),
}

/// A key of the cache: equal for equal sources.
pub(crate) type Hash = [u8; 32];

impl Source {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Source::JsonObject | Source::JsonSchema(_) => "JSON schema",
            Source::Regex(_) => "regular expression",
            Source::Lark(_) => "Lark grammar",
            Source::Gbnf(_) => "GBNF grammar",
        }
    }

    /// JSON that `schema` accepts, in which objects have only the properties that it names, as in llama.cpp and ollama.
    pub fn from_schema(schema: serde_json::Value) -> Source {
        Source::JsonSchema(schema::closed(schema).to_string())
    }

    fn text(&self) -> &str {
        match self {
            Source::JsonObject => "",
            Source::JsonSchema(text) | Source::Regex(text) | Source::Lark(text) | Source::Gbnf(text) => text,
        }
    }

    pub(crate) fn hash(&self) -> Result<Hash, Error> {
        let (what, text) = (self.name(), self.text());
        if text.len() > MAX_BYTES {
            return Err(Error::TooLong { what, found: text.len(), most: MAX_BYTES });
        }
        let kind = match self {
            Source::JsonObject => 0,
            Source::JsonSchema(_) => 1,
            Source::Regex(_) => 2,
            Source::Lark(_) => 3,
            Source::Gbnf(_) => 4,
        };
        Ok(Sha256::new().chain_update([kind]).chain_update(text).finalize().into())
    }

    pub(crate) fn grammar(&self, vocabulary: &Vocabulary) -> Result<TopLevelGrammar, Error> {
        Ok(match self {
            Source::JsonObject => TopLevelGrammar::from_json_schema(schema::any_object()),
            Source::JsonSchema(text) => TopLevelGrammar::from_json_schema(schema::read(text)?),
            Source::Regex(pattern) => {
                TopLevelGrammar::from_lark(lark::from_regex(pattern).map_err(Error::Regex)?)
            }
            Source::Lark(text) => TopLevelGrammar::from_lark(lark::check(text)?),
            Source::Gbnf(text) => TopLevelGrammar::from_lark(gbnf::to_lark(text, vocabulary)?),
        })
    }

    pub(crate) fn refused(&self, why: &str) -> Error {
        let mut why = why.to_owned();
        if why.contains("oneOf constraints") {
            why = "alternatives of `oneOf` that may hold at once are not enforced; use `anyOf`, or give every alternative a \
                   required property with another `const`"
                .to_owned();
            if let Source::JsonSchema(text) = self {
                why += &format!(" (there is `oneOf` at {})", schema::pointers_to("oneOf", text).join(", "));
            }
        }
        if why.contains("circular references with sibling keys") && self.text().contains("\"oneOf\"") {
            why += "; if a `oneOf` leads back to itself, each of its alternatives needs the property that tells it in `required`";
        }
        Error::Compile { what: self.name(), why }
    }
}
