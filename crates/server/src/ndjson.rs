//! Lines of JSON.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value as Json;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::sse::{Gone, READY, while_read};

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
pub(crate) fn stream<F: Future<Output = Result<(), Gone>> + Send + 'static>(
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
