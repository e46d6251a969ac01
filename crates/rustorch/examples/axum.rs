//! An HTTP server: `curl -N localhost:3000 -d "What is the capital of Italy?"` streams the answer.
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::{StreamExt, future};
use rustorch::{Conversation, Delta, Message, Model, Request, Result};

/// Answers a question. Leaving cancels the answer.
async fn answer(State(model): State<Model>, question: String) -> Response {
    let request =
        Request { is_eager: true, ..Request::new(Conversation::new(vec![Message::new("user", question)])) };
    // Rendering and encoding may take a while.
    let submitted = tokio::task::spawn_blocking(move || model.submit(request)).await;
    let Ok(Ok(mut stream)) = submitted else { return StatusCode::BAD_REQUEST.into_response() };
    if let Err(error) = stream.accepted().await {
        return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
    }
    let text = |delta: Result<Delta>| delta.map(|delta| delta.to_string()).map_err(std::io::Error::other);
    let texts = stream.map(text).filter(|text| future::ready(!text.as_ref().is_ok_and(String::is_empty)));
    Body::from_stream(texts).into_response()
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let model = Model::demo().map_err(std::io::Error::other)?;
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".into());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, axum::Router::new().route("/", post(answer)).with_state(model)).await
}
