//! Figures of all models together, under llama-server's names.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::Usage;
use parking_lot::Mutex;

use super::Stats;

/// Requests that have ended since the last call, from which rates follow.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Sums>);

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    prompt_tokens: usize,
    prefill: Duration,
    /// Without the first token of an answer, which costs no step.
    decoded_tokens: usize,
    decode: Duration,
}

impl Recent {
    pub(super) fn add(&self, usage: &Usage) {
        let mut sums = self.0.lock();
        sums.prompt_tokens += usage.prefilled_tokens();
        sums.prefill += usage.prefill;
        sums.decoded_tokens += usage.generated_tokens.saturating_sub(1);
        sums.decode += usage.decode;
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

/// In the text format of Prometheus.
pub(super) fn text<'a>(models: impl Iterator<Item = &'a Stats> + Clone) -> String {
    let sum = |read: fn(&Stats) -> &AtomicU64| {
        models.clone().map(|stats| read(stats).load(Relaxed)).sum::<u64>() as f64
    };
    let seconds = |read: fn(&Stats) -> &AtomicU64| sum(read) / 1e6;
    let recent = models.clone().map(|stats| std::mem::take(&mut *stats.recent.0.lock()));
    let recent = recent.fold(Sums::default(), |sums, of| Sums {
        prompt_tokens: sums.prompt_tokens + of.prompt_tokens,
        prefill: sums.prefill + of.prefill,
        decoded_tokens: sums.decoded_tokens + of.decoded_tokens,
        decode: sums.decode + of.decode,
    });
    let cached = sum(|stats| &stats.cached_tokens);
    let steps = sum(|stats| &stats.steps);
    let longest = models.clone().map(|stats| stats.longest.load(Relaxed)).max().unwrap_or(0);
    let figures: [(&str, &str, &str, f64); 15] = [
        (
            "prompt_tokens_total",
            "counter",
            "Prompt tokens that were computed.",
            sum(|stats| &stats.prompt_tokens) + sum(|stats| &stats.embedded_tokens) - cached,
        ),
        ("prompt_tokens_cached_total", "counter", "Prompt tokens that were cached.", cached),
        (
            "prompt_seconds_total",
            "counter",
            "Seconds spent computing prompts.",
            seconds(|stats| &stats.prefill_micros),
        ),
        ("tokens_predicted_total", "counter", "Generated tokens.", sum(|stats| &stats.generated_tokens)),
        (
            "tokens_predicted_seconds_total",
            "counter",
            "Seconds spent generating tokens.",
            seconds(|stats| &stats.decode_micros),
        ),
        ("n_decode_total", "counter", "Steps.", steps),
        ("n_tokens_max", "counter", "Tokens of the longest text.", longest as f64),
        (
            "prompt_tokens_seconds",
            "gauge",
            "Prompt tokens per second, of what has ended since these figures were read.",
            rate(recent.prompt_tokens, recent.prefill),
        ),
        (
            "predicted_tokens_seconds",
            "gauge",
            "Generated tokens per second, of what has ended since these figures were read.",
            rate(recent.decoded_tokens, recent.decode),
        ),
        ("requests_processing", "gauge", "Requests that are being computed.", sum(|stats| &stats.running)),
        ("requests_deferred", "gauge", "Requests that wait.", sum(|stats| &stats.waiting)),
        (
            "n_busy_slots_per_decode",
            "gauge",
            "Requests in a step, on average.",
            sum(|stats| &stats.running_in_steps) / steps.max(1.0),
        ),
        (
            "spec_decode_num_drafts_total",
            "counter",
            "Steps of requests with drafted tokens.",
            sum(|stats| &stats.drafts),
        ),
        ("spec_decode_num_draft_tokens_total", "counter", "Drafted tokens.", sum(|stats| &stats.drafted)),
        (
            "spec_decode_num_accepted_tokens_total",
            "counter",
            "Drafted tokens that were accepted.",
            sum(|stats| &stats.accepted),
        ),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in figures {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"
        );
    }
    text
}
