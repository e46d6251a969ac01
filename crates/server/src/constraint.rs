//! The language of an answer, under the names that OpenAI, llama.cpp, vLLM, sglang and Hugging Face have for it. A field that would
//! constrain an answer holds, or is an error.

use grammar::Source;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::error::{ApiError, Kind};
use crate::fields::{Group, asks};

/// The language of an answer, if there is one.
pub(crate) type Format = Option<AnswerFormat>;

/// The language of an answer.
pub(crate) struct AnswerFormat {
    /// The field that asks for it.
    pub(crate) field: &'static str,
    pub(crate) source: Source,
    /// Whether what cannot be enforced of a schema is an error, instead of left open.
    pub(crate) is_strict: bool,
}

impl AnswerFormat {
    /// A format without the client's `strict`.
    pub(crate) fn new(field: &'static str, source: Source) -> AnswerFormat {
        AnswerFormat { field, source, is_strict: false }
    }
}

/// The fields of all protocols; one of them may be given.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Constraint {
    /// The language of the answer.
    response_format: Option<ResponseFormat>,
    /// vLLM's group of the fields below.
    #[serde(default)]
    structured_outputs: Structured,
    /// The answer is JSON with this schema, which may be a text.
    json_schema: Option<Json>,
    /// The same as `json_schema`.
    guided_json: Option<Json>,
    /// The answer is a JSON object.
    #[serde(default)]
    guided_json_object: bool,
    /// The answer matches this regular expression.
    regex: Option<String>,
    /// The same as `regex`.
    guided_regex: Option<String>,
    /// The answer is one of these texts.
    #[serde(default)]
    guided_choice: Vec<String>,
    /// The answer follows this grammar (GBNF).
    grammar: Option<String>,
    /// The same as `grammar`.
    ebnf: Option<String>,
    /// The answer follows this grammar: GBNF, or Lark.
    guided_grammar: Option<String>,
}

impl Group for Constraint {
    /// Names of other protocols, or of what no grammar here can do, or restricts tokens in another way.
    const REFUSED: &'static [&'static str] = &[
        "allowed_token_ids",
        "bad_words",
        "custom_logit_processor",
        "grammar_lazy",
        "logits_processors",
        "format",
        "output_format",
        "output_config",
        "text",
        "response_schema",
        "structural_tag",
        "guided_whitespace_pattern",
    ];
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Structured {
    json: Option<Json>,
    json_object: Option<bool>,
    regex: Option<String>,
    choice: Option<Vec<String>>,
    grammar: Option<String>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Json>,
}

/// `response_format`, and what other protocols call so.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ResponseFormat {
    #[serde(rename = "type")]
    kind: FormatKind,
    /// OpenAI's place of the schema in chat completions.
    json_schema: Option<NamedSchema>,
    /// The schema.
    schema: Option<Json>,
    /// OpenAI's mark in responses: a part of the schema that cannot be enforced is an error.
    strict: Option<bool>,
    /// The regular expression.
    #[serde(alias = "regex")]
    pattern: Option<String>,
    /// The grammar: GBNF, or Lark.
    grammar: Option<String>,
    /// Hugging Face's name of schema and regular expression.
    value: Option<Json>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FormatKind {
    Text,
    #[serde(alias = "json")]
    JsonObject,
    JsonSchema,
    Regex,
    Grammar,
}

#[derive(Deserialize, JsonSchema)]
struct NamedSchema {
    schema: Option<Json>,
    /// Whether a part of the schema that cannot be enforced is an error.
    strict: Option<bool>,
}

impl ResponseFormat {
    /// The format that the field `name` asks for.
    pub(crate) fn read(self, name: &'static str) -> Result<Format, ApiError> {
        let ResponseFormat { kind, json_schema, schema, strict, pattern, grammar, value } = self;
        let missing = |field: &str| ApiError::invalid(format!("{name}.{field}"), "is missing").at(name);
        let is_named = json_schema.is_some();
        let strict = strict.or(json_schema.as_ref().and_then(|named| named.strict));
        let source = match kind {
            FormatKind::Text => return Ok(None),
            FormatKind::JsonObject | FormatKind::JsonSchema => {
                let schema = schema.or(json_schema.and_then(|named| named.schema)).or(value);
                match (kind, schema) {
                    (_, Some(schema)) => json(name, schema)?,
                    (FormatKind::JsonObject, None) if !is_named => Source::JsonObject,
                    _ => return Err(missing("json_schema.schema")),
                }
            }
            FormatKind::Regex => {
                let value = value.as_ref().and_then(Json::as_str).map(str::to_owned);
                Source::Regex(pattern.or(value).ok_or_else(|| missing("pattern"))?)
            }
            FormatKind::Grammar => self::grammar(grammar.ok_or_else(|| missing("grammar"))?),
        };
        Ok(Some(AnswerFormat { field: name, source, is_strict: strict == Some(true) }))
    }
}

impl Constraint {
    /// The constraint `own` of a protocol, or this one. Fails if there are two.
    pub(crate) fn or(self, own: Format) -> Result<Format, ApiError> {
        let Structured { json, json_object, regex, choice, grammar, others } = self.structured_outputs;
        if let Some((name, _)) = others.iter().find(|(_, value)| asks(value)) {
            let why = "is not supported by this server; expected json, json_object, regex, choice or grammar";
            return Err(ApiError::unsupported(format!("structured_outputs.{name}"), why));
        }
        let response_format =
            self.response_format.map(|format| format.read("response_format")).transpose()?;
        let schema = |name, schema: Option<Json>| {
            schema.filter(|schema| schema != "").map(|schema| self::json(name, schema)).transpose()
        };
        let object = |is_asked: bool| is_asked.then_some(Source::JsonObject);
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        let all = [
            ("json_schema", schema("json_schema", self.json_schema)?),
            ("guided_json", schema("guided_json", self.guided_json)?),
            ("structured_outputs.json", schema("structured_outputs.json", json)?),
            ("guided_json_object", object(self.guided_json_object)),
            ("structured_outputs.json_object", object(json_object == Some(true))),
            ("grammar", said(self.grammar).map(Source::Gbnf)),
            ("ebnf", said(self.ebnf).map(Source::Gbnf)),
            ("guided_grammar", said(self.guided_grammar).map(self::grammar)),
            ("structured_outputs.grammar", said(grammar).map(self::grammar)),
            ("regex", said(self.regex).map(Source::Regex)),
            ("guided_regex", said(self.guided_regex).map(Source::Regex)),
            ("structured_outputs.regex", said(regex).map(Source::Regex)),
            ("guided_choice", one_of(&self.guided_choice)),
            ("structured_outputs.choice", one_of(&choice.unwrap_or_default())),
        ];
        let all = all.into_iter().filter_map(|(name, source)| Some(AnswerFormat::new(name, source?)));
        let mut all = own.into_iter().chain(response_format.flatten()).chain(all);
        match (all.next(), all.next()) {
            (Some(AnswerFormat { field: first, .. }), Some(AnswerFormat { field: second, .. })) => {
                let message = format!("both `{first}` and `{second}` are given; choose one");
                Err(ApiError::new(Kind::Invalid, message).at(second))
            }
            (found, _) => Ok(found),
        }
    }
}

/// JSON with this schema, which the field `name` may give as a text.
fn json(name: &'static str, schema: Json) -> Result<Source, ApiError> {
    let schema = match schema {
        Json::String(text) => serde_json::from_str(&text)
            .map_err(|error| ApiError::invalid(name, format!("is a text that is not valid JSON: {error}")))?,
        schema => schema,
    };
    Ok(Source::from_schema(schema))
}

/// One of these texts, if there are any.
fn one_of(texts: &[String]) -> Option<Source> {
    let escaped = |text: &String| {
        let escape = |letter: char| {
            let is_mark = letter.is_ascii_punctuation() && !"_/<>\"'`%@,;:=!".contains(letter);
            is_mark.then_some('\\').into_iter().chain([letter])
        };
        text.chars().flat_map(escape).collect::<String>()
    };
    let texts: Vec<String> = texts.iter().map(escaped).collect();
    (!texts.is_empty()).then(|| Source::Regex(format!("({})", texts.join("|"))))
}

/// vLLM tells the languages apart in the same way.
fn grammar(text: String) -> Source {
    if text.contains("::=") { Source::Gbnf(text) } else { Source::Lark(text) }
}
