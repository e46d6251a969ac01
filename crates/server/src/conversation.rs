//! From messages and tools, whatever the protocol, to a prompt, the constraint of the answer and its parser.

use std::sync::Arc;

use chat::{Calls, Choice, Content, Message, Options, Prompt, Template, ToolFormat, Tools, TurnEnd};
use engine::Processor;
use grammar::Source;
use serde_json::{Map, Value as Json};

use crate::answer::Parser;
use crate::error::ApiError;
use crate::models::Served;

/// A conversation, as a client sends it.
pub(crate) struct Conversation {
    messages: Vec<Message>,
    pub(crate) tools: ToolUse,
    /// Variables of the chat template.
    pub(crate) variables: Map<String, Json>,
    /// What the answer must be, and the field that asks for it.
    pub(crate) format: Option<(&'static str, Source)>,
}

/// The tools of a conversation.
pub(crate) struct ToolUse {
    /// In OpenAI's shape.
    pub(crate) tools: Vec<Json>,
    /// None if they must not be used.
    pub(crate) choice: Option<Choice>,
    /// Whether an answer may have several calls.
    pub(crate) is_parallel: bool,
}

impl Default for ToolUse {
    fn default() -> ToolUse {
        ToolUse { tools: Vec::new(), choice: None, is_parallel: true }
    }
}

/// What a conversation becomes.
pub(crate) struct Rendered {
    pub(crate) prompt: Vec<u32>,
    pub(crate) turn_end: Option<TurnEnd>,
    pub(crate) processors: Vec<Box<dyn Processor>>,
    parser: ParserOf,
}

/// What makes a parser for each choice.
enum ParserOf {
    Calls(Box<ToolFormat>, Prompt, Arc<Tools>),
    Reasoning(Prompt),
}

impl Conversation {
    /// A conversation of these messages, in OpenAI's shape, without tools. Fails if there are none, or if one is not text.
    pub(crate) fn new(mut messages: Vec<Message>) -> Result<Conversation, ApiError> {
        if messages.is_empty() {
            return Err(ApiError::invalid("messages", "`messages` is empty; expected at least one message"));
        }
        for (index, message) in messages.iter_mut().enumerate() {
            check_parts(index, message)?;
            if message.role == "developer" {
                message.role = "system".into();
            }
        }
        Ok(Conversation { messages, tools: ToolUse::default(), variables: Map::new(), format: None })
    }

    /// Bytes of the messages.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.text().len()).sum()
    }

    /// The prompt as text. Takes a while: not for the threads of the runtime.
    pub(crate) fn prompt(mut self, served: &Served) -> Result<String, ApiError> {
        let (prompt, begun, _) = self.written(template(served)?)?;
        Ok(prompt.to_string() + &begun)
    }

    /// The prompt, the answer that has begun, and the tools.
    fn written(&mut self, template: &Template) -> Result<(Prompt, String, Vec<Json>), ApiError> {
        let begun = self.messages.pop_if(|last| last.role == "assistant" && last.tool_calls.is_empty());
        if self.messages.is_empty() {
            return Err(ApiError::invalid(
                "messages",
                "the messages are only an answer; expected a question before it",
            ));
        }
        if self.format.is_some() {
            // The grammar is that of the whole answer, which must not begin with reasoning then.
            for (name, value) in template.without_reasoning().unwrap_or_default() {
                self.variables.entry(name).or_insert(value);
            }
        }
        let tools = match self.tools.choice {
            Some(_) => std::mem::take(&mut self.tools.tools),
            None => Vec::new(),
        };
        let options = Options { tools, variables: std::mem::take(&mut self.variables), ..Options::default() };
        let prompt = template.render(&self.messages, &options).map_err(|error| {
            ApiError::invalid("messages", format!("the model's chat template rejects the messages: {error}"))
        })?;
        Ok((prompt, begun.map(|begun| begun.text().into_owned()).unwrap_or_default(), options.tools))
    }

    /// The number of the prompt's tokens, even if they do not fit the context. Takes a while: not for the threads of the
    /// runtime.
    pub(crate) fn tokens(mut self, served: &Served) -> Result<usize, ApiError> {
        let template = template(served)?;
        let (ids, prompt, tools) = self.encoded(served, template)?;
        // Fails with tools that the model cannot be given.
        self.parser(template, prompt, &tools)?;
        Ok(ids.len())
    }

    /// The tokens of the prompt and of the answer that has begun, the prompt, and the tools.
    fn encoded(
        &mut self,
        served: &Served,
        template: &Template,
    ) -> Result<(Vec<u32>, Prompt, Vec<Json>), ApiError> {
        let (prompt, begun, tools) = self.written(template)?;
        let mut ids = served.model.encode_rendered(&prompt);
        let text = tokenizer::Encode { add_special: false, parse_special: false };
        ids.extend(served.model.tokenizer().encode(&begun, text));
        Ok((ids, prompt, tools))
    }

    /// Renders the conversation. Takes a while: not for the threads of the runtime.
    pub(crate) fn render(mut self, served: &Served) -> Result<Rendered, ApiError> {
        too_long_for(served, self.bytes())?;
        let template = template(served)?;
        let (ids, prompt, tools) = self.encoded(served, template)?;
        let (parser, calls) = self.parser(template, prompt, &tools)?;
        let processors = match calls.map(|lark| ("tools", Source::Lark(lark))).or(self.format) {
            None => Vec::new(),
            Some((param, source)) => {
                vec![Box::new(served.grammar(param, &source)?.constraint()) as Box<dyn Processor>]
            }
        };
        Ok(Rendered { prompt: ids, turn_end: template.turn_end(), processors, parser })
    }

    /// What reads the answers, and the grammar of demanded calls.
    fn parser(
        &self,
        template: &Template,
        prompt: Prompt,
        tools: &[Json],
    ) -> Result<(ParserOf, Option<String>), ApiError> {
        let Some(choice) = &self.tools.choice else { return Ok((ParserOf::Reasoning(prompt), None)) };
        let format =
            template.tool_format().map_err(|error| ApiError::unsupported("tools", error.to_string()))?;
        let tools = Tools::read(tools).map_err(|error| ApiError::invalid("tools", error.to_string()))?;
        let grammar = match choice {
            Choice::Auto => None,
            Choice::Required | Choice::Named(_) => {
                let grammar = format.grammar(&prompt, &tools, choice, self.tools.is_parallel);
                Some(grammar.map_err(|error| ApiError::invalid("tool_choice", error.to_string()))?.lark)
            }
        };
        Ok((ParserOf::Calls(Box::new(format), prompt, Arc::new(tools)), grammar))
    }
}

fn template(served: &Served) -> Result<&Template, ApiError> {
    served.model.template().map_err(|why| {
        ApiError::unsupported("messages", format!("this model cannot chat: {why}; use /v1/completions"))
    })
}

impl Rendered {
    /// A parser for each of `n` answers.
    pub(crate) fn parsers(&self, served: &Served, n: usize) -> Vec<Parser> {
        let template = served.model.template().ok();
        let parser = |_| match (&self.parser, template) {
            (ParserOf::Calls(format, prompt, tools), _) => {
                Parser::Calls(Box::new(format.parser(prompt, tools.clone(), Calls::Whole)))
            }
            (ParserOf::Reasoning(prompt), Some(template)) => {
                Parser::Reasoning(Box::new(template.splitter(prompt)))
            }
            (ParserOf::Reasoning(_), None) => Parser::Text,
        };
        (0..n).map(parser).collect()
    }
}

/// Fails if so many bytes cannot fit the context, before they are rendered and encoded.
pub(crate) fn too_long_for(served: &Served, bytes: usize) -> Result<(), ApiError> {
    let n_ctx = served.limits.n_ctx;
    let longest = served.model.tokenizer().longest_token().max(1);
    match bytes > n_ctx.saturating_mul(longest) {
        true => Err(ApiError::too_long(bytes.div_ceil(longest), n_ctx)),
        false => Ok(()),
    }
}

/// Fails if a part of a message is no text: nothing is fetched for a client, and the models read text.
fn check_parts(index: usize, message: &Message) -> Result<(), ApiError> {
    if let Content::Parts(parts) = &message.content
        && let Some((number, part)) = parts.iter().enumerate().find(|(_, part)| part.text().is_none())
    {
        let param = format!("messages[{index}].content[{number}]");
        let message = format!("`{param}` has the type `{}`; this server takes text only", part.kind);
        return Err(ApiError::unsupported(param, message));
    }
    Ok(())
}
