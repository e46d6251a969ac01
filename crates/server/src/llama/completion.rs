//! `/completion`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use engine::{Logprobs, StopReason};
use rustorch::{DeltaKind, End, Part, Progress};
use serde_json::{Value, json};

use super::settings;
use crate::answer::{Answers, Pace, prompt_progress, text_of, timings, timings_of_prompt};
use crate::app::{App, Place};
use crate::call::{Call, Parameters, Started, progress};
use crate::error::ApiError;
use crate::fields::{self, Fields};
use crate::http::{Client, call, with_ignored};
use crate::models::Served;
use crate::openai::conversation::constraint;
use crate::openai::logprobs;
use crate::prompts::Prompts;
use crate::shape;
use crate::sse::{self, Events, Gone};

/// Most likely tokens with each token.
pub(crate) const MAX_PROBS: usize = 100;

/// Fields of llama-server that change no answer here, besides those of [all](fields::HARMLESS).
pub(crate) const HARMLESS: &[&str] =
    &["n_keep", "n_discard", "n_cache_reuse", "sse_ping_interval", "backend_sampling"];

/// Fields of llama-server that would change the answer.
pub(crate) const REFUSED: &[&str] = &["n_indent", "min_keep", "lora", "image_data"];

/// Names in `response_fields`.
pub(crate) const MAX_FIELDS: usize = 64;

/// How the answers are written.
struct Output {
    parameters: Parameters,
    has_tokens: bool,
    has_timings: bool,
    is_stream: bool,
    /// Of the last event, the parts to write, such as `timings/prompt_n`; none writes all.
    parts: Vec<String>,
}

/// What a call asks for, besides its prompts and the constraint of its answers.
fn read(fields: &mut Fields, app: &App) -> Result<Output, ApiError> {
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let mut parameters = Parameters::read(fields, &app.config.defaults.params)?;
    parameters.params.logprobs = fields.within("n_probs", 0..=MAX_PROBS)?.filter(|&n| n > 0);
    parameters.params.logprobs_of_draw = fields.take("post_sampling_probs")?.unwrap_or(false);
    parameters.progress = progress(fields)?;
    let output = Output {
        parameters,
        has_tokens: fields.take("return_tokens")?.unwrap_or(false) || is_stream,
        has_timings: fields.take("timings_per_token")?.unwrap_or(false),
        is_stream,
        parts: fields.list("response_fields", MAX_FIELDS)?.unwrap_or_default(),
    };
    fields.refuse(REFUSED)?;
    fields.ignore(HARMLESS);
    fields.ignore(fields::HARMLESS);
    Ok(output)
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let prompts: Prompts = fields.require("prompt")?;
    answer(fields, prompts, &app, served, &client).await
}

/// Continues `prompts` as the other fields say.
pub(super) async fn answer(
    mut fields: Fields,
    prompts: Prompts,
    app: &Arc<App>,
    served: Arc<Served>,
    client: &Client,
) -> Result<Response, ApiError> {
    let output = read(&mut fields, app)?;
    let format = constraint(&mut fields)?;
    let ignored = fields.unknown();
    let parameters = output.parameters.clone();
    let call =
        Call { inputs: prompts.inputs(), input_field: "prompt", parameters, format, prompt_logprobs: None };
    let Started { answers, n, place, prompts } = call.start(app, &served, client).await?;
    let writer = Writer { served, output, prompts };
    let response = match writer.output.is_stream {
        true => sse::stream(move |events| writer.stream(answers, n, events, place)),
        false => Json(writer.whole(answers, n).await?).into_response(),
    };
    Ok(with_ignored(response, &ignored))
}

struct Writer {
    served: Arc<Served>,
    output: Output,
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
        if self.output.parameters.params.logprobs_of_draw {
            logprobs::of_draw(&self.served, id, logprobs)
        } else {
            logprobs::of_token(&self.served, id, logprobs)
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

    /// Writes the answers as they come. `place` is held until the end.
    async fn stream(self, mut answers: Answers, n: usize, events: Events, place: Place) -> Result<(), Gone> {
        let _place = place;
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
                let timings = self.output.has_timings.then(|| ready.pace.timings());
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
        if self.output.has_timings {
            piece["timings"] = timings_of_prompt(progress);
        }
        piece
    }

    fn piece(&self, index: usize, pending: Pending) -> Value {
        let mut piece = json!({
            "index": index,
            "content": pending.text,
            "tokens": if self.output.has_tokens { pending.tokens } else { Vec::new() },
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
        let Output { parameters: Parameters { params, .. }, is_stream, parts, .. } = &self.output;
        let prompt = self.prompts.get(index / params.n).map(|ids| text_of(&self.served, ids));
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
            "generation_settings": settings::json(params, usage.seed, *is_stream),
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
