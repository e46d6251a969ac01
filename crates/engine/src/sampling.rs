//! From logits to a token.
//!
//! [`Params::logit_bias`] and the [`Processor`]s of the request modify the logits. Then the samplers run on the remaining
//! tokens, in the order of [`Params::samplers`], and one token is drawn. At temperature 0 no sampler drops a token: the
//! one with the largest logit after processors and penalties is chosen, the lowest id among equals.

mod chain;
mod device;
mod dry;
mod mirostat;
#[cfg(test)]
mod tests;

use std::fmt;

use ::chat::Preamble;
use backend::{Draw, arg_max, log_sum_exp, top_log_probabilities};
use tokenizer::{Encode, Tokenizer};

use crate::candidates::{self, Candidate};
use crate::params::{Bias, Biased, ParamError, Params, SamplerKind};
use crate::random::{SplitMix64, random_seed};
use chain::Chain;
use device::DeviceSampling;
pub(crate) use dry::Breakers;

/// Why no token can be sampled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum SamplingError {
    /// A parameter outside its range.
    #[error(transparent)]
    Parameter(#[from] ParamError),
    /// A bias for a token that is not in the vocabulary.
    #[error("logit_bias names token {token}, but the vocabulary has {n_vocab} tokens")]
    Bias { token: u32, n_vocab: usize },
    /// The model computed NaN or plus infinity.
    #[error("the logit of token {token} is {value}: the weights are damaged or the computation overflowed")]
    Logit { token: usize, value: f32 },
    /// Every logit of the model is minus infinity.
    #[error("no token is possible: every logit is minus infinity")]
    NoToken,
    /// The bias or a processor has ruled out every token.
    #[error("no token is possible: logit_bias or a processor, such as a grammar, has ruled out every one")]
    RuledOut,
    /// A processor has ruled out every token, and says why.
    #[error("no token is possible: {0}")]
    Failed(String),
}

/// Modifies the logits of a row before a token is sampled from them, such as the mask of a grammar.
///
/// A processor belongs to one request and may have state. It runs once for each token, in order; a preempted request
/// retains its state.
pub trait Processor: fmt::Debug + Send {
    /// Modifies `logits`, one per token of the vocabulary, of the token after `tokens` (prompt and generated ones).
    /// Minus infinity rules a token out.
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]);

    /// Called once `token` follows the tokens of the last [`apply`](Processor::apply), unless it ends the text: the next call
    /// can be prepared while the model computes.
    fn chosen(&mut self, _token: u32) {}

    /// Called before the first [`apply`](Processor::apply) if the text is an answer by a chat template: `preamble` is what may
    /// precede its content.
    fn expect(&mut self, _preamble: &Preamble) {}

    /// Why it has ruled out every token, for the error of the request.
    fn failure(&self) -> Option<String> {
        None
    }

    /// A copy in the same state, for a copy of its request.
    fn boxed_clone(&self) -> Box<dyn Processor>;
}

impl Clone for Box<dyn Processor> {
    fn clone(&self) -> Box<dyn Processor> {
        self.boxed_clone()
    }
}

/// Log-probabilities of a token and of the most likely alternatives: natural logarithms of the softmax of the model's
/// logits, before processors, filters and temperature unless [`Params::draw_logprobs`] says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// Log-probability of the token.
    pub token: f32,
    /// The requested number of most likely tokens, most likely first, the lower id first among equals. Impossible tokens
    /// are omitted.
    pub top: Vec<(u32, f32)>,
}

impl Logprobs {
    /// Log-probabilities of `token` and of the `top` most likely tokens. No logit is NaN.
    pub fn new(logits: &[f32], token: u32, top: usize) -> Logprobs {
        let logit = logits.get(token as usize).map_or(f64::NEG_INFINITY, |&logit| f64::from(logit));
        let total = log_sum_exp(logits);
        Logprobs { token: (logit - total) as f32, top: top_log_probabilities(logits, total, top) }
    }

    /// Log-probabilities of `token` and of the `top` most probable of the candidates from which it was drawn.
    fn from_draw(candidates: &[Candidate], token: u32, top: usize) -> Logprobs {
        let (weights, total) = candidates::weights(candidates);
        let weighed = candidates.iter().zip(weights).filter(|(_, weight)| *weight > 0.0);
        let mut all: Vec<(u32, f64)> =
            weighed.map(|(candidate, weight)| (candidate.id, (weight / total).ln())).collect();
        let own = all.iter().find(|(id, _)| *id == token).map_or(f64::NEG_INFINITY, |(_, logprob)| *logprob);
        all.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let top = all.into_iter().take(top).map(|(id, logprob)| (id, logprob as f32));
        Logprobs { token: own as f32, top: top.collect() }
    }
}

/// Prepares what takes a while for requests with these parameters.
pub(crate) fn prepare(params: &Params, breakers: &Breakers, tokenizer: &Tokenizer) {
    if chain::has_effect(SamplerKind::Dry, params) && params.check().is_ok() {
        breakers.of(&params.dry_sequence_breakers, tokenizer);
    }
}

/// The biases by token id. Fails if one is for a token that is not in the vocabulary.
fn resolved(biases: &[Bias], tokenizer: &Tokenizer) -> Result<Vec<(u32, f32)>, SamplingError> {
    let n_vocab = tokenizer.vocab_size();
    let mut resolved = Vec::with_capacity(biases.len());
    for Bias { token, bias } in biases {
        let bias = if *bias <= -100.0 { f32::NEG_INFINITY } else { *bias };
        match token {
            Biased::Id(id) if *id as usize >= n_vocab => {
                return Err(SamplingError::Bias { token: *id, n_vocab });
            }
            Biased::Id(id) => resolved.push((*id, bias)),
            Biased::Text(text) => {
                let ids = tokenizer.encode(text, Encode { add_special: false, parse_special: false });
                resolved.extend(ids.into_iter().map(|id| (id, bias)));
            }
        }
    }
    Ok(resolved)
}

/// How many last tokens are considered; none is all.
fn last(n: Option<usize>) -> usize {
    n.unwrap_or(usize::MAX)
}

/// Samples the tokens of one request.
#[derive(Clone, Debug)]
pub struct Sampler {
    seed: u32,
    logit_bias: Vec<(u32, f32)>,
    processors: Vec<Box<dyn Processor>>,
    chain: Chain,
    on_device: Option<DeviceSampling>,
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler for the vocabulary of `tokenizer`. The `processors` run after the bias and before the samplers. Fails
    /// if a parameter is out of range, or a bias is for a token outside the vocabulary.
    pub fn new(
        params: Params,
        processors: Vec<Box<dyn Processor>>,
        tokenizer: &Tokenizer,
    ) -> Result<Sampler, SamplingError> {
        Sampler::with(params, Vec::new(), processors, &Breakers::default(), tokenizer)
    }

    /// The same with `banned` tokens, and sequence breakers that may be known.
    pub(crate) fn with(
        params: Params,
        banned: Vec<u32>,
        processors: Vec<Box<dyn Processor>>,
        breakers: &Breakers,
        tokenizer: &Tokenizer,
    ) -> Result<Sampler, SamplingError> {
        params.check()?;
        let seed = params.seed.filter(|seed| *seed != u32::MAX).unwrap_or_else(random_seed);
        let mut logit_bias = resolved(&params.logit_bias, tokenizer)?;
        logit_bias.extend(banned.into_iter().map(|id| (id, f32::NEG_INFINITY)));
        let chain = Chain::new(params, seed, breakers, tokenizer);
        let on_device = if processors.is_empty() { chain.on_device(&logit_bias, seed) } else { None };
        Ok(Sampler {
            seed,
            logit_bias,
            processors,
            chain,
            on_device,
            logits: Vec::new(),
            candidates: Vec::new(),
        })
    }

    /// The seed in use.
    pub fn seed(&self) -> u32 {
        self.seed
    }

    /// Whether sampling is the argmax of the model's logits, so that a device can do it.
    pub fn is_greedy(&self) -> bool {
        self.chain.is_argmax() && !self.modifies_logits()
    }

    fn modifies_logits(&self) -> bool {
        !self.logit_bias.is_empty() || !self.processors.is_empty()
    }

    /// How many of the best candidates [`sample_best`](Sampler::sample_best) needs; `None` if only all logits will do.
    pub(crate) fn candidates_needed(&self) -> Option<usize> {
        let is_lowering = self.logit_bias.iter().all(|(_, bias)| *bias <= 0.0);
        if is_lowering && self.processors.is_empty() {
            self.chain.needed(self.logit_bias.len())
        } else {
            None
        }
    }

    /// How a device can draw the token after `before` and one more token, which need not be known, so that it is the one that
    /// [`sample`](Sampler::sample) gives. `None` if no device can, or if the token is the [argmax](Sampler::is_greedy).
    pub(crate) fn draw(&self, before: &[u32]) -> Option<Draw> {
        let on_device = self.on_device.as_ref().filter(|_| !self.is_greedy());
        on_device.and_then(|on_device| on_device.draw(before))
    }

    /// Samples the token after `tokens` (prompt and generated ones) from `logits`, one per token of the vocabulary.
    /// The draw depends on the seed and on the number of `tokens` alone, so that a text can be continued from any token on.
    /// Fails if a logit is NaN or plus infinity, or no token is possible.
    pub fn sample(&mut self, logits: &[f32], tokens: &[u32]) -> Result<u32, SamplingError> {
        let u = SplitMix64::nth_f64(u64::from(self.seed), tokens.len());
        if let Some(token) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            return Err(SamplingError::Logit { token, value: logits[token] });
        }
        let mut processed = logits;
        if self.modifies_logits() {
            self.logits.clear();
            self.logits.extend_from_slice(logits);
            for &(token, bias) in &self.logit_bias {
                if let Some(logit) = self.logits.get_mut(token as usize) {
                    *logit = biased(*logit, bias);
                }
            }
            self.processors.iter_mut().for_each(|processor| processor.apply(tokens, &mut self.logits));
            processed = &self.logits;
        }
        let chosen = if self.chain.is_argmax() {
            arg_max(processed)
        } else {
            let all = processed.iter().enumerate();
            let all = all.map(|(id, &logit)| Candidate { id: id as u32, logit });
            self.chain.choose(all, tokens, u, &mut self.candidates)
        };
        let failure = || self.processors.iter().find_map(|processor| processor.failure());
        chosen.ok_or_else(|| match arg_max(logits) {
            Some(_) => failure().map_or(SamplingError::RuledOut, SamplingError::Failed),
            None => SamplingError::NoToken,
        })
    }

    /// The same from the `best` candidates, [as many as are needed](Sampler::candidates_needed) or all that are possible, at least
    /// one: the lower id is better among equal logits. Their logits are finite.
    pub(crate) fn sample_best(&mut self, best: &[(u32, f32)], tokens: &[u32]) -> Result<u32, SamplingError> {
        let all = best.iter().map(|&(id, logit)| {
            let own = self.logit_bias.iter().filter(|(token, _)| *token == id);
            Candidate { id, logit: own.fold(logit, |logit, (_, bias)| biased(logit, *bias)) }
        });
        let u = SplitMix64::nth_f64(u64::from(self.seed), tokens.len());
        let chosen = self.chain.choose(all, tokens, u, &mut self.candidates);
        chosen.ok_or(SamplingError::RuledOut)
    }

    /// The log-probabilities by which the last [`sample`](Sampler::sample) drew `token`, and of the `top` most likely of the
    /// tokens that the samplers had left.
    pub fn draw_logprobs(&self, token: u32, top: usize) -> Logprobs {
        if self.chain.is_greedy() {
            Logprobs { token: 0.0, top: [(token, 0.0)].into_iter().take(top).collect() }
        } else {
            Logprobs::from_draw(&self.candidates, token, top)
        }
    }

    /// Takes note that `token` follows the tokens of the last [`sample`](Sampler::sample) and that the text goes on.
    pub fn chosen(&mut self, token: u32) {
        self.processors.iter_mut().for_each(|processor| processor.chosen(token));
    }
}

/// The sum of a logit and its bias, which never overflows to plus infinity.
fn biased(logit: f32, bias: f32) -> f32 {
    (logit + bias).min(f32::MAX)
}
