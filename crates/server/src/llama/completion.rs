//! `/completion`.

use std::sync::Arc;

use axum::response::Response;
use engine::{Params, StopReason};
use rustorch::{Delta, DeltaKind, End, Part};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::LLAMA;
use super::props::settings;
use crate::answer::{Pace, joined, prompt_progress, prompt_timings, timings, tokens_text};
use crate::app::App;
use crate::call::{self, Sampling};
use crate::constraint::Constraint;
use crate::error::ApiError;
use crate::fields::{Group, Read, Within, at_most};
use crate::http::Routes;
use crate::keys::Client;
use crate::models::Served;
use crate::openai::logprobs;
use crate::prompts::Prompts;
use crate::shape;
use crate::sse::{self, Out, Writer};

const MAX_FIELDS: usize = 64;

pub(super) type Manner = (Options, Constraint, Sampling);

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// One prompt or several.
    prompt: Prompts,
}

impl Group for Prompt {}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Options {
    /// Answer as a stream.
    #[serde(default)]
    stream: bool,
    /// Return probabilities, and those of so many most likely tokens.
    n_probs: Option<Within<0, 100>>,
    /// Return the ids of the tokens.
    #[serde(default)]
    return_tokens: bool,
    /// Probabilities are those of the draws, after all samplers.
    #[serde(default)]
    post_sampling_probs: bool,
    /// Only these parts of the last event, such as `timings/predicted_ms`.
    #[serde(default)]
    #[schemars(length(max = MAX_FIELDS))]
    response_fields: Vec<String>,
    /// Pieces have times.
    #[serde(default)]
    timings_per_token: bool,
    /// Events of a stream report the progress of the prompt.
    #[serde(default)]
    return_progress: bool,
}

impl Group for Options {
    /// They would change the answer.
    const REFUSED: &'static [&'static str] = &["n_indent", "min_keep", "lora", "image_data"];
    const IGNORED: &'static [&'static str] =
        &["n_keep", "n_discard", "n_cache_reuse", "sse_ping_interval", "backend_sampling"];
}

pub(super) fn routes() -> Routes {
    let complete = LLAMA
        .endpoint("complete", &["/completion"], "Continues texts")
        .reads("LlamaCall", json!({ "prompt": "The capital of Italy is", "n_predict": 4 }))
        .answers("#LlamaCompletions")
        .answers_as("text/event-stream", "#LlamaPiece");
    let completion = json!({
        "index": "integer", "content": "string", "tokens": ["integer"], "stop": "boolean",
        "completion_probabilities?": ["#TokenLogprobs"], "stop_type?": "=eos|=limit|=word", "stopping_word?": "string",
        "model?": "string", "prompt?": "string|null", "has_new_line?": "boolean", "truncated?": "boolean",
        "tokens_predicted?": "integer", "tokens_evaluated?": "integer", "tokens_cached?": "integer",
        "generation_settings?": "object", "prompt_progress?": "object", "timings?": "#Timings",
    });
    // An answer, or the parts of it that `response_fields` names, by their paths.
    let any = "#LlamaCompletion|#LlamaParts";
    Routes::default().post(complete, handle).shapes([
        ("LlamaCompletion", completion),
        ("LlamaParts", json!({ "*": "any" })),
        ("LlamaCompletions", json!([any, [any]])),
        ("LlamaPiece", json!([any, "#LlamaError"])),
    ])
}

async fn handle(read: Read<(Prompt, Manner)>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let (Prompt { prompt }, manner) = read.body;
    answer("prompt", prompt, manner, &read.app, served, &read.client).await
}

/// Errors of the prompt name the field `input_field`.
pub(super) async fn answer(
    input_field: &'static str,
    prompts: Prompts,
    (options, constraint, sampling): Manner,
    app: &Arc<App>,
    served: Arc<Served>,
    client: &Client,
) -> Result<Response, ApiError> {
    at_most("response_fields", &options.response_fields, MAX_FIELDS)?;
    let mut request = sampling.over(&app.config.defaults.params)?;
    request.params.logprobs = options.n_probs.map(|n| n.0).filter(|&n| n > 0);
    request.params.draw_logprobs = options.post_sampling_probs;
    request.progress = options.return_progress;
    let (params, requests) = (request.params.clone(), prompts.requests(&request));
    let mut answers = call::submit(app, &served, client, input_field, requests, constraint.or(None)?).await?;
    let (is_stream, n, prompts) = (options.stream, answers.n, std::mem::take(&mut answers.prompts));
    let (pending, written) = (vec![Pending::default(); n], vec![Value::Null; n]);
    let writer = CompletionWriter { served, options, params, prompts, pending, written };
    sse::respond(writer, answers, is_stream).await
}

struct CompletionWriter {
    served: Arc<Served>,
    options: Options,
    params: Params,
    prompts: Vec<Vec<u32>>,
    pending: Vec<Pending>,
    /// Answers that have ended.
    written: Vec<Value>,
}

/// The pieces of an answer that have not been written.
#[derive(Clone, Default)]
struct Pending {
    text: String,
    tokens: Vec<u32>,
    probabilities: Vec<Value>,
    has_new_line: bool,
    pace: Pace,
}

impl Pending {
    /// The pieces. What stays knows of the lines and the time so far.
    fn take(&mut self) -> Pending {
        let Pending { has_new_line, pace, .. } = *self;
        std::mem::replace(self, Pending { has_new_line, pace, ..Pending::default() })
    }
}

impl Writer for CompletionWriter {
    fn push(&mut self, Delta { choice: index, kind }: Delta, out: &mut Out) {
        let pending = &mut self.pending[index];
        match kind {
            DeltaKind::Progress(progress) if out.is_stream => {
                let mut piece = self.piece(index, Pending::default());
                piece["prompt_progress"] = prompt_progress(&progress);
                if self.options.timings_per_token {
                    piece["timings"] = prompt_timings(&progress);
                }
                out.data(&piece);
            }
            DeltaKind::Token { id, logprobs, .. } => {
                pending.tokens.push(id);
                pending.pace.count();
                let is_draw = self.params.draw_logprobs;
                let json = if is_draw { logprobs::draw_json } else { logprobs::token_json };
                pending.probabilities.extend(logprobs.map(|logprobs| json(&self.served, id, &logprobs)));
            }
            DeltaKind::Part(Part::Content(text)) => {
                pending.has_new_line |= text.contains('\n');
                pending.text.push_str(&text);
                if out.is_stream && !pending.text.is_empty() {
                    let ready = pending.take();
                    let pace = ready.pace;
                    let mut piece = self.piece(index, ready);
                    if self.options.timings_per_token {
                        piece["timings"] = pace.timings();
                    }
                    out.data(&piece);
                }
            }
            DeltaKind::End(end) => {
                let rest = pending.take();
                let last = self.last(index, rest, &end);
                if out.is_stream {
                    out.data(&last);
                } else {
                    self.written[index] = last;
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, error: Option<ApiError>, out: &mut Out) {
        if let Some(error) = error {
            out.data(&shape::llama(&error));
        }
    }

    fn whole(mut self) -> Value {
        if self.written.len() == 1 { self.written.remove(0) } else { self.written.into() }
    }
}

impl CompletionWriter {
    fn piece(&self, index: usize, pending: Pending) -> Value {
        let Options { return_tokens, stream, .. } = self.options;
        let mut piece = json!({
            "index": index,
            "content": pending.text,
            "tokens": if return_tokens || stream { pending.tokens } else { Vec::new() },
            "stop": false,
        });
        if !pending.probabilities.is_empty() {
            piece["completion_probabilities"] = pending.probabilities.into();
        }
        piece
    }

    fn last(&self, index: usize, pending: Pending, End { reason, usage, .. }: &End) -> Value {
        let (stop_type, stopping_word) = match reason {
            StopReason::StopString(word) => ("word", &**word),
            StopReason::MaxTokens | StopReason::ContextFull => ("limit", ""),
            StopReason::Eog(_) | StopReason::StopId(_) | StopReason::Cancelled => ("eos", ""),
        };
        let (params, parts) = (&self.params, &self.options.response_fields);
        let prompt = self.prompts.get(index / params.n).map(|ids| tokens_text(&self.served, ids));
        let more = json!({
            "stop": true,
            "stop_type": stop_type,
            "stopping_word": stopping_word,
            "model": self.served.name,
            "prompt": prompt,
            "has_new_line": pending.has_new_line,
            "truncated": *reason == StopReason::ContextFull,
            "tokens_predicted": usage.generated_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "tokens_cached": usage.reused_tokens,
            "generation_settings": settings(params, usage.seed, self.options.stream),
            "timings": timings(usage),
        });
        let last = joined(self.piece(index, pending), more);
        if parts.is_empty() { last } else { selected(&last, parts) }
    }
}

/// The values at these paths, such as `timings/prompt_n`, by their paths. Those that are not there are left out.
fn selected(whole: &Value, paths: &[String]) -> Value {
    let found = |path: &String| {
        let value = path.split('/').try_fold(whole, |value, name| value.get(name))?;
        Some((path.clone(), value.clone()))
    };
    Value::Object(paths.iter().filter_map(found).collect())
}
