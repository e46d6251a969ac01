//! The state that handlers share: models, keys, limits, and the number of requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::connection::Tls;
use crate::error::{ApiError, Kind, STOPPING};
use crate::id;
use crate::keys::{Client, KeyHash, Keys};
use crate::models::Models;
use crate::quota::{Meter, Quota, Share};

pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) keys: RwLock<Keys>,
    pub(crate) tls: RwLock<Option<Tls>>,
    /// Usage and quota of each key.
    meters: Mutex<HashMap<KeyHash, (Quota, Arc<Meter>)>>,
    pub(crate) models: Arc<Models>,
    /// When the server was started, in seconds since 1970.
    pub(crate) started: i64,
    requests: AtomicUsize,
    is_stopping: AtomicBool,
    /// Templates and tokenizers at work.
    blocking: Arc<Semaphore>,
    /// Requests whose grammar is compiled, which may take seconds.
    compiling: Arc<Semaphore>,
}

/// Requests whose grammar is compiled or found at once: most of them only wait, at most for the compiler's deadline.
const MAX_COMPILING: usize = 64;

/// Requests that the server has admitted, until it is dropped.
pub(crate) struct Admission {
    app: Arc<App>,
    n: usize,
    /// The part of the client's quota that it takes.
    share: Option<Share>,
}

impl Admission {
    pub(crate) fn charge(&self, tokens: usize) {
        if let Some(share) = &self.share {
            share.meter.charge(tokens);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.app.requests.fetch_sub(self.n, Ordering::Relaxed);
    }
}

impl App {
    pub(crate) fn new(config: Config, models: Models) -> App {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        App {
            keys: RwLock::new(config.keys.clone()),
            tls: RwLock::new(config.tls.clone()),
            meters: Mutex::default(),
            config,
            models: Arc::new(models),
            started: id::now(),
            requests: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            blocking: Arc::new(Semaphore::new(threads.max(2))),
            compiling: Arc::new(Semaphore::new(MAX_COMPILING)),
        }
    }

    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Waits until no request waits or runs.
    pub(crate) async fn drained(&self) {
        while self.requests.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Measures what the key with this hash uses. A quota that has changed begins anew.
    pub(crate) fn meter(&self, hash: KeyHash, quota: Quota) -> Arc<Meter> {
        let mut meters = self.meters.lock();
        let (own, meter) = meters.entry(hash).or_insert_with(|| (quota, Arc::new(Meter::new(quota))));
        if *own != quota {
            (*own, *meter) = (quota, Arc::new(Meter::new(quota)));
        }
        meter.clone()
    }

    /// Admits `n` more requests of `client`. Fails if its quota is used up, or the server is at capacity or shutting down.
    pub(crate) fn admit(self: &Arc<App>, client: &Client, n: usize) -> Result<Admission, ApiError> {
        if self.is_stopping() {
            return Err(ApiError::new(Kind::Stopping, STOPPING));
        }
        let most = self.config.limits.requests;
        if n > most.max(1) {
            let message = format!(
                "{n} answers requested at once, but this server computes at most {most}; request fewer"
            );
            return Err(ApiError::new(Kind::Invalid, message));
        }
        let before = self.requests.fetch_add(n, Ordering::Relaxed);
        // Counts down if it is dropped on the way out.
        let mut admission = Admission { app: self.clone(), n, share: None };
        if before + n > most {
            let message = format!("server at capacity ({most} requests); try again");
            return Err(ApiError::new(Kind::Busy, message));
        }
        admission.share = client.meter.as_ref().map(|meter| meter.admit(n)).transpose()?;
        Ok(admission)
    }

    /// Calls `work` on a thread that may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.apart(&self.blocking, work).await
    }

    /// Calls `work`, which compiles a grammar or waits for others that do.
    pub(crate) async fn compiling<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.apart(&self.compiling, work).await
    }

    async fn apart<T: Send + 'static>(
        &self,
        permits: &Arc<Semaphore>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = permits.clone().acquire_owned().await;
        // Its permit ends with the work, even if no request waits for it any more.
        let work = move || {
            let _permit = permit;
            work()
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| ApiError::internal("the request ended in a panic; the server's log says where"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Long after any answer.
    const HANG: Duration = Duration::from_secs(20);

    #[test]
    fn who_compiles_holds_nobody_up_who_renders() {
        let config = Config::new(([127, 0, 0, 1], 0).into());
        let app =
            Arc::new(App::new(config, Models::new(Vec::new(), Vec::new(), false, 1).expect("no models")));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("threads");
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let begun = Arc::new(AtomicUsize::new(0));
        let slow = app.blocking.available_permits();
        runtime.block_on(async {
            for _ in 0..slow {
                let (app, held, begun) = (app.clone(), held.clone(), begun.clone());
                let wait = move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    held.lock().recv().is_err()
                };
                tokio::spawn(async move { app.compiling(wait).await });
            }
            while begun.load(Ordering::Relaxed) < slow {
                tokio::task::yield_now().await;
            }
            let rendered = tokio::time::timeout(HANG, app.blocking(|| "done")).await;
            assert_eq!(rendered.expect("nobody is in its way").expect("no panic"), "done");
        });
        drop(release);
    }
}
