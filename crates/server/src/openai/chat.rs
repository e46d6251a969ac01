//! `/v1/chat/completions`.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use chat::{Answer, Delta as Part};
use engine::StopReason;
use rustorch::{DeltaKind, End};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conversation::{self, Prompt};
use super::{FINGERPRINT, OPENAI, StreamOptions, finish_reason, logprobs};
use crate::answer::{Answers, Pace, Reply, Totals, prompt_progress, prompt_timings, timings, tokens_text};
use crate::app::{Admission, App};
use crate::call::{Call, Sampling, Started};
use crate::error::ApiError;
use crate::fields::{Group, Read, Within};
use crate::http::Routes;
use crate::models::Served;
use crate::sse::{self, Events, Gone};
use crate::{id, shape};

/// How the answer is written.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Output {
    /// Answer as a stream.
    #[serde(default)]
    stream: bool,
    /// How the stream is written.
    #[serde(default)]
    stream_options: StreamOptions,
    /// Return the log-probability of each token.
    #[serde(default)]
    logprobs: bool,
    /// Also return this many most likely tokens; needs `logprobs`.
    top_logprobs: Option<Within<0, 20>>,
    /// Return times, as llama-server does.
    #[serde(default)]
    timings_per_token: bool,
    /// Show the prompt in `__verbose`, as llama-server does.
    #[serde(default)]
    verbose: bool,
    /// Events of a stream report the progress of the prompt.
    #[serde(default)]
    return_progress: bool,
    /// This server writes text only.
    #[schemars(extend("items" = { "enum": ["text"] }))]
    modalities: Option<Vec<String>>,
}

impl Group for Output {
    const REFUSED: &'static [&'static str] =
        &["functions", "function_call", "audio", "prediction", "web_search_options"];
}

pub(super) type Body = (Output, Prompt, Sampling);

pub(super) fn routes() -> Routes {
    let paths = &["/v1/chat/completions", "/chat/completions"];
    let example = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 4 });
    let chat = OPENAI.endpoint("chat", paths, "Answers a conversation").reads("ChatCall", example);
    let head = |object: &str, own: Value| {
        let mut shape = json!({
            "id": "string", "object": format!("={object}"), "created": "integer", "system_fingerprint": "string",
            "model": "string", "timings?": "#Timings", "__verbose?": { "prompt": "string" },
        });
        shape
            .as_object_mut()
            .into_iter()
            .for_each(|shape| shape.extend(own.as_object().cloned().unwrap_or_default()));
        shape
    };
    let choice = |name: &str, text: Value| {
        let logprobs = json!(["null", { "content": ["#TokenLogprobs"], "refusal": "any" }]);
        let reason = "=stop|=length|=tool_calls|null";
        json!([{ "index": "integer", name: text, "logprobs": logprobs, "finish_reason": reason }])
    };
    let message = json!({
        "role": "=assistant", "content": "string|null", "refusal": "any", "reasoning_content?": "string",
        "tool_calls?": ["#ToolCall"],
    });
    let function = json!({ "name?": "string", "arguments?": "string" });
    let call = json!({ "index": "integer", "id?": "string", "type?": "=function", "function": function });
    let delta = json!({
        "role?": "=assistant", "content?": "string|null", "reasoning_content?": "string", "tool_calls?": [call],
    });
    let answer = json!({ "choices": choice("message", message), "usage": "#Usage" });
    let chunk =
        json!({ "choices": choice("delta", delta), "usage?": "#Usage", "prompt_progress?": "object" });
    let chunk = json!([head("chat.completion.chunk", chunk), "#OpenAiError"]);
    Routes::default()
        .post(chat.answers("#Chat").answers_as("text/event-stream", "#ChatChunk"), handle)
        .shapes([("Chat", head("chat.completion", answer)), ("ChatChunk", chunk)])
        .shapes(conversation::shapes())
}

pub(super) fn read((output, prompt, sampling): Body, app: &App) -> Result<(Call, Output), ApiError> {
    let top = output.top_logprobs.map_or(0, |top| top.0);
    if top > 0 && !output.logprobs {
        return Err(ApiError::invalid("top_logprobs", "`top_logprobs` needs `logprobs`: true"));
    }
    // OpenAI's default.
    if output.modalities.as_ref().is_some_and(|kinds| kinds != &["text"]) {
        return Err(ApiError::unsupported("modalities", "`modalities`: this server writes text only"));
    }
    let (conversation, format) = conversation::read(prompt, &app.config)?;
    let mut parameters = sampling.over(&app.config.defaults.params)?;
    parameters.params.logprobs = output.logprobs.then_some(top);
    parameters.progress = output.return_progress;
    Ok((Call::chat(conversation, parameters, format), output))
}

async fn handle(read: Read<Body>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let (call, output) = self::read(read.body, &read.app)?;
    let Started { answers, n, admission, prompts } = call.start(&read.app, &served, &read.client).await?;
    let prompt = prompts.first().filter(|_| output.verbose).map(|ids| tokens_text(&served, ids));
    let writer = Writer { id: id::new("chatcmpl-"), created: id::now(), served, output, prompt };
    Ok(if writer.output.stream {
        sse::stream(move |events| writer.stream(answers, n, events, admission))
    } else {
        Json(writer.whole(answers, n).await?).into_response()
    })
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
                    choice.logprobs.push(logprobs::token_json(&self.served, id, &logprobs));
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
        if self.output.timings_per_token {
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

    /// Writes the answers as they come. The admission is held until the end.
    async fn stream(
        self,
        mut answers: Answers,
        n: usize,
        events: Events,
        _admission: Admission,
    ) -> Result<(), Gone> {
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
                    if self.output.timings_per_token {
                        chunk["timings"] = prompt_timings(&progress);
                    }
                    events.data(&chunk).await?;
                }
                DeltaKind::Token { id, logprobs, .. } => {
                    choice.pace.count();
                    let logprobs = logprobs.map(|logprobs| logprobs::token_json(&self.served, id, &logprobs));
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
        if self.output.stream_options.include_usage() {
            let mut chunk = self.empty_chunk();
            chunk["usage"] = totals.json();
            if self.output.timings_per_token {
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
        if self.output.timings_per_token {
            chunk["timings"] = choice.pace.timings();
        }
        events.data(&chunk).await
    }

    fn last(&self, choice: &mut Choice, index: usize, End { reason, usage, .. }: &End) -> Value {
        let finish = choice.finish_reason(reason);
        let mut chunk = self.chunk(index, json!({}), choice.take_logprobs(), Some(finish));
        if self.output.timings_per_token {
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
