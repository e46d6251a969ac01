//! `/v1/completions`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use chat::Delta as Part;
use engine::{Logprobs, Params};
use rustorch::{DeltaKind, End};
use serde_json::{Value, json};
use tokenizer::{Detokenizer, Tokenizer};

use super::conversation::constraint;
use super::logprobs::OfCompletion;
use super::{FINGERPRINT, StreamOptions, finish_reason};
use crate::answer::{Answers, Totals, prompt_progress};
use crate::app::{App, Place};
use crate::call::{Call, Parameters, Started, progress};
use crate::error::ApiError;
use crate::fields::HARMLESS;
use crate::http::{Client, call, with_ignored};
use crate::models::Served;
use crate::prompts::Prompts;
use crate::sse::{self, Events, Gone};
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
    parameters.progress = progress(&mut fields)?;
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
    let call = Call { inputs: prompts.inputs(), input_field: "prompt", parameters, format, prompt_logprobs };
    let Started { answers, n, prompts, place } = call.start(&app, &served, &client).await?;
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
    /// Log-probabilities of the prompt's tokens but the first.
    prompt_logprobs: Vec<Logprobs>,
}

impl Choice {
    /// Begins with a prompt, and the log-probabilities of its tokens if the call asked for them.
    fn echo(&mut self, served: &Served, prompt: &[u32], has_logprobs: bool) {
        let mut detokenizer = Detokenizer::new(served.tokenizer().clone());
        if let (Some(&first), true) = (prompt.first(), has_logprobs) {
            self.logprobs.get_or_insert_default().begin(served, first);
        }
        let mut logprobs = std::mem::take(&mut self.prompt_logprobs).into_iter();
        for (number, &id) in prompt.iter().enumerate() {
            if let Some(logprobs) = (number > 0).then(|| logprobs.next()).flatten() {
                self.logprobs.get_or_insert_default().push(served, id, &logprobs, self.chars);
            }
            self.add(&detokenizer.push(id));
        }
        self.add(&detokenizer.finish());
    }

    fn add(&mut self, text: &str) {
        self.chars += text.chars().count();
        self.text.push_str(text);
    }

    /// Adds a token's log-probabilities.
    fn push(&mut self, served: &Served, id: u32, logprobs: &Logprobs) {
        self.logprobs.get_or_insert_default().push(served, id, logprobs, self.chars);
        let text = self.detokenizer.as_mut().map(|detokenizer| detokenizer.push(id));
        self.chars += text.map_or(0, |text| text.chars().count());
    }

    /// What is to be written, and the rest of the answer.
    fn take(&mut self) -> Choice {
        let rest = Choice { chars: self.chars, detokenizer: self.detokenizer.take(), ..Choice::default() };
        std::mem::replace(self, rest)
    }
}

impl Writer {
    /// Adds a piece of an answer. Returns its end, if that is the piece.
    fn push(&self, choice: &mut Choice, index: usize, kind: DeltaKind) -> Option<End> {
        if let DeltaKind::PromptToken { logprobs, .. } = kind {
            choice.prompt_logprobs.push(logprobs);
            return None;
        }
        // It begins with its first token, or with its end.
        if let (None, Some(prompt)) = (&choice.detokenizer, self.prompts.get(index / self.per_prompt)) {
            if self.is_echoed {
                choice.echo(&self.served, prompt, self.has_logprobs);
            }
            choice.detokenizer = Some(Detokenizer::following(self.served.tokenizer().clone(), prompt));
        }
        match kind {
            DeltaKind::Token { id, logprobs: Some(logprobs), .. } => choice.push(&self.served, id, &logprobs),
            DeltaKind::Part(Part::Content(text)) => choice.text.push_str(&text),
            DeltaKind::End(end) => return Some(end),
            _ => {}
        }
        None
    }

    async fn whole(&self, mut answers: Answers, n: usize) -> Result<Value, ApiError> {
        let mut choices: Vec<Choice> = (0..n).map(|_| Choice::default()).collect();
        let mut written = vec![Value::Null; n];
        let mut totals = vec![Totals::default(); n / self.per_prompt];
        while let Some(delta) = answers.next().await? {
            let index = delta.choice;
            if let Some(end) = self.push(&mut choices[index], index, delta.kind) {
                totals[index / self.per_prompt].add(&end);
                let choice = std::mem::take(&mut choices[index]);
                written[index] = choice_json(index, choice, Some(finish_reason(&end.reason)));
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
            let delta = match answers.next().await {
                Ok(Some(delta)) => delta,
                Ok(None) => break,
                Err(error) => {
                    events.data(&shape::openai(&error)).await?;
                    return events.done().await;
                }
            };
            if let DeltaKind::Progress(progress) = &delta.kind {
                let mut chunk = self.empty();
                chunk["prompt_progress"] = prompt_progress(progress);
                events.data(&chunk).await?;
                continue;
            }
            let (index, choice) = (delta.choice, &mut choices[delta.choice]);
            let end = self.push(choice, index, delta.kind);
            if let Some(end) = &end {
                totals[index / self.per_prompt].add(end);
            }
            if !choice.text.is_empty() || end.is_some() {
                let finish = end.map(|end| finish_reason(&end.reason));
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
