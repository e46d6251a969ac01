//! A model by its name, loaded or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::encoder::Encoder;
use super::{Generator, Held, Lease, Loaded, Loader, Model, ModelInfo, ModelSource};
use crate::error::{ApiError, Kind};
use crate::metrics::{Monitor, Stats};

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) stats: Arc<Stats>,
    /// None if it was loaded before.
    loader: Option<Loader>,
    /// Loaded at the start, and never unloaded.
    pub(super) is_kept: bool,
    state: Mutex<State>,
    /// A user has left.
    released: Notify,
}

struct State {
    held: Option<Held>,
    users: usize,
    is_loading: bool,
    /// It is about to be unloaded: new users wait until it is loaded again.
    is_leaving: bool,
    last_use: Instant,
}

/// A user of a model, until this is dropped.
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
        let state = State { held, users: 0, is_loading: false, is_leaving: false, last_use: Instant::now() };
        Ok(Entry { name, stats, loader, is_kept, state: Mutex::new(state), released: Notify::new() })
    }

    /// The model, if it is loaded and stays so. One that has failed is loaded again, if it can be.
    pub(super) fn lease(self: &Arc<Entry>) -> Option<Model> {
        let mut state = self.state.lock();
        if self.loader.is_some() {
            state.held.take_if(|held| held.has_failed());
        }
        let held = state.held.clone().filter(|_| !state.is_leaving)?;
        Some(self.used(&mut state, held))
    }

    fn used(self: &Arc<Entry>, state: &mut State, held: Held) -> Model {
        state.users += 1;
        state.last_use = Instant::now();
        Lease { inner: held, in_use: InUse(self.clone()) }
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

    /// Whether it is being loaded, or will be at once.
    pub(super) fn is_loading(&self) -> bool {
        let state = self.state.lock();
        state.is_loading || (self.is_kept && state.held.is_none())
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
        self.state.lock().is_loading = true;
        let entry = self.clone();
        let started = spawn_blocking(move || {
            let began = Instant::now();
            let loaded = loader().map_err(|error| {
                // An error of a kept model ends the server, which logs it.
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
        let held = started.await.map_err(panicked).flatten();
        let mut state = self.state.lock();
        state.is_loading = false;
        let held = held?;
        state.held = Some(held.clone());
        Ok(self.used(&mut state, held))
    }

    /// Unloads it when its users have ended; there are no new ones meanwhile. Only one caller at a time.
    pub(super) async fn unload(self: &Arc<Entry>) {
        self.state.lock().is_leaving = true;
        loop {
            let released = self.released.notified();
            if self.unload_idle(Duration::ZERO).await {
                return;
            }
            released.await;
        }
    }

    /// Unloads it if it has had no user for `time`, and returns whether that is so.
    pub(super) async fn unload_idle(&self, time: Duration) -> bool {
        let held = {
            let mut state = self.state.lock();
            let State { held, users, is_leaving, last_use, .. } = &mut *state;
            let held = held.take_if(|_| *users == 0 && last_use.elapsed() >= time);
            *is_leaving &= held.is_none();
            held
        };
        let Some(held) = held else { return false };
        tracing::info!("{} is unloaded", self.name);
        // Ends its thread and gives its memory back.
        let _ = spawn_blocking(move || drop(held)).await;
        true
    }
}

fn start(name: &str, loaded: Loaded, stats: &Arc<Stats>) -> std::io::Result<Held> {
    let (name, stats) = (name.to_owned(), stats.clone());
    match loaded {
        Loaded::Engine(engine) => {
            let limits = engine.limits();
            let model = rustorch::Model::from_engine(*engine, Some(Box::new(Monitor(stats))));
            let model = model.map_err(std::io::Error::other)?;
            let info = ModelInfo::new(name, model.file().clone(), limits.n_ctx);
            Ok(Held::Generator(Arc::new(Generator { info, model, sequences: limits.sequences })))
        }
        Loaded::Embedder(embedder) => Ok(Held::Encoder(Arc::new(Encoder::start(name, *embedder, stats)?))),
    }
}

impl Held {
    fn has_failed(&self) -> bool {
        match self {
            Held::Generator(generator) => generator.model.has_failed(),
            Held::Encoder(encoder) => encoder.has_failed(),
        }
    }
}
