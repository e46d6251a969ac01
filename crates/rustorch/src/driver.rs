//! The thread that drives an engine: requests in, updates out.
//!
//! The library, the program and the server submit to this thread. Only benchmarks and `Engine::logits` step an engine elsewhere. A
//! step runs while a stream waits for an update, for all requests in progress; see [`Demand`].

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::backend::Interrupt;
use engine::{Engine, Event, Load, LogitRows, Logprobs, Observed, RequestId, StopReason, Usage};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{Error, Result};

/// Watches a driver from its own thread, for metrics.
pub trait Monitor: Send {
    /// A step has ended.
    fn stepped(&mut self, load: &Load);
    /// A request has ended without an error, with this usage.
    fn ended(&mut self, usage: &Usage, reason: &StopReason);
}

/// Progress of the prefill of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens of the prompt.
    pub total: usize,
    /// Tokens that were in the KV cache.
    pub cached: usize,
    /// Tokens that have been computed, or were in the cache.
    pub processed: usize,
    /// Time since the prefill began.
    pub time: Duration,
}

/// What the driver reports besides the engine's events; [`Request`](crate::Request) explains the fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) prompt_logprobs: Option<usize>,
    pub(crate) progress: bool,
}

/// An update of a request.
#[derive(Debug)]
pub(crate) enum Update {
    /// The engine has accepted all requests of the stream.
    Accepted,
    Prompt(u32, Logprobs),
    Progress(Progress),
    Event(Event),
    Failed(Error),
}

/// The updates of the requests of a stream, each with the request's index.
pub(crate) type Updates = UnboundedReceiver<(usize, Update)>;
type Sink = UnboundedSender<(usize, Update)>;

/// Whether a stream asks for more. A lazy one asks once for each update that it waits for; an eager one always does.
#[derive(Debug)]
pub(crate) struct Demand {
    is_eager: bool,
    is_waiting: AtomicBool,
}

impl Demand {
    pub(crate) fn new(is_eager: bool) -> Demand {
        Demand { is_eager, is_waiting: AtomicBool::new(false) }
    }

    fn is_raised(&self) -> bool {
        self.is_eager || self.is_waiting.load(Ordering::Acquire)
    }
}

enum Command {
    Submit(Vec<(engine::Request, Watch)>, Sink, Arc<Demand>),
    /// A stream waits for an update, or was dropped.
    Wake,
    /// Ends the requests of a stream as cancelled.
    Cancel(Arc<Demand>),
    /// Ends all requests with this error.
    Abort(Error),
    Call(Box<dyn FnOnce(&mut Engine) + Send>),
    Stop,
}

/// A handle of the engine's thread. Dropping the last one ends the thread.
pub(crate) struct Driver {
    commands: Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
    interrupt: Interrupt,
    fate: Arc<Mutex<Option<Error>>>,
}

impl Driver {
    pub(crate) fn start(engine: Engine, monitor: Option<Box<dyn Monitor>>) -> Result<Driver> {
        let (commands, inbox) = mpsc::channel();
        let fate = Arc::new(Mutex::new(None));
        let interrupt = engine.interrupt();
        let mourner = Mourner(fate.clone());
        let thread = thread::Builder::new().name("engine".into()).spawn(move || {
            let driver = EngineThread { engine, inbox, requests: HashMap::new(), monitor };
            driver.run(mourner);
        })?;
        Ok(Driver { commands, thread: Mutex::new(Some(thread)), interrupt, fate })
    }

    /// Submits requests, of which all are accepted or none. Dropping the receiver cancels them.
    pub(crate) fn submit(&self, requests: Vec<(engine::Request, Watch)>, demand: Arc<Demand>) -> Updates {
        let (sink, updates) = unbounded_channel();
        if let Err(mpsc::SendError(Command::Submit(_, sink, _))) =
            self.commands.send(Command::Submit(requests, sink, demand))
        {
            // This cannot fail: `updates`, the receiver, still exists.
            let _ = sink.send((0, Update::Failed(self.fate())));
        }
        updates
    }

    /// Says that a stream waits for an update.
    pub(crate) fn raise(&self, demand: &Demand) {
        if !demand.is_waiting.swap(true, Ordering::AcqRel) && !demand.is_eager {
            self.wake();
        }
    }

    /// Lets a thread that waits look at its streams again.
    pub(crate) fn wake(&self) {
        // A thread that has ended has told its streams why.
        let _ = self.commands.send(Command::Wake);
    }

    /// A handle that ends the requests of a stream.
    pub(crate) fn stopper(&self, demand: Arc<Demand>) -> Stopper {
        Stopper { commands: self.commands.clone(), interrupt: self.interrupt.clone(), demand }
    }

    /// Ends all requests with `error`.
    pub(crate) fn abort(&self, error: Error) {
        // A thread that has ended has no requests.
        let _ = self.commands.send(Command::Abort(error));
    }

    /// Calls `work` between two steps, on the engine's thread.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let call = Box::new(move |engine: &mut Engine| {
            // Sending fails only if the caller below has gone.
            let _ = sender.send(work(engine));
        });
        self.commands.send(Command::Call(call)).map_err(|_| self.fate())?;
        receiver.recv().map_err(|_| self.fate())
    }

    /// Whether the model has failed: it answers nothing any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.fate.lock().is_some()
    }

    /// Why the thread has ended.
    pub(crate) fn fate(&self) -> Error {
        self.fate.lock().clone().unwrap_or(Error::Panicked)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The thread may have ended by itself. No stream is left that would want the step that runs.
        let _ = self.commands.send(Command::Stop);
        self.interrupt.raise();
        if let Some(thread) = self.thread.lock().take()
            // A sampler hook that owns a model drops it on the engine's thread, which ends after this.
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("has_failed", &self.has_failed()).finish_non_exhaustive()
    }
}

/// Ends the requests of a stream from another thread, such as one that handles signals. The stream then ends as cancelled.
#[derive(Clone, Debug)]
pub struct Stopper {
    commands: Sender<Command>,
    interrupt: Interrupt,
    demand: Arc<Demand>,
}

impl Stopper {
    /// Ends the requests, also within a step, which is repeated for other requests.
    pub fn stop(&self) {
        // If the thread has ended, so has the stream.
        let _ = self.commands.send(Command::Cancel(self.demand.clone()));
        self.interrupt.raise();
    }
}

/// Notes that the thread has ended, also by a panic.
struct Mourner(Arc<Mutex<Option<Error>>>);

impl Drop for Mourner {
    fn drop(&mut self) {
        self.0.lock().get_or_insert(Error::Panicked);
    }
}

/// A request in the engine.
struct Submitted {
    index: usize,
    sink: Sink,
    demand: Arc<Demand>,
    progress: Option<ProgressWatch>,
}

impl Submitted {
    /// Sends an update, which answers a stream that waits for one.
    fn send(&self, update: Update) {
        self.demand.is_waiting.store(false, Ordering::Release);
        // A stream that was dropped is cancelled before the next step.
        let _ = self.sink.send((self.index, update));
    }
}

struct EngineThread {
    engine: Engine,
    inbox: Receiver<Command>,
    requests: HashMap<RequestId, Submitted>,
    monitor: Option<Box<dyn Monitor>>,
}

impl EngineThread {
    fn run(mut self, mourner: Mourner) {
        if let ControlFlow::Break(Some(error)) = self.drive() {
            tracing::error!("the model has failed: {error}");
            // The next request finds it ended.
            *mourner.0.lock() = Some(error.clone());
            self.fail_all(&error);
        }
        // After the streams: one of them may be the last to hold what hooks hold.
        drop(self);
    }

    /// Runs until there is a break: with an error if a step failed.
    fn drive(&mut self) -> ControlFlow<Option<Error>> {
        loop {
            if self.engine.is_idle() {
                // A step without requests releases the KV blocks of those that have ended.
                self.step()?;
            }
            if !self.is_asked() {
                match self.inbox.recv() {
                    Ok(command) => self.obey(command)?,
                    Err(_) => return ControlFlow::Break(None),
                }
            }
            while let Ok(command) = self.inbox.try_recv() {
                self.obey(command)?;
            }
            self.cancel_dropped();
            if self.engine.is_idle() && !self.requests.is_empty() {
                // Work between two steps has found the file damaged, and ended all requests.
                let damage = self.engine.model().file().check_intact().err();
                return ControlFlow::Break(Some(damage.map_or(Error::Panicked, Error::from)));
            }
            if self.is_asked() {
                self.step()?;
            }
        }
    }

    /// Whether a step would answer a stream that waits, or end requests without a stream.
    fn is_asked(&self) -> bool {
        let is_raised = |request: &Submitted| request.demand.is_raised();
        !self.engine.is_idle() && (self.requests.is_empty() || self.requests.values().any(is_raised))
    }

    fn obey(&mut self, command: Command) -> ControlFlow<Option<Error>> {
        match command {
            Command::Submit(requests, sink, demand) => self.submit(requests, &sink, &demand),
            Command::Wake => {}
            Command::Cancel(demand) => {
                let ended = self.requests.iter().filter(|(_, request)| Arc::ptr_eq(&request.demand, &demand));
                ended.for_each(|(id, _)| self.engine.cancel(*id));
            }
            Command::Abort(error) => self.fail_all(&error),
            Command::Call(work) => work(&mut self.engine),
            Command::Stop => return ControlFlow::Break(None),
        }
        ControlFlow::Continue(())
    }

    fn submit(&mut self, requests: Vec<(engine::Request, Watch)>, sink: &Sink, demand: &Arc<Demand>) {
        let mut accepted = Vec::with_capacity(requests.len());
        for (index, (mut request, watch)) in requests.into_iter().enumerate() {
            let progress = watch.progress.then(|| ProgressWatch::new(request.prompt.len()));
            if let Some(top) = watch.prompt_logprobs {
                let observer = prompt_observer(request.prompt.clone(), top, index, sink.clone());
                request = request.observe(LogitRows::All, observer);
            }
            match self.engine.submit(request) {
                Ok(id) => {
                    let (sink, demand) = (sink.clone(), demand.clone());
                    accepted.push((id, Submitted { index, sink, demand, progress }));
                }
                Err(error) => {
                    accepted.iter().for_each(|(id, _)| self.engine.cancel(*id));
                    // A dropped stream needs no answer, here and below.
                    let _ = sink.send((index, Update::Failed(error.into())));
                    return;
                }
            }
        }
        let _ = sink.send((0, Update::Accepted));
        self.requests.extend(accepted);
    }

    fn cancel_dropped(&mut self) {
        let EngineThread { engine, requests, .. } = self;
        requests.retain(|id, request| {
            if request.sink.is_closed() {
                engine.cancel(*id);
            }
            !request.sink.is_closed()
        });
    }

    fn fail_all(&mut self, error: &Error) {
        for (id, request) in self.requests.drain() {
            self.engine.cancel(id);
            request.send(Update::Failed(error.clone()));
        }
    }

    fn step(&mut self) -> ControlFlow<Option<Error>> {
        let events = match self.engine.step() {
            Ok(events) => events,
            Err(error) => return ControlFlow::Break(Some(error.into())),
        };
        // Metrics that are read after an answer count its last step.
        if let Some(monitor) = &mut self.monitor {
            monitor.stepped(&self.engine.load());
        }
        self.report_progress(&events);
        events.into_iter().for_each(|event| self.deliver(event));
        ControlFlow::Continue(())
    }

    /// Reports the progress of prefills, before the tokens that follow them.
    fn report_progress(&mut self, events: &[Event]) {
        for (id, request) in &mut self.requests {
            let Some(watch) = &mut request.progress else { continue };
            let ended = events.iter().find_map(|event| match event {
                Event::Done { id: ended, reason, usage }
                    if ended == id && *reason != StopReason::Cancelled =>
                {
                    Some(usage.reused_tokens)
                }
                _ => None,
            });
            let (reused, processed) = match ended {
                Some(reused) => (reused, usize::MAX),
                None => (self.engine.reused(*id), self.engine.cached(*id)),
            };
            for progress in watch.update(reused, processed) {
                request.send(Update::Progress(progress));
            }
        }
    }

    fn deliver(&mut self, event: Event) {
        let (Event::Token { id, .. } | Event::Done { id, .. } | Event::Failed { id, .. }) = event;
        if let (Some(monitor), Event::Done { reason, usage, .. }) = (&mut self.monitor, &event) {
            monitor.ended(usage, reason);
        }
        let is_last = !matches!(event, Event::Token { .. });
        if let Some(request) = self.requests.get(&id) {
            request.send(Update::Event(event));
        }
        if is_last {
            self.requests.remove(&id);
        }
    }
}

/// Sends the log-probability of each token of `prompt` but the first.
fn prompt_observer(
    prompt: Vec<u32>,
    top: usize,
    index: usize,
    sink: Sink,
) -> impl FnMut(Observed<'_>) -> ControlFlow<()> + Send + 'static {
    move |observed| {
        for (row, logits) in observed.iter() {
            let Some(&token) = prompt.get(row.position + 1) else { continue };
            let update = Update::Prompt(token, Logprobs::new(logits, token, top));
            if sink.send((index, update)).is_err() {
                // A dropped stream ends the request.
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Follows the prefill of a prompt.
struct ProgressWatch {
    total: usize,
    /// The number of processed tokens last reported, and when the prefill began.
    reported: Option<(usize, Instant)>,
}

impl ProgressWatch {
    fn new(total: usize) -> ProgressWatch {
        ProgressWatch { total, reported: None }
    }

    /// The progress after a step, if there is any. The first one reports the tokens that were in the cache.
    fn update(&mut self, cached: usize, processed: usize) -> impl Iterator<Item = Progress> + use<> {
        let (total, processed) = (self.total, processed.min(self.total));
        let progress = |processed, time| Progress { total, cached, processed, time };
        let first = (self.reported.is_none() && processed > 0).then(|| progress(cached, Duration::ZERO));
        if first.is_some() {
            self.reported = Some((cached, Instant::now()));
        }
        let next = self.reported.as_mut().filter(|(last, _)| processed > *last).map(|(last, begin)| {
            *last = processed;
            progress(processed, begin.elapsed())
        });
        first.into_iter().chain(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_begins_with_the_cache_and_ends_with_the_prompt() {
        let reports = |watch: &mut ProgressWatch, cached, processed| -> Vec<(usize, usize)> {
            watch.update(cached, processed).map(|progress| (progress.cached, progress.processed)).collect()
        };
        let mut watch = ProgressWatch::new(100);
        assert_eq!(reports(&mut watch, 0, 0), []);
        assert_eq!(reports(&mut watch, 16, 48), [(16, 16), (16, 48)]);
        assert_eq!(reports(&mut watch, 16, 48), []);
        assert_eq!(reports(&mut watch, 16, 103), [(16, 100)]);
        assert_eq!(reports(&mut watch, 16, 104), []);
        assert_eq!(reports(&mut ProgressWatch::new(8), 0, usize::MAX), [(0, 0), (0, 8)]);
    }
}
