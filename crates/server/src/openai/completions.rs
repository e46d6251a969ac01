//! `/v1/completions`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use chat::Delta;
use serde_json::{Value, json};

use super::conversation::constraint;
use super::logprobs::OfCompletion;
use super::{HARMLESS, StreamOptions, finish_reason};
use crate::answer::{Answers, News, Totals};
use crate::app::{App, Place};
use crate::error::ApiError;
use crate::http::{Client, call, with_ignored};
use crate::job::Parameters;
use crate::models::Served;
use crate::prompts::{Continuation, Prompts};
use crate::sse::{self, Events, Gone};
use crate::turn::Started;
use crate::{id, shape};

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let prompts: Prompts = fields.require("prompt")?;
    let mut parameters = Parameters::read(&mut fields, &served, &app.config.limits)?;
    // OpenAI's default for this endpoint.
    parameters.max_tokens = parameters.max_tokens.or(Some(16));
    let logprobs: Option<usize> = fields.within("logprobs", 0..=5)?;
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let options: StreamOptions = fields.take("stream_options")?.unwrap_or_default();
    let format = constraint(&mut fields)?;
    fields.refuse(&["echo", "suffix"])?;
    if fields.within("best_of", 1..=usize::MAX)?.is_some_and(|best_of| best_of != parameters.n) {
        return Err(ApiError::unsupported(
            "best_of",
            "`best_of` is not supported by this server; leave it out",
        ));
    }
    fields.ignore(HARMLESS);
    let ignored = fields.unknown();

    let per_prompt = parameters.n;
    let continuation = Continuation { prompts, parameters, format, logprobs };
    let Started { answers, n, place, .. } = continuation.start(&app, &served, &client).await?;
    let writer = Writer {
        id: id::new("cmpl-"),
        created: id::now(),
        served,
        per_prompt,
        has_usage: !is_stream || options.include_usage,
    };
    let response = match is_stream {
        true => sse::stream(move |events| writer.stream(answers, n, events, place)),
        false => Json(writer.whole(answers, n).await?).into_response(),
    };
    Ok(with_ignored(response, &ignored))
}

struct Writer {
    id: String,
    created: i64,
    served: Arc<Served>,
    /// Answers to each prompt.
    per_prompt: usize,
    has_usage: bool,
}

/// One answer, as far as it has come.
#[derive(Clone, Default)]
struct Choice {
    text: String,
    /// Characters so far.
    chars: usize,
    logprobs: Option<OfCompletion>,
}

impl Choice {
    fn push(&mut self, served: &Served, deltas: Vec<Delta>, chosen: Option<crate::answer::Chosen>) {
        if let Some(chosen) = chosen {
            self.logprobs.get_or_insert_default().push(served, &chosen, self.chars);
        }
        for delta in deltas {
            if let Delta::Content(text) = delta {
                self.chars += text.chars().count();
                self.text.push_str(&text);
            }
        }
    }
}

impl Writer {
    async fn whole(&self, mut answers: Answers, n: usize) -> Result<Value, ApiError> {
        let mut choices = vec![Choice::default(); n];
        let mut written = vec![Value::Null; n];
        let mut totals = vec![Totals::default(); n / self.per_prompt];
        while let Some(news) = answers.next().await? {
            match news {
                News::More { index, deltas, chosen, .. } => choices[index].push(&self.served, deltas, chosen),
                News::Done { index, deltas, reason, usage } => {
                    choices[index].push(&self.served, deltas, None);
                    totals[index / self.per_prompt].add(&usage, 0);
                    let choice = std::mem::take(&mut choices[index]);
                    written[index] = choice_json(index, choice, Some(finish_reason(&reason)));
                }
            }
        }
        let mut shape = self.empty();
        shape["choices"] = written.into();
        shape["usage"] = Totals::sum(&totals).json();
        Ok(shape)
    }

    async fn stream(self, mut answers: Answers, n: usize, events: Events, place: Place) -> Result<(), Gone> {
        let _place = place;
        let mut choices = vec![Choice::default(); n];
        let mut totals = vec![Totals::default(); n / self.per_prompt];
        loop {
            let (index, finish) = match answers.next().await {
                Ok(Some(News::More { index, deltas, chosen, .. })) => {
                    choices[index].push(&self.served, deltas, chosen);
                    (index, None)
                }
                Ok(Some(News::Done { index, deltas, reason, usage })) => {
                    choices[index].push(&self.served, deltas, None);
                    totals[index / self.per_prompt].add(&usage, 0);
                    (index, Some(finish_reason(&reason)))
                }
                Ok(None) => break,
                Err(error) => {
                    events.data(&shape::openai(&error)).await?;
                    return events.done().await;
                }
            };
            let choice = &mut choices[index];
            if !choice.text.is_empty() || finish.is_some() {
                let chars = choice.chars;
                let ready = std::mem::replace(choice, Choice { chars, ..Choice::default() });
                let mut chunk = self.empty();
                chunk["choices"] = json!([choice_json(index, ready, finish)]);
                events.data(&chunk).await?;
            }
        }
        if self.has_usage {
            let mut chunk = self.empty();
            chunk["usage"] = Totals::sum(&totals).json();
            events.data(&chunk).await?;
        }
        events.done().await
    }

    fn empty(&self) -> Value {
        json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.served.name,
            "choices": [],
        })
    }
}

fn choice_json(index: usize, choice: Choice, finish_reason: Option<&str>) -> Value {
    json!({
        "index": index,
        "text": choice.text,
        "logprobs": choice.logprobs.map(|logprobs| logprobs.json()),
        "finish_reason": finish_reason,
    })
}
