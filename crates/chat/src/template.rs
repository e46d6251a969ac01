//! The chat template of a file.

use minijinja::{Environment, Value};

use crate::guard::{SpecialTokens, Strength};
use crate::limits::{RUN, Run};
use crate::prompt::{Message, Prompt, Segment};
use crate::{Error, MAX_SOURCE_BYTES, MAX_WORK_BYTES, WORK_PER_BYTE, jinja, system};

/// Parts of the vocabulary that a template needs.
#[derive(Clone, Debug, Default)]
pub struct Specials {
    /// Text of the BOS token, the template's `bos_token`.
    pub bos: Option<String>,
    /// Text of the EOS token, the template's `eos_token`.
    pub eos: Option<String>,
    /// Ids and texts of tokens that only the template may produce, never a user.
    pub tokens: Vec<(u32, String)>,
}

/// Options of a rendering.
#[derive(Clone, Debug)]
pub struct Options {
    /// Append the prompt for an answer.
    pub add_generation_prompt: bool,
    /// The time that `strftime_now` formats.
    pub now: jiff::Zoned,
    /// More variables, such as `enable_thinking`. Their texts are guarded like messages.
    pub variables: serde_json::Map<String, serde_json::Value>,
}

impl Default for Options {
    /// With the prompt for an answer, and the current time.
    fn default() -> Options {
        Options { add_generation_prompt: true, now: jiff::Zoned::now(), variables: serde_json::Map::new() }
    }
}

/// What a template appends to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// A special token.
    Token(u32),
    /// Text.
    Text(String),
}

/// A chat template.
#[derive(Debug)]
pub struct Template {
    environment: Environment<'static>,
    source: String,
    bos: Option<String>,
    eos: Option<String>,
    special: SpecialTokens,
}

impl Template {
    /// The template of a file; `None` without one.
    pub fn from_metadata(metadata: &gguf::Metadata, specials: Specials) -> Result<Option<Template>, Error> {
        let source = metadata.str("tokenizer.chat_template")?;
        source.map(|source| Template::new(source, specials)).transpose()
    }

    /// Compiles `source`.
    pub fn new(source: &str, specials: Specials) -> Result<Template, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Error::SourceTooLong { found: source.len() });
        }
        Ok(Template {
            environment: jinja::compile(source)?,
            source: source.to_owned(),
            bos: specials.bos,
            eos: specials.eos,
            special: SpecialTokens::new(specials.tokens)?,
        })
    }

    /// The template source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation.
    ///
    /// If the template rejects or drops system messages, they are merged into user messages as in llama.cpp, and
    /// [`Prompt::merged_system`] is set.
    ///
    /// Fails when the template rejects the conversation or uses unsupported features, and when it exceeds
    /// [`MAX_STEPS`](crate::MAX_STEPS), [`MAX_WORK_BYTES`], ten seconds or
    /// [`MAX_OUTPUT_BYTES`](crate::MAX_OUTPUT_BYTES).
    pub fn render(&self, messages: &[Message], options: &Options) -> Result<Prompt, Error> {
        let prompt = self.render_exactly(messages, options);
        if !messages.iter().any(system::is_system) {
            return prompt;
        }
        let refused = match &prompt {
            Ok(_) => !self.writes_system(messages, options, <[Message]>::to_vec),
            Err(error) => matches!(error, Error::Raised { .. } | Error::Render { .. }),
        };
        if !refused {
            return prompt;
        }
        match (self.render_exactly(&system::merged(messages), options), prompt) {
            (Ok(_), Ok(_)) if !self.writes_system(messages, options, system::merged) => {
                Err(Error::SystemLeftOut)
            }
            (Ok(merged), _) => Ok(Prompt { merged_system: true, ..merged }),
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    }

    /// Whether system messages reach the prompt when `arrange` is applied to the messages.
    fn writes_system(
        &self,
        messages: &[Message],
        options: &Options,
        arrange: fn(&[Message]) -> Vec<Message>,
    ) -> bool {
        let marked = system::marked(messages);
        let prompt = self.render_exactly(&arrange(&marked), options);
        prompt.is_ok_and(|prompt| system::holds_marks(&prompt, &marked))
    }

    /// Renders just these messages.
    fn render_exactly(&self, messages: &[Message], options: &Options) -> Result<Prompt, Error> {
        let mut texts = vec![self.source.as_str()];
        texts.extend(messages.iter().flat_map(|message| [message.role.as_str(), message.content.as_str()]));
        options.variables.values().for_each(|value| collect_texts(value, &mut texts));
        let guard = SpecialTokens::choose_guard(texts.iter().copied())?;
        let input: usize = texts[1..].iter().map(|text| text.len()).sum();
        let bytes = MAX_WORK_BYTES.saturating_add(input.saturating_mul(WORK_PER_BYTE));
        let run = Value::from_object(Run { now: options.now.clone(), bytes: bytes as u64 });
        let render = |strength| {
            let guarded = |text: &str| self.special.guard(text, guard, strength);
            let mut context = self.context(messages, options, guarded);
            context.push((RUN.to_owned(), run.clone()));
            Ok::<_, Error>(self.special.split(&self.render_text(context)?, guard))
        };

        let segments = render(Strength::Tokens)?;
        let changes = |text: &&str| {
            self.special.guard(text, guard, Strength::Tokens)
                != self.special.guard(text, guard, Strength::Characters)
        };
        if !texts[1..].iter().any(changes) {
            return Ok(Prompt { segments, merged_system: false });
        }
        // A template that removes or joins parts of messages could assemble a special token from them.
        let strict = render(Strength::Characters)?;
        let same = token_ids(&segments).eq(token_ids(&strict));
        Ok(Prompt { segments: if same { segments } else { strict }, merged_system: false })
    }

    /// What the template appends to an answer, found by rendering samples: a special token, or text that follows
    /// every answer. `None` if there is neither.
    ///
    /// A hint for a stop condition, besides the vocabulary's end-of-generation tokens.
    pub fn turn_end(&self) -> Option<TurnEnd> {
        let (first, last) = ("Nineteen-Hedgehogs", "Twenty-Porcupines");
        let options = Options { add_generation_prompt: false, ..Options::default() };
        let render = |turns: &[(&str, &str)]| {
            let messages: Vec<_> = turns.iter().map(|&(role, content)| Message::new(role, content)).collect();
            self.render(&messages, &options).ok()
        };
        let at_end = after(&render(&[("user", "a"), ("assistant", last)])?, last)?;
        let text = match at_end.as_slice() {
            [Segment::Token { id, .. }, ..] => return Some(TurnEnd::Token(*id)),
            [Segment::Text(text), Segment::Token { id, .. }, ..] if text.trim().is_empty() => {
                return Some(TurnEnd::Token(*id));
            }
            [Segment::Text(text), ..] => text,
            [] => return None,
        };
        let turns = [("user", "a"), ("assistant", first), ("user", "b"), ("assistant", last)];
        let before_end = after(&render(&turns)?, first)?;
        let Some(Segment::Text(other)) = before_end.first() else { return None };
        let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c);
        let same = same.collect::<String>().trim().to_owned();
        if same.is_empty() { None } else { Some(TurnEnd::Text(same)) }
    }

    /// The variables of a template; `guarded` is applied to every text.
    fn context(
        &self,
        messages: &[Message],
        options: &Options,
        guarded: impl Fn(&str) -> String,
    ) -> Vec<(String, Value)> {
        let messages: Vec<Value> = messages
            .iter()
            .map(|Message { role, content }| {
                Value::from_pairs([("role", guarded(role)), ("content", guarded(content))])
            })
            .collect();
        let mut context = vec![
            ("messages".to_owned(), Value::from(messages)),
            ("add_generation_prompt".to_owned(), Value::from(options.add_generation_prompt)),
        ];
        for (name, token) in [("bos_token", &self.bos), ("eos_token", &self.eos)] {
            context.extend(token.as_ref().map(|token| (name.to_owned(), Value::from(token.as_str()))));
        }
        let variables = options.variables.iter();
        context.extend(variables.map(|(name, value)| (name.clone(), to_value(value, &guarded))));
        context
    }

    fn render_text(&self, context: Vec<(String, Value)>) -> Result<String, Error> {
        // `transformers` passes `none` for no tools. Some templates loop over it unconditionally, which Jinja allows
        // only for undefined.
        let none = ["tools", "documents"].map(|name| (name.to_owned(), Value::from(())));
        match self.render_with(none.into_iter().chain(context.clone())) {
            Err(Error::Render { .. }) => self.render_with(context.into_iter()),
            result => result,
        }
    }

    fn render_with(&self, context: impl Iterator<Item = (String, Value)>) -> Result<String, Error> {
        jinja::render(&self.environment, Value::from_pairs(context))
    }
}

fn token_ids(segments: &[Segment]) -> impl Iterator<Item = u32> {
    segments.iter().filter_map(|segment| match segment {
        Segment::Token { id, .. } => Some(*id),
        Segment::Text(_) => None,
    })
}

/// What follows `answer` in `prompt`.
fn after(prompt: &Prompt, answer: &str) -> Option<Vec<Segment>> {
    let (index, rest) = prompt.segments.iter().enumerate().find_map(|(index, segment)| match segment {
        Segment::Text(text) => text.split_once(answer).map(|(_, rest)| (index, rest)),
        Segment::Token { .. } => None,
    })?;
    let rest = (!rest.is_empty()).then(|| Segment::Text(rest.to_owned()));
    Some(rest.into_iter().chain(prompt.segments.iter().skip(index + 1).cloned()).collect())
}

/// Collects all texts in `value`.
fn collect_texts<'a>(value: &'a serde_json::Value, texts: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::String(text) => texts.push(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        serde_json::Value::Object(entries) => entries.iter().for_each(|(key, item)| {
            texts.push(key);
            collect_texts(item, texts);
        }),
        _ => {}
    }
}

/// Converts `value`, with `guarded` applied to all texts.
fn to_value(value: &serde_json::Value, guarded: &impl Fn(&str) -> String) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(guarded(text)),
        serde_json::Value::Array(items) => items.iter().map(|item| to_value(item, guarded)).collect(),
        serde_json::Value::Object(entries) => {
            Value::from_pairs(entries.iter().map(|(key, item)| (guarded(key), to_value(item, guarded))))
        }
    }
}
