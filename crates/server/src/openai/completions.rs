//! `/v1/completions`.

use std::sync::Arc;

use axum::response::Response;
use engine::{Logprobs, Params};
use rustorch::{Delta, DeltaKind, Part};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokenizer::{Detokenizer, Tokenizer};

use super::logprobs::CompletionLogprobs;
use super::{Head, OPENAI, StreamOptions, finish_reason};
use crate::answer::{Totals, prompt_progress};
use crate::call::{self, Sampling};
use crate::constraint::Constraint;
use crate::error::ApiError;
use crate::fields::{Group, Read, Within};
use crate::http::Routes;
use crate::infill::Marks;
use crate::models::Served;
use crate::prompts::Prompts;
use crate::shape;
use crate::sse::{self, Out, Writer};

#[derive(Deserialize, JsonSchema)]
struct Completion {
    /// One prompt or several.
    prompt: Prompts,
    /// The answer is the text between the prompt and this one, by a model that was trained for it.
    suffix: Option<String>,
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

impl Group for Completion {}

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
    let mut request = sampling.over(&defaults)?;
    request.progress = body.return_progress;
    let logprobs = body.logprobs.map(|top| top.0);
    request.params.logprobs = logprobs;
    request.prompt_logprobs = logprobs.filter(|_| body.echo);
    let format = constraint.or(None)?;
    let per_prompt = request.params.n;
    if body.best_of.is_some_and(|best_of| best_of.0 != per_prompt) {
        let why = "is not supported by this server; leave it out";
        return Err(ApiError::unsupported("best_of", why));
    }
    let suffix = body.suffix.filter(|suffix| !suffix.is_empty());
    if suffix.is_some() && body.echo {
        return Err(ApiError::invalid("echo", "is given with `suffix`; choose one"));
    }
    let prompts = match suffix {
        None => body.prompt,
        Some(suffix) => body.prompt.before(&suffix, &Marks::new(&served, "suffix")?),
    };
    let requests = prompts.requests(&request);
    let mut answers = call::submit(&read.app, &served, &read.client, "prompt", requests, format).await?;
    let writer = CompletionWriter {
        head: Head::new("cmpl-", served),
        per_prompt,
        is_echoed: body.echo,
        has_logprobs: logprobs.is_some(),
        has_usage: body.stream_options.include_usage == Some(true),
        totals: vec![Totals::default(); answers.prompts.len()],
        prompts: std::mem::take(&mut answers.prompts),
        choices: (0..answers.n).map(|_| Choice::default()).collect(),
        written: vec![Value::Null; answers.n],
    };
    sse::respond(writer, answers, body.stream).await
}

struct CompletionWriter {
    head: Head,
    per_prompt: usize,
    prompts: Vec<Vec<u32>>,
    /// Answers begin with their prompts.
    is_echoed: bool,
    has_logprobs: bool,
    has_usage: bool,
    totals: Vec<Totals>,
    choices: Vec<Choice>,
    /// Answers that have ended.
    written: Vec<Value>,
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

    fn json(self, index: usize, finish_reason: Option<&str>) -> Value {
        let logprobs = self.logprobs.map(|logprobs| json!(logprobs));
        json!({ "index": index, "text": self.text, "logprobs": logprobs, "finish_reason": finish_reason })
    }
}

impl Writer for CompletionWriter {
    fn push(&mut self, Delta { choice: index, kind }: Delta, out: &mut Out) {
        let (choice, number) = (&mut self.choices[index], index / self.per_prompt);
        // It begins with its first token, or with its end.
        if choice.detokenizer.is_none()
            && !matches!(kind, DeltaKind::PromptToken { .. } | DeltaKind::Progress(_))
        {
            let (served, prompt) = (&self.head.served, &self.prompts[number]);
            if self.is_echoed {
                choice.echo(served, prompt, self.has_logprobs);
            }
            choice.detokenizer = Some(Detokenizer::following(served.tokenizer().clone(), prompt));
        }
        let mut finish = None;
        match kind {
            DeltaKind::PromptToken { logprobs, .. } => choice.prompt_logprobs.push(logprobs),
            DeltaKind::Progress(progress) if out.is_stream => {
                let mut chunk = self.json(json!([]));
                chunk["prompt_progress"] = prompt_progress(&progress);
                return out.data(&chunk);
            }
            DeltaKind::Token { id, logprobs: Some(logprobs), .. } => {
                choice.push(&self.head.served, id, &logprobs);
            }
            DeltaKind::Part(Part::Content(text)) => choice.text.push_str(&text),
            DeltaKind::End(end) => {
                self.totals[number].add(&end);
                finish = Some(finish_reason(&end.reason));
            }
            _ => {}
        }
        if finish.is_some() || out.is_stream && !choice.text.is_empty() {
            let json = choice.take().json(index, finish);
            if out.is_stream {
                out.data(&self.json(json!([json])));
            } else {
                self.written[index] = json;
            }
        }
    }

    fn end(&mut self, error: Option<ApiError>, out: &mut Out) {
        if let Some(error) = error {
            out.data(&shape::openai(&error));
        } else if self.has_usage {
            out.data(&self.with_usage(json!([])));
        }
        out.done();
    }

    fn whole(mut self) -> Value {
        let written = std::mem::take(&mut self.written);
        self.with_usage(written.into())
    }
}

impl CompletionWriter {
    fn json(&self, choices: Value) -> Value {
        self.head.json("text_completion", choices)
    }

    fn with_usage(&self, choices: Value) -> Value {
        let mut json = self.json(choices);
        json["usage"] = Totals::sum(&self.totals).json();
        json
    }
}
