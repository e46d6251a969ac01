//! What is to be generated, whatever the protocol: sampling, stop conditions, constraints.

use std::time::Duration;

use engine::{Params, Request};

use crate::error::ApiError;
use crate::fields::Fields;
use crate::http::Client;
use crate::models::Served;
use crate::worker::Updates;

/// Requests of one call: the choices of each prompt.
pub(crate) struct Job {
    requests: Vec<Request>,
    prompt_logprobs: Option<usize>,
    has_progress: bool,
    time: Option<Duration>,
}

/// What all protocols have in common, read from a call.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub(crate) params: Params,
    pub(crate) priority: i32,
    pub(crate) cache_salt: Option<String>,
    /// Tell how far the prompt is.
    pub(crate) has_progress: bool,
    /// From an answer's first token on, it ends with its first line after this time.
    pub(crate) time: Option<Duration>,
}

impl Parameters {
    /// Reads the fields that have one name in all protocols. `defaults` are those of the call.
    pub(crate) fn read(fields: &mut Fields, defaults: &Params) -> Result<Parameters, ApiError> {
        // llama-server's limit of time, which is none if it is not above 0.
        let milliseconds: Option<i64> = fields.take("t_max_predict_ms")?;
        let milliseconds = milliseconds.and_then(|time| u64::try_from(time).ok()).filter(|&time| time > 0);
        Ok(Parameters {
            params: fields.params(defaults)?,
            priority: fields.take("priority")?.unwrap_or(0),
            cache_salt: fields.take("cache_salt")?,
            has_progress: false,
            time: milliseconds.map(Duration::from_millis),
        })
    }

    /// The same of a protocol in which a call has one answer.
    pub(crate) fn read_one(fields: &mut Fields, defaults: &Params) -> Result<Parameters, ApiError> {
        let parameters = Parameters::read(fields, defaults)?;
        match parameters.params.n {
            1 => Ok(parameters),
            n => {
                Err(ApiError::unsupported("n", format!("`n` is {n}, but there is one answer; leave it out")))
            }
        }
    }

    /// A request for `prompt` by `client`.
    pub(crate) fn request(&self, prompt: Vec<u32>, client: &Client) -> Request {
        Request {
            params: self.params.clone(),
            client: client.number(),
            priority: self.priority,
            cache_salt: client.salt(self.cache_salt.as_deref()),
            ..Request::new(prompt)
        }
    }
}

/// Whether to tell how far the prompt is.
pub(crate) fn progress(fields: &mut Fields) -> Result<bool, ApiError> {
    Ok(fields.take("return_progress")?.unwrap_or(false))
}

impl Job {
    /// The answers that `parameters` ask for to `request`; their seeds follow each other.
    pub(crate) fn choices(request: Request, parameters: &Parameters) -> Job {
        let Parameters { has_progress, time, .. } = *parameters;
        let numbered = |number: u64| {
            let mut request = request.clone();
            // The largest seed stands for a random one.
            let following = |seed: u32| u32::try_from((u64::from(seed) + number) % u64::from(u32::MAX)).ok();
            request.params.seed = request.params.seed.and_then(following);
            request
        };
        let n = parameters.params.n;
        Job { requests: (0..).take(n).map(numbered).collect(), prompt_logprobs: None, has_progress, time }
    }

    /// The requests of several jobs. With `prompt_logprobs`, the log-probability of each token of their prompts is returned, and
    /// of so many most likely tokens.
    pub(crate) fn all(jobs: impl IntoIterator<Item = Job>, prompt_logprobs: Option<usize>) -> Job {
        let mut all = Job { requests: Vec::new(), prompt_logprobs, has_progress: false, time: None };
        for Job { requests, has_progress, time, .. } in jobs {
            all.requests.extend(requests);
            (all.has_progress, all.time) = (has_progress, time);
        }
        all
    }

    /// Submits the requests, and waits until the engine has accepted them.
    pub(crate) async fn submit(self, served: &Served) -> Result<Updates, ApiError> {
        use crate::worker::{ENDED, Update, Work};
        let n = self.requests.len();
        let Job { requests, prompt_logprobs, has_progress, time } = self;
        let mut updates = served.worker.submit(Work { requests, prompt_logprobs, has_progress, time })?;
        for _ in 0..n {
            match updates.recv().await {
                Some((_, Update::Accepted)) => {}
                Some((_, Update::Refused(error))) => return Err(error),
                Some((_, Update::Engine(_) | Update::Prompt(..) | Update::Progress(_))) | None => {
                    return Err(ApiError::internal(ENDED));
                }
            }
        }
        Ok(updates)
    }
}
