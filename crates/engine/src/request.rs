//! Requests and events.

use std::ops::{AddAssign, ControlFlow};
use std::time::Duration;

use ::chat::TurnEnd;

use crate::ids::RequestId;
use crate::observe::{Observed, Observer};
use crate::params::Params;
use crate::sampling::{Logprobs, Processor, SamplingError};
use crate::stop::StopReason;

/// A prompt to continue. Built from [`Request::new`]:
///
/// ```
/// use engine::Request;
/// let request = Request::new(vec![1, 15043]).temperature(0.0).max_tokens(20);
/// # let _ = request;
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// Token ids, with BOS if the model needs it.
    pub prompt: Vec<u32>,
    /// How tokens are chosen, and where the text ends. There is one answer, whatever [`Params::n`] is.
    pub params: Params,
    /// What ends a turn by the chat template: one more stop condition.
    pub turn_end: Option<TurnEnd>,
    /// Who asks.
    pub tenant: Tenant,
    /// The adapter that the caller has put on the weights, if any. Requests of different adapters share no KV cache. The engine
    /// applies none itself.
    pub adapter: Option<u64>,
    /// Logit processors, such as a grammar. They run in this order, before the samplers of [`Params::samplers`].
    pub processors: Vec<Box<dyn Processor>>,
    /// Which logits of the prompt are observed, and by whom. See [`Request::observe`].
    pub observer: Option<(LogitRows, Observer)>,
}

/// Who asks, for fairness and for the prefix cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// Clients that wait get equal shares of the steps.
    pub client: u64,
    /// Requests of a client with lower values start first.
    pub priority: i32,
    /// Only requests with the same salt share the KV cache of a common prefix: others could measure the time, and so learn how a
    /// prompt begins.
    pub cache_salt: Vec<u8>,
}

param_setters!(Request, params);

#[expect(missing_docs, reason = "each of the other methods sets the field of its name, or appends to it")]
impl Request {
    /// A request with default [`Params`]: no limit but the context.
    pub fn new(prompt: Vec<u32>) -> Request {
        Request {
            prompt,
            params: Params::default(),
            turn_end: None,
            tenant: Tenant::default(),
            adapter: None,
            processors: Vec::new(),
            observer: None,
        }
    }

    pub fn params(self, params: Params) -> Request {
        Request { params, ..self }
    }

    pub fn cache_salt(mut self, salt: impl Into<Vec<u8>>) -> Request {
        self.tenant.cache_salt = salt.into();
        self
    }

    pub fn adapter(self, adapter: impl Into<Option<u64>>) -> Request {
        Request { adapter: adapter.into(), ..self }
    }

    /// Returns the log-probability of each token, and of so many most likely tokens.
    pub fn logprobs(mut self, top: usize) -> Request {
        self.params.logprobs = Some(top);
        self
    }

    pub fn processor(mut self, processor: impl Processor + 'static) -> Request {
        self.processors.push(Box::new(processor));
        self
    }

    /// Shows the logits of these rows of the prompt to `observer`, each once and in order. They are computed even if they are
    /// cached. With `max_tokens` 0 a request computes just these rows, and its prompt may fill the context.
    pub fn observe(
        self,
        rows: LogitRows,
        observer: impl FnMut(Observed<'_>) -> ControlFlow<()> + Send + 'static,
    ) -> Request {
        Request { observer: Some((rows, Observer::new(observer))), ..self }
    }
}

/// Prompt rows whose logits are requested; `From` is a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogitRows {
    All,
    From(usize),
    Last,
}

impl LogitRows {
    /// First position in a prompt of `tokens`.
    pub(crate) fn first(self, tokens: usize) -> usize {
        match self {
            LogitRows::All => 0,
            LogitRows::From(position) => position,
            LogitRows::Last => tokens.saturating_sub(1),
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No token could be sampled from its logits.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// Its step failed.
    #[error(transparent)]
    Backend(#[from] backend::Error),
}

/// An event of a step. Every request ends with one [`Event::Done`] or [`Event::Failed`], unless
/// [`Engine::step`](crate::Engine::step) itself fails: then all requests have ended.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the docs of the variants explain the fields")]
pub enum Event {
    /// A token was generated; it may be an end-of-generation token. A step can generate several. `text` is the text to print now:
    /// whole characters, without what may be the start of a stop string. It is often empty; all texts concatenated are the answer.
    /// `logprobs` is present if requested with [`Params::logprobs`].
    Token { id: RequestId, token: u32, text: String, logprobs: Option<Logprobs> },
    /// A request ended.
    Done { id: RequestId, reason: StopReason, usage: Usage },
    /// A request ended because its step failed or no token could be sampled. Others continue.
    Failed { id: RequestId, error: RequestError },
}

/// Counts of drafts and their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    /// Steps of a request with drafted tokens.
    pub drafts: u64,
    /// Tokens that were drafted and computed.
    pub drafted: u64,
    /// Those of them that became tokens of the text.
    pub accepted: u64,
}

impl AddAssign for DraftCounts {
    fn add_assign(&mut self, other: DraftCounts) {
        self.drafts += other.drafts;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
    }
}

/// What an engine has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that are being computed.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Blocks that running requests have, in the group of stores of which they have the largest share.
    pub blocks_used: usize,
    /// All blocks of that group.
    pub blocks: usize,
    /// How often a running request has lost its blocks.
    pub preemptions: u64,
    /// Drafted tokens of all requests so far.
    pub drafts: DraftCounts,
}

/// Token counts and times of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Length of the prompt.
    pub prompt_tokens: usize,
    /// Prompt tokens reused from the cache; the others were prefilled.
    pub reused_tokens: usize,
    /// Generated tokens, including an end-of-generation token.
    pub generated_tokens: usize,
    /// From the first step to the first token, or to the end if there was none.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
    /// The sampling seed.
    pub seed: u32,
    /// Drafted tokens; those that were accepted are among the generated ones.
    pub drafts: DraftCounts,
}

impl Usage {
    /// Number of computed prompt tokens.
    pub fn prefilled_tokens(&self) -> usize {
        self.prompt_tokens - self.reused_tokens
    }

    /// Prefill speed in tokens per second; `None` for too few tokens.
    pub fn prefill_rate(&self) -> Option<f64> {
        rate(self.prefilled_tokens(), self.prefill)
    }

    /// Decode speed in tokens per second, without the first token; `None` for too few tokens.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.generated_tokens.saturating_sub(1), self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}
