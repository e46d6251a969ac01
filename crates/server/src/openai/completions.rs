//! `/v1/completions`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use chat::Delta;
use engine::Params;
use serde_json::{Value, json};
use tokenizer::{Detokenizer, Tokenizer};

use super::conversation::constraint;
use super::logprobs::OfCompletion;
use super::{FINGERPRINT, StreamOptions, finish_reason};
use crate::answer::{Answers, Chosen, News, Totals, prompt_progress};
use crate::app::{App, Place};
use crate::error::ApiError;
use crate::fields::HARMLESS;
use crate::http::{Client, call, with_ignored};
use crate::job::{Parameters, progress};
use crate::models::Served;
use crate::prompts::{Continuation, Prompts};
use crate::sse::{self, Events, Gone};
use crate::turn::Started;
use crate::{id, shape};

/// Fields that this server does not do.
pub(crate) const REFUSED: &[&str] = &["suffix"];

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let prompts: Prompts = fields.require("prompt")?;
    let defaults = &app.config.defaults.params;
    // OpenAI's default for this endpoint.
    let defaults = Params { max_tokens: defaults.max_tokens.or(Some(16)), ..defaults.clone() };
    let mut parameters = Parameters::read(&mut fields, &defaults)?;
    parameters.has_progress = progress(&mut fields)?;
    let logprobs: Option<usize> = fields.within("logprobs", 0..=5)?;
    parameters.params.logprobs = logprobs;
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let options: StreamOptions = fields.take("stream_options")?.unwrap_or_default();
    let format = constraint(&mut fields)?;
    let is_echoed = fields.take("echo")?.unwrap_or(false);
    fields.refuse(REFUSED)?;
    if fields.within("best_of", 1..=usize::MAX)?.is_some_and(|best_of| best_of != parameters.params.n) {
        return Err(ApiError::unsupported(
            "best_of",
            "`best_of` is not supported by this server; leave it out",
        ));
    }
    fields.ignore(HARMLESS);
    let ignored = fields.unknown();

    let per_prompt = parameters.params.n;
    let prompt_logprobs = logprobs.filter(|_| is_echoed);
    let continuation = Continuation { prompts, parameters, format, prompt_logprobs };
    let Started { answers, n, prompts, place } = continuation.start(&app, &served, &client).await?;
    let writer = Writer {
        id: id::new("cmpl-"),
        created: id::now(),
        served,
        per_prompt,
        prompts,
        is_echoed,
        has_logprobs: logprobs.is_some(),
        has_usage: !is_stream || options.includes_usage(),
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
    /// The ids of each prompt.
    prompts: Vec<Vec<u32>>,
    /// Answers begin with their prompts.
    is_echoed: bool,
    has_logprobs: bool,
    has_usage: bool,
}

/// One answer, as far as it has come.
#[derive(Default)]
struct Choice {
    text: String,
    /// Characters before the next token.
    chars: usize,
    /// Of the answer's tokens, whose text may be held back; none before it has begun.
    detokenizer: Option<Detokenizer<Arc<Tokenizer>>>,
    logprobs: Option<OfCompletion>,
}

impl Choice {
    /// Begins with a prompt. `chosen` are its tokens but for the first, if their log-probabilities were asked for.
    fn echo(&mut self, served: &Served, prompt: &[u32], chosen: Option<Vec<Chosen>>) {
        let mut detokenizer = Detokenizer::new(served.model.tokenizer().clone());
        if let (Some(&first), Some(_)) = (prompt.first(), &chosen) {
            self.logprobs.get_or_insert_default().begin(served, first);
        }
        let mut chosen = chosen.into_iter().flatten();
        for (number, &id) in prompt.iter().enumerate() {
            if let Some(chosen) = (number > 0).then(|| chosen.next()).flatten() {
                self.logprobs.get_or_insert_default().push(served, &chosen, self.chars);
            }
            self.add(&detokenizer.push(id));
        }
        self.add(&detokenizer.finish());
    }

    fn add(&mut self, text: &str) {
        self.chars += text.chars().count();
        self.text.push_str(text);
    }

    fn push(&mut self, served: &Served, deltas: Vec<Delta>, chosen: Option<Chosen>) {
        if let Some(chosen) = chosen {
            self.logprobs.get_or_insert_default().push(served, &chosen, self.chars);
            let text = self.detokenizer.as_mut().map(|detokenizer| detokenizer.push(chosen.token));
            self.chars += text.map_or(0, |text| text.chars().count());
        }
        for delta in deltas {
            if let Delta::Content(text) = delta {
                self.text.push_str(&text);
            }
        }
    }

    /// What is to be written, and the rest of the answer.
    fn take(&mut self) -> Choice {
        let rest = Choice { chars: self.chars, detokenizer: self.detokenizer.take(), ..Choice::default() };
        std::mem::replace(self, rest)
    }
}

impl Writer {
    /// Begins a choice at the first news of it.
    fn begin(&self, choice: &mut Choice, index: usize, answers: &mut Answers) {
        let Some(prompt) = self.prompts.get(index / self.per_prompt) else { return };
        if choice.detokenizer.is_some() {
            return;
        }
        if self.is_echoed {
            choice.echo(&self.served, prompt, self.has_logprobs.then(|| answers.take_prompt(index)));
        }
        choice.detokenizer = Some(Detokenizer::following(self.served.model.tokenizer().clone(), prompt));
    }

    async fn whole(&self, mut answers: Answers, n: usize) -> Result<Value, ApiError> {
        let mut choices: Vec<Choice> = (0..n).map(|_| Choice::default()).collect();
        let mut written = vec![Value::Null; n];
        let mut totals = vec![Totals::default(); n / self.per_prompt];
        while let Some(news) = answers.next().await? {
            match news {
                News::More { index, deltas, chosen, .. } => {
                    self.begin(&mut choices[index], index, &mut answers);
                    choices[index].push(&self.served, deltas, chosen);
                }
                News::Done { index, deltas, reason, usage } => {
                    self.begin(&mut choices[index], index, &mut answers);
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
        let mut choices: Vec<Choice> = (0..n).map(|_| Choice::default()).collect();
        let mut totals = vec![Totals::default(); n / self.per_prompt];
        loop {
            let (index, finish) = match answers.next().await {
                Ok(Some(News::More { progress: Some(progress), .. })) => {
                    let mut chunk = self.empty();
                    chunk["prompt_progress"] = prompt_progress(&progress);
                    events.data(&chunk).await?;
                    continue;
                }
                Ok(Some(News::More { index, deltas, chosen, .. })) => {
                    self.begin(&mut choices[index], index, &mut answers);
                    choices[index].push(&self.served, deltas, chosen);
                    (index, None)
                }
                Ok(Some(News::Done { index, deltas, reason, usage })) => {
                    self.begin(&mut choices[index], index, &mut answers);
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
                let mut chunk = self.empty();
                chunk["choices"] = json!([choice_json(index, choice.take(), finish)]);
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
            "system_fingerprint": FINGERPRINT,
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
