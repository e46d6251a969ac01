//! `/completion`.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use engine::{Logprobs, StopReason};
use rustorch::{DeltaKind, End, Part, Progress};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::LLAMA;
use super::props::settings;
use crate::answer::{Answers, Pace, prompt_progress, prompt_timings, timings, tokens_text};
use crate::app::{Admission, App};
use crate::call::{Call, Parameters, Sampling, Started};
use crate::client::Client;
use crate::error::ApiError;
use crate::fields::{Group, Read, Within, at_most};
use crate::http::Routes;
use crate::models::Served;
use crate::openai::conversation::Constraint;
use crate::openai::logprobs;
use crate::prompts::Prompts;
use crate::shape;
use crate::sse::{self, Events, Gone};

/// Names in `response_fields`.
const MAX_FIELDS: usize = 64;

/// The fields of a completion besides its prompts.
pub(super) type Manner = (Options, Constraint, Sampling);

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// One prompt or several.
    prompt: Prompts,
}

impl Group for Prompt {}

/// How the answers are written.
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
    answer(prompt, manner, &read.app, served, &read.client).await
}

/// Continues the prompts.
pub(super) async fn answer(
    prompts: Prompts,
    (options, constraint, sampling): Manner,
    app: &Arc<App>,
    served: Arc<Served>,
    client: &Client,
) -> Result<Response, ApiError> {
    at_most("response_fields", &options.response_fields, MAX_FIELDS)?;
    let mut parameters = sampling.over(&app.config.defaults.params)?;
    parameters.params.logprobs = options.n_probs.map(|n| n.0).filter(|&n| n > 0);
    parameters.params.draw_logprobs = options.post_sampling_probs;
    parameters.progress = options.return_progress;
    let format = constraint.or(None)?;
    let (inputs, given) = (prompts.inputs(), parameters.clone());
    let call = Call { inputs, input_field: "prompt", parameters: given, format, prompt_logprobs: None };
    let Started { answers, n, admission, prompts } = call.start(app, &served, client).await?;
    let writer = Writer { served, options, parameters, prompts };
    Ok(if writer.options.stream {
        sse::stream(move |events| writer.stream(answers, n, events, admission))
    } else {
        Json(writer.whole(answers, n).await?).into_response()
    })
}

struct Writer {
    served: Arc<Served>,
    options: Options,
    parameters: Parameters,
    /// The ids of each prompt.
    prompts: Vec<Vec<u32>>,
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
    fn push_text(&mut self, text: &str) {
        self.has_new_line |= text.contains('\n');
        self.text.push_str(text);
    }

    /// The pieces. What stays knows of the lines and the time so far.
    fn take(&mut self) -> Pending {
        let Pending { has_new_line, pace, .. } = *self;
        std::mem::replace(self, Pending { has_new_line, pace, ..Pending::default() })
    }
}

impl Writer {
    /// Adds a piece. Returns the end, if that is the piece.
    fn push(&self, pending: &mut Pending, kind: DeltaKind) -> Option<End> {
        match kind {
            DeltaKind::Token { id, logprobs, .. } => {
                pending.tokens.push(id);
                pending.pace.count();
                pending.probabilities.extend(logprobs.map(|logprobs| self.probabilities(id, &logprobs)));
            }
            DeltaKind::Part(Part::Content(text)) => pending.push_text(&text),
            DeltaKind::End(end) => return Some(end),
            _ => {}
        }
        None
    }

    fn probabilities(&self, id: u32, logprobs: &Logprobs) -> Value {
        if self.parameters.params.draw_logprobs {
            logprobs::draw_json(&self.served, id, logprobs)
        } else {
            logprobs::token_json(&self.served, id, logprobs)
        }
    }

    async fn whole(&self, mut answers: Answers, n: usize) -> Result<Value, ApiError> {
        let mut pending = vec![Pending::default(); n];
        let mut written = vec![Value::Null; n];
        while let Some(delta) = answers.next().await? {
            let index = delta.choice;
            if let Some(end) = self.push(&mut pending[index], delta.kind) {
                written[index] = self.last(index, pending[index].take(), &end);
            }
        }
        match (n, written.pop()) {
            (1, Some(only)) => Ok(only),
            (_, last) => Ok(written.into_iter().chain(last).collect()),
        }
    }

    /// Writes the answers as they come. The admission is held until the end.
    async fn stream(
        self,
        mut answers: Answers,
        n: usize,
        events: Events,
        _admission: Admission,
    ) -> Result<(), Gone> {
        let mut pending = vec![Pending::default(); n];
        loop {
            let delta = match answers.next().await {
                Ok(Some(delta)) => delta,
                Ok(None) => return Ok(()),
                Err(error) => return events.data(&shape::llama(&error)).await,
            };
            let index = delta.choice;
            if let DeltaKind::Progress(progress) = &delta.kind {
                events.data(&self.progress(index, progress)).await?;
                continue;
            }
            if let Some(end) = self.push(&mut pending[index], delta.kind) {
                events.data(&self.last(index, pending[index].take(), &end)).await?;
            } else if !pending[index].text.is_empty() {
                let ready = pending[index].take();
                let timings = self.options.timings_per_token.then(|| ready.pace.timings());
                let mut piece = self.piece(index, ready);
                if let Some(timings) = timings {
                    piece["timings"] = timings;
                }
                events.data(&piece).await?;
            }
        }
    }

    fn progress(&self, index: usize, progress: &Progress) -> Value {
        let mut piece = self.piece(index, Pending::default());
        piece["prompt_progress"] = prompt_progress(progress);
        if self.options.timings_per_token {
            piece["timings"] = prompt_timings(progress);
        }
        piece
    }

    fn piece(&self, index: usize, pending: Pending) -> Value {
        let mut piece = json!({
            "index": index,
            "content": pending.text,
            "tokens": if self.options.return_tokens || self.options.stream { pending.tokens } else { Vec::new() },
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
        let (params, parts) = (&self.parameters.params, &self.options.response_fields);
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
        let mut last = self.piece(index, pending);
        if let (Value::Object(last), Value::Object(more)) = (&mut last, more) {
            last.extend(more);
        }
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
