//! Builders of requests, and texts token by token.

use std::fmt;
use std::sync::Arc;

use chat::{Answer, ToolCall};
use engine::Logprobs;
use serde_json::Value as Json;

use crate::loaded::Loaded;
use crate::request::{Input, Request};
use crate::settings::settings_methods;
use crate::stream::{DeltaKind, End, Stream};
use crate::{Error, Result};

/// A text to generate. Iterate over it for its tokens, or call [`text`](Generate::text).
#[derive(Clone, Debug)]
#[must_use = "nothing is generated before the first token is asked for"]
pub struct Generate {
    model: Arc<Loaded>,
    request: Request,
}

settings_methods!(Generate);

impl Generate {
    pub(crate) fn new(model: Arc<Loaded>, input: Input) -> Generate {
        Generate { model, request: Request::new(input) }
    }

    /// Adds the log-probability of each token to it, and the `top` most probable ones.
    pub fn logprobs(mut self, top: usize) -> Generate {
        self.request.params.logprobs = Some(top);
        self
    }

    /// Lets the answer to messages call these tools, each in OpenAI's shape:
    /// `{"type": "function", "function": {"name": …, "parameters": …}}`. A text that is continued has none.
    pub fn tools(mut self, tools: Vec<Json>) -> Generate {
        if let Input::Messages(conversation) = self.request.input {
            self.request.input = conversation.tools(tools).into();
        }
        self
    }

    /// Sets a variable of the chat template, such as `enable_thinking`. A text that is continued has none.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<Json>) -> Generate {
        if let Input::Messages(conversation) = &mut self.request.input {
            conversation.variables.insert(name.into(), value.into());
        }
        self
    }

    /// The whole text, without reasoning.
    ///
    /// # Errors
    /// As the tokens.
    pub fn text(self) -> Result<String> {
        Ok(self.complete()?.text)
    }

    /// The whole answer: text, reasoning, tool calls, and why it ended.
    ///
    /// # Errors
    /// As the tokens.
    pub fn complete(self) -> Result<Completion> {
        self.stream()?.complete()
    }

    /// The answer as a value: JSON of the type's schema, read by `serde`.
    ///
    /// ```
    /// # fn main() -> rustorch::Result<()> {
    /// # let model = rustorch::Model::demo()?;
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Person {
    ///     name: String,
    ///     age: u8,
    /// }
    ///
    /// let person: Person = model.generate("A person: ").seed(1).json()?;
    /// # let _ = (person.name, person.age);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As the tokens, and if the answer is cut before the JSON is complete.
    #[cfg(feature = "schemars")]
    pub fn json<T: serde::de::DeserializeOwned + schemars::JsonSchema>(mut self) -> Result<T> {
        self.request.format = Some(schema::<T>());
        read_json(self.text()?)
    }

    /// The answer's pieces, for a loop or for async code.
    ///
    /// # Errors
    /// If the chat template, the grammar or the tools reject the request.
    pub fn stream(self) -> Result<Stream> {
        self.model.prepare(self.request)?.submit()
    }
}

impl IntoIterator for Generate {
    type Item = Result<Token>;
    type IntoIter = Tokens;

    /// Queues the request. A text has one answer; [`stream`](Generate::stream) has several.
    fn into_iter(mut self) -> Tokens {
        self.request.params.n = 1;
        Tokens { model: self.model.clone(), stream: self.stream().map_err(Some), end: None }
    }
}

/// The schema of a type, as what an answer must be.
#[cfg(feature = "schemars")]
pub(crate) fn schema<T: schemars::JsonSchema>() -> grammar::Source {
    grammar::Source::from_schema(schemars::schema_for!(T).to_value())
}

#[cfg(feature = "schemars")]
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(text: String) -> Result<T> {
    serde_json::from_str(&text).map_err(|error| Error::Json { text, error: Arc::new(error) })
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The text, without reasoning.
    pub text: String,
    /// What the model thought before it answered.
    pub reasoning: String,
    /// The tools that the model calls.
    pub tool_calls: Vec<ToolCall>,
    /// The tokens as generated.
    pub tokens: Vec<u32>,
    /// Why it ended, and its usage.
    pub end: End,
}

impl Stream {
    /// The whole of the first answer.
    ///
    /// # Errors
    /// As the pieces.
    pub fn complete(self) -> Result<Completion> {
        let (mut answer, mut tokens, mut end) = (Answer::default(), Vec::new(), None);
        for delta in self {
            let delta = delta?;
            match delta.kind {
                _ if delta.choice > 0 => {}
                DeltaKind::Token { id, .. } => tokens.push(id),
                DeltaKind::Part(part) => answer.push(part),
                DeltaKind::End(ended) => end = Some(ended),
                DeltaKind::PromptToken { .. } | DeltaKind::Progress(_) => {}
            }
        }
        let Answer { content: text, reasoning, tool_calls } = answer;
        // Without an error, every answer has an end.
        Ok(Completion { text, reasoning, tool_calls, tokens, end: end.ok_or(Error::Panicked)? })
    }
}

/// Several texts to generate at once. Iterate over it for the [`Tokens`] of each, or call [`texts`](Batch::texts).
#[derive(Clone, Debug)]
#[must_use = "nothing is generated before the first token is asked for"]
pub struct Batch {
    model: Arc<Loaded>,
    inputs: Vec<Input>,
    request: Request,
}

settings_methods!(Batch);

impl Batch {
    pub(crate) fn new(model: Arc<Loaded>, inputs: Vec<Input>) -> Batch {
        Batch { model, inputs, request: Request::new(Vec::new()) }
    }

    /// Adds the log-probability of each token to it, and the `top` most probable ones.
    pub fn logprobs(mut self, top: usize) -> Batch {
        self.request.params.logprobs = Some(top);
        self
    }

    /// The whole texts, in the order of the prompts.
    ///
    /// # Errors
    /// With the first error of a text. The others are cancelled.
    pub fn texts(self) -> Result<Vec<String>> {
        self.into_iter().map(Iterator::collect).collect()
    }
}

impl IntoIterator for Batch {
    type Item = Tokens;
    type IntoIter = std::vec::IntoIter<Tokens>;

    /// Queues all requests.
    fn into_iter(self) -> Self::IntoIter {
        let Batch { model, inputs, request } = self;
        let generate =
            |input| Generate { model: model.clone(), request: Request { input, ..request.clone() } };
        inputs.into_iter().map(|input| generate(input).into_iter()).collect::<Vec<_>>().into_iter()
    }
}

/// A generated token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The text to print now: whole characters, and nothing that may be the start of a stop string. Often empty; the texts of
    /// all tokens together are the answer.
    pub text: String,
    /// Its id. The last may be one that ends a text.
    pub id: u32,
    /// The natural logarithm of its probability, if [`logprobs`](Generate::logprobs) asked for it.
    pub logprob: Option<f32>,
    /// The most probable tokens, best first, if [`logprobs`](Generate::logprobs) asked for them. Their probabilities are the
    /// model's, before samplers and temperature.
    pub top: Vec<Candidate>,
}

/// A token that the model could have written.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its text; U+FFFD stands for a part of a character.
    pub text: String,
    /// Its id.
    pub id: u32,
    /// The natural logarithm of its probability.
    pub logprob: f32,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromIterator<Token> for String {
    fn from_iter<I: IntoIterator<Item = Token>>(tokens: I) -> String {
        tokens.into_iter().map(|token| token.text).collect()
    }
}

/// The tokens of a text, as they are generated. An error is the last item. Dropping the iterator cancels the text.
#[must_use = "dropping it cancels the text"]
#[derive(Debug)]
pub struct Tokens {
    model: Arc<Loaded>,
    /// Or the error that is the only item.
    stream: Result<Stream, Option<Error>>,
    end: Option<End>,
}

impl Tokens {
    /// Why the text ended; `None` before its end, or if it failed.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn token(&self, id: u32, text: String, logprobs: Option<Logprobs>) -> Token {
        let (logprob, top) = logprobs.map_or((None, Vec::new()), |found| (Some(found.token), found.top));
        let candidate = |(id, logprob)| Candidate { text: self.model.token_text(id), id, logprob };
        Token { text, id, logprob, top: top.into_iter().map(candidate).collect() }
    }
}

impl Iterator for Tokens {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Result<Token>> {
        let stream = match &mut self.stream {
            Ok(stream) => stream,
            Err(error) => return error.take().map(Err),
        };
        loop {
            match stream.wait()?.map(|delta| delta.kind) {
                Ok(DeltaKind::Token { id, text, logprobs }) => {
                    return Some(Ok(self.token(id, text, logprobs)));
                }
                Ok(DeltaKind::End(end)) => self.end = Some(end),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl std::iter::FusedIterator for Tokens {}
