//! A model by its name, loaded or not.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::encoder::Encoder;
use super::generator::Generator;
use super::{Held, Lease, Loaded, Loader, Model, ModelSource};
use crate::error::{ApiError, Kind};
use crate::metrics::Stats;

/// A model by its name, loaded or not.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) stats: Arc<Stats>,
    /// None if it was loaded before.
    loader: Option<Loader>,
    /// Never unloaded.
    is_kept: bool,
    state: Mutex<State>,
    /// Somebody stopped using it.
    released: Notify,
}

#[derive(Debug)]
struct State {
    held: Option<Held>,
    users: usize,
    /// It is about to be unloaded: new users wait until it is loaded again.
    is_leaving: bool,
    last_use: Instant,
}

/// Somebody uses a model, until this is dropped.
#[derive(Debug)]
pub(super) struct InUse(Arc<Entry>);

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.users -= 1;
        state.last_use = Instant::now();
        drop(state);
        self.0.released.notify_waiters();
    }
}

impl Entry {
    pub(super) fn new(name: String, source: ModelSource) -> std::io::Result<Entry> {
        let stats = Arc::new(Stats::default());
        let (held, loader, is_kept) = match source {
            ModelSource::Loaded(loaded) => (Some(start(&name, loaded, &stats)?), None, true),
            ModelSource::AtStart(loader) => (None, Some(loader), true),
            ModelSource::OnDemand(loader) => (None, Some(loader), false),
        };
        let state = State { held, users: 0, is_leaving: false, last_use: Instant::now() };
        Ok(Entry { name, stats, loader, is_kept, state: Mutex::new(state), released: Notify::new() })
    }

    /// The model, if it is loaded and stays so. One that has failed is loaded again, if it can be.
    pub(super) fn lease(self: &Arc<Entry>) -> Option<Model> {
        let mut state = self.state.lock();
        if self.loader.is_some() {
            state.held.take_if(|held| held.has_failed());
        }
        let held = state.held.clone().filter(|_| !state.is_leaving)?;
        state.users += 1;
        state.last_use = Instant::now();
        drop(state);
        Some(held.lease(InUse(self.clone())))
    }

    /// The model, if it is loaded, for a short look that is no use.
    pub(super) fn peek(&self) -> Option<Held> {
        self.state.lock().held.clone()
    }

    /// Whether it has failed, and cannot be loaded again.
    pub(super) fn has_failed(&self) -> bool {
        self.loader.is_none() && self.state.lock().held.as_ref().is_some_and(Held::has_failed)
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.state.lock().held.is_some()
    }

    /// Whether it is loaded at the start, and never unloaded.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Whether it is loaded, and may be unloaded.
    pub(super) fn is_removable(&self) -> bool {
        !self.is_kept && self.is_loaded()
    }

    /// The lowest goes first: models in use rank above others, then the last use counts.
    pub(super) fn rank(&self) -> (bool, Instant) {
        let state = self.state.lock();
        (state.users > 0, state.last_use)
    }

    /// Loads it. Only one caller at a time.
    pub(super) async fn load(self: &Arc<Entry>) -> Result<Model, ApiError> {
        let Some(loader) = self.loader.clone() else {
            return Err(ApiError::internal("nothing loads this model"));
        };
        let entry = self.clone();
        let started = spawn_blocking(move || {
            let began = Instant::now();
            let loaded = loader().map_err(|error| {
                // The end of the server says it of the others.
                if !entry.is_kept {
                    tracing::error!("{} cannot be loaded: {error}", entry.name);
                }
                ApiError::new(Kind::Internal, format!("the model `{}` cannot be loaded: {error}", entry.name))
            })?;
            let held = start(&entry.name, loaded, &entry.stats)
                .map_err(|error| ApiError::internal(format!("cannot start a thread: {error}")))?;
            tracing::info!("{} was loaded in {:.1} s", entry.name, began.elapsed().as_secs_f64());
            Ok::<_, ApiError>(held)
        });
        let panicked =
            |_| ApiError::internal("loading the model ended in a panic; the server's log says where");
        let held = started.await.map_err(panicked)??;
        let mut state = self.state.lock();
        state.held = Some(held.clone());
        state.users += 1;
        state.last_use = Instant::now();
        drop(state);
        Ok(held.lease(InUse(self.clone())))
    }

    /// Unloads it when its users have ended; there are no new ones meanwhile. Only one caller at a time.
    pub(super) async fn unload(self: &Arc<Entry>) {
        self.state.lock().is_leaving = true;
        loop {
            let released = self.released.notified();
            if let Some(held) = self.take_unused(Duration::ZERO) {
                return self.drop_held(held).await;
            }
            released.await;
        }
    }

    /// Unloads it if nobody has used it for `time`.
    pub(super) async fn unload_idle(&self, time: Duration) {
        if let Some(held) = self.take_unused(time) {
            self.drop_held(held).await;
        }
    }

    /// Ends its thread and gives its memory back.
    async fn drop_held(&self, held: Held) {
        tracing::info!("{} is unloaded", self.name);
        let _ = spawn_blocking(move || drop(held)).await;
    }

    /// The model, if nobody has used it for `time`.
    fn take_unused(&self, time: Duration) -> Option<Held> {
        let mut state = self.state.lock();
        let State { held, users, is_leaving, last_use } = &mut *state;
        let held = held.take_if(|_| *users == 0 && last_use.elapsed() >= time)?;
        *is_leaving = false;
        Some(held)
    }
}

fn start(name: &str, loaded: Loaded, stats: &Arc<Stats>) -> std::io::Result<Held> {
    Ok(match loaded {
        Loaded::Engine(engine) => {
            let generator = Generator::start(name.to_owned(), *engine, stats.clone());
            Held::Generator(Arc::new(generator.map_err(std::io::Error::other)?))
        }
        Loaded::Embedder(embedder) => {
            Held::Encoder(Arc::new(Encoder::start(name.to_owned(), *embedder, stats.clone())?))
        }
    })
}

impl Held {
    fn has_failed(&self) -> bool {
        match self {
            Held::Generator(generator) => generator.model.has_failed(),
            Held::Encoder(model) => model.has_failed(),
        }
    }

    fn lease(self, in_use: InUse) -> Model {
        match self {
            Held::Generator(model) => Model::Generator(Arc::new(Lease { model, _in_use: in_use })),
            Held::Encoder(model) => Model::Encoder(Arc::new(Lease { model, _in_use: in_use })),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).field("state", &self.state).finish_non_exhaustive()
    }
}
