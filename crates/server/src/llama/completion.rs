//! `/completion`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use chat::Delta;
use engine::{StopReason, Usage};
use serde_json::{Value, json};

use super::settings;
use crate::answer::{Answers, Chosen, News, Pace, prompt_progress, text_of, timings, timings_of_prompt};
use crate::app::{App, Place};
use crate::error::ApiError;
use crate::fields::{self, Fields};
use crate::http::{Client, call, with_ignored};
use crate::job::{Parameters, progress};
use crate::models::Served;
use crate::openai::conversation::constraint;
use crate::openai::logprobs;
use crate::prompts::{Continuation, Prompts};
use crate::shape;
use crate::sse::{self, Events, Gone};
use crate::turn::Started;
use crate::watch::Progress;

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
    parameters.has_progress = progress(fields)?;
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
    let continuation = Continuation { prompt_logprobs: None, prompts, parameters, format };
    let Started { answers, n, place, prompts } = continuation.start(app, &served, client).await?;
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

/// Of an answer, what has not been written yet.
#[derive(Clone, Default)]
struct Part {
    text: String,
    tokens: Vec<u32>,
    probabilities: Vec<Value>,
    has_new_line: bool,
    pace: Pace,
}

impl Part {
    fn push(&mut self, deltas: Vec<Delta>, token: Option<u32>, probabilities: Option<Value>) {
        self.tokens.extend(token);
        self.pace.count(token);
        self.probabilities.extend(probabilities);
        for delta in deltas {
            if let Delta::Content(text) = delta {
                self.has_new_line |= text.contains('\n');
                self.text.push_str(&text);
            }
        }
    }

    /// What there is. What stays knows of the lines and the time so far.
    fn take(&mut self) -> Part {
        let Part { has_new_line, pace, .. } = *self;
        std::mem::replace(self, Part { has_new_line, pace, ..Part::default() })
    }
}

impl Writer {
    fn probabilities(&self, chosen: &Chosen) -> Value {
        if self.output.parameters.params.logprobs_of_draw {
            logprobs::of_draw(&self.served, chosen)
        } else {
            logprobs::of_token(&self.served, chosen)
        }
    }

    async fn whole(&self, mut answers: Answers, n: usize) -> Result<Value, ApiError> {
        let mut parts = vec![Part::default(); n];
        let mut written = vec![Value::Null; n];
        while let Some(news) = answers.next().await? {
            match news {
                News::More { index, deltas, token, chosen, .. } => {
                    parts[index].push(deltas, token, chosen.map(|chosen| self.probabilities(&chosen)));
                }
                News::Done { index, deltas, reason, usage } => {
                    parts[index].push(deltas, None, None);
                    written[index] = self.last(index, parts[index].take(), &reason, &usage);
                }
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
        let mut parts = vec![Part::default(); n];
        loop {
            match answers.next().await {
                Ok(Some(News::More { index, progress: Some(progress), .. })) => {
                    events.data(&self.progress(index, &progress)).await?;
                }
                Ok(Some(News::More { index, deltas, token, chosen, .. })) => {
                    parts[index].push(deltas, token, chosen.map(|chosen| self.probabilities(&chosen)));
                    if !parts[index].text.is_empty() {
                        let part = parts[index].take();
                        let timings = self.output.has_timings.then(|| part.pace.timings());
                        let mut piece = self.piece(index, part);
                        if let Some(timings) = timings {
                            piece["timings"] = timings;
                        }
                        events.data(&piece).await?;
                    }
                }
                Ok(Some(News::Done { index, deltas, reason, usage })) => {
                    parts[index].push(deltas, None, None);
                    events.data(&self.last(index, parts[index].take(), &reason, &usage)).await?;
                }
                Ok(None) => return Ok(()),
                Err(error) => return events.data(&shape::llama(&error)).await,
            }
        }
    }

    fn progress(&self, index: usize, progress: &Progress) -> Value {
        let mut piece = self.piece(index, Part::default());
        piece["prompt_progress"] = prompt_progress(progress);
        if self.output.has_timings {
            piece["timings"] = timings_of_prompt(progress);
        }
        piece
    }

    fn piece(&self, index: usize, part: Part) -> Value {
        let mut piece = json!({
            "index": index,
            "content": part.text,
            "tokens": if self.output.has_tokens { part.tokens } else { Vec::new() },
            "stop": false,
        });
        if !part.probabilities.is_empty() {
            piece["completion_probabilities"] = part.probabilities.into();
        }
        piece
    }

    fn last(&self, index: usize, part: Part, reason: &StopReason, usage: &Usage) -> Value {
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
            "has_new_line": part.has_new_line,
            "truncated": *reason == StopReason::ContextFull,
            "tokens_predicted": usage.generated_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "tokens_cached": usage.reused_tokens,
            "generation_settings": settings::json(params, usage.seed, *is_stream),
            "timings": timings(usage),
        });
        let mut last = self.piece(index, part);
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
