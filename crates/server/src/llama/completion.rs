//! `/completion`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use chat::Delta;
use engine::{StopReason, Usage};
use serde_json::{Value, json};

use super::settings;
use crate::answer::{Answers, Chosen, News, timings};
use crate::app::{App, Place};
use crate::error::ApiError;
use crate::fields::{self, Fields};
use crate::http::{Client, call, with_ignored};
use crate::job::Parameters;
use crate::models::Served;
use crate::openai::conversation::constraint;
use crate::openai::logprobs;
use crate::prompts::{Continuation, Prompts};
use crate::shape;
use crate::sse::{self, Events, Gone};
use crate::turn::Started;

/// Most likely tokens with each token.
pub(crate) const MAX_PROBS: usize = 100;

/// Fields of llama-server that change no answer here, besides those of [all](fields::HARMLESS).
pub(crate) const HARMLESS: &[&str] =
    &["n_keep", "n_discard", "n_cache_reuse", "timings_per_token", "sse_ping_interval"];

/// Fields of llama-server that would change the answer.
pub(crate) const REFUSED: &[&str] = &[
    "post_sampling_probs",
    "t_max_predict_ms",
    "n_indent",
    "min_keep",
    "response_fields",
    "return_progress",
    "lora",
    "image_data",
];

/// How the answers are written.
struct Output {
    parameters: Parameters,
    /// The number of most likely tokens with each token; none without probabilities.
    n_probs: usize,
    has_tokens: bool,
    is_stream: bool,
    /// Whether there are several answers, or may have been.
    is_list: bool,
}

fn read(fields: &mut Fields, app: &App, served: &Served) -> Result<(Prompts, Output), ApiError> {
    let limits = &app.config.limits;
    let prompts: Prompts = fields.require("prompt")?;
    let names = ["n_predict", "max_completion_tokens", "max_tokens"];
    let counts = names.map(|name| fields.within(name, -1..=i64::MAX));
    let n_predict = counts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().next();
    let n = [fields.within("n_cmpl", 1..=limits.choices)?, fields.within("n", 1..=limits.choices)?];
    let n = n.into_iter().flatten().next().unwrap_or(1);
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let output = Output {
        parameters: Parameters {
            // -1 is any number.
            max_tokens: n_predict.and_then(|n| usize::try_from(n).ok()),
            n,
            ..Parameters::common(fields, served, limits, "stop")?
        },
        n_probs: fields.within("n_probs", 0..=MAX_PROBS)?.unwrap_or(0),
        has_tokens: fields.take("return_tokens")?.unwrap_or(false) || is_stream,
        is_stream,
        is_list: prompts.is_list || n > 1,
    };
    fields.refuse(REFUSED)?;
    fields.ignore(HARMLESS);
    fields.ignore(fields::HARMLESS);
    Ok((prompts, output))
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let (prompts, output) = read(&mut fields, &app, &served)?;
    let format = constraint(&mut fields)?;
    let ignored = fields.unknown();
    let logprobs = Some(output.n_probs).filter(|&n| n > 0);
    let continuation = Continuation {
        prompt_logprobs: None,
        prompts,
        parameters: output.parameters.clone(),
        format,
        logprobs,
    };
    let Started { answers, n, place, .. } = continuation.start(&app, &served, &client).await?;
    let writer = Writer { served, output };
    let response = match writer.output.is_stream {
        true => sse::stream(move |events| writer.stream(answers, n, events, place)),
        false => Json(writer.whole(answers, n).await?).into_response(),
    };
    Ok(with_ignored(response, &ignored))
}

struct Writer {
    served: Arc<Served>,
    output: Output,
}

/// Of an answer, what has not been written yet.
#[derive(Clone, Default)]
struct Part {
    text: String,
    tokens: Vec<u32>,
    probabilities: Vec<Value>,
    has_new_line: bool,
}

impl Part {
    fn push(&mut self, served: &Served, deltas: Vec<Delta>, token: Option<u32>, chosen: Option<Chosen>) {
        self.tokens.extend(token);
        self.probabilities.extend(chosen.map(|chosen| logprobs::of_token(served, &chosen)));
        for delta in deltas {
            if let Delta::Content(text) = delta {
                self.has_new_line |= text.contains('\n');
                self.text.push_str(&text);
            }
        }
    }

    /// What there is, and a part that knows of the lines so far.
    fn take(&mut self) -> Part {
        let has_new_line = self.has_new_line;
        std::mem::replace(self, Part { has_new_line, ..Part::default() })
    }
}

impl Writer {
    async fn whole(&self, mut answers: Answers, n: usize) -> Result<Value, ApiError> {
        let mut parts = vec![Part::default(); n];
        let mut written = vec![Value::Null; n];
        while let Some(news) = answers.next().await? {
            match news {
                News::More { index, deltas, token, chosen } => {
                    parts[index].push(&self.served, deltas, token, chosen);
                }
                News::Done { index, deltas, reason, usage } => {
                    parts[index].push(&self.served, deltas, None, None);
                    written[index] = self.last(index, parts[index].take(), &reason, &usage);
                }
            }
        }
        match (self.output.is_list, written.pop()) {
            (false, Some(only)) => Ok(only),
            (_, last) => Ok(written.into_iter().chain(last).collect()),
        }
    }

    /// Writes the answers as they come. `place` is held until the end.
    async fn stream(self, mut answers: Answers, n: usize, events: Events, place: Place) -> Result<(), Gone> {
        let _place = place;
        let mut parts = vec![Part::default(); n];
        loop {
            match answers.next().await {
                Ok(Some(News::More { index, deltas, token, chosen })) => {
                    parts[index].push(&self.served, deltas, token, chosen);
                    if !parts[index].text.is_empty() {
                        let part = parts[index].take();
                        events.data(&self.piece(index, part)).await?;
                    }
                }
                Ok(Some(News::Done { index, deltas, reason, usage })) => {
                    parts[index].push(&self.served, deltas, None, None);
                    events.data(&self.last(index, parts[index].take(), &reason, &usage)).await?;
                }
                Ok(None) => return Ok(()),
                Err(error) => return events.data(&shape::llama(&error)).await,
            }
        }
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
        let Output { parameters, n_probs, is_stream, .. } = &self.output;
        let more = json!({
            "stop": true,
            "stop_type": stop_type,
            "stopping_word": stopping_word,
            "model": self.served.name,
            "has_new_line": part.has_new_line,
            "truncated": false,
            "tokens_predicted": usage.generated_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "tokens_cached": usage.reused_tokens,
            "generation_settings": settings::json(parameters, usage, *n_probs, *is_stream),
            "timings": timings(usage),
        });
        let mut last = self.piece(index, part);
        if let (Value::Object(last), Value::Object(more)) = (&mut last, more) {
            last.extend(more);
        }
        last
    }
}
