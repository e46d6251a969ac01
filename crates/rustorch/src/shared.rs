//! An engine that several callers share: whoever waits for a token computes the next step, for all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use engine::{Engine, Event, RequestId};
use parking_lot::{FairMutex, Mutex};

use crate::{Error, Result};

/// The engine behind a lock. A fair one: a thread that waited gets it before the one that just stepped.
pub(crate) struct Shared {
    state: FairMutex<State>,
    /// Requests that callers have dropped, without waiting for a running step.
    dropped: Mutex<Vec<RequestId>>,
}

struct State {
    engine: Health,
    /// Events of running requests that nobody has asked for yet.
    events: HashMap<RequestId, VecDeque<Event>>,
}

enum Health {
    Good(Box<Engine>),
    /// A step panicked, or is running.
    Panicked,
    /// The file has changed.
    Failed(Error),
}

impl Shared {
    pub(crate) fn new(engine: Engine) -> Arc<Shared> {
        let state = State { engine: Health::Good(Box::new(engine)), events: HashMap::new() };
        Arc::new(Shared { state: FairMutex::new(state), dropped: Mutex::default() })
    }

    /// Calls `with` between two steps.
    pub(crate) fn with<T>(&self, with: impl FnOnce(&mut Engine) -> Result<T>) -> Result<T> {
        with(self.state.lock().ready(&self.dropped)?)
    }

    /// Queues the request that `submit` submits.
    pub(crate) fn submit(
        self: &Arc<Shared>,
        submit: impl FnOnce(&mut Engine) -> Result<RequestId, engine::Error>,
    ) -> Result<Running> {
        let mut state = self.state.lock();
        let id = submit(state.ready(&self.dropped)?)?;
        state.events.insert(id, VecDeque::new());
        Ok(Running { shared: self.clone(), id })
    }
}

impl State {
    /// The engine, without what was dropped.
    fn ready(&mut self, dropped: &Mutex<Vec<RequestId>>) -> Result<&mut Engine> {
        match &mut self.engine {
            Health::Good(engine) => {
                // Without the lock: a hook that is dropped here may drop others.
                let dropped = std::mem::take(&mut *dropped.lock());
                for id in dropped {
                    engine.cancel(id);
                    self.events.remove(&id);
                }
                Ok(engine)
            }
            Health::Panicked => Err(Error::Panicked),
            Health::Failed(error) => Err(error.clone()),
        }
    }

    /// Runs one step for all requests.
    fn step(&mut self, dropped: &Mutex<Vec<RequestId>>) -> Result<()> {
        self.ready(dropped)?;
        let Health::Good(mut engine) = std::mem::replace(&mut self.engine, Health::Panicked) else {
            return Err(Error::Panicked);
        };
        match engine.step() {
            Ok(events) => {
                self.engine = Health::Good(engine);
                for event in events {
                    if let Some(queue) = self.events.get_mut(&id_of(&event)) {
                        queue.push_back(event);
                    }
                }
                Ok(())
            }
            Err(error) => {
                let error = Error::from(error);
                self.engine = Health::Failed(error.clone());
                Err(error)
            }
        }
    }
}

fn id_of(event: &Event) -> RequestId {
    match event {
        Event::Token { id, .. } | Event::Done { id, .. } | Event::Failed { id, .. } => *id,
    }
}

/// A request in the engine; dropping it cancels the request.
pub(crate) struct Running {
    shared: Arc<Shared>,
    id: RequestId,
}

impl Running {
    /// The request's next event. Computes steps until there is one, in turn with other threads.
    pub(crate) fn next(&self) -> Result<Event> {
        loop {
            let mut state = self.shared.state.lock();
            if let Some(event) = state.events.get_mut(&self.id).and_then(VecDeque::pop_front) {
                return Ok(event);
            }
            state.step(&self.shared.dropped)?;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.dropped.lock().push(self.id);
    }
}
