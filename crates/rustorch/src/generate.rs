//! Texts that continue prompts.

use std::fmt;
use std::sync::Arc;

use engine::{Event, Logprobs, Request, StopReason, Usage};

use crate::loaded::Loaded;
use crate::settings::{settings, settings_methods};
use crate::shared::Running;
use crate::{Error, Result};

/// What a text continues: a text, or tokens, which are used as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Begins with the model's BOS token if the model needs one. Text never becomes a special token.
    Text(String),
    /// Ids, with BOS if the model needs it.
    Tokens(Vec<u32>),
}

impl<T: AsRef<str> + ?Sized> From<&T> for Prompt {
    fn from(text: &T) -> Prompt {
        Prompt::Text(text.as_ref().to_owned())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Prompt {
        Prompt::Text(text)
    }
}

impl From<Vec<u32>> for Prompt {
    fn from(tokens: Vec<u32>) -> Prompt {
        Prompt::Tokens(tokens)
    }
}

/// A text to generate. Iterate over it for its tokens, or call [`text`](Generate::text).
#[derive(Clone, Debug)]
#[must_use = "nothing is generated before the first token is asked for"]
pub struct Generate {
    model: Arc<Loaded>,
    prompt: Prompt,
    settings: Request,
}

settings_methods!(Generate);

impl Generate {
    pub(crate) fn new(model: Arc<Loaded>, prompt: Prompt) -> Generate {
        Generate { model, prompt, settings: settings() }
    }

    /// Adds the log-probability of each token to it, and the `top` most probable ones.
    pub fn logprobs(mut self, top: usize) -> Generate {
        self.settings.params.logprobs = Some(top);
        self
    }

    /// The whole text.
    ///
    /// # Errors
    /// As the tokens.
    pub fn text(self) -> Result<String> {
        self.into_iter().collect()
    }
}

impl IntoIterator for Generate {
    type Item = Result<Token>;
    type IntoIter = Tokens;

    /// Queues the request. Whoever waits for a token of this model computes it along.
    fn into_iter(self) -> Tokens {
        let Generate { model, prompt, settings } = self;
        let submitted = model.shared().and_then(|shared| {
            shared.submit(|engine| {
                let prompt = match prompt {
                    Prompt::Text(text) => {
                        engine.admits_text(text.len())?;
                        engine.model().encode_prompt(&text, false)
                    }
                    Prompt::Tokens(tokens) => tokens,
                };
                engine.submit(Request { prompt, ..settings })
            })
        });
        let state = submitted.map_or_else(State::Failed, State::Running);
        Tokens { model, state }
    }
}

/// Several texts to generate at once. Iterate over it for the [`Tokens`] of each, or call [`texts`](Batch::texts).
#[derive(Clone, Debug)]
#[must_use = "nothing is generated before the first token is asked for"]
pub struct Batch {
    model: Arc<Loaded>,
    prompts: Vec<Prompt>,
    settings: Request,
}

settings_methods!(Batch);

impl Batch {
    pub(crate) fn new(model: Arc<Loaded>, prompts: Vec<Prompt>) -> Batch {
        Batch { model, prompts, settings: settings() }
    }

    /// Adds the log-probability of each token to it, and the `top` most probable ones.
    pub fn logprobs(mut self, top: usize) -> Batch {
        self.settings.params.logprobs = Some(top);
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
        let Batch { model, prompts, settings } = self;
        let generate = |prompt| Generate { model: model.clone(), prompt, settings: settings.clone() };
        prompts.into_iter().map(|prompt| generate(prompt).into_iter()).collect::<Vec<_>>().into_iter()
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

/// Why a text ended, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// Why.
    pub reason: StopReason,
    /// Tokens, times and the seed.
    pub usage: Usage,
}

/// The tokens of a text, as they are generated. An error is the last item. Dropping the iterator cancels the text.
#[must_use = "dropping it cancels the text"]
pub struct Tokens {
    model: Arc<Loaded>,
    state: State,
}

/// Where a text is.
pub(crate) enum State {
    Failed(Error),
    Running(Running),
    Ended(Option<End>),
}

impl State {
    /// The next event; `None` if there is none, or an end.
    pub(crate) fn next(&mut self) -> Option<Result<Event>> {
        let event = match std::mem::replace(self, State::Ended(None)) {
            State::Failed(error) => return Some(Err(error)),
            State::Ended(end) => {
                *self = State::Ended(end);
                return None;
            }
            State::Running(running) => match running.next() {
                Ok(event @ Event::Token { .. }) => {
                    *self = State::Running(running);
                    event
                }
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            },
        };
        match &event {
            Event::Done { reason, usage, .. } => {
                *self = State::Ended(Some(End { reason: reason.clone(), usage: *usage }));
            }
            Event::Failed { error, .. } => return Some(Err(error.clone().into())),
            Event::Token { .. } => {}
        }
        Some(Ok(event))
    }

    pub(crate) fn end(&self) -> Option<&End> {
        if let State::Ended(end) = self { end.as_ref() } else { None }
    }
}

impl Tokens {
    /// Why the text ended; `None` before its end, or if it failed.
    pub fn end(&self) -> Option<&End> {
        self.state.end()
    }

    fn token(&self, id: u32, text: String, logprobs: Option<Logprobs>) -> Token {
        let (logprob, top) = logprobs.map_or((None, Vec::new()), |found| (Some(found.token), found.top));
        let candidate = |(id, logprob)| Candidate { text: self.model.text_of(id), id, logprob };
        Token { text, id, logprob, top: top.into_iter().map(candidate).collect() }
    }
}

impl Iterator for Tokens {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Result<Token>> {
        match self.state.next()? {
            Ok(Event::Token { token, text, logprobs, .. }) => Some(Ok(self.token(token, text, logprobs))),
            Ok(Event::Done { .. } | Event::Failed { .. }) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for Tokens {}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("end", &self.end()).finish_non_exhaustive()
    }
}
