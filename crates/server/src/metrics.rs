//! Figures of a model: for `/metrics`, and for the pages and routers that read them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use engine::{Load, StopReason, Usage};
use parking_lot::Mutex;

/// Figures of one model, written by the thread that computes and read by any.
#[derive(Debug, Default)]
pub(crate) struct Stats(Mutex<Figures>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) load: Load,
    /// Requests that have ended by themselves.
    requests: u64,
    /// Steps of the engine, and the requests that were running in each, added up.
    steps: u64,
    running_in_steps: u64,
    /// Tokens of texts whose embeddings or scores were computed.
    embedded_tokens: usize,
    /// Tokens of the longest text.
    longest: usize,
    pub(crate) ended: Sums,
    /// Since `/metrics` was read.
    recent: Sums,
}

/// Sums over requests that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) prompt_tokens: usize,
    pub(crate) cached_tokens: usize,
    generated_tokens: usize,
    /// Without the first token of an answer, which costs no step.
    decoded_tokens: usize,
    prefill: Duration,
    decode: Duration,
}

impl Sums {
    fn add(&mut self, usage: &Usage) {
        self.prompt_tokens += usage.prompt_tokens;
        self.cached_tokens += usage.reused_tokens;
        self.generated_tokens += usage.generated_tokens;
        self.decoded_tokens += usage.generated_tokens.saturating_sub(1);
        self.prefill += usage.prefill;
        self.decode += usage.decode;
    }
}

impl Figures {
    /// The share of the KV cache that requests use, from 0 to 1.
    pub(crate) fn kv_usage(&self) -> f64 {
        self.load.blocks_used as f64 / self.load.blocks.max(1) as f64
    }
}

impl Stats {
    pub(crate) fn get(&self) -> Figures {
        *self.0.lock()
    }

    /// Requests for embeddings that wait or are computed.
    pub(crate) fn set_running(&self, running: usize) {
        self.0.lock().load.running = running;
    }

    /// Counts the texts of a step that computes embeddings.
    pub(crate) fn embedded(&self, tokens: usize) {
        let mut figures = self.0.lock();
        figures.embedded_tokens += tokens;
        figures.steps += 1;
        figures.running_in_steps += 1;
    }

    pub(crate) fn computed(&self) {
        self.0.lock().requests += 1;
    }
}

/// Writes the figures of a model while its engine steps.
pub(crate) struct Monitor(pub(crate) Arc<Stats>);

impl rustorch::Monitor for Monitor {
    fn stepped(&mut self, load: &Load) {
        let mut figures = self.0.0.lock();
        figures.load = *load;
        figures.steps += u64::from(load.running > 0);
        figures.running_in_steps += load.running as u64;
    }

    fn ended(&mut self, usage: &Usage, reason: &StopReason) {
        let mut figures = self.0.0.lock();
        figures.requests += u64::from(*reason != StopReason::Cancelled);
        figures.longest = figures.longest.max(usage.prompt_tokens + usage.generated_tokens);
        figures.ended.add(usage);
        figures.recent.add(usage);
    }
}

/// A figure: its name, type, help and value.
type Figure = (&'static str, &'static str, &'static str, fn(&Figures) -> f64);

/// Under vLLM's names, of each model.
const VLLM: [Figure; 9] = [
    ("num_requests_running", "gauge", "Requests that are being computed.", |f| f.load.running as f64),
    ("num_requests_waiting", "gauge", "Requests that wait.", |f| f.load.waiting as f64),
    ("kv_cache_usage_perc", "gauge", "Share of the KV cache in use, from 0 to 1.", Figures::kv_usage),
    ("prefix_cache_queries", "counter", "Prompt tokens looked up in the cache.", |f| {
        f.ended.prompt_tokens as f64
    }),
    ("prefix_cache_hits", "counter", "Prompt tokens found in the cache.", |f| f.ended.cached_tokens as f64),
    ("prompt_tokens", "counter", "Tokens of prompts and of texts to embed.", |f| {
        (f.ended.prompt_tokens + f.embedded_tokens) as f64
    }),
    ("generation_tokens", "counter", "Generated tokens.", |f| f.ended.generated_tokens as f64),
    ("request_success", "counter", "Requests that have ended by themselves.", |f| f.requests as f64),
    ("num_preemptions", "counter", "Requests that lost their KV blocks.", |f| f.load.preemptions as f64),
];

/// Figures of speculation, whose names vLLM and llama-server share.
const DRAFTS: [Figure; 3] = [
    ("spec_decode_num_drafts", "counter", "Steps of requests with drafted tokens.", |f| {
        f.load.drafts.drafts as f64
    }),
    ("spec_decode_num_draft_tokens", "counter", "Drafted tokens.", |f| f.load.drafts.drafted as f64),
    ("spec_decode_num_accepted_tokens", "counter", "Drafted tokens that were accepted.", |f| {
        f.load.drafts.accepted as f64
    }),
];

/// In the text format of Prometheus, under vLLM's names, and of all models together under llama-server's.
pub(crate) fn text<'a>(models: impl Iterator<Item = (&'a str, &'a Stats)>, block_size: usize) -> String {
    let read = |(name, stats): (&str, &Stats)| {
        let mut figures = stats.0.lock();
        let label = format!("model_name=\"{}\"", escaped(name));
        let read = (label, *figures);
        figures.recent = Sums::default();
        read
    };
    let models: Vec<(String, Figures)> = models.map(read).collect();
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let head = |text: &mut String, name: &str, kind: &str, help: &str| {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    };
    for (name, kind, help, read) in VLLM.iter().chain(&DRAFTS) {
        let name = format!("vllm:{name}{}", if *kind == "counter" { "_total" } else { "" });
        head(&mut text, &name, kind, help);
        for (label, figures) in &models {
            let _ = writeln!(text, "{name}{{{label}}} {}", read(figures));
        }
    }
    head(&mut text, "vllm:cache_config_info", "gauge", "The KV cache.");
    for (label, figures) in &models {
        let _ = writeln!(
            text,
            "vllm:cache_config_info{{{label},block_size=\"{block_size}\",num_gpu_blocks=\"{}\",\
             enable_prefix_caching=\"True\"}} 1",
            figures.load.blocks
        );
    }
    let sum = |read: fn(&Figures) -> f64| models.iter().map(|(_, figures)| read(figures)).sum::<f64>();
    let rate = |tokens: f64, seconds: f64| if seconds == 0.0 { 0.0 } else { tokens / seconds };
    let longest = models.iter().map(|(_, figures)| figures.longest).max().unwrap_or(0);
    let (cached, steps) = (sum(|f| f.ended.cached_tokens as f64), sum(|f| f.steps as f64));
    let prompts = sum(|f| (f.ended.prompt_tokens + f.embedded_tokens) as f64) - cached;
    let prefilled = sum(|f| (f.recent.prompt_tokens - f.recent.cached_tokens) as f64);
    let prompt_rate = rate(prefilled, sum(|f| f.recent.prefill.as_secs_f64()));
    let decode_rate = rate(sum(|f| f.recent.decoded_tokens as f64), sum(|f| f.recent.decode.as_secs_f64()));
    let busy = sum(|f| f.running_in_steps as f64) / steps.max(1.0);
    let (prefill, decode) = (sum(|f| f.ended.prefill.as_secs_f64()), sum(|f| f.ended.decode.as_secs_f64()));
    let own = [
        ("prompt_tokens_total", "counter", "Prompt tokens that were computed.", prompts),
        ("prompt_tokens_cached_total", "counter", "Prompt tokens that were cached.", cached),
        ("prompt_seconds_total", "counter", "Seconds spent computing prompts.", prefill),
        ("tokens_predicted_total", "counter", "Generated tokens.", sum(|f| f.ended.generated_tokens as f64)),
        ("tokens_predicted_seconds_total", "counter", "Seconds spent generating tokens.", decode),
        ("n_decode_total", "counter", "Steps.", steps),
        ("n_tokens_max", "counter", "Tokens of the longest text.", longest as f64),
        ("prompt_tokens_seconds", "gauge", PROMPT_RATE, prompt_rate),
        ("predicted_tokens_seconds", "gauge", DECODE_RATE, decode_rate),
        ("requests_processing", "gauge", "Requests that are being computed.", sum(|f| f.load.running as f64)),
        ("requests_deferred", "gauge", "Requests that wait.", sum(|f| f.load.waiting as f64)),
        ("n_busy_slots_per_decode", "gauge", "Requests in a step, on average.", busy),
    ];
    let own = own.map(|(name, kind, help, value)| (name.to_owned(), kind, help, value));
    let drafts = DRAFTS.map(|(name, kind, help, read)| (format!("{name}_total"), kind, help, sum(read)));
    for (name, kind, help, value) in own.into_iter().chain(drafts) {
        let name = format!("llamacpp:{name}");
        head(&mut text, &name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

const PROMPT_RATE: &str = "Prompt tokens per second, of what has ended since these figures were read.";
const DECODE_RATE: &str = "Generated tokens per second, of what has ended since these figures were read.";

/// The value of a label: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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
