//! Routes, and their entries in the document.

use std::sync::Arc;

use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, get, on};
use axum::{Json, Router};
use serde_json::Value;

use super::{Ignored, with_ignored_header};
use crate::app::App;
use crate::error::ApiError;
use crate::fields::{Body, Read};
use crate::openapi::{Endpoint, document};

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

    /// `POST` with a body of the handler's type. The fields that nobody read are named in the answer.
    pub(crate) fn post<B: Body, F: Future<Output = Result<Response, ApiError>> + Send>(
        self,
        endpoint: Endpoint,
        handler: impl Fn(Read<B>) -> F + Clone + Send + Sync + 'static,
    ) -> Routes {
        let handler = async move |mut read: Read<B>| -> Result<Response, ApiError> {
            let ignored = std::mem::take(&mut read.ignored);
            let mut response = handler(read).await?;
            let own = response.extensions_mut().remove::<Ignored>().unwrap_or_default();
            Ok(with_ignored_header(response, own.0.into_iter().chain(ignored)))
        };
        self.on(MethodFilter::POST, "POST", endpoint.body::<B>(), handler)
    }

    /// The method called `name`.
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

    /// Adds the document of all routes.
    pub(crate) fn with_document(mut self, endpoint: Endpoint) -> Router<Arc<App>> {
        let path = endpoint.paths[0];
        self.endpoints.push(("GET", endpoint));
        let document = document(&self.endpoints, self.shapes);
        self.router.route(path, get(|| async { Json(document) }))
    }
}
