//! Figures of a model: for `/metrics`, and for the pages and routers that read them.

mod llama;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Load, StopReason, Usage};

use llama::Recent;

/// Figures of one model, written by the thread that computes and read by any.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) running: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) pages_used: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) cached_tokens: AtomicU64,
    /// Tokens of texts whose embeddings or scores were computed.
    embedded_tokens: AtomicU64,
    pub(crate) generated_tokens: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) preemptions: AtomicU64,
    drafts: AtomicU64,
    pub(crate) drafted: AtomicU64,
    pub(crate) accepted: AtomicU64,
    /// Steps of the engine, and the requests that were running in each, added up.
    steps: AtomicU64,
    running_in_steps: AtomicU64,
    /// Tokens of the longest text.
    longest: AtomicU64,
    prefill_micros: AtomicU64,
    decode_micros: AtomicU64,
    recent: Recent,
}

impl Stats {
    fn measure(&self, load: &Load) {
        self.running.store(load.running as u64, Relaxed);
        self.waiting.store(load.waiting as u64, Relaxed);
        self.pages_used.store(load.pages_used as u64, Relaxed);
        self.pages.store(load.pages as u64, Relaxed);
        self.preemptions.store(load.preemptions, Relaxed);
        self.drafts.store(load.drafts.drafts, Relaxed);
        self.drafted.store(load.drafts.drafted, Relaxed);
        self.accepted.store(load.drafts.accepted, Relaxed);
        self.steps.fetch_add(u64::from(load.running > 0), Relaxed);
        self.running_in_steps.fetch_add(load.running as u64, Relaxed);
    }

    /// Counts the texts of a step that computes embeddings.
    pub(crate) fn embedded(&self, tokens: usize) {
        self.embedded_tokens.fetch_add(tokens as u64, Relaxed);
        self.steps.fetch_add(1, Relaxed);
        self.running_in_steps.fetch_add(1, Relaxed);
    }

    /// A call for embeddings or scores has ended.
    pub(crate) fn computed(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// Counts what a request took that has ended, `by_itself` or because nobody wants its answer any more.
    fn ended(&self, usage: &Usage, by_itself: bool) {
        self.prompt_tokens.fetch_add(usage.prompt_tokens as u64, Relaxed);
        self.cached_tokens.fetch_add(usage.reused_tokens as u64, Relaxed);
        self.generated_tokens.fetch_add(usage.generated_tokens as u64, Relaxed);
        self.requests.fetch_add(u64::from(by_itself), Relaxed);
        self.longest.fetch_max((usage.prompt_tokens + usage.generated_tokens) as u64, Relaxed);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.prefill_micros.fetch_add(micros(usage.prefill), Relaxed);
        self.decode_micros.fetch_add(micros(usage.decode), Relaxed);
        self.recent.add(usage);
    }

    /// The share of the KV cache that requests use, from 0 to 1.
    pub(crate) fn kv_usage(&self) -> f64 {
        self.pages_used.load(Relaxed) as f64 / self.pages.load(Relaxed).max(1) as f64
    }
}

/// Writes the figures of a model while its engine steps.
pub(crate) struct Monitor(pub(crate) Arc<Stats>);

impl rustorch::Monitor for Monitor {
    fn stepped(&mut self, load: &Load) {
        self.0.measure(load);
    }

    fn ended(&mut self, usage: &Usage, reason: &StopReason) {
        self.0.ended(usage, *reason != StopReason::Cancelled);
    }
}

/// In the text format of Prometheus, under vLLM's names, and of all models together under llama-server's.
pub(crate) fn text<'a>(
    models: impl Iterator<Item = (&'a str, &'a Stats)> + Clone,
    block_size: usize,
) -> String {
    type Read = fn(&Stats) -> f64;
    let figures: [(&str, &str, &str, Read); 12] = [
        ("num_requests_running", "gauge", "Requests that are being computed.", |stats| count(&stats.running)),
        ("num_requests_waiting", "gauge", "Requests that wait.", |stats| count(&stats.waiting)),
        ("kv_cache_usage_perc", "gauge", "Share of the KV cache in use, from 0 to 1.", Stats::kv_usage),
        ("prefix_cache_queries", "counter", "Prompt tokens looked up in the cache.", |stats| {
            count(&stats.prompt_tokens)
        }),
        ("prefix_cache_hits", "counter", "Prompt tokens found in the cache.", |stats| {
            count(&stats.cached_tokens)
        }),
        ("prompt_tokens", "counter", "Tokens of prompts and of texts to embed.", |stats| {
            count(&stats.prompt_tokens) + count(&stats.embedded_tokens)
        }),
        ("generation_tokens", "counter", "Generated tokens.", |stats| count(&stats.generated_tokens)),
        ("request_success", "counter", "Requests that have ended by themselves.", |stats| {
            count(&stats.requests)
        }),
        ("num_preemptions", "counter", "Requests that lost their pages.", |stats| count(&stats.preemptions)),
        ("spec_decode_num_drafts", "counter", "Steps of requests with drafted tokens.", |stats| {
            count(&stats.drafts)
        }),
        ("spec_decode_num_draft_tokens", "counter", "Drafted tokens.", |stats| count(&stats.drafted)),
        ("spec_decode_num_accepted_tokens", "counter", "Drafted tokens that were accepted.", |stats| {
            count(&stats.accepted)
        }),
    ];
    let totals = llama::text(models.clone().map(|(_, stats)| stats));
    let mut text = String::new();
    for (name, kind, help, read) in figures {
        let total = if kind == "counter" { "_total" } else { "" };
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "# HELP vllm:{name}{total} {help}\n# TYPE vllm:{name}{total} {kind}\n");
        for (model, stats) in models.clone() {
            let _ = writeln!(text, "vllm:{name}{total}{{model_name=\"{}\"}} {}", escaped(model), read(stats));
        }
    }
    text += "# HELP vllm:cache_config_info The KV cache.\n# TYPE vllm:cache_config_info gauge\n";
    for (model, stats) in models {
        let pages = stats.pages.load(Relaxed);
        let _ = writeln!(
            text,
            "vllm:cache_config_info{{model_name=\"{}\",block_size=\"{block_size}\",num_gpu_blocks=\"{pages}\",\
             enable_prefix_caching=\"True\"}} 1",
            escaped(model)
        );
    }
    text + &totals
}

/// The value of a label: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn count(value: &AtomicU64) -> f64 {
    value.load(Relaxed) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_as_prometheus_says() {
        let stats = Stats::default();
        let text = text([("a\\b\"c\nd\u{e9}", &stats)].into_iter(), 16);
        let line =
            text.lines().find(|line| line.starts_with("vllm:num_requests_running{")).expect("a figure");
        assert_eq!(line, r#"vllm:num_requests_running{model_name="a\\b\"c\ndé"} 0"#);
    }
}
