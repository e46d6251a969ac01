//! The server: connections, routes, the end.

use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, middleware};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::config::{Config, Limits};
use crate::connection::Tls;
use crate::error::{ApiError, Kind, StartError};
use crate::http::{Routes, guard, linger};
use crate::keys::Keys;
use crate::models::{ModelSource, Models};
use crate::openapi::SERVER;
use crate::{anthropic, connection, llama, metrics, ollama, openai, page, shape};

/// Stops a server from another thread.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<bool>);

impl Shutdown {
    /// Refuses new requests, and ends when those that run have ended, or after [`Config::drain`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// Replaces the keys and the certificate of a server that runs.
#[derive(Clone)]
pub struct Reload(Arc<App>);

impl Reload {
    /// Only `keys` may use it from now on.
    pub fn replace(&self, keys: Keys) {
        *self.0.keys.write() = keys;
    }

    /// Connections that are opened from now on have this certificate.
    pub fn encrypt(&self, tls: Tls) {
        *self.0.tls.write() = Some(tls);
    }
}

/// Time for clients of a server that stops to read that their requests are cut off.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    listener: std::net::TcpListener,
    shutdown: watch::Sender<bool>,
    tell_ready: Box<dyn FnOnce() + Send>,
}

impl Server {
    /// Listens for requests to these models, by name; the first is the default.
    ///
    /// # Errors
    /// If the address is not free, or a thread cannot be started.
    pub fn new(config: Config, models: Vec<(String, ModelSource)>) -> Result<Server, StartError> {
        let address = config.address;
        let listen = |source| StartError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let models =
            Models::new(models, config.aliases.clone(), config.strict_model, config.max_models.max(1))?;
        let app = App::new(config, models);
        let (shutdown, tell_ready) = (watch::Sender::new(false), Box::new(|| {}));
        Ok(Server { app: Arc::new(app), listener, shutdown, tell_ready })
    }

    /// The address it listens on; the port is the system's if [`Config::address`] has none.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Stops it from another thread.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown(self.shutdown.clone())
    }

    /// Calls `tell` when it listens, and the models of [`ModelSource::AtStart`] are loaded.
    pub fn when_ready(&mut self, tell: impl FnOnce() + Send + 'static) {
        self.tell_ready = Box::new(tell);
    }

    /// Replaces its keys and its certificate from another thread.
    pub fn reload(&self) -> Reload {
        Reload(self.app.clone())
    }

    /// Serves until [`Shutdown::stop`].
    ///
    /// # Errors
    /// If its threads cannot be started, or a model of [`ModelSource::AtStart`] cannot be loaded.
    pub fn run(self) -> Result<(), StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let ended = runtime.block_on(self.serve());
        runtime.shutdown_timeout(Duration::from_secs(1));
        ended
    }

    async fn serve(self) -> Result<(), StartError> {
        let Server { app, listener, shutdown, tell_ready } = self;
        let mut stopped = shutdown.subscribe();
        let listener = TcpListener::from_std(listener)?;
        let router = router(app.clone());
        let limits = app.config.limits;
        let mut builder = Builder::new(TokioExecutor::new()).http1_only();
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_headers(100)
            .max_buf_size(64 << 10);
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Semaphore::new(limits.connections));
        if let Some(time) = app.config.keep_alive {
            tokio::spawn(unload_idle(app.models.clone(), time));
        }
        // When all must have ended. Meanwhile, requests are refused.
        let mut ending = pin!(async {
            // The sender is there until the end.
            let _ = stopped.wait_for(|&stopped| stopped).await;
            app.stop();
            let end = Instant::now() + app.config.drain;
            if timeout_at(end, app.drained()).await.is_ok() {
                return end;
            }
            tracing::warn!("some requests have not ended in time, and are cut off");
            app.models.cut();
            let end = Instant::now() + LAST_WORDS;
            let _ = timeout_at(end, app.drained()).await;
            end
        });
        let mut loading = pin!(async {
            app.models.start().await?;
            tell_ready();
            Ok::<_, StartError>(())
        });
        let mut is_loading = true;
        let end = loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                loaded = &mut loading, if is_loading => {
                    loaded?;
                    is_loading = false;
                    continue;
                }
                end = &mut ending => break end,
            };
            // Too many open files: the next may succeed.
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(permit) = connections.clone().try_acquire_owned() else { continue };
            let (builder, watcher, app) = (builder.clone(), graceful.watcher(), app.clone());
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let _permit = permit;
                let (tls, Limits { head_time, write_time, .. }) = (app.tls.read().clone(), limits);
                let serve = async {
                    let (stream, copy) = connection::watched(stream)?;
                    let stream = connection::open(stream, tls.as_ref(), head_time, write_time).await?;
                    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
                    tokio::select! {
                        biased;
                        ended = watcher.watch(connection) => ended,
                        () = connection::left(copy) => Ok(()),
                    }
                };
                // A client that breaks the protocol, or leaves, concerns no other.
                let ended: Result<(), Box<dyn Error + Send + Sync>> = serve.await;
                if let Err(error) = ended {
                    tracing::debug!("a connection has ended: {error}");
                }
            });
        };
        drop(listener);
        if timeout_at(end, graceful.shutdown()).await.is_err() {
            tracing::warn!("some clients have not read their answers in time");
        }
        Ok(())
    }
}

/// Unloads models that are not used for `time`.
async fn unload_idle(models: Arc<Models>, time: Duration) {
    loop {
        tokio::time::sleep((time / 4).clamp(Duration::from_millis(10), Duration::from_secs(10))).await;
        models.unload_idle(time).await;
    }
}

fn routes(has_page: bool) -> Router<Arc<App>> {
    let health_entry = SERVER.endpoint("health", &["/health", "/v1/health"], "Whether the server runs");
    let health_entry = health_entry.open().answers(json!({ "status": "=ok" })).fails(&[400, 403]);
    let ready_entry = SERVER.endpoint("ready", &["/ready"], "Whether the server takes requests").open();
    let ready_entry =
        ready_entry.answers(json!({ "status": "=ready" })).fails(&[400, 403]).fails_as("NotReady", &[503]);
    let metrics_entry =
        SERVER.endpoint("metrics", &["/metrics"], "Figures for Prometheus, under vLLM's names");
    let document = SERVER.endpoint("document", &["/openapi.json"], "This document").answers("object");
    let page = if has_page { page::routes() } else { Routes::default() };
    Routes::default()
        .merge(openai::routes())
        .merge(ollama::routes())
        .merge(llama::routes())
        .merge(anthropic::routes())
        .merge(page)
        .get(health_entry, health)
        .get(ready_entry, ready)
        .get(metrics_entry.answers_as("text/plain", "string"), metrics)
        .shapes([("NotReady", json!({ "status": "=stopping|=loading|=failed" }))])
        .with_document(document)
}

pub(crate) fn router(app: Arc<App>) -> Router {
    routes(app.config.page)
        .fallback(no_route)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .layer(middleware::from_fn(shape::errors))
        .layer(middleware::map_response(secure))
        .layer(middleware::from_fn_with_state(app.clone(), linger))
        .with_state(app)
}

async fn health() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// Whether new requests are taken.
async fn ready(State(app): State<Arc<App>>) -> Response {
    let why_not = match () {
        () if app.is_stopping() => "stopping",
        () if app.models.are_loading() => "loading",
        () if app.models.have_failed() => "failed",
        () => return Json(json!({ "status": "ready" })).into_response(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": why_not }))).into_response()
}

/// When the server was started, in seconds since 1970; as in llama-server.
const STARTED: HeaderName = HeaderName::from_static("process-start-time-unix");

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = metrics::text(app.models.stats(), backend::KV_BLOCK);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let headers = [(header::CONTENT_TYPE, kind), (STARTED, HeaderValue::from(app.started))];
    (headers, text).into_response()
}

async fn no_route(request: axum::extract::Request) -> ApiError {
    let (method, path) = (request.method(), request.uri().path());
    ApiError::new(Kind::NoRoute, format!("there is no {method} {path} here"))
}

async fn secure(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
