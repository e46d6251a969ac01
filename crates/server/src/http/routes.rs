//! Routes, and a list of them.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};

use crate::app::App;

/// Routes, and a list of them: the [document](crate::openapi) must have the same ones.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<Arc<App>>,
    listed: Vec<(&'static str, &'static str)>,
}

impl Routes {
    /// `GET path`, and with it `HEAD`.
    pub(crate) fn get<H: Handler<T, Arc<App>>, T: 'static>(self, path: &'static str, handler: H) -> Routes {
        self.on(MethodFilter::GET, "GET", path, handler)
    }

    pub(crate) fn post<H: Handler<T, Arc<App>>, T: 'static>(self, path: &'static str, handler: H) -> Routes {
        self.on(MethodFilter::POST, "POST", path, handler)
    }

    /// `path` with the method called `name`.
    pub(crate) fn on<H: Handler<T, Arc<App>>, T: 'static>(
        self,
        method: MethodFilter,
        name: &'static str,
        path: &'static str,
        handler: H,
    ) -> Routes {
        let Routes { router, mut listed } = self;
        listed.push((name, path));
        Routes { router: router.route(path, on(method, handler)), listed }
    }

    pub(crate) fn merge(self, other: Routes) -> Routes {
        let listed = self.listed.into_iter().chain(other.listed).collect();
        Routes { router: self.router.merge(other.router), listed }
    }

    /// Methods and paths.
    #[cfg(test)]
    pub(crate) fn list(&self) -> &[(&'static str, &'static str)] {
        &self.listed
    }
}

impl From<Routes> for Router<Arc<App>> {
    fn from(routes: Routes) -> Router<Arc<App>> {
        routes.router
    }
}
