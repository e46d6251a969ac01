//! The chat template of a file.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use minijinja::value::Serde;
use minijinja::{Environment, Value};
use serde_json::{Value as Json, json};

use crate::answer::{AnswerParser, Callable};
use crate::capabilities::{Capabilities, SAMPLE_TIME, reasoning_switch};
use crate::delta::Calls;
use crate::guard::{SpecialTokens, Strength};
use crate::history::{self, CallForm, Has};
use crate::limits::{MAX_TIME, RUN, Run};
use crate::message::{Content, Message};
use crate::parts::Preamble;
use crate::prompt::{self, Segment, TurnEnd};
use crate::shape::Shape;
use crate::tools::{Choice, GENERIC, Grammar, ToolFormat, Tools, ToolsError};
use crate::{Error, MAX_SOURCE_BYTES, MAX_WORK_BYTES, WORK_PER_BYTE, jinja, marks, system};

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
    /// Tools that the model may call: `{"type": "function", "function": {"name": …, …}}`.
    pub tools: Vec<Json>,
    /// More variables, such as `enable_thinking`. Their texts are guarded like messages.
    pub variables: serde_json::Map<String, Json>,
    /// How long the rendering may take, with all its attempts.
    pub time: Duration,
    /// Whether messages and tools may be written otherwise than the template does, which would leave out calls or tools, or reject
    /// the conversation.
    pub adapt: bool,
}

impl Default for Options {
    /// A generation prompt, the current time, a limit of ten seconds, and whatever adaptions are needed.
    fn default() -> Options {
        Options {
            add_generation_prompt: true,
            now: jiff::Zoned::now(),
            tools: Vec::new(),
            variables: serde_json::Map::new(),
            time: MAX_TIME,
            adapt: true,
        }
    }
}

#[derive(Debug)]
struct Source {
    environment: Environment<'static>,
    text: String,
    shape: OnceLock<Shape>,
    /// How it takes answers with calls, by what they [have](history::Has).
    call_forms: [OnceLock<CallForm>; Has::ALL],
    writes_results: OnceLock<bool>,
}

impl Source {
    fn new(text: &str) -> Result<Source, Error> {
        if text.len() > MAX_SOURCE_BYTES {
            return Err(Error::SourceTooLong { found: text.len() });
        }
        Ok(Source {
            environment: jinja::compile(text)?,
            text: text.to_owned(),
            shape: OnceLock::new(),
            call_forms: Default::default(),
            writes_results: OnceLock::new(),
        })
    }
}

/// A chat template. Copies share what is compiled and probed.
#[derive(Clone, Debug)]
pub struct Template(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    main: Source,
    /// The template for conversations with tools, if the file has one.
    tool_use: Option<Source>,
    bos: Option<String>,
    eos: Option<String>,
    special: SpecialTokens,
    capabilities: OnceLock<Capabilities>,
}

const KEY: &str = "tokenizer.chat_template";

impl Template {
    /// The template of a file, with its template for tools (`tokenizer.chat_template.tool_use`); `None` without one.
    pub fn from_metadata(metadata: &gguf::Metadata, specials: Specials) -> Result<Option<Template>, Error> {
        let tool_use = metadata.str(&format!("{KEY}.tool_use"))?;
        let Some(main) = metadata.str(KEY)?.or(tool_use) else { return Ok(None) };
        Template::compile(main, tool_use, specials).map(Some)
    }

    /// The file's template called `name`, such as `rag` (`tokenizer.chat_template.rag`); `None` without one.
    pub fn named(
        metadata: &gguf::Metadata,
        name: &str,
        specials: Specials,
    ) -> Result<Option<Template>, Error> {
        let source = metadata.str(&format!("{KEY}.{name}"))?;
        source.map(|source| Template::new(source, specials)).transpose()
    }

    /// Compiles `source`.
    pub fn new(source: &str, specials: Specials) -> Result<Template, Error> {
        Template::compile(source, None, specials)
    }

    fn compile(main: &str, tool_use: Option<&str>, specials: Specials) -> Result<Template, Error> {
        Ok(Template(Arc::new(Compiled {
            main: Source::new(main)?,
            tool_use: tool_use.map(Source::new).transpose()?,
            bos: specials.bos,
            eos: specials.eos,
            special: SpecialTokens::new(specials.tokens)?,
            capabilities: OnceLock::new(),
        })))
    }

    /// The template source.
    pub fn source(&self) -> &str {
        &self.0.main.text
    }

    /// Renders a conversation. Fails when the template rejects it or uses unsupported features, and beyond the limits.
    ///
    /// If the template rejects or drops system messages, the first ones become one, and later ones go into the message before
    /// them; if it knows none at all, that one is merged into the next user message, as in llama.cpp. Then messages of the user
    /// that follow each other are one, too. [`Prompt::merged_system`] says that a system message is in one of the user.
    ///
    /// Answers with calls get the form of which the template writes all calls: with their content in an answer of its own, with
    /// one call each, or as text. If the template rejects the conversation, messages of one role that follow each other are one;
    /// if it still does, calls without a result get one. Tools that the template does not write are in the system message.
    pub fn render(&self, messages: &[Message], options: &Options) -> Result<Prompt, Error> {
        let end = Instant::now() + options.time;
        let forms = if options.adapt { &history::FORMS[..] } else { &history::FORMS[..1] };
        let generic = options.adapt && !options.tools.is_empty() && self.capabilities().tools.is_none();
        let (messages, without) = if generic {
            let messages = history::with_tools_as_text(messages, &options.tools);
            (messages, &Options { tools: Vec::new(), ..options.clone() })
        } else if options.adapt {
            (self.with_calls_lowered(messages, options), options)
        } else {
            (messages.to_vec(), options)
        };
        let mut error = None;
        for form in forms {
            match self.render_system(&form(&messages), without, end) {
                Ok((segments, merged_system)) => {
                    let tools = Tools::read(&options.tools).map(Arc::new);
                    return Ok(Prompt { segments, merged_system, template: self.clone(), tools });
                }
                // What the template says about the conversation as it is.
                Err(why @ (Error::Raised { .. } | Error::Render { .. })) => error = error.or(Some(why)),
                Err(why) => return Err(error.unwrap_or(why)),
            }
        }
        Err(error.unwrap_or(Error::NoGuard))
    }

    /// `messages` with answers that call tools in the form that the template writes.
    fn with_calls_lowered(&self, messages: &[Message], options: &Options) -> Vec<Message> {
        let source = self.source_for(options);
        let samples = Options {
            add_generation_prompt: false,
            tools: options.tools.clone(),
            time: SAMPLE_TIME,
            ..Options::default()
        };
        let render = |sample: &[Message]| {
            let end = Instant::now() + SAMPLE_TIME;
            let render =
                |form: fn(&[Message]) -> Vec<Message>| self.render_exactly(&form(sample), &samples, end).ok();
            let segments = history::FORMS.into_iter().find_map(render)?;
            Some(prompt::text(&segments))
        };
        let form = |has: Has| *source.call_forms[has.index()].get_or_init(|| history::probe(has, render));
        history::lowered(messages, form, || {
            *source.writes_results.get_or_init(|| history::writes_results(render))
        })
    }

    /// Renders these messages, if need be with the system messages in others, which it returns.
    fn render_system(
        &self,
        messages: &[Message],
        options: &Options,
        end: Instant,
    ) -> Result<(Vec<Segment>, bool), Error> {
        let rendered = self.render_exactly(messages, options, end);
        let writes_system = |form: system::Form| {
            let render = |marked: &[Message]| self.render_exactly(&form(marked), options, end).ok();
            marks::are_written(messages, system::is_system, render)
        };
        let is_final = match &rendered {
            _ if !messages.iter().any(system::is_system) => true,
            Ok(_) => writes_system(<[Message]>::to_vec),
            Err(error) => !matches!(error, Error::Raised { .. } | Error::Render { .. }),
        };
        if is_final {
            return Ok((rendered?, false));
        }
        let mut error = rendered.err();
        let mut is_left_out = error.is_none();
        for form in system::FORMS {
            let formed = form(messages);
            match self.render_exactly(&formed, options, end) {
                Ok(segments) if writes_system(form) => {
                    return Ok((segments, system::are_moved(messages, &formed)));
                }
                Ok(_) => is_left_out = true,
                Err(why) => error = error.or(Some(why)),
            }
        }
        Err(error.filter(|_| !is_left_out).unwrap_or(Error::SystemLeftOut))
    }

    /// Renders just these messages, until `end`.
    fn render_exactly(
        &self,
        messages: &[Message],
        options: &Options,
        end: Instant,
    ) -> Result<Vec<Segment>, Error> {
        let source = self.source_for(options);
        let shape = self.shape(source, messages, options);
        if !messages.iter().any(has_parts) {
            return self.render_json(source, shape.json(messages, true), options, end);
        }
        // Templates that know no parts leave them out, fail or print them as Python does.
        let render =
            |marked: &[Message]| self.render_json(source, shape.json(marked, false), options, end).ok();
        let knows_parts = marks::are_written(messages, has_parts, render);
        self.render_json(source, shape.json(messages, !knows_parts), options, end)
    }

    fn source_for(&self, options: &Options) -> &Source {
        self.0.tool_use.as_ref().filter(|_| !options.tools.is_empty()).unwrap_or(&self.0.main)
    }

    /// The form of messages for `source`. Samples are rendered only if it could matter.
    fn shape(&self, source: &Source, messages: &[Message], options: &Options) -> Shape {
        let matters = |message: &Message| message.reasoning.is_some() || !message.tool_calls.is_empty();
        if !source.text.contains("type") && !messages.iter().any(matters) {
            return Shape::default();
        }
        let render = |messages| {
            let variables = [("messages", messages), ("add_generation_prompt", json!(false))];
            // The result is kept: it must not depend on the time of one caller.
            let end = Instant::now() + MAX_TIME / 20;
            let run = Run { now: options.now.clone(), bytes: MAX_WORK_BYTES as u64, end };
            let mut context: Vec<_> = variables.map(|(name, value)| (name, Value::from(Serde(value)))).into();
            context.push((RUN, Value::from_object(run)));
            self.render_text(source, context).ok()
        };
        source.shape.get_or_init(|| Shape::of(render)).clone()
    }

    fn render_json(
        &self,
        source: &Source,
        messages: Json,
        options: &Options,
        end: Instant,
    ) -> Result<Vec<Segment>, Error> {
        let mut variables =
            vec![("messages", messages), ("add_generation_prompt", json!(options.add_generation_prompt))];
        variables.extend((!options.tools.is_empty()).then(|| ("tools", json!(options.tools))));
        variables.extend(options.variables.iter().map(|(name, value)| (name.as_str(), value.clone())));

        let mut texts = Vec::new();
        for (_, value) in &variables {
            map_texts(value, &mut |text| {
                texts.push(text.to_owned());
                String::new()
            });
        }
        let guard = SpecialTokens::choose_guard(texts.iter().map(String::as_str).chain([&*source.text]))?;
        let input: usize = texts.iter().map(String::len).sum();
        let bytes = MAX_WORK_BYTES.saturating_add(input.saturating_mul(WORK_PER_BYTE)) as u64;
        let run = Value::from_object(Run { now: options.now.clone(), bytes, end });

        let guarded = |strength| -> Vec<Json> {
            let mut guarded = |text: &str| self.0.special.guard(text, guard, strength);
            variables.iter().map(|(_, value)| map_texts(value, &mut guarded)).collect()
        };
        let render = |values: &[Json]| {
            let names = variables.iter().map(|(name, _)| *name);
            let mut context: Vec<_> = names.zip(values.iter().map(Serde).map(Value::from)).collect();
            context.push((RUN, run.clone()));
            Ok::<_, Error>(self.0.special.split(&self.render_text(source, context)?, guard))
        };

        let tokens = guarded(Strength::Tokens);
        let segments = render(&tokens)?;
        let characters = guarded(Strength::Characters);
        if tokens == characters {
            return Ok(segments);
        }
        // A template that removes or joins parts of messages could assemble a special token from them.
        let strict = render(&characters)?;
        let same = token_ids(&segments).eq(token_ids(&strict));
        Ok(if same { segments } else { strict })
    }

    /// Renders with the variables of `context` and those that every template has.
    fn render_text(&self, source: &Source, context: Vec<(&str, Value)>) -> Result<String, Error> {
        let tokens = [("bos_token", &self.0.bos), ("eos_token", &self.0.eos)].into_iter();
        let tokens = tokens.filter_map(|(name, token)| Some((name, Value::from(token.as_deref()?))));
        let context: Vec<_> = tokens.chain(context).collect();
        // `transformers` passes `none` for no tools. Some templates loop over it, which Jinja allows only for undefined.
        let none = ["tools", "documents"].map(|name| (name, Value::from(())));
        match jinja::render(&source.environment, none.into_iter().chain(context.clone()).collect()) {
            Err(Error::Render { .. }) => jinja::render(&source.environment, context.into_iter().collect()),
            result => result,
        }
    }

    /// How the model writes tool calls: a [generic](ToolFormat::is_generic) format if the template writes no tools, or no known calls.
    pub fn tool_format(&self) -> ToolFormat {
        let Capabilities { tools, reasoning, .. } = *self.capabilities();
        ToolFormat { format: tools.unwrap_or(&GENERIC), reasoning, special: self.0.special.tokens.clone() }
    }

    /// Whether the template marks reasoning in answers.
    pub fn has_reasoning(&self) -> bool {
        self.capabilities().reasoning.is_some()
    }

    /// The variables that keep the model from reasoning; `None` if the template does not know them.
    pub fn without_reasoning(&self) -> Option<serde_json::Map<String, Json>> {
        self.capabilities().switches_reasoning.then(|| reasoning_switch(false))
    }

    /// The end of an answer: see [`Prompt::turn_end`].
    pub fn turn_end(&self) -> Option<&TurnEnd> {
        self.capabilities().turn_end.as_ref()
    }

    pub(crate) fn capabilities(&self) -> &Capabilities {
        self.0.capabilities.get_or_init(|| {
            let sources = [Some(&self.0.main), self.0.tool_use.as_ref()];
            let sources: Vec<&str> = sources.into_iter().flatten().map(|source| &*source.text).collect();
            Capabilities::probe(&sources, |messages, tools, variables, add_generation_prompt| {
                let options = Options { add_generation_prompt, tools, variables, ..Options::default() };
                let end = Instant::now() + SAMPLE_TIME;
                self.render_system(messages, &options, end).ok().map(|(segments, _)| segments)
            })
        })
    }
}

/// A rendered conversation, and how its answer is read. Only [`segments`](Prompt::segments) tell special tokens from such text.
#[derive(Clone, Debug)]
pub struct Prompt {
    segments: Vec<Segment>,
    merged_system: bool,
    template: Template,
    tools: Result<Arc<Tools>, ToolsError>,
}

impl Prompt {
    /// The pieces in order. No text is empty or follows another.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes of the template's output.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.text().len()).sum()
    }

    /// Whether the template's output is empty.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether system messages were merged into other messages, because the template does not write them where they were.
    pub fn merged_system(&self) -> bool {
        self.merged_system
    }

    /// The special token or the text that ends every answer in the template, besides the vocabulary's end-of-generation tokens.
    /// `None` if there is neither, or if the same ends reasoning.
    pub fn turn_end(&self) -> Option<&TurnEnd> {
        self.template.turn_end()
    }

    /// The tools that the answer may call. Fails if they are invalid.
    pub fn tools(&self) -> Result<&Arc<Tools>, Error> {
        self.tools.as_ref().map_err(|error| error.clone().into())
    }

    /// The marks before the content of an answer.
    pub fn preamble(&self) -> Preamble {
        let format = self.tool_format();
        format.map_or_else(
            || Preamble::new(self.template.capabilities().reasoning, None),
            |format| format.preamble(),
        )
    }

    /// Reads an answer. Where the model does not write arguments as JSON, calls are [whole](Calls::Whole).
    pub fn parser(&self, calls: Calls) -> AnswerParser {
        let format = self.tool_format();
        let callable = format.as_ref().zip(self.tools.as_ref().ok()).map(|(format, tools)| Callable {
            format: format.format,
            tools: tools.clone(),
            calls: if format.writes_json() { calls } else { Calls::Whole },
        });
        let reasoning = self.template.capabilities().reasoning;
        AnswerParser::new(reasoning, callable, &self.template.0.special.tokens, &self.to_string())
    }

    /// The same as [`ToolFormat::grammar`].
    pub fn grammar(
        &self,
        tools: &Tools,
        choice: &Choice,
        parallel: bool,
        reply: Option<&str>,
    ) -> Result<Grammar, ToolsError> {
        self.template.tool_format().grammar(self, tools, choice, parallel, reply)
    }

    /// The format of calls, if the answer may have some.
    pub fn tool_format(&self) -> Option<ToolFormat> {
        let has_tools = self.tools.as_ref().is_ok_and(|tools| !tools.is_empty());
        has_tools.then(|| self.template.tool_format())
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| f.write_str(segment.text()))
    }
}

fn has_parts(message: &Message) -> bool {
    matches!(message.content, Content::Parts(_))
}

fn token_ids(segments: &[Segment]) -> impl Iterator<Item = u32> {
    segments.iter().filter_map(Segment::token)
}

/// `value` with `map` applied to all texts.
fn map_texts(value: &Json, map: &mut impl FnMut(&str) -> String) -> Json {
    match value {
        Json::String(text) => map(text).into(),
        Json::Array(items) => items.iter().map(|item| map_texts(item, map)).collect(),
        Json::Object(entries) => entries.iter().map(|(key, item)| (map(key), map_texts(item, map))).collect(),
        other => other.clone(),
    }
}
