//! `/v1/completions`.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use chat::Delta as Part;
use engine::{Logprobs, Params};
use rustorch::{DeltaKind, End};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokenizer::{Detokenizer, Tokenizer};

use super::conversation::Constraint;
use super::logprobs::CompletionLogprobs;
use super::{FINGERPRINT, OPENAI, StreamOptions, finish_reason};
use crate::answer::{Answers, Totals, prompt_progress};
use crate::app::Admission;
use crate::call::{Call, Sampling, Started};
use crate::error::ApiError;
use crate::fields::{Group, Read, Within};
use crate::http::Routes;
use crate::models::Served;
use crate::prompts::Prompts;
use crate::sse::{self, Events, Gone};
use crate::{id, shape};

#[derive(Deserialize, JsonSchema)]
struct Completion {
    /// One prompt or several.
    prompt: Prompts,
    /// Texts begin with their prompts.
    #[serde(default)]
    echo: bool,
    /// Return log-probabilities, and those of so many most likely tokens.
    logprobs: Option<Within<0, 5>>,
    /// Only the number that `n` is.
    best_of: Option<Within<1, { usize::MAX }>>,
    /// Answer as a stream.
    #[serde(default)]
    stream: bool,
    /// How the stream is written.
    #[serde(default)]
    stream_options: StreamOptions,
    /// Events of a stream report the progress of the prompt.
    #[serde(default)]
    return_progress: bool,
}

impl Group for Completion {
    const REFUSED: &'static [&'static str] = &["suffix"];
}

pub(super) fn routes() -> Routes {
    let paths = &["/v1/completions", "/completions"];
    let complete = OPENAI
        .endpoint("complete", paths, "Continues texts")
        .reads("CompletionCall", json!({ "prompt": "The capital of Italy is", "max_tokens": 4 }));
    let logprobs = json!({
        "tokens": ["string"], "token_logprobs": ["number|null"], "top_logprobs": [[{ "*": "number" }, "null"]],
        "text_offset": ["integer"],
    });
    let choice = json!({
        "index": "integer", "text": "string", "logprobs": ["null", logprobs], "finish_reason": "=stop|=length|null",
    });
    let shape = json!({
        "id": "string", "object": "=text_completion", "created": "integer", "system_fingerprint": "string",
        "model": "string", "choices": [choice], "usage?": "#Usage", "prompt_progress?": "object",
    });
    Routes::default()
        .post(
            complete.answers("#Completion").answers_as("text/event-stream", "#Completion|#OpenAiError"),
            handle,
        )
        .shapes([("Completion", shape)])
}

async fn handle(read: Read<(Completion, Constraint, Sampling)>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let (body, constraint, sampling) = read.body;
    let defaults = &read.app.config.defaults.params;
    // OpenAI's default for this endpoint.
    let defaults = Params { max_tokens: defaults.max_tokens.or(Some(16)), ..defaults.clone() };
    let mut parameters = sampling.over(&defaults)?;
    parameters.progress = body.return_progress;
    let logprobs = body.logprobs.map(|top| top.0);
    parameters.params.logprobs = logprobs;
    let format = constraint.or(None)?;
    let per_prompt = parameters.params.n;
    if body.best_of.is_some_and(|best_of| best_of.0 != per_prompt) {
        let why = "`best_of` is not supported by this server; leave it out";
        return Err(ApiError::unsupported("best_of", why));
    }
    let prompt_logprobs = logprobs.filter(|_| body.echo);
    let call =
        Call { inputs: body.prompt.inputs(), input_field: "prompt", parameters, format, prompt_logprobs };
    let Started { answers, n, prompts, admission } = call.start(&read.app, &served, &read.client).await?;
    let writer = Writer {
        id: id::new("cmpl-"),
        created: id::now(),
        served,
        per_prompt,
        prompts,
        is_echoed: body.echo,
        has_logprobs: logprobs.is_some(),
        has_usage: body.stream_options.include_usage(),
    };
    Ok(if body.stream {
        sse::stream(move |events| writer.stream(answers, n, events, admission))
    } else {
        Json(writer.whole(answers, n).await?).into_response()
    })
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
    /// Decodes the answer's tokens, whose text may be held back; none before it has begun.
    detokenizer: Option<Detokenizer<Arc<Tokenizer>>>,
    logprobs: Option<CompletionLogprobs>,
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

    /// Takes the pieces to be written; the position stays.
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

    /// Writes the answers as they come. The admission is held until the end.
    async fn stream(
        self,
        mut answers: Answers,
        n: usize,
        events: Events,
        _admission: Admission,
    ) -> Result<(), Gone> {
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
