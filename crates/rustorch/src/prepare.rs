//! From a request to what the engine computes: the prompt, the constraint of the answers, and their parsers.

use std::sync::Arc;
use std::time::Duration;

use chat::{AnswerParser, Calls, Choice, Message, Options, Prompt, Template};
use engine::Processor;
use engine::tokenizer::Encode;
use grammar::{Compiler, Source};
use serde_json::{Map, Value as Json, json};

use crate::driver::{Demand, Watch};
use crate::error::{Error, Field, Result};
use crate::loaded::Loaded;
use crate::request::{Conversation, Ending, Input, PromptPiece, Request, TemplateUse};
use crate::stream::Stream;

/// The longest that a conversation may take to render.
const TEMPLATE_TIME: Duration = Duration::from_secs(1);

/// Text is never read as special tokens.
const TEXT: Encode = Encode { add_special: false, parse_special: false };

/// A request whose prompt is rendered and encoded.
#[derive(Debug)]
#[must_use = "it is submitted by `submit`"]
pub struct Prepared {
    loaded: Arc<Loaded>,
    request: engine::Request,
    watch: Watch,
    prompt: Option<Prompt>,
    constraint: Option<Constraint>,
    calls: Calls,
    is_eager: bool,
}

/// What an answer must be, before it is compiled.
#[derive(Debug)]
enum Constraint {
    /// The content, which follows reasoning unless the answer has begun.
    Content { field: Field, source: Source, follows_reasoning: bool },
    /// Tool calls among other text.
    Calls { is_parallel: bool, strict: Vec<String> },
}

impl Loaded {
    /// Renders and encodes the prompt of a request. May take a second.
    pub(crate) fn prepare(self: &Arc<Loaded>, request: Request) -> Result<Prepared> {
        let Request { input, params, format, mut processors, tenant, prompt_logprobs, progress, is_eager } =
            request;
        self.model().prepare(&params);
        let mut calls = Calls::Whole;
        let (tokens, rendered, constraint) = match input {
            Input::Messages(conversation) => {
                calls = conversation.calls;
                self.render_and_encode(*conversation, format)?
            }
            Input::Prompt(pieces) => {
                self.check_bytes(text_bytes(&pieces))?;
                (self.encode(pieces), None, format.map(Constraint::whole))
            }
        };
        if let Some(prompt) = &rendered {
            let preamble = prompt.preamble();
            processors.iter_mut().for_each(|processor| processor.expect(&preamble));
        }
        let request = engine::Request {
            params,
            tenant,
            processors,
            turn_end: rendered.as_ref().and_then(Prompt::turn_end).cloned(),
            ..engine::Request::new(tokens)
        };
        let watch = Watch { prompt_logprobs, progress };
        Ok(Prepared { loaded: self.clone(), request, watch, prompt: rendered, constraint, calls, is_eager })
    }

    /// The prompt of a conversation as the template writes it, with the answer that has begun.
    pub(crate) fn prompt_text(&self, mut conversation: Conversation) -> Result<String> {
        self.check_bytes(conversation.bytes())?;
        let (prompt, begun) = conversation.render(self.template()?)?;
        Ok(prompt.to_string() + &begun)
    }

    /// Number of tokens of a conversation's prompt, even if they do not fit the context.
    pub(crate) fn count_tokens(&self, mut conversation: Conversation) -> Result<usize> {
        let (prompt, begun) = conversation.render(self.template()?)?;
        // Fails with tools that the model cannot be given.
        constraint(&prompt, &conversation, None, false)?;
        Ok(self.encode_prompt(&prompt, &begun).len())
    }

    /// The tokens of a conversation's prompt, the prompt if a template wrote it, and what the answer must be.
    fn render_and_encode(
        &self,
        mut conversation: Conversation,
        format: Option<Source>,
    ) -> Result<(Vec<u32>, Option<Prompt>, Option<Constraint>)> {
        self.check_bytes(conversation.bytes())?;
        let is_raw = match conversation.template {
            TemplateUse::Required => false,
            TemplateUse::IfUsable => self.model().template().is_err(),
            TemplateUse::Never => true,
        };
        if is_raw {
            let text = plain_text(&conversation.messages);
            return Ok((self.model().encode_prompt(&text, false), None, format.map(Constraint::whole)));
        }
        let has_begun = conversation.continues_answer();
        let (prompt, begun) = conversation.render(self.template()?)?;
        self.check_bytes(prompt.len() + begun.len())?;
        let constraint = constraint(&prompt, &conversation, format, has_begun)?;
        Ok((self.encode_prompt(&prompt, &begun), Some(prompt), constraint))
    }

    pub(crate) fn template(&self) -> Result<&Template> {
        self.model().template().map_err(|why| engine::Error::NoTemplate { why: why.to_string() }.into())
    }

    fn encode_prompt(&self, prompt: &Prompt, begun: &str) -> Vec<u32> {
        let mut tokens = self.model().encode_rendered(prompt);
        tokens.extend(self.model().tokenizer().encode(begun, TEXT));
        tokens
    }

    fn encode(&self, pieces: Vec<PromptPiece>) -> Vec<u32> {
        let model = self.model();
        let mut tokens = Vec::new();
        for (index, piece) in pieces.into_iter().enumerate() {
            match piece {
                PromptPiece::Text { text, parse_special } if index == 0 => {
                    tokens = model.encode_prompt(&text, parse_special);
                }
                PromptPiece::Text { text, parse_special } => {
                    tokens.extend(model.tokenizer().encode(&text, Encode { parse_special, ..TEXT }));
                }
                PromptPiece::Tokens(more) => tokens.extend(more),
            }
        }
        tokens
    }
}

fn text_bytes(pieces: &[PromptPiece]) -> usize {
    let bytes = |piece: &PromptPiece| match piece {
        PromptPiece::Text { text, .. } => text.len(),
        PromptPiece::Tokens(_) => 0,
    };
    pieces.iter().map(bytes).sum()
}

/// Messages without a template: an answer right after the user's message, the next message on a new line.
fn plain_text(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        if message.role != "assistant" && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&message.text());
    }
    text
}

/// Whether `last`, the last message, is an answer that can be continued.
fn is_unfinished(last: &Message) -> bool {
    last.role == "assistant" && last.tool_calls.is_empty()
}

impl Conversation {
    /// Whether the answer continues the last message.
    pub fn continues_answer(&self) -> bool {
        self.ending == Ending::Continued && self.messages.last().is_some_and(is_unfinished)
    }

    fn options(&mut self) -> Options {
        Options {
            tools: if self.tool_choice.is_some() { std::mem::take(&mut self.tools) } else { Vec::new() },
            variables: std::mem::take(&mut self.variables),
            time: TEMPLATE_TIME,
            add_generation_prompt: self.ending != Ending::Nothing,
            ..Options::default()
        }
    }

    /// Renders the messages, tools and variables, which it takes. Returns the prompt, and the answer that has begun. Fails if there
    /// are no messages, or the template rejects them.
    pub fn render(&mut self, template: &Template) -> Result<(Prompt, String)> {
        let (mut messages, mut options) = (std::mem::take(&mut self.messages), self.options());
        let begun = messages.pop_if(|last| self.ending == Ending::Continued && is_unfinished(last));
        if messages.is_empty() {
            let message = if begun.is_some() {
                "the messages are only an answer; expected a question before it"
            } else {
                "there are no messages; expected at least one"
            };
            return Err(Error::invalid(Field::Messages, message));
        }
        if let Some(begun) = &begun {
            if begun.reasoning.as_ref().is_some_and(|text| !text.is_empty()) {
                let message = "the last message is an answer with reasoning, which cannot be continued; leave its reasoning out";
                return Err(Error::unsupported(Field::Messages, message));
            }
            // The text of the answer has begun: no reasoning follows.
            options.variables.extend(template.without_reasoning().unwrap_or_default());
        }
        let prompt = match template.render(&messages, &options) {
            Err(error @ chat::Error::Render { .. }) if complete_tools(&mut options.tools) => {
                template.render(&messages, &options).map_err(|_| error)
            }
            rendered => rendered,
        };
        let prompt = prompt.map_err(engine::Error::from)?;
        Ok((prompt, begun.map(|begun| begun.text().into_owned()).unwrap_or_default()))
    }
}

/// Adds to tools what clients may leave out, although some templates read it. Returns whether it added anything.
fn complete_tools(tools: &mut [Json]) -> bool {
    let mut is_changed = false;
    let mut add = |object: &mut Map<String, Json>, name: &str, value: Json| {
        if object.get(name).is_none_or(Json::is_null) {
            object.insert(name.to_owned(), value);
            is_changed = true;
        }
    };
    for tool in tools {
        let Some(function) = tool.get_mut("function").and_then(Json::as_object_mut) else { continue };
        add(function, "description", "".into());
        add(function, "parameters", json!({}));
        let Some(parameters) = function.get_mut("parameters").and_then(Json::as_object_mut) else { continue };
        add(parameters, "type", "object".into());
        add(parameters, "properties", json!({}));
    }
    is_changed
}

/// What the answer to `prompt` must be. An answer that has begun does not reason any more.
fn constraint(
    prompt: &Prompt,
    conversation: &Conversation,
    format: Option<Source>,
    has_begun: bool,
) -> Result<Option<Constraint>> {
    let Conversation { parallel_tool_calls: is_parallel, strict_tools: strict, .. } = conversation;
    let Some(choice) = &conversation.tool_choice else {
        let (field, follows_reasoning) = (Field::Format, !has_begun);
        return Ok(format.map(|source| Constraint::Content { field, source, follows_reasoning }));
    };
    let tools = prompt.tools().map_err(|error| match error {
        chat::Error::Tools(error) => Error::invalid(Field::Tools, error.to_string()),
        error => Error::unsupported(Field::Tools, error.to_string()),
    })?;
    let (field, reply) = match (choice, format) {
        (Choice::Auto, None) => {
            return Ok(Some(Constraint::Calls { is_parallel: *is_parallel, strict: strict.clone() }));
        }
        (Choice::Auto, Some(format)) => (Field::Format, Some(lark_reply(format)?)),
        // Calls have no content.
        _ => (Field::Tools, None),
    };
    let grammar = prompt.grammar(tools, choice, *is_parallel, reply.as_deref()).map_err(|error| {
        let is_grammar = matches!(error, chat::ToolsError::Grammar);
        Error::invalid(if is_grammar { Field::Tools } else { Field::ToolChoice }, error.to_string())
    })?;
    check_strict(&grammar, strict)?;
    let source = Source::Lark(grammar.lark);
    Ok(Some(Constraint::Content { field, source, follows_reasoning: false }))
}

/// The Lark expression of an answer that is no tool call.
fn lark_reply(format: Source) -> Result<String> {
    match format {
        Source::JsonObject => Ok("%json {\"type\": \"object\"}".to_owned()),
        Source::JsonSchema(schema) => Ok(format!("%json {schema}")),
        _ => Err(Error::unsupported(Field::Format, "with tools, an answer can have a JSON schema only")),
    }
}

/// Fails if the grammar leaves something of a strict tool open.
fn check_strict(grammar: &chat::Grammar, strict: &[String]) -> Result<()> {
    match grammar.unenforced.iter().find(|open| strict.contains(&open.tool)) {
        Some(open) => Err(Error::invalid(Field::Tools, open.to_string())),
        None => Ok(()),
    }
}

impl Constraint {
    /// The whole text is of this language.
    fn whole(source: Source) -> Constraint {
        Constraint::Content { field: Field::Format, source, follows_reasoning: false }
    }

    /// Compiles it. May take seconds.
    fn compile(self, compiler: &Compiler, prompt: Option<&Prompt>) -> Result<Option<Box<dyn Processor>>> {
        let constraint = match (self, prompt) {
            (Constraint::Content { field, source, follows_reasoning }, prompt) => {
                let grammar = compiler.compile(&source).map_err(|error| Error::grammar(field, error))?;
                let mut constraint = grammar.constraint();
                if let Some(prompt) = prompt.filter(|_| follows_reasoning) {
                    constraint.expect(&prompt.preamble());
                }
                constraint
            }
            (Constraint::Calls { is_parallel, strict }, Some(prompt)) => {
                compile_calls(compiler, prompt, is_parallel, &strict)?
            }
            // Only a template can give tools to a model.
            (Constraint::Calls { .. }, None) => return Ok(None),
        };
        Ok(Some(Box::new(constraint)))
    }
}

/// Why calls cannot be constrained.
enum Failure {
    /// A strict tool is left open.
    Strict(Error),
    /// The tools together are too much.
    TooMuch(Error),
    /// The schema of a tool may be to blame.
    Schema(Error),
}

impl Failure {
    fn error(self) -> Error {
        let (Failure::Strict(error) | Failure::TooMuch(error) | Failure::Schema(error)) = self;
        error
    }
}

/// The grammar of calls that are free to occur. The schema of a tool that cannot be enforced leaves its arguments open, unless the
/// tool is strict.
fn compile_calls(
    compiler: &Compiler,
    prompt: &Prompt,
    is_parallel: bool,
    strict: &[String],
) -> Result<grammar::Constraint> {
    let compile = |tools: &chat::Tools| {
        let grammar = prompt.grammar(tools, &Choice::Auto, is_parallel, None);
        let grammar =
            grammar.map_err(|error| Failure::TooMuch(Error::invalid(Field::Tools, error.to_string())))?;
        check_strict(&grammar, strict).map_err(Failure::Strict)?;
        grammar.unenforced.iter().for_each(|open| tracing::debug!("a tool's schema is not enforced: {open}"));
        let chat::Grammar { triggers, lark, .. } = grammar;
        let compiled = compiler.compile(&Source::Lark(lark));
        let gated = compiled
            .and_then(|compiled| compiled.at_triggers(&triggers, &prompt.preamble(), !is_parallel))
            .map_err(|error| match &error {
                grammar::Error::TooLong { .. } | grammar::Error::Deadline { .. } => {
                    Failure::TooMuch(Error::grammar(Field::Tools, error))
                }
                _ => Failure::Schema(Error::grammar(Field::Tools, error)),
            })?;
        Ok::<_, Failure>(gated.constraint())
    };
    let tools = prompt.tools().map_err(|error| Error::invalid(Field::Tools, error.to_string()))?;
    let may_open = |tool: &chat::Tool| !strict.contains(&tool.name);
    let failure = match compile(tools) {
        Err(failure) if tools.iter().any(may_open) => failure,
        done => return done.map_err(Failure::error),
    };
    let is_refused = |tool: &chat::Tool| match failure {
        Failure::Strict(_) => false,
        Failure::TooMuch(_) => true,
        Failure::Schema(_) => compiler.compile(&Source::JsonSchema(tool.parameters.to_string())).is_err(),
    };
    let open = compile(&tools.opened(|tool| may_open(tool) && is_refused(tool)));
    let open = open.or_else(|_| compile(&tools.opened(may_open))).map_err(Failure::error);
    tracing::debug!("schemas of tools are not enforced: {}", failure.error());
    open
}

impl Prepared {
    /// Tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.request.prompt
    }

    /// Whether the template moved system messages into other messages, because it does not write them where they were.
    pub fn merged_system(&self) -> bool {
        self.prompt.as_ref().is_some_and(Prompt::merged_system)
    }

    /// Submits the request. Compiles a grammar if the answer is constrained, which may take seconds.
    ///
    /// # Errors
    /// If the format or the tools cannot be enforced. The stream's first item is an error if a parameter is invalid, or the
    /// prompt does not fit the context.
    pub fn submit(self) -> Result<Stream> {
        let loaded = self.loaded.clone();
        loaded.submit(vec![self])
    }
}

impl Loaded {
    /// Submits requests that this model has prepared: all of them are accepted or none. Their answers are numbered one after the
    /// other.
    pub(crate) fn submit(&self, requests: Vec<Prepared>) -> Result<Stream> {
        let demand = Arc::new(Demand::new(requests.iter().any(|request| request.is_eager)));
        let (mut choices, mut parsers) = (Vec::new(), Vec::new());
        for Prepared { loaded, mut request, watch, prompt, constraint, calls, .. } in requests {
            if !std::ptr::eq(&*loaded, self) {
                return Err(Error::OtherModel);
            }
            if let Some(constraint) = constraint {
                let compiler = self.grammars()?;
                request.processors.splice(..0, constraint.compile(&compiler, prompt.as_ref())?);
            }
            // The engine refuses parameters out of range, and their number is one of them.
            let n = if request.params.check().is_ok() { request.params.n } else { 1 };
            for choice in 0..n {
                parsers.push(prompt.as_ref().map_or_else(AnswerParser::plain, |prompt| prompt.parser(calls)));
                choices.push((request_choice(&request, choice), watch));
            }
        }
        let driver = self.driver()?.clone();
        let updates = driver.submit(choices, demand.clone());
        Ok(Stream::new(driver, demand, updates, parsers))
    }
}

/// The request for answer number `choice`, counted from 0: seeds follow each other.
fn request_choice(request: &engine::Request, choice: usize) -> engine::Request {
    let mut request = request.clone();
    let next = |seed: u32| (u64::from(seed) + choice as u64) % u64::from(u32::MAX);
    request.params.seed = request.params.seed.map(|seed| u32::try_from(next(seed)).unwrap_or(0));
    request
}
