//! `/v1/chat/completions`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use chat::{Answer, Delta as Part};
use engine::StopReason;
use rustorch::{DeltaKind, End};
use serde_json::{Value, json};

use super::{FINGERPRINT, StreamOptions, conversation, finish_reason, logprobs};
use crate::answer::{Answers, Pace, Reply, Totals, prompt_progress, text_of, timings, timings_of_prompt};
use crate::app::{App, Place};
use crate::call::{Call, Parameters, Started, progress};
use crate::error::ApiError;
use crate::fields::{Fields, HARMLESS};
use crate::http::{Client, call, with_ignored};
use crate::models::Served;
use crate::sse::{self, Events, Gone};
use crate::{id, shape};

/// How the answer is written.
#[derive(Clone, Copy)]
pub(super) struct Output {
    is_stream: bool,
    has_usage: bool,
    has_timings: bool,
    /// Show the prompt, as llama-server does.
    is_verbose: bool,
}

/// Fields that this server does not do.
pub(crate) const REFUSED: &[&str] =
    &["functions", "function_call", "audio", "prediction", "web_search_options"];

pub(super) fn read(fields: &mut Fields, app: &App) -> Result<(Call, Output), ApiError> {
    let wants_logprobs = fields.take("logprobs")?.unwrap_or(false);
    let top: Option<usize> = fields.within("top_logprobs", 0..=20)?;
    if top.is_some_and(|top| top > 0) && !wants_logprobs {
        return Err(ApiError::invalid("top_logprobs", "`top_logprobs` needs `logprobs`: true"));
    }
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let options: StreamOptions = fields.take("stream_options")?.unwrap_or_default();
    let output = Output {
        is_stream,
        has_usage: !is_stream || options.includes_usage(),
        has_timings: fields.take("timings_per_token")?.unwrap_or(false),
        is_verbose: fields.take("verbose")?.unwrap_or(false),
    };
    let (conversation, format) = conversation::read(fields, &app.config)?;
    let mut parameters = Parameters::read(fields, &app.config.defaults.params)?;
    parameters.params.logprobs = wants_logprobs.then(|| top.unwrap_or(0));
    parameters.progress = progress(fields)?;
    // OpenAI's default.
    if fields.take("modalities")?.is_some_and(|kinds: Vec<String>| kinds != ["text"]) {
        return Err(ApiError::unsupported("modalities", "`modalities`: this server writes text only"));
    }
    fields.refuse(REFUSED)?;
    fields.ignore(HARMLESS);
    Ok((Call::chat(conversation, parameters, format), output))
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let (call, output) = read(&mut fields, &app)?;
    let ignored = fields.unknown();
    let Started { answers, n, place, prompts } = call.start(&app, &served, &client).await?;
    let prompt = prompts.first().filter(|_| output.is_verbose).map(|ids| text_of(&served, ids));
    let writer = Writer { id: id::new("chatcmpl-"), created: id::now(), served, output, prompt };
    let response = match output.is_stream {
        true => sse::stream(move |events| writer.stream(answers, n, events, place)),
        false => Json(writer.whole(answers, n).await?).into_response(),
    };
    Ok(with_ignored(response, &ignored))
}

/// Writes the answers of a call.
struct Writer {
    id: String,
    created: i64,
    served: Arc<Served>,
    output: Output,
    /// If it is to be shown.
    prompt: Option<String>,
}

/// One answer, as far as it has come.
#[derive(Default)]
struct Choice {
    reply: Reply,
    /// Log-probabilities of tokens that have not been written.
    logprobs: Vec<Value>,
    pace: Pace,
}

impl Choice {
    fn take_logprobs(&mut self) -> Option<Vec<Value>> {
        Some(std::mem::take(&mut self.logprobs)).filter(|logprobs| !logprobs.is_empty())
    }

    fn finish_reason(&self, reason: &StopReason) -> &'static str {
        match finish_reason(reason) {
            "stop" if self.reply.has_calls() => "tool_calls",
            other => other,
        }
    }
}

impl Writer {
    async fn whole(&self, mut answers: Answers, n: usize) -> Result<Value, ApiError> {
        let mut choices: Vec<Choice> = (0..n).map(|_| Choice::default()).collect();
        let mut written = vec![Value::Null; n];
        let (mut totals, mut times) = (Totals::default(), Value::Null);
        while let Some(delta) = answers.next().await? {
            let (index, choice) = (delta.choice, &mut choices[delta.choice]);
            match delta.kind {
                DeltaKind::Token { id, logprobs: Some(logprobs), .. } => {
                    choice.logprobs.push(logprobs::of_token(&self.served, id, &logprobs));
                }
                DeltaKind::Part(part) => choice.reply.push(part),
                DeltaKind::End(end) => {
                    totals.add(&end);
                    times = timings(&end.usage);
                    written[index] = self.choice(index, std::mem::take(choice), &end.reason);
                }
                _ => {}
            }
        }
        let mut shape = json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "system_fingerprint": FINGERPRINT,
            "model": self.served.name,
            "choices": written,
            "usage": totals.json(),
        });
        if self.output.has_timings {
            shape["timings"] = times;
        }
        if let Some(prompt) = &self.prompt {
            shape["__verbose"] = json!({ "prompt": prompt });
        }
        Ok(shape)
    }

    fn choice(&self, index: usize, choice: Choice, reason: &StopReason) -> Value {
        let finish_reason = choice.finish_reason(reason);
        let Choice {
            reply: Reply { answer: Answer { reasoning, content, tool_calls }, .. }, logprobs, ..
        } = choice;
        let has_calls = !tool_calls.is_empty();
        let content = (!content.is_empty() || !has_calls).then_some(content);
        let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
        if !reasoning.is_empty() {
            message["reasoning_content"] = reasoning.into();
        }
        if has_calls {
            let calls = tool_calls.into_iter().map(|call| {
                let id = call.id.unwrap_or_else(|| id::new("call_"));
                json!({ "id": id, "type": "function", "function": call.function })
            });
            message["tool_calls"] = calls.collect();
        }
        json!({
            "index": index,
            "message": message,
            "logprobs": (!logprobs.is_empty()).then(|| json!({ "content": logprobs, "refusal": null })),
            "finish_reason": finish_reason,
        })
    }

    /// Writes the answers as they come. `place` is held until the end.
    async fn stream(self, mut answers: Answers, n: usize, events: Events, place: Place) -> Result<(), Gone> {
        let _place = place;
        let mut choices: Vec<Choice> = (0..n).map(|_| Choice::default()).collect();
        for index in 0..n {
            let delta = json!({ "role": "assistant", "content": null });
            events.data(&self.chunk(index, delta, None, None)).await?;
        }
        let (mut totals, mut times) = (Totals::default(), Value::Null);
        loop {
            let delta = match answers.next().await {
                Ok(Some(delta)) => delta,
                Ok(None) => break,
                Err(error) => {
                    events.data(&shape::openai(&error)).await?;
                    return events.done().await;
                }
            };
            let (index, choice) = (delta.choice, &mut choices[delta.choice]);
            match delta.kind {
                DeltaKind::Progress(progress) => {
                    let mut chunk = self.chunk(index, json!({}), None, None);
                    chunk["prompt_progress"] = prompt_progress(&progress);
                    if self.output.has_timings {
                        chunk["timings"] = timings_of_prompt(&progress);
                    }
                    events.data(&chunk).await?;
                }
                DeltaKind::Token { id, logprobs, .. } => {
                    choice.pace.count();
                    let logprobs = logprobs.map(|logprobs| logprobs::of_token(&self.served, id, &logprobs));
                    choice.logprobs.extend(logprobs);
                }
                DeltaKind::Part(part) => {
                    choice.reply.count(&part);
                    self.part(choice, index, part, &events).await?;
                }
                DeltaKind::End(end) => {
                    totals.add(&end);
                    times = timings(&end.usage);
                    events.data(&self.last(choice, index, &end)).await?;
                }
                _ => {}
            }
        }
        if self.output.has_usage {
            let mut chunk = self.empty_chunk();
            chunk["usage"] = totals.json();
            if self.output.has_timings {
                chunk["timings"] = times;
            }
            events.data(&chunk).await?;
        }
        events.done().await
    }

    /// Writes a part of an answer.
    async fn part(&self, choice: &mut Choice, index: usize, part: Part, events: &Events) -> Result<(), Gone> {
        let delta = match part {
            Part::Reasoning(text) => json!({ "reasoning_content": text }),
            Part::Content(text) | Part::ToolCallBroken { text, .. } => json!({ "content": text }),
            Part::ToolCallBegin { index, name, id } => {
                let id = id.unwrap_or_else(|| id::new("call_"));
                let function = json!({ "name": name, "arguments": "" });
                json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] })
            }
            Part::ToolCallArguments { index, json } => {
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": json } }] })
            }
            Part::ToolCallEnd { .. } | Part::ToolCallCut { .. } => return Ok(()),
        };
        let mut chunk = self.chunk(index, delta, choice.take_logprobs(), None);
        if self.output.has_timings {
            chunk["timings"] = choice.pace.timings();
        }
        events.data(&chunk).await
    }

    fn last(&self, choice: &mut Choice, index: usize, End { reason, usage, .. }: &End) -> Value {
        let finish = choice.finish_reason(reason);
        let mut chunk = self.chunk(index, json!({}), choice.take_logprobs(), Some(finish));
        if self.output.has_timings {
            chunk["timings"] = timings(usage);
        }
        if let Some(prompt) = &self.prompt {
            chunk["__verbose"] = json!({ "prompt": prompt });
        }
        chunk
    }

    fn chunk(&self, index: usize, delta: Value, logprobs: Option<Vec<Value>>, finish: Option<&str>) -> Value {
        let mut chunk = self.empty_chunk();
        let logprobs = logprobs.map(|logprobs| json!({ "content": logprobs, "refusal": null }));
        chunk["choices"] =
            json!([{ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish }]);
        chunk
    }

    fn empty_chunk(&self) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "system_fingerprint": FINGERPRINT,
            "model": self.served.name,
            "choices": [],
        })
    }
}
