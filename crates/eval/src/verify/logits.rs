//! Logits of the whole model: close to the reference's, and the same bits whatever shares a step.

use backend::{arg_max, log_sum_exp};
use engine::Model;
use runner::FileWeights;

use super::steps::{Part, Runner};
use super::{Candidate, Checked};
use crate::statistics::kl_divergence;

pub(super) const TEXT: &str = "The sun rose over the harbour, and 12 small boats went out to sea. \"What is the weather \
    going to be like?\" asked the youngest of the sailors; nobody knew, and nobody minded.";

const MAX_TOKENS: usize = 32;

/// Minimum length: enough to share steps and to be cut into chunks.
const MIN_TOKENS: usize = 4;

/// Parameters times tokens that the reference computes in about ten seconds on a small machine.
const WORK: usize = 16_000_000_000;

/// The same for the many steps whose bits are compared.
const WORK_OF_STEPS: usize = WORK / 10;

/// Parameters above which scalar kernels take minutes.
const LARGE: usize = 2_000_000_000;

/// NMSE limit of logits if all weights are floats.
const FLOAT_NMSE: f64 = 1e-5;

/// NMSE limit of logits if activations are quantised to 8 bits. That error grows with depth (six times from 1 layer to 48)
/// and with outliers in the activations. Random models of two layers and the demo model reach 1.1e-3 in Q8_0, Q4_0, Q4_K,
/// Q6_K, Q3_K and Q2_K; the limit is 18 times that. The two wrong kernels of `docs/debugging.md` have 1.2e-1 and 3.8e-1.
pub(super) const QUANTIZED_NMSE: f64 = 2e-2;

/// Limit of the mean KL divergence from the reference, in nats: twelve times the largest of the same models, 4.0e-3.
const MAX_KL: f64 = 5e-2;

pub(super) fn tokens(model: &Model) -> Vec<u32> {
    let mut tokens = model.encode_prompt(TEXT, false);
    tokens.truncate(affordable(model, WORK));
    tokens.resize(tokens.len().max(MIN_TOKENS), 0);
    tokens
}

fn affordable(model: &Model, work: usize) -> usize {
    (work / parameters(model).max(1)).clamp(MIN_TOKENS, MAX_TOKENS)
}

fn parameters(model: &Model) -> usize {
    model.graph().weights().map(|(_, weight)| weight.count * weight.rows * weight.cols).sum()
}

/// Whether even the shortest prompt takes minutes with scalar kernels.
pub(super) fn is_large(model: &Model) -> bool {
    parameters(model) > LARGE
}

/// The logits after each of `tokens`, computed `rows` at a time. Fails unless all are finite.
pub(super) fn compute(
    model: &Model,
    candidate: &Candidate,
    tokens: &[u32],
    rows: usize,
) -> Checked<Vec<f32>> {
    let weights = FileWeights(model.file());
    let mut runner = Runner::new(model.graph(), &weights, candidate, [1, tokens.len()], tokens.len())?;
    let mut logits = Vec::new();
    for (i, tokens) in tokens.chunks(rows).enumerate() {
        logits.extend(runner.step(&[Part { sequence: 0, n_past: i * rows, tokens }])?);
    }
    model.file().check_intact()?;
    if let Some(at) = logits.iter().position(|logit| !logit.is_finite()) {
        let (position, token) = (at / runner.n_vocab, at % runner.n_vocab);
        return Err(format!("at position {position} the logit of token {token} is {}", logits[at]).into());
    }
    let low = logits.iter().copied().fold(f32::INFINITY, f32::min);
    let high = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    Ok((format!("{} tokens: all are finite, from {low:.1} to {high:.1}", tokens.len()), logits))
}

pub(super) fn agree(
    model: &Model,
    exact: &[f32],
    candidate: &Candidate,
    tokens: &[u32],
    rows: usize,
) -> Checked {
    let (_, found) = compute(model, candidate, tokens, rows)?;
    let is_float = model.file().tensors().all(|tensor| tensor.format.block_len() == 1);
    let limit = if is_float { FLOAT_NMSE } else { QUANTIZED_NMSE };
    let nmse = nmse(exact, &found);
    let n_vocab = exact.len() / tokens.len();
    let rows = || exact.chunks_exact(n_vocab).zip(found.chunks_exact(n_vocab));
    let divergences: Vec<f64> = rows()
        .map(|(exact, found)| {
            let total = log_sum_exp(exact);
            let exact: Vec<f32> = exact.iter().map(|&logit| (f64::from(logit) - total) as f32).collect();
            kl_divergence(&exact, found)
        })
        .collect();
    let kl = divergences.iter().sum::<f64>() / tokens.len() as f64;
    let count = tokens.len();
    // False for NaN, too.
    if nmse <= limit && kl <= MAX_KL {
        let same = rows().filter(|(a, b)| arg_max(a) == arg_max(b)).count();
        let detail =
            format!("NMSE {nmse:.1e} (limit {limit:.0e}), mean KL {kl:.1e}, same top token at {same}");
        return Ok((format!("{count} tokens: {detail}"), ()));
    }
    let worst = (0..count).max_by(|&a, &b| divergences[a].total_cmp(&divergences[b])).unwrap_or(0);
    Err(format!(
        "logits differ from the reference's: NMSE {nmse:.2e} (limit {limit:.0e}), mean KL {kl:.2e} (limit \
         {MAX_KL:.0e}); of {count} tokens position {worst} is worst"
    )
    .into())
}

/// Compares the logits of three sequences, alone and in shared steps of a token, three tokens and the whole prompt.
pub(super) fn same_bits_in_any_step(model: &Model, candidate: &Candidate, tokens: &[u32]) -> Checked {
    let n = tokens.len().min(affordable(model, WORK_OF_STEPS));
    let mut runner = Runner::new(model.graph(), &FileWeights(model.file()), candidate, [3, n], 3 * n)?;
    let sequences = [0, 1, 2].map(|by| {
        let mut tokens = tokens[..n].to_vec();
        // The first token, which may be BOS, stays.
        tokens[1..].rotate_left(by);
        tokens
    });
    let (mut alone, mut shared) = (Vec::new(), [const { Vec::new() }; 3]);
    for (sequence, tokens) in sequences.iter().enumerate() {
        alone.push(runner.step(&[Part { sequence, n_past: 0, tokens }])?);
    }
    let chunks = [1, 3, n];
    for step in 0..n {
        let part = |sequence: usize| {
            let chunk: usize = chunks[sequence];
            let tokens = sequences[sequence].chunks(chunk).nth(step)?;
            Some(Part { sequence, n_past: step * chunk, tokens })
        };
        let parts: Vec<Part<'_>> = (0..3).filter_map(part).collect();
        let mut logits = &*runner.step(&parts)?;
        for part in parts {
            let (own, others) = logits.split_at(part.tokens.len() * runner.n_vocab);
            shared[part.sequence].extend_from_slice(own);
            logits = others;
        }
    }
    model.file().check_intact()?;
    for (sequence, (alone, shared)) in alone.iter().zip(&shared).enumerate() {
        if let Some(at) = alone.iter().zip(shared).position(|(a, b)| a.to_bits() != b.to_bits()) {
            let (position, token) = (at / runner.n_vocab, at % runner.n_vocab);
            return Err(format!(
                "sequence {sequence}, computed {} tokens at a time, at position {position}: the logit of token \
                 {token} is {} alone and {} in shared steps",
                chunks[sequence], alone[at], shared[at]
            )
            .into());
        }
    }
    Ok((format!("3 sequences of {n} tokens: the same bits alone, in chunks and in shared steps"), ()))
}

/// `sum (a - b)^2 / sum a^2` without what is finite on neither side; NaN or infinite if a value is finite on one side only.
pub(super) fn nmse(reference: &[f32], found: &[f32]) -> f64 {
    let pairs = reference.iter().zip(found).filter(|(a, b)| a.is_finite() || b.is_finite());
    let (mut error, mut size) = (0.0, 0.0);
    for (a, b) in pairs.map(|(&a, &b)| (f64::from(a), f64::from(b))) {
        error += (a - b).powi(2);
        size += a.powi(2);
    }
    if error == 0.0 { 0.0 } else { error / size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_finite_on_one_side_only_exceeds_any_limit() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert_eq!(nmse(&[nan, inf, 2.0], &[nan, -inf, 1.0]), 0.25);
        for (reference, found) in [(nan, 0.0), (0.0, nan), (inf, 1.0), (1.0, inf)] {
            let nmse = nmse(&[reference, 2.0], &[found, 2.0]);
            assert!(nmse.is_nan() || nmse > 1.0, "{reference}, {found}: {nmse}");
        }
    }
}
