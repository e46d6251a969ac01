//! Logits of the whole model: near the reference's, and the same bits whatever a step is like.

use anyhow::{bail, ensure};
use engine::Model;

use super::runner::{Part, Runner};
use crate::backends::Make;

/// What is read. A few dozen tokens of every vocabulary.
const TEXT: &str = "The sun rose over the harbour, and 12 small boats went out to sea. \"What is the weather \
    going to be like?\" asked the youngest of the sailors; nobody knew, and nobody minded.";

/// Most tokens that are read.
const MOST: usize = 32;

/// Fewest tokens that are read: enough to share a step and to be cut in chunks.
const LEAST: usize = 4;

/// Tokens of a longer prompt, which a graphics processor computes in several tiles of rows.
const MANY: usize = 150;

/// Products of the reference that take some ten seconds on a small machine: tokens times parameters.
const WORK: usize = 16_000_000_000;

/// The same for the many steps that are compared by their bits.
const WORK_OF_STEPS: usize = WORK / 10;

/// Parameters of a model that is large for plain Rust.
const LARGE: usize = 2_000_000_000;

/// Mean squared error of logits, as a part of their mean square, where no weight makes activations be
/// rounded to 8 bits.
const FLOAT_NMSE: f64 = 1e-5;

/// The same where some do. What rounding does grows with depth and with how unevenly activations are
/// spread, so no number is right for all models. Random models of two layers (`testkit`) and the demo model in
/// Q8_0, Q4_0, Q4_K, Q6_K, Q3_K and Q2_K have 1.1e-3 at worst. From 1 layer to 48 it grew six times when it was
/// measured, with activations rounded in blocks of 32. The limit is eighteen times the worst; the two wrong
/// kernels of `docs/debugging.md` have 1.2e-1 and 3.8e-1. How close to exact each format is in fact, the
/// project's tests measure against llama.cpp's error.
const QUANTIZED_NMSE: f64 = 2e-2;

/// Mean squared error of a token's logits as a part of their mean square, of many rows beside single ones on a graphics
/// processor: nothing is rounded to less than 11 bits. Over all tokens the demo model has 6e-7 beside the exact ones
/// (`docs/gpu.md`); deep models have more, and one token has more than all of them, so there is a wide margin.
const MANY_NMSE: f64 = 1e-3;

/// Mean divergence from the reference in nats: twelve times the worst, 4.0e-3, of the same models.
const QUANTIZED_KL: f64 = 5e-2;

/// Tokens to compute with in one step: fewer for a large model.
pub(super) fn tokens(model: &Model) -> Vec<u32> {
    let mut tokens = model.encode_prompt(TEXT, false);
    tokens.truncate(affordable(model, WORK));
    tokens.resize(tokens.len().max(LEAST), 0);
    tokens
}

fn affordable(model: &Model, work: usize) -> usize {
    (work / parameters(model).max(1)).clamp(LEAST, MOST)
}

fn parameters(model: &Model) -> usize {
    model.graph().weights().map(|(_, weight)| weight.count * weight.rows * weight.cols).sum()
}

/// Whether even the fewest tokens take minutes in plain Rust.
pub(super) fn is_large(model: &Model) -> bool {
    parameters(model) > LARGE
}

/// The logits after each of `tokens`, computed `rows` at a time, which are numbers.
pub(super) fn logits(
    model: &Model,
    make: &Make,
    tokens: &[u32],
    rows: usize,
) -> anyhow::Result<(String, Vec<f32>)> {
    let mut runner = Runner::new(model, make()?, 1, tokens.len())?;
    let logits = in_chunks(&mut runner, tokens, rows)?;
    model.file().check_intact()?;
    let n_vocab = runner.n_vocab();
    if let Some(at) = logits.iter().position(|logit| !logit.is_finite()) {
        bail!("at position {} the logit of token {} is {}", at / n_vocab, at % n_vocab, logits[at]);
    }
    let low = logits.iter().copied().fold(f32::INFINITY, f32::min);
    let high = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    Ok((format!("{} tokens: all are finite, from {low:.1} to {high:.1}", tokens.len()), logits))
}

/// That a backend's logits, computed `rows` at a time, are the reference's, `exact`, within the limits.
pub(super) fn logits_agree(
    model: &Model,
    exact: &[f32],
    candidate: &Make,
    tokens: &[u32],
    rows: usize,
) -> anyhow::Result<String> {
    let (_, found) = logits(model, candidate, tokens, rows)?;
    let is_float = model.file().tensors().all(|tensor| tensor.format.block_len() == 1);
    let most = if is_float { FLOAT_NMSE } else { QUANTIZED_NMSE };
    let nmse = nmse(exact, &found);
    let n_vocab = exact.len() / tokens.len();
    let rows = || exact.chunks_exact(n_vocab).zip(found.chunks_exact(n_vocab));
    let each: Vec<f64> = rows().map(|(a, b)| kl(a, b)).collect();
    let kl = each.iter().sum::<f64>() / tokens.len() as f64;
    // A comparison that NaN does not pass.
    let is_near = nmse <= most && kl <= QUANTIZED_KL;
    if !is_near {
        let at = (0..each.len()).max_by(|&a, &b| each[a].total_cmp(&each[b])).unwrap_or(0);
        bail!(
            "logits are not the reference's: NMSE {nmse:.2e}, mean KL {kl:.2e}, at most {most:.0e} and \
             {QUANTIZED_KL:.0e} are to be expected; of {} tokens the worst is at position {at}",
            tokens.len()
        );
    }
    let same = rows().filter(|(a, b)| top(a) == top(b)).count();
    Ok(format!(
        "{} tokens: NMSE {nmse:.1e} (at most {most:.0e}), mean KL {kl:.1e}, same top token at {same}",
        tokens.len()
    ))
}

/// That sequences get the same logits alone and in steps that they share.
pub(super) fn batch_is_single(model: &Model, candidate: &Make, tokens: &[u32]) -> anyhow::Result<String> {
    let n = tokens.len().min(affordable(model, WORK_OF_STEPS));
    let tokens = &tokens[..n];
    let mut runner = Runner::new(model, candidate()?, 3, n)?;
    let sequences: Vec<Vec<u32>> = (0..3).map(|by| turned(tokens, by)).collect();
    let alone =
        (0..3).map(|sequence| runner.step(&[Part { sequence, n_past: 0, tokens: &sequences[sequence] }]));
    let alone = alone.collect::<anyhow::Result<Vec<_>>>()?;
    // Single tokens beside the beginning, the rest and the whole of a prompt.
    let (half, last) = (n / 2, n - 1);
    let steps: [&[(usize, usize, usize)]; 3] =
        [&[(0, 0, last)], &[(0, last, n), (1, 0, half)], &[(2, 0, n), (1, half, n)]];
    let width = runner.n_vocab();
    let mut shared = vec![Vec::new(); 3];
    for step in steps {
        let part = |&(sequence, from, to): &(usize, usize, usize)| Part {
            sequence,
            n_past: from,
            tokens: &sequences[sequence][from..to],
        };
        let parts: Vec<Part<'_>> = step.iter().map(part).collect();
        let mut logits = &runner.step(&parts)?[..];
        for part in parts {
            let (own, others) = logits.split_at(part.tokens.len() * width);
            shared[part.sequence].extend_from_slice(own);
            logits = others;
        }
    }
    model.file().check_intact()?;
    for (sequence, (alone, shared)) in alone.iter().zip(&shared).enumerate() {
        same_bits(alone, shared, width, ["alone", "beside others"])
            .map_err(|difference| anyhow::anyhow!("sequence {sequence}: {difference}"))?;
    }
    Ok(format!("3 sequences of {n} tokens: the same bits alone and beside others"))
}

/// That a prompt gets the same logits whole and in chunks.
pub(super) fn chunks_are_whole(model: &Model, candidate: &Make, tokens: &[u32]) -> anyhow::Result<String> {
    let tokens = &tokens[..tokens.len().min(affordable(model, WORK_OF_STEPS))];
    let mut runner = Runner::new(model, candidate()?, 1, tokens.len())?;
    let whole = runner.step(&[Part { sequence: 0, n_past: 0, tokens }])?;
    for chunk in [1, 3] {
        let logits = in_chunks(&mut runner, tokens, chunk)?;
        same_bits(&whole, &logits, runner.n_vocab(), ["whole", &format!("in chunks of {chunk}")])?;
    }
    model.file().check_intact()?;
    Ok(format!("{} tokens: the same bits whole and in chunks of 1 and 3", tokens.len()))
}

/// That a prompt of many rows gets about the same logits at once and token by token. There are no exact ones, which
/// would take plain Rust too long.
pub(super) fn many_rows_are_single(model: &Model, candidate: &Make) -> anyhow::Result<String> {
    let text = model.encode_prompt(TEXT, false);
    let tokens: Vec<u32> = text.iter().chain(&[0]).copied().cycle().take(MANY).collect();
    // As many rows as the logits of a step may take.
    let every = MANY.div_ceil(engine::all_logits_rows(model.config().vocab_size, MANY));
    let outputs: Vec<u32> = (0..MANY as u32).step_by(every).collect();
    let mut runner = Runner::with_outputs(model, candidate()?, [1, MANY], outputs.len())?;
    let at_once =
        runner.rows(&[Part { sequence: 0, n_past: 0, tokens: &tokens }], outputs.iter().copied())?;
    let mut single = Vec::with_capacity(at_once.len());
    for (n_past, tokens) in tokens.chunks(1).enumerate() {
        let logits = runner.step(&[Part { sequence: 0, n_past, tokens }])?;
        if n_past.is_multiple_of(every) {
            single.extend(logits);
        }
    }
    model.file().check_intact()?;
    let rows = single.chunks_exact(runner.n_vocab()).zip(at_once.chunks_exact(runner.n_vocab()));
    let (mut worst, mut at) = (0.0, 0);
    for ((single, at_once), position) in rows.zip(outputs) {
        let nmse = nmse(single, at_once);
        // A comparison that NaN does not pass.
        let is_near = nmse <= MANY_NMSE && single.iter().all(|logit| logit.is_finite());
        ensure!(
            is_near,
            "logits of {MANY} tokens at once are not those token by token: NMSE {nmse:.2e} at position {position}, \
             at most {MANY_NMSE:.0e} is to be expected"
        );
        if nmse >= worst {
            (worst, at) = (nmse, position);
        }
    }
    Ok(format!("{MANY} tokens at once and one by one: NMSE at most {worst:.1e}, at position {at}"))
}

/// The logits of `tokens`, in steps of so many.
fn in_chunks(runner: &mut Runner, tokens: &[u32], chunk: usize) -> anyhow::Result<Vec<f32>> {
    let mut logits = Vec::with_capacity(tokens.len() * runner.n_vocab());
    for (i, tokens) in tokens.chunks(chunk).enumerate() {
        logits.extend(runner.step(&[Part { sequence: 0, n_past: i * chunk, tokens }])?);
    }
    Ok(logits)
}

/// `tokens` in another order; the first, which may be BOS, stays.
fn turned(tokens: &[u32], by: usize) -> Vec<u32> {
    let mut tokens = tokens.to_vec();
    if let [_, rest @ ..] = &mut tokens[..]
        && !rest.is_empty()
    {
        let by = by % rest.len();
        rest.rotate_left(by);
    }
    tokens
}

fn same_bits(a: &[f32], b: &[f32], width: usize, how: [&str; 2]) -> anyhow::Result<()> {
    ensure!(a.len() == b.len(), "{} logits {}, {} {}", a.len(), how[0], b.len(), how[1]);
    match a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits()) {
        None => Ok(()),
        Some(at) => bail!(
            "at position {} the logit of token {} is {} {} and {} {}",
            at / width,
            at % width,
            a[at],
            how[0],
            b[at],
            how[1]
        ),
    }
}

/// Normalised mean squared error: `sum (a - b)^2 / sum a^2`, `a` the reference, over all but what is finite
/// in neither. Where something is finite in one alone, it is no number or infinite.
pub(super) fn nmse(reference: &[f32], found: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let pairs = reference.iter().zip(found).filter(|(a, b)| a.is_finite() || b.is_finite());
    let pairs = pairs.map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let (error, size) =
        pairs.fold((0.0, 0.0), |(error, size), (a, b)| (error + square(a - b), size + square(a)));
    if error == 0.0 { 0.0 } else { error / size }
}

/// `sum p ln(p / q)` of the distributions that two rows of logits stand for, in nats.
fn kl(reference: &[f32], found: &[f32]) -> f64 {
    let logs = |logits: &[f32]| -> Vec<f64> {
        let max = logits.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
        let total = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum::<f64>().ln();
        logits.iter().map(|&x| f64::from(x) - max - total).collect()
    };
    logs(reference).iter().zip(logs(found)).map(|(&p, q)| p.exp() * (p - q)).sum()
}

/// The token with the largest logit.
fn top(logits: &[f32]) -> usize {
    (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best })
}
