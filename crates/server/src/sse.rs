//! Streams of answers: server-sent events, and lines of JSON.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::Value as Json;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// A comment tells clients and proxies that the server is alive, while a request waits or its prompt is computed.
const KEEP_ALIVE: Duration = Duration::from_secs(8);

/// Events that are ready for the client, at most. What writes them waits; the engine does not.
const READY: usize = 32;

/// Where events are written. It is closed when the client has gone.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Event>);

/// The client has gone.
#[derive(Debug)]
pub(crate) struct Gone;

impl Events {
    /// An event without a name.
    pub(crate) async fn data(&self, json: &Json) -> Result<(), Gone> {
        self.0.send(Event::default().data(json.to_string())).await.map_err(|_| Gone)
    }

    /// An event called `name`.
    pub(crate) async fn event(&self, name: &str, json: &Json) -> Result<(), Gone> {
        self.0.send(Event::default().event(name).data(json.to_string())).await.map_err(|_| Gone)
    }

    /// OpenAI's end of a stream.
    pub(crate) async fn done(&self) -> Result<(), Gone> {
        self.0.send(Event::default().data("[DONE]")).await.map_err(|_| Gone)
    }
}

/// A stream of the events that `write` writes.
pub(crate) fn stream<F: Future<Output = Result<(), Gone>> + Send + 'static>(
    write: impl FnOnce(Events) -> F,
) -> Response {
    let (sender, receiver) = mpsc::channel(READY);
    let open = sender.clone();
    let written = write(Events(sender));
    tokio::spawn(while_read(open, written));
    let events = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    let no_buffering = HeaderValue::from_static("no");
    response.headers_mut().insert("x-accel-buffering", no_buffering);
    response
}

/// Where lines are written. It is closed when the client has gone.
#[derive(Clone, Debug)]
pub(crate) struct Lines(mpsc::Sender<String>);

impl Lines {
    pub(crate) async fn line(&self, json: &Json) -> Result<(), Gone> {
        self.0.send(format!("{json}\n")).await.map_err(|_| Gone)
    }
}

/// A stream of the lines that `write` writes. Nothing tells clients meanwhile that the server is alive: they read every line as
/// JSON, even an empty one.
pub(crate) fn lines<F: Future<Output = Result<(), Gone>> + Send + 'static>(
    write: impl FnOnce(Lines) -> F,
) -> Response {
    let (sender, receiver) = mpsc::channel(READY);
    let open = sender.clone();
    let written = write(Lines(sender));
    tokio::spawn(while_read(open, written));
    let body = Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, Infallible>));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// Goes on until it has ended, or until the client leaves: dropping it cancels its requests, also while there is nothing to write.
async fn while_read<T>(open: mpsc::Sender<T>, written: impl Future<Output = Result<(), Gone>>) {
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
        let (sender, receiver) = mpsc::channel::<Event>(1);
        let (cancelled, dropped) = tokio::sync::oneshot::channel::<()>();
        let silent = async move {
            let _cancelled = cancelled;
            std::future::pending::<Result<(), Gone>>().await
        };
        let writing = tokio::spawn(while_read(sender, silent));
        drop(receiver);
        writing.await.expect("it ends");
        assert!(dropped.await.is_err(), "its requests are cancelled");
    }
}
