//! What a model is asked for.

use chat::{Calls, Choice, Message};
use engine::{Params, Processor, Tenant};
use grammar::Source;
use serde_json::{Map, Value as Json};

/// A request: what to answer or continue, how tokens are chosen, and what the answer must be.
///
/// ```
/// # fn main() -> rustorch::Result<()> {
/// use rustorch::{Conversation, Message, Model, Params, Request};
///
/// let model = Model::demo()?;
/// let messages = vec![Message::new("user", "What is the capital of Italy?")];
/// let params = Params { temperature: 0.0, ..Params::default() };
/// for delta in model.submit(Request { params, ..Request::new(Conversation::new(messages)) })? {
///     print!("{}", delta?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// What to answer or continue.
    pub input: Input,
    /// How tokens are chosen, where answers end, and their number.
    pub params: Params,
    /// The language of the answer's content: JSON of a schema, or what a grammar accepts. With tools, an answer may be calls
    /// instead.
    pub format: Option<Source>,
    /// Whether parts of the format's schema that cannot be enforced are left open, and named by
    /// [`Stream::left_open`](crate::Stream::left_open), instead of an error.
    pub relaxes_format: bool,
    /// Logit processors. They run in this order, after the format's, before the samplers.
    pub processors: Vec<Box<dyn Processor>>,
    /// Who asks.
    pub tenant: Tenant,
    /// Report log-probabilities of the prompt's tokens, and of this many most likely tokens.
    pub prompt_logprobs: Option<usize>,
    /// Report progress of the prefill.
    pub progress: bool,
    /// Compute ahead of the reader, as a server does. By default a step runs when a reader waits.
    pub is_eager: bool,
}

impl Request {
    /// A request with default parameters.
    pub fn new(input: impl Into<Input>) -> Request {
        Request {
            input: input.into(),
            params: Params::default(),
            format: None,
            relaxes_format: false,
            processors: Vec::new(),
            tenant: Tenant::default(),
            prompt_logprobs: None,
            progress: false,
            is_eager: false,
        }
    }
}

/// What to answer or continue.
#[derive(Clone, Debug)]
pub enum Input {
    /// Messages to answer, by the model's chat template.
    Messages(Box<Conversation>),
    /// Texts and tokens to continue, one after the other. A text at the beginning gets BOS if the model needs one.
    Prompt(Vec<PromptPiece>),
}

/// A piece of a prompt.
#[derive(Clone, Debug)]
pub enum PromptPiece {
    /// A text.
    Text {
        /// The text.
        text: String,
        /// Whether names of special tokens in the text become these tokens.
        parse_special: bool,
    },
    /// Tokens, as they are.
    Tokens(Vec<u32>),
}

impl From<Conversation> for Input {
    fn from(conversation: Conversation) -> Input {
        Input::Messages(Box::new(conversation))
    }
}

impl<T: AsRef<str> + ?Sized> From<&T> for Input {
    fn from(text: &T) -> Input {
        text.as_ref().to_owned().into()
    }
}

impl From<String> for Input {
    fn from(text: String) -> Input {
        Input::Prompt(vec![PromptPiece::Text { text, parse_special: false }])
    }
}

impl From<Vec<u32>> for Input {
    fn from(tokens: Vec<u32>) -> Input {
        Input::Prompt(vec![PromptPiece::Tokens(tokens)])
    }
}

/// Messages to answer, and the tools that the answer may call.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// At least one.
    pub messages: Vec<Message>,
    /// Tools, each in OpenAI's shape: `{"type": "function", "function": {"name": …, "parameters": …}}`.
    pub tools: Vec<Json>,
    /// Which tools the answer calls; `None` hides them from the model.
    pub tool_choice: Option<Choice>,
    /// Whether an answer may have several calls.
    pub parallel_tool_calls: bool,
    /// Names of tools whose schemas must be enforced. A schema that cannot be is an error; for other tools, what cannot be enforced
    /// is left open, and named by [`Stream::left_open`](crate::Stream::left_open).
    pub strict_tools: Vec<String>,
    /// Whether calls are streamed.
    pub calls: Calls,
    /// Variables of the chat template.
    pub variables: Map<String, Json>,
    /// How the prompt ends.
    pub ending: Ending,
    /// Whether the model's chat template is used.
    pub template: TemplateUse,
}

impl Conversation {
    /// A conversation without tools.
    pub fn new(messages: Vec<Message>) -> Conversation {
        Conversation {
            messages,
            tools: Vec::new(),
            tool_choice: None,
            parallel_tool_calls: true,
            strict_tools: Vec::new(),
            calls: Calls::Whole,
            variables: Map::new(),
            ending: Ending::default(),
            template: TemplateUse::Required,
        }
    }

    /// Lets the answer call these tools.
    pub fn tools(self, tools: Vec<Json>) -> Conversation {
        Conversation { tool_choice: (!tools.is_empty()).then_some(Choice::Auto), tools, ..self }
    }

    /// Turns reasoning on or off, by the names that chat templates have for it.
    pub fn reasoning(mut self, on: bool) -> Conversation {
        self.variables.extend(chat::reasoning_switch(on));
        self
    }

    /// Bytes of the messages.
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.text().len()).sum()
    }
}

/// How a conversation's prompt ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// With the beginning of an answer, which continues the last message if that is an answer.
    #[default]
    Continued,
    /// With the beginning of a new answer.
    Answer,
    /// With the last message.
    Nothing,
}

/// Whether the model's chat template is used. Without one, messages follow each other as plain text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TemplateUse {
    /// A model without a usable template is an error.
    #[default]
    Required,
    /// If the model has a usable one.
    IfUsable,
    /// Never.
    Never,
}
