//! Refusals that arrive: a client that still sends its body would see a broken connection in place of an early answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::app::App;

/// Bytes drained of a body that is not read, in bodies of the largest size.
const MOST: usize = 8;

/// Time that the answer waits for a client that pauses.
const PAUSE: Duration = Duration::from_secs(1);

/// Takes the part of the body that has not been read before the answer goes out. The connection of a client that sends more,
/// or for longer, or pauses, ends.
pub(crate) async fn linger(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // Such a client does not send before it is told to.
    if request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let began = Instant::now();
    let (sender, mut rest) = oneshot::channel();
    let response = next.run(request.map(|body| Body::new(Read { body, rest: Some(sender) }))).await;
    if let Ok(body) = rest.try_recv() {
        let limits = &app.config.limits;
        let mut body = Limited::new(body, limits.body.saturating_mul(MOST));
        let drained = async { while let Ok(Some(Ok(_))) = timeout(PAUSE, body.frame()).await {} };
        let left = limits.body_time.saturating_sub(began.elapsed());
        let _ = timeout(left, drained).await;
    }
    response
}

/// A body whose rest goes to `rest` once it is not read any more.
struct Read {
    body: Body,
    rest: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Read {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take().filter(|_| !self.body.is_end_stream()) {
            // Nothing waits for it if the request itself was dropped.
            let _ = rest.send(std::mem::take(&mut self.body));
        }
    }
}
