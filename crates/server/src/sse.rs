//! Answers on the wire: one object, server-sent events, or lines of JSON.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use rustorch::Delta;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::answer::Answers;
use crate::error::ApiError;

/// A comment tells clients and proxies that the server is alive, while a request waits or its prompt is computed.
const KEEP_ALIVE: Duration = Duration::from_secs(8);

/// Events that are ready for the client, at most. What writes them waits; the engine does not.
const READY: usize = 32;

/// Writes the answers to a call as a protocol does.
pub(crate) trait Writer: Send + 'static {
    /// Streams are lines of JSON, not events. They have no keep-alive: clients read every line as JSON, even an empty one.
    const IS_LINES: bool = false;

    /// Begins a stream.
    fn begin(&mut self, _: &mut Out) {}

    /// Adds a piece of an answer.
    fn push(&mut self, delta: Delta, out: &mut Out);

    /// Ends a stream, with an error if an answer has failed.
    fn end(&mut self, error: Option<ApiError>, out: &mut Out);

    /// All answers as one object.
    fn whole(self) -> Value;
}

/// The events that a writer has written, and that have not been sent.
#[derive(Default)]
pub(crate) struct Out {
    /// Otherwise the answers become one object, and nothing is written here.
    pub(crate) is_stream: bool,
    /// The name and the data of each.
    pub(crate) events: Vec<(Option<String>, String)>,
}

impl Out {
    /// Writes an event without a name, or a line.
    pub(crate) fn data(&mut self, json: &Value) {
        self.events.push((None, json.to_string()));
    }

    /// Writes an event that is named by its type.
    pub(crate) fn event(&mut self, json: &Value) {
        self.events.push((json["type"].as_str().map(str::to_owned), json.to_string()));
    }

    /// Writes OpenAI's end of a stream.
    pub(crate) fn done(&mut self) {
        self.events.push((None, "[DONE]".into()));
    }
}

/// The response to a call. Fails if an answer does that is not written as a stream.
pub(crate) async fn respond<W: Writer>(
    mut writer: W,
    mut answers: Answers,
    is_stream: bool,
) -> Result<Response, ApiError> {
    let mut out = Out { is_stream, ..Out::default() };
    if !is_stream {
        while let Some(delta) = answers.next().await? {
            writer.push(delta, &mut out);
        }
        return Ok(Json(writer.whole()).into_response());
    }
    let (sender, receiver) = mpsc::channel(READY);
    let open = sender.clone();
    let write = async move {
        writer.begin(&mut out);
        let mut has_ended = false;
        loop {
            for event in out.events.drain(..) {
                sender.send(event).await?;
            }
            if has_ended {
                return Ok::<_, mpsc::error::SendError<_>>(());
            }
            match answers.next().await {
                Ok(Some(delta)) => writer.push(delta, &mut out),
                ended => {
                    writer.end(ended.err(), &mut out);
                    has_ended = true;
                }
            }
        }
    };
    tokio::spawn(while_read(open, write));
    let events = ReceiverStream::new(receiver);
    let mut response = if W::IS_LINES {
        let body = Body::from_stream(events.map(|(_, line)| Ok::<_, Infallible>(line + "\n")));
        ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
    } else {
        let events = events.map(|(name, data)| {
            let event = name.map_or_else(Event::default, |name| Event::default().event(name));
            Ok::<_, Infallible>(event.data(data))
        });
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
    };
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Goes on until it has ended, or until the client leaves: dropping it cancels its requests, also while there is nothing to write.
async fn while_read<T>(open: mpsc::Sender<T>, written: impl Future) {
    tokio::select! {
        _ = written => {}
        () = open.closed() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While nothing is written, only this tells that the client has left.
    #[tokio::test]
    async fn a_stream_ends_when_nobody_reads_it_any_more() {
        let (sender, receiver) = mpsc::channel::<()>(1);
        let (cancelled, dropped) = tokio::sync::oneshot::channel::<()>();
        let silent = async move {
            let _cancelled = cancelled;
            std::future::pending::<()>().await
        };
        let writing = tokio::spawn(while_read(sender, silent));
        drop(receiver);
        writing.await.expect("it ends");
        assert!(dropped.await.is_err(), "its requests are cancelled");
    }
}
