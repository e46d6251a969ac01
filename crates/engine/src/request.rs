//! What an engine is asked for and what it answers.

use std::time::Duration;

use crate::sampling::{Logprobs, Processor, Sampling, SamplingError};
use crate::scheduler::{RequestId, SequenceId};
use crate::stop::{Stop, StopReason};

/// A prompt to be continued. Built from [`Request::new`]:
///
/// ```
/// use engine::{Request, Sampling};
/// let request = Request::new(vec![1, 15043]).sampling(Sampling::greedy()).max_tokens(20);
/// # let _ = request;
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// Token ids, BOS included where the model wants it.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What ends it.
    pub stop: Stop,
    /// Tokens to generate, at most; `None` goes on until it is stopped or the context is full.
    pub max_tokens: Option<usize>,
    /// The sequence it continues: what of the prompt its cache holds is not computed again, and the
    /// cache is kept when it ends. See [`Engine::new_sequence`](crate::Engine::new_sequence).
    pub sequence: Option<SequenceId>,
    /// With each token its log-probability, and those of so many of the most likely tokens.
    pub logprobs: Option<usize>,
    /// What changes the logits after the penalties of [`Request::sampling`] and before a token is chosen, in
    /// this order, such as a grammar.
    pub processors: Vec<Box<dyn Processor>>,
}

impl Request {
    /// Continues `prompt` with the default [`Sampling`] until the model ends it or the context is full.
    pub fn new(prompt: Vec<u32>) -> Request {
        Request {
            prompt,
            sampling: Sampling::default(),
            stop: Stop::default(),
            max_tokens: None,
            sequence: None,
            logprobs: None,
            processors: Vec::new(),
        }
    }

    /// Sets [`Request::sampling`].
    pub fn sampling(self, sampling: Sampling) -> Request {
        Request { sampling, ..self }
    }

    /// Sets [`Request::stop`].
    pub fn stop(self, stop: Stop) -> Request {
        Request { stop, ..self }
    }

    /// Sets [`Request::max_tokens`].
    pub fn max_tokens(self, max_tokens: impl Into<Option<usize>>) -> Request {
        Request { max_tokens: max_tokens.into(), ..self }
    }

    /// Sets [`Request::sequence`].
    pub fn sequence(self, sequence: impl Into<Option<SequenceId>>) -> Request {
        Request { sequence: sequence.into(), ..self }
    }

    /// Sets [`Request::logprobs`].
    pub fn logprobs(self, top: impl Into<Option<usize>>) -> Request {
        Request { logprobs: top.into(), ..self }
    }

    /// Adds to [`Request::processors`].
    pub fn processor(mut self, processor: impl Processor + 'static) -> Request {
        self.processors.push(Box::new(processor));
        self
    }
}

/// Rows of a prompt whose logits are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitRows {
    /// Those after every token.
    All,
    /// Those after every token from this position on.
    From(usize),
    /// Those after the last token.
    Last,
}

impl LogitRows {
    /// The first position, of a prompt of `tokens`.
    pub(crate) fn first(self, tokens: usize) -> usize {
        match self {
            LogitRows::All => 0,
            LogitRows::From(position) => position,
            LogitRows::Last => tokens.saturating_sub(1),
        }
    }
}

/// Why a request has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No token could be chosen from its logits.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The step that it was in has failed.
    #[error(transparent)]
    Backend(#[from] backend::Error),
}

/// What happened in a step. Every request ends with one [`Event::Done`] or [`Event::Failed`], unless
/// [`Engine::step`](crate::Engine::step) itself fails: then all have ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A token was generated, end-of-generation tokens included.
    Token {
        /// Whose.
        id: RequestId,
        /// The token.
        token: u32,
        /// What may be printed now: whole characters, without what may become a stop string. Often
        /// empty; all texts of a request together are its answer.
        text: String,
        /// What the request asked for with [`Request::logprobs`].
        logprobs: Option<Logprobs>,
    },
    /// A request has ended.
    Done {
        /// Which.
        id: RequestId,
        /// Why.
        reason: StopReason,
        /// What it took.
        usage: Usage,
    },
    /// A request has ended because its step failed, or no token could be chosen from its logits. Others go on.
    Failed {
        /// Which.
        id: RequestId,
        /// Why.
        error: RequestError,
    },
}

/// What a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// How many of them were in the cache; the others were prefilled.
    pub reused_tokens: usize,
    /// Tokens generated, an end-of-generation token included.
    pub generated_tokens: usize,
    /// From the first step to the first token, or to the end when none came.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
    /// The seed the tokens were drawn with.
    pub seed: u32,
}

impl Usage {
    /// Tokens of the prompt that had to be computed.
    pub fn prefilled_tokens(&self) -> usize {
        self.prompt_tokens - self.reused_tokens
    }

    /// Prompt tokens computed a second; `None` when too few were to tell.
    pub fn prefill_rate(&self) -> Option<f64> {
        rate(self.prefilled_tokens(), self.prefill)
    }

    /// Tokens generated a second after the first; `None` when too few were to tell.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.generated_tokens.saturating_sub(1), self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}
