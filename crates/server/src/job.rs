//! What is to be generated, whatever the protocol: sampling, stop conditions, constraints.

use std::time::Duration;

use engine::{DynamicTemperature, Request, Sampling, Stop, Xtc};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use tokenizer::Encode;

use crate::config::{Config, Limits};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::http::Client;
use crate::models::Served;
use crate::samplers;
use crate::worker::Updates;

/// Bytes of a text whose tokens have a bias: it is read on a thread of the runtime.
const MAX_BIASED_BYTES: usize = 64;

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
    pub(crate) sampling: Sampling,
    pub(crate) stop: Stop,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) n: usize,
    pub(crate) priority: i32,
    pub(crate) cache_salt: Option<String>,
    /// Log-probabilities are those by which tokens are drawn.
    pub(crate) logprobs_of_draw: bool,
    /// Tell how far the prompt is.
    pub(crate) has_progress: bool,
    /// From an answer's first token on, it ends with its first line after this time.
    pub(crate) time: Option<Duration>,
}

/// One string or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// `logit_bias`, as in OpenAI's protocol or as in llama-server's, where `false` rules a token out.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected an object of biases by token id, or an array of pairs of a token id and a bias"
)]
enum Biases {
    Map(Map<String, Json>),
    Pairs(Vec<(Json, Json)>),
}

impl Biases {
    fn pairs(self) -> Vec<(String, Json)> {
        let id = |id: Json| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let bias = |bias: Json| if bias == Json::Bool(false) { (-100).into() } else { bias };
        match self {
            Biases::Map(map) => map.into_iter().collect(),
            Biases::Pairs(pairs) => {
                pairs.into_iter().map(|(token, value)| (id(token), bias(value))).collect()
            }
        }
    }
}

impl Parameters {
    /// Reads the fields of OpenAI's protocols, in which `max_tokens` has several names.
    pub(crate) fn read(
        fields: &mut Fields,
        served: &Served,
        config: &Config,
    ) -> Result<Parameters, ApiError> {
        let max_tokens: Option<usize> = fields.within("max_tokens", 0..=usize::MAX)?;
        let max_completion: Option<usize> = fields.within("max_completion_tokens", 0..=usize::MAX)?;
        Ok(Parameters {
            max_tokens: max_completion.or(max_tokens).or(config.defaults.max_tokens),
            n: fields.within("n", 1..=config.limits.choices)?.unwrap_or(1),
            ..Parameters::common(fields, served, config, "stop")?
        })
    }

    /// What a call has that says nothing.
    pub(crate) fn default_of(config: &Config) -> Parameters {
        Parameters {
            sampling: config.defaults.sampling.clone(),
            stop: Stop::default(),
            max_tokens: config.defaults.max_tokens,
            n: 1,
            priority: 0,
            cache_salt: None,
            logprobs_of_draw: false,
            has_progress: false,
            time: None,
        }
    }

    /// Reads the fields that have one name in all protocols: all but the number of tokens and of answers, and the stop
    /// strings, which are in the field `strings`.
    pub(crate) fn common(
        fields: &mut Fields,
        served: &Served,
        config: &Config,
        strings: &str,
    ) -> Result<Parameters, ApiError> {
        Ok(Parameters {
            sampling: sampling(fields, served, config)?,
            stop: stop(fields, strings, &config.limits)?,
            max_tokens: config.defaults.max_tokens,
            n: 1,
            priority: fields.take("priority")?.unwrap_or(0),
            cache_salt: fields.take("cache_salt")?,
            logprobs_of_draw: false,
            has_progress: false,
            time: time(fields)?,
        })
    }

    /// A request for `prompt` by `client`.
    pub(crate) fn request(&self, prompt: Vec<u32>, client: &Client) -> Request {
        Request {
            sampling: self.sampling.clone(),
            stop: self.stop.clone(),
            max_tokens: self.max_tokens,
            client: client.number(),
            priority: self.priority,
            logprobs_of_draw: self.logprobs_of_draw,
            cache_salt: client.salt(self.cache_salt.as_deref()),
            ..Request::new(prompt)
        }
    }
}

fn sampling(fields: &mut Fields, served: &Served, config: &Config) -> Result<Sampling, ApiError> {
    let (default, limits) = (config.defaults.sampling.clone(), &config.limits);
    let mut sampling = Sampling {
        temperature: fields.within("temperature", 0.0..=100.0)?.unwrap_or(default.temperature),
        dynamic_temperature: DynamicTemperature {
            range: fields.within("dynatemp_range", 0.0..=100.0)?.unwrap_or(default.dynamic_temperature.range),
            exponent: fields.take("dynatemp_exponent")?.unwrap_or(default.dynamic_temperature.exponent),
        },
        top_k: fields
            .within("top_k", -1..=i64::MAX)?
            .map_or(default.top_k, |k| usize::try_from(k).unwrap_or(0)),
        top_p: fields.within("top_p", 0.0..=1.0)?.unwrap_or(default.top_p),
        min_p: fields.within("min_p", 0.0..=1.0)?.unwrap_or(default.min_p),
        typical_p: fields.within("typical_p", 0.0..=1.0)?.unwrap_or(default.typical_p),
        xtc: Xtc {
            probability: fields.within("xtc_probability", 0.0..=1.0)?.unwrap_or(default.xtc.probability),
            threshold: fields.within("xtc_threshold", 0.0..=1.0)?.unwrap_or(default.xtc.threshold),
        },
        frequency_penalty: fields
            .within("frequency_penalty", -2.0..=2.0)?
            .unwrap_or(default.frequency_penalty),
        presence_penalty: fields.within("presence_penalty", -2.0..=2.0)?.unwrap_or(default.presence_penalty),
        ..default
    };
    let repeat: Option<f32> = fields.within("repeat_penalty", 0.01..=100.0)?;
    let repetition: Option<f32> = fields.within("repetition_penalty", 0.01..=100.0)?;
    sampling.repeat_penalty = repetition.or(repeat).unwrap_or(sampling.repeat_penalty);
    // -1 is a random seed, as in llama-server; so is the same in 32 bits.
    let is_fixed = |seed: &i64| *seed >= 0 && *seed != i64::from(u32::MAX);
    if let Some(seed) = fields.take::<i64>("seed")? {
        sampling.seed = Some(seed).filter(is_fixed).map(seed_of);
    }
    samplers::read(fields, &mut sampling, limits)?;
    if let Some(biases) = fields.take::<Biases>("logit_bias")? {
        let biases = biases.pairs();
        if biases.len() > limits.biases {
            let (found, most) = (biases.len(), limits.biases);
            return Err(ApiError::invalid(
                "logit_bias",
                format!("`logit_bias` has {found} tokens, expected at most {most}"),
            ));
        }
        for (token, bias) in biases {
            sampling.logit_bias.extend(biases_of(&token, &bias, served)?);
        }
    }
    Ok(sampling)
}

/// Whether to tell how far the prompt is.
pub(crate) fn progress(fields: &mut Fields) -> Result<bool, ApiError> {
    Ok(fields.take("return_progress")?.unwrap_or(false))
}

/// llama-server's limit of time, which is none if it is not above 0.
fn time(fields: &mut Fields) -> Result<Option<Duration>, ApiError> {
    let milliseconds: Option<i64> = fields.take("t_max_predict_ms")?;
    let milliseconds = milliseconds.and_then(|time| u64::try_from(time).ok()).filter(|&time| time > 0);
    Ok(milliseconds.map(Duration::from_millis))
}

/// The engine's seed, of 32 bits, of which the largest stands for a random one.
fn seed_of(seed: i64) -> u32 {
    u32::try_from(seed % i64::from(u32::MAX)).unwrap_or(0)
}

/// The biases of a token, or of each token of a text, as in llama-server.
fn biases_of(token: &str, bias: &Json, served: &Served) -> Result<Vec<(u32, f32)>, ApiError> {
    let tokenizer = served.model.tokenizer();
    let n_vocab = tokenizer.vocab_size();
    // `false` rules a token out, as in llama-server.
    let bias = if *bias == Json::Bool(false) { &Json::from(-100) } else { bias };
    let Some(number) = bias.as_f64().filter(|bias| (-100.0..=100.0).contains(bias)) else {
        let message = format!("`logit_bias` of token {token} is {bias}, expected a number from -100 to 100");
        return Err(ApiError::invalid("logit_bias", message));
    };
    let ids = match token.parse::<i64>() {
        Err(_) if token.len() > MAX_BIASED_BYTES => {
            let message = format!(
                "`logit_bias` has a text of {} bytes, expected at most {MAX_BIASED_BYTES}",
                token.len()
            );
            return Err(ApiError::invalid("logit_bias", message));
        }
        Err(_) => tokenizer.encode(token, Encode { add_special: false, parse_special: false }),
        Ok(id) => match u32::try_from(id).ok().filter(|&id| (id as usize) < n_vocab) {
            Some(id) => vec![id],
            None => {
                let message = format!("`logit_bias` names token {token:?}, expected an id below {n_vocab}");
                return Err(ApiError::invalid("logit_bias", message));
            }
        },
    };
    // -100 rules a token out, as OpenAI says.
    let bias = if number <= -100.0 { f32::NEG_INFINITY } else { number as f32 };
    Ok(ids.into_iter().map(|id| (id, bias)).collect())
}

/// Stop conditions, with stop strings in the field `name`.
fn stop(fields: &mut Fields, name: &str, limits: &Limits) -> Result<Stop, ApiError> {
    let strings = match fields.take(name)? {
        None => Vec::new(),
        Some(OneOrMany::One(string)) => vec![string],
        Some(OneOrMany::Many(strings)) => strings,
    };
    if strings.len() > limits.stops {
        let (found, most) = (strings.len(), limits.stops);
        return Err(ApiError::invalid(
            name,
            format!("`{name}` has {found} strings, expected at most {most}"),
        ));
    }
    Limits::check_strings(name, &strings, limits.stop_bytes)?;
    Ok(Stop {
        // An empty string stops nothing: clients send it for none.
        strings: strings.into_iter().filter(|string| !string.is_empty()).collect(),
        ids: fields.list("stop_token_ids", limits.stops)?.unwrap_or_default(),
        ignore_eog: fields.take("ignore_eos")?.unwrap_or(false),
        min_tokens: fields.within("min_tokens", 0..=usize::MAX)?.unwrap_or(0),
    })
}

impl Job {
    /// The answers that `parameters` ask for to `request`; their seeds follow each other.
    pub(crate) fn choices(request: Request, parameters: &Parameters) -> Job {
        let Parameters { n, has_progress, time, .. } = *parameters;
        let numbered = |number: i64| {
            let mut request = request.clone();
            request.sampling.seed = request.sampling.seed.map(|seed| seed_of(i64::from(seed) + number));
            request
        };
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
