//! Statistics of logits and of a base's log-probabilities, as `llama-perplexity` defines them. Sums are in f64.

use backend::{arg_max, log_sum_exp};
use serde::ser::{Serialize, Serializer};

/// Base log-probabilities up to this one add nothing to a divergence.
const MIN_LOG_PROB: f32 = -16.0;

/// A value and its standard error, in the same unit.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Estimate {
    pub value: f64,
    pub standard_error: f64,
}

impl Estimate {
    pub(crate) fn exp(self) -> Estimate {
        let value = self.value.exp();
        Estimate { value, standard_error: value * self.standard_error }
    }

    fn sqrt(self) -> Estimate {
        let value = self.value.sqrt();
        let standard_error = if value > 0.0 { 0.5 / value * self.standard_error } else { 0.0 };
        Estimate { value, standard_error }
    }
}

pub(crate) fn nll(logits: &[f32], next: u32) -> f64 {
    log_sum_exp(logits) - f64::from(logits[next as usize])
}

/// `sum p ln(p / q)` in nats: `p` by its log-probabilities, `q` by its logits.
pub(crate) fn kl_divergence(base: &[f32], logits: &[f32]) -> f64 {
    let total = log_sum_exp(logits);
    let counted = base.iter().zip(logits).filter(|(base, _)| **base > MIN_LOG_PROB);
    let terms = counted.map(|(&base, &logit)| {
        let base = f64::from(base);
        base.exp() * (base - (f64::from(logit) - total))
    });
    terms.sum()
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Sums {
    pub(crate) fn add(&mut self, x: f64) {
        self.count += 1;
        self.sum += x;
        self.squares += x * x;
    }

    /// Mean, and its standard error with `count - 1` degrees of freedom.
    pub(crate) fn mean(&self) -> Estimate {
        let count = self.count as f64;
        let value = self.sum / count;
        let variance = (self.squares / count - value * value).max(0.0);
        Estimate {
            value,
            standard_error: if self.count > 1 { (variance / (count - 1.0)).sqrt() } else { 0.0 },
        }
    }
}

/// Compares a model with a base, over positions of a text.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    base: Sums,
    /// Sum of the products of both negative log-likelihoods.
    products: f64,
    kl: Sums,
    kl_values: Vec<f32>,
    p_diff: Sums,
    p_diff_squares: Sums,
    p_diff_values: Vec<f32>,
    same_top: usize,
}

impl Comparison {
    /// Adds a position: the model's logits, the base's log-probabilities, and the next token with its `nll`.
    pub(crate) fn add(&mut self, nll: f64, logits: &[f32], base: &[f32], next: u32) {
        let base_nll = -f64::from(base[next as usize]);
        self.base.add(base_nll);
        self.products += nll * base_nll;

        self.same_top += usize::from(arg_max(logits) == arg_max(base));
        let kl = kl_divergence(base, logits);
        self.kl.add(kl);
        self.kl_values.push(kl as f32);

        let p_diff = (-nll).exp() - (-base_nll).exp();
        self.p_diff.add(p_diff);
        self.p_diff_squares.add(p_diff * p_diff);
        self.p_diff_values.push(p_diff as f32);
    }

    /// `nll` sums the model's negative log-likelihoods at the same positions.
    pub(crate) fn divergence(mut self, nll: &Sums) -> Divergence {
        let count = nll.count as f64;
        let (model, base) = (nll.mean(), self.base.mean());
        let covariance = if count > 1.0 {
            (self.products / count - model.value * base.value) / (count - 1.0)
        } else {
            0.0
        };
        let errors = model.standard_error * base.standard_error;
        let spread = |a: f64, b: f64, covariance: f64| (a * a + b * b - 2.0 * covariance).max(0.0).sqrt();
        let log_ratio = Estimate {
            value: model.value - base.value,
            standard_error: spread(model.standard_error, base.standard_error, covariance),
        };
        let (ppl, base_ppl) = (model.exp(), base.exp());
        let difference = Estimate {
            value: ppl.value - base_ppl.value,
            standard_error: spread(
                ppl.standard_error,
                base_ppl.standard_error,
                ppl.value * base_ppl.value * covariance,
            ),
        };
        let same_top = self.same_top as f64 / count;
        let same_top_error = (same_top * (1.0 - same_top) / (count - 1.0).max(1.0)).sqrt();
        Divergence {
            perplexity: ppl,
            base_perplexity: base_ppl,
            correlation: if errors > 0.0 { covariance / errors } else { 0.0 },
            log_ratio,
            ratio: log_ratio.exp(),
            difference,
            kl: self.kl.mean(),
            kl_spread: Spread::of(&mut self.kl_values),
            p_diff: self.p_diff.mean(),
            p_diff_rms: self.p_diff_squares.mean().sqrt(),
            p_diff_spread: Spread::of(&mut self.p_diff_values),
            same_top: Estimate { value: same_top, standard_error: same_top_error },
        }
    }
}

/// How far a model is from a base. Divergences are in nats, probabilities from 0 to 1.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Divergence {
    /// The model's perplexity.
    pub perplexity: Estimate,
    /// The base's.
    pub base_perplexity: Estimate,
    /// Correlation of both logarithms of perplexity.
    pub correlation: f64,
    /// `ln(perplexity / base_perplexity)`; its error is that of paired positions.
    pub log_ratio: Estimate,
    /// `perplexity / base_perplexity`
    pub ratio: Estimate,
    /// `perplexity - base_perplexity`
    pub difference: Estimate,
    /// Mean of `KL(base ‖ model)` of a position.
    pub kl: Estimate,
    /// Its spread over positions.
    pub kl_spread: Spread,
    /// Probability of the text's token less the base's.
    pub p_diff: Estimate,
    /// Its root mean square.
    pub p_diff_rms: Estimate,
    /// Its spread over positions.
    pub p_diff_spread: Spread,
    /// Share of positions where both find the same token most probable.
    pub same_top: Estimate,
}

/// The percentiles of values, the highest first, interpolated between neighbouring values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread([f32; PERCENTILES.len()]);

/// Names in JSON, names of `llama-perplexity`, and percents.
const PERCENTILES: [(&str, &str, f64); 13] = [
    ("maximum", "Maximum", 100.0),
    ("p99_9", "99.9%", 99.9),
    ("p99", "99.0%", 99.0),
    ("p95", "95.0%", 95.0),
    ("p90", "90.0%", 90.0),
    ("p75", "75.0%", 75.0),
    ("median", "Median", 50.0),
    ("p25", "25.0%", 25.0),
    ("p10", "10.0%", 10.0),
    ("p5", " 5.0%", 5.0),
    ("p1", " 1.0%", 1.0),
    ("p0_1", " 0.1%", 0.1),
    ("minimum", "Minimum", 0.0),
];

impl Spread {
    /// Sorts `values`, which must not be empty.
    fn of(values: &mut [f32]) -> Spread {
        values.sort_by(f32::total_cmp);
        Spread(PERCENTILES.map(|(.., percent)| {
            let index = percent / 100.0 * (values.len() - 1) as f64;
            let (below, above) = (index.floor() as usize, index.ceil() as usize);
            let part = index - index.floor();
            ((1.0 - part) * f64::from(values[below]) + part * f64::from(values[above])) as f32
        }))
    }

    /// The values with the names that `llama-perplexity` prints.
    pub fn labelled(&self) -> impl Iterator<Item = (&'static str, f32)> {
        PERCENTILES.iter().zip(self.0).map(|(&(_, label, _), value)| (label, value))
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(PERCENTILES.iter().zip(self.0).map(|(&(name, ..), value)| (name, value)))
    }
}
