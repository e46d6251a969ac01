//! HTTP: routes, bodies, and checks of keys, hosts and origins.

mod guard;
mod linger;
pub(crate) mod notes;

pub(crate) use guard::guard;
pub(crate) use linger::linger;

use std::sync::Arc;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::handler::Handler;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::{MethodFilter, get, on};
use axum::{Json, Router};
use serde_json::Value;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::fields::{Body, Read};
use crate::openapi::{Endpoint, document};

/// The part of a path that its route leaves open. Fails if it is no text.
pub(crate) fn open_part(part: Result<Path<String>, PathRejection>) -> Result<String, ApiError> {
    let wrong = |why: PathRejection| format!("the path cannot be read: {}", why.body_text());
    part.map(|Path(part)| part).map_err(|why| ApiError::new(Kind::Invalid, wrong(why)))
}

/// Names the fields of a request that this server does not know.
const IGNORED: &str = "x-ignored-fields";

/// Names the model that answers to a name that none has.
const MODEL_USED: HeaderName = HeaderName::from_static("x-model-used");

/// Names of ignored parts of fields, for the header.
#[derive(Clone, Default)]
struct Ignored(Vec<String>);

pub(crate) fn with_ignored(mut response: Response, names: Vec<String>) -> Response {
    response.extensions_mut().insert(Ignored(names));
    response
}

/// Routes, and their entries in the [document](crate::openapi).
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<Arc<App>>,
    endpoints: Vec<(&'static str, Endpoint)>,
    shapes: Vec<(&'static str, Value)>,
}

impl Routes {
    /// `GET`, and with it `HEAD`.
    pub(crate) fn get<H: Handler<T, Arc<App>>, T: 'static>(self, endpoint: Endpoint, handler: H) -> Routes {
        self.on(MethodFilter::GET, "GET", endpoint, handler)
    }

    /// `POST` with a body of the handler's type. The fields that are ignored are named in the answer.
    pub(crate) fn post<B: Body, F: Future<Output = Result<Response, ApiError>> + Send>(
        self,
        endpoint: Endpoint,
        handler: impl Fn(Read<B>) -> F + Clone + Send + Sync + 'static,
    ) -> Routes {
        let handler = async move |mut read: Read<B>| -> Result<Response, ApiError> {
            let ignored = std::mem::take(&mut read.ignored);
            let (app, model) = (read.app.clone(), read.model.clone());
            let (response, notes) = notes::collect(handler(read)).await;
            let mut response = response?;
            let used = model.and_then(|name| app.models.used_for(&name));
            if let Some(Ok(used)) = used.map(HeaderValue::from_str) {
                response.headers_mut().insert(MODEL_USED, used);
            }
            let own = response.extensions_mut().remove::<Ignored>().unwrap_or_default();
            notes.write(&mut response);
            notes::list(IGNORED, own.0.into_iter().chain(ignored)).write(&mut response);
            Ok(response)
        };
        self.on(MethodFilter::POST, "POST", endpoint.body::<B>(), handler)
    }

    pub(crate) fn on<H: Handler<T, Arc<App>>, T: 'static>(
        mut self,
        method: MethodFilter,
        name: &'static str,
        endpoint: Endpoint,
        handler: H,
    ) -> Routes {
        for path in endpoint.paths {
            self.router = self.router.route(path, on(method, handler.clone()));
        }
        self.endpoints.push((name, endpoint));
        self
    }

    /// Adds [shapes](crate::openapi::shape) that others name.
    pub(crate) fn shapes(mut self, shapes: impl IntoIterator<Item = (&'static str, Value)>) -> Routes {
        self.shapes.extend(shapes);
        self
    }

    pub(crate) fn merge(mut self, other: Routes) -> Routes {
        self.router = self.router.merge(other.router);
        self.endpoints.extend(other.endpoints);
        self.shapes.extend(other.shapes);
        self
    }

    pub(crate) fn with_document(mut self, endpoint: Endpoint) -> Router<Arc<App>> {
        let path = endpoint.paths[0];
        self.endpoints.push(("GET", endpoint));
        let document = document(&self.endpoints, self.shapes);
        self.router.route(path, get(|| async { Json(document) }))
    }
}
