//! `/v1/chat/completions`.

use axum::response::Response;
use chat::Answer;
use engine::StopReason;
use rustorch::{Delta, DeltaKind, Part, Request};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conversation::{self, Prompt};
use super::logprobs::token_json;
use super::{Head, OPENAI, StreamOptions, finish_reason};
use crate::answer::{Pace, Totals, joined, prompt_progress, prompt_timings, timings, tokens_text};
use crate::app::App;
use crate::call::{self, Sampling};
use crate::constraint::Format;
use crate::error::{ApiError, Kind};
use crate::fields::{Group, Read, Within};
use crate::http::{Routes, with_ignored};
use crate::sse::{self, Out, Writer};
use crate::{id, shape};

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
    const REFUSED: &'static [&'static str] = &["audio"];
}

pub(super) type Body = (Output, Prompt, Sampling);

pub(super) fn routes() -> Routes {
    let paths = &["/v1/chat/completions", "/chat/completions"];
    let example = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 4 });
    let chat = OPENAI.endpoint("chat", paths, "Answers a conversation").reads("ChatCall", example);
    let head = |object: &str, own: Value| {
        let head = json!({
            "id": "string", "object": format!("={object}"), "created": "integer", "system_fingerprint": "string",
            "model": "string", "timings?": "#Timings", "__verbose?": { "prompt": "string" },
        });
        joined(head, own)
    };
    let choice = |name: &str, text: Value| {
        let logprobs = json!(["null", { "content": ["#TokenLogprobs"], "refusal": "any" }]);
        let reason = "=stop|=length|=tool_calls|=function_call|null";
        json!([{ "index": "integer", name: text, "logprobs": logprobs, "finish_reason": reason }])
    };
    let function = json!({ "name?": "string", "arguments?": "string" });
    let message = json!({
        "role": "=assistant", "content": "string|null", "refusal": "any", "reasoning_content?": "string",
        "tool_calls?": ["#ToolCall"], "function_call?": function,
    });
    let call =
        json!({ "index": "integer", "id?": "string", "type?": "=function", "function": function.clone() });
    let delta = json!({
        "role?": "=assistant", "content?": "string|null", "reasoning_content?": "string", "tool_calls?": [call],
        "function_call?": function,
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

/// A call that has been read.
pub(super) struct Call {
    pub(super) request: Request,
    format: Format,
    output: Output,
    /// The answer has a `function_call` in place of `tool_calls`.
    has_functions: bool,
    /// Names of what is left out.
    pub(super) ignored: Vec<String>,
}

pub(super) fn read((output, prompt, sampling): Body, app: &App) -> Result<Call, ApiError> {
    let top = output.top_logprobs.map_or(0, |top| top.0);
    if top > 0 && !output.logprobs {
        return Err(ApiError::invalid("top_logprobs", "needs `logprobs`: true"));
    }
    // `["text"]` is OpenAI's default.
    if output.modalities.as_ref().is_some_and(|kinds| kinds != &["text"]) {
        let message = "`modalities`: this server writes text only";
        return Err(ApiError::new(Kind::Unsupported, message).at("modalities"));
    }
    let has_functions = prompt.1.are_functions();
    let (conversation, format, ignored) = conversation::read(prompt, &app.config)?;
    let mut request = sampling.over(&app.config.defaults.params)?;
    request.input = conversation.into();
    request.params.logprobs = output.logprobs.then_some(top);
    request.progress = output.return_progress;
    Ok(Call { request, format, output, has_functions, ignored })
}

async fn handle(read: Read<Body>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let Call { request, format, output, has_functions, ignored } = self::read(read.body, &read.app)?;
    let answers = call::submit(&read.app, &served, &read.client, "messages", vec![request], format).await?;
    let is_stream = output.stream;
    let writer = ChatWriter {
        prompt: answers.prompts.first().filter(|_| output.verbose).map(|ids| tokens_text(&served, ids)),
        head: Head::new("chatcmpl-", served),
        output,
        has_functions,
        choices: (0..answers.n).map(|_| Choice::default()).collect(),
        totals: Totals::default(),
        times: Value::Null,
    };
    Ok(with_ignored(sse::respond(writer, answers, is_stream).await?, ignored))
}

struct ChatWriter {
    head: Head,
    output: Output,
    has_functions: bool,
    prompt: Option<String>,
    choices: Vec<Choice>,
    totals: Totals,
    /// Times of the answer that has ended last.
    times: Value,
}

/// One answer, as far as it has come.
#[derive(Default)]
struct Choice {
    answer: Answer,
    calls: usize,
    /// A call has begun and is not complete.
    is_calling: bool,
    /// Log-probabilities of tokens that have not been written.
    logprobs: Vec<Value>,
    pace: Pace,
    written: Value,
}

impl Choice {
    fn count(&mut self, part: &Part) {
        match part {
            Part::ToolCallBegin { .. } => self.is_calling = true,
            Part::ToolCallEnd { .. } => (self.calls, self.is_calling) = (self.calls + 1, false),
            Part::ToolCallBroken { .. } => self.is_calling = false,
            // A call that is cut stays one that is not complete.
            _ => {}
        }
    }

    fn take_logprobs(&mut self) -> Value {
        if self.logprobs.is_empty() {
            return Value::Null;
        }
        json!({ "content": std::mem::take(&mut self.logprobs), "refusal": null })
    }

    fn finish_reason(&self, reason: &StopReason, has_functions: bool) -> &'static str {
        match finish_reason(reason) {
            "stop" if self.calls > 0 && !self.is_calling && has_functions => "function_call",
            "stop" if self.calls > 0 && !self.is_calling => "tool_calls",
            other => other,
        }
    }

    /// The whole answer, number `index`.
    fn json(&mut self, index: usize, reason: &StopReason, has_functions: bool) -> Value {
        let Answer { reasoning, content, mut tool_calls } = std::mem::take(&mut self.answer);
        let has_calls = !tool_calls.is_empty();
        let content = (!content.is_empty() || !has_calls).then_some(content);
        let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
        if !reasoning.is_empty() {
            message["reasoning_content"] = reasoning.into();
        }
        if has_calls && has_functions {
            message["function_call"] = json!(tool_calls.swap_remove(0).function);
        } else if has_calls {
            let calls = tool_calls.into_iter().map(|call| {
                let id = call.id.unwrap_or_else(|| id::new("call_"));
                json!({ "id": id, "type": "function", "function": call.function })
            });
            message["tool_calls"] = calls.collect();
        }
        let (logprobs, reason) = (self.take_logprobs(), self.finish_reason(reason, has_functions));
        json!({ "index": index, "message": message, "logprobs": logprobs, "finish_reason": reason })
    }
}

impl Writer for ChatWriter {
    fn begin(&mut self, out: &mut Out) {
        for index in 0..self.choices.len() {
            out.data(&self.chunk(index, json!({ "role": "assistant", "content": null }), Value::Null, None));
        }
    }

    fn push(&mut self, Delta { choice: index, kind }: Delta, out: &mut Out) {
        let choice = &mut self.choices[index];
        match kind {
            DeltaKind::Progress(progress) if out.is_stream => {
                let mut chunk = self.chunk(index, json!({}), Value::Null, None);
                chunk["prompt_progress"] = prompt_progress(&progress);
                out.data(&self.timed(chunk, || prompt_timings(&progress)));
            }
            DeltaKind::Token { id, logprobs, .. } => {
                choice.pace.count();
                let logprobs = logprobs.map(|logprobs| token_json(&self.head.served, id, &logprobs));
                choice.logprobs.extend(logprobs);
            }
            DeltaKind::Part(part) => {
                choice.count(&part);
                if !out.is_stream {
                    choice.answer.push(part);
                } else if let Some(delta) = delta_json(part, self.has_functions) {
                    let (logprobs, pace) = (choice.take_logprobs(), choice.pace);
                    out.data(&self.timed(self.chunk(index, delta, logprobs, None), || pace.timings()));
                }
            }
            DeltaKind::End(end) => {
                if out.is_stream {
                    let (logprobs, finish) =
                        (choice.take_logprobs(), choice.finish_reason(&end.reason, self.has_functions));
                    let chunk = self.chunk(index, json!({}), logprobs, Some(finish));
                    out.data(&self.verbose(self.timed(chunk, || timings(&end.usage))));
                } else {
                    choice.written = choice.json(index, &end.reason, self.has_functions);
                }
                self.totals.add(&end);
                self.times = timings(&end.usage);
            }
            _ => {}
        }
    }

    fn end(&mut self, error: Option<ApiError>, out: &mut Out) {
        if let Some(error) = error {
            out.data(&shape::openai(&error));
        } else if self.output.stream_options.include_usage == Some(true) {
            let mut chunk = self.head.json(CHUNK, json!([]));
            chunk["usage"] = self.totals.json();
            out.data(&self.timed(chunk, || self.times.clone()));
        }
        out.done();
    }

    fn whole(mut self) -> Value {
        let choices: Value = self.choices.iter_mut().map(|choice| choice.written.take()).collect();
        let mut shape = self.head.json("chat.completion", choices);
        shape["usage"] = self.totals.json();
        self.verbose(self.timed(shape, || self.times.clone()))
    }
}

const CHUNK: &str = "chat.completion.chunk";

impl ChatWriter {
    fn chunk(&self, index: usize, delta: Value, logprobs: Value, finish: Option<&str>) -> Value {
        let choice = json!({ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish });
        self.head.json(CHUNK, json!([choice]))
    }

    fn timed(&self, mut json: Value, times: impl FnOnce() -> Value) -> Value {
        if self.output.timings_per_token {
            json["timings"] = times();
        }
        json
    }

    fn verbose(&self, mut json: Value) -> Value {
        if let Some(prompt) = &self.prompt {
            json["__verbose"] = json!({ "prompt": prompt });
        }
        json
    }
}

fn delta_json(part: Part, has_functions: bool) -> Option<Value> {
    Some(match part {
        Part::ToolCallBegin { name, .. } if has_functions => {
            json!({ "function_call": { "name": name, "arguments": "" } })
        }
        Part::ToolCallArguments { json, .. } if has_functions => {
            json!({ "function_call": { "arguments": json } })
        }
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
        Part::ToolCallEnd { .. } | Part::ToolCallCut { .. } => return None,
    })
}
