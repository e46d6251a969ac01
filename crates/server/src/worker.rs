//! The engine's thread: commands in, one channel per request out.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::{Engine, Event, LogitRows, Logprobs, Request, RequestId, StopReason};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::{ApiError, Kind};
use crate::metrics::Stats;
use crate::watch::{Deadline, Progress, Watch};

/// What the engine says of the requests of a job: the number of the request among them, and an event.
pub(crate) type Updates = UnboundedReceiver<(usize, Update)>;

/// News of a request. The first is `Accepted` or `Refused`; `Done` and `Failed` are the last.
#[derive(Debug)]
pub(crate) enum Update {
    Accepted,
    Refused(ApiError),
    /// A token of the prompt, in order, from the second one on.
    Prompt(u32, Logprobs),
    /// More of the prompt is computed.
    Progress(Progress),
    Engine(Event),
}

/// Requests of one job.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) requests: Vec<Request>,
    /// Return the log-probability of each token of the prompts, and of this many most likely tokens.
    pub(crate) prompt_logprobs: Option<usize>,
    /// Tell how far the prompts are.
    pub(crate) has_progress: bool,
    /// From an answer's first token on, it ends with its first line after this time.
    pub(crate) time: Option<Duration>,
}

enum Command {
    Submit(Work, UnboundedSender<(usize, Update)>),
    Cut,
    Stop,
}

/// A handle of the engine's thread.
#[derive(Debug)]
pub(crate) struct Worker {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
    has_ended: Arc<AtomicBool>,
}

impl Worker {
    /// Writes figures of the engine to `stats`.
    pub(crate) fn start(engine: Engine, stats: Arc<Stats>) -> std::io::Result<Worker> {
        let (commands, inbox) = mpsc::channel();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ending = Ending(has_ended.clone());
        let loop_ = Loop { engine, inbox, clients: HashMap::new(), stats, ending };
        let thread = thread::Builder::new().name("engine".into()).spawn(move || loop_.run())?;
        Ok(Worker { commands, thread: Some(thread), has_ended })
    }

    /// Whether its model has failed: it answers nothing any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Ends all requests with an error: the server stops.
    pub(crate) fn cut(&self) {
        // It may have ended by itself.
        let _ = self.commands.send(Command::Cut);
    }

    /// Submits the requests of a job. Dropping the receiver cancels them.
    pub(crate) fn submit(&self, work: Work) -> Result<Updates, ApiError> {
        let (updates, receiver) = unbounded_channel();
        let sent = self.commands.send(Command::Submit(work, updates));
        sent.map_err(|_| ApiError::internal(ENDED))?;
        Ok(receiver)
    }
}

/// What the clients are told whose requests outlast the time for the end.
const CUT: &str = "the server stops, and the time for requests to end is over; ask another one";

/// The engine ends only with the server, or when its file is damaged.
pub(crate) const ENDED: &str = "the model has failed, and the server's log says why; ask again, and restart the server if it fails again";

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Client {
    number: usize,
    updates: UnboundedSender<(usize, Update)>,
    watch: Option<Watch>,
    deadline: Option<Deadline>,
}

struct Loop {
    engine: Engine,
    inbox: Receiver<Command>,
    clients: HashMap<RequestId, Client>,
    stats: Arc<Stats>,
    ending: Ending,
}

/// Tells that the thread has ended, also by a panic.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Loop {
    fn run(mut self) {
        loop {
            if self.engine.is_idle() {
                // A step without requests releases the pages of those that have ended.
                if let Err(error) = self.engine.step() {
                    return self.fail(&error);
                }
                self.stats.measure(&self.engine);
                match self.inbox.recv() {
                    Ok(Command::Submit(work, updates)) => self.submit(work, &updates),
                    Ok(Command::Cut) => {}
                    Ok(Command::Stop) | Err(_) => return,
                }
            }
            loop {
                match self.inbox.try_recv() {
                    Ok(Command::Submit(work, updates)) => self.submit(work, &updates),
                    Ok(Command::Cut) => self.cut(),
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.cancel_unread();
            let events = match self.engine.step() {
                Ok(events) => events,
                Err(error) => return self.fail(&error),
            };
            // Whoever reads the figures after an answer finds its last step counted.
            self.stats.measure(&self.engine);
            self.report(&events);
            events.into_iter().for_each(|event| self.deliver(event));
        }
    }

    fn submit(&mut self, work: Work, updates: &UnboundedSender<(usize, Update)>) {
        let mut submitted = Vec::new();
        let Work { requests, prompt_logprobs, has_progress, time } = work;
        for (number, request) in requests.into_iter().enumerate() {
            let watch = has_progress.then(|| Watch::new(request.prompt.len()));
            let taken = match prompt_logprobs {
                None => self.engine.submit(request),
                Some(top) => {
                    let observer = of_prompt(request.prompt.clone(), top, number, updates.clone());
                    self.engine.submit_observed(request, LogitRows::All, observer)
                }
            };
            match taken {
                Ok(id) => submitted.push((number, id, watch)),
                Err(error) => {
                    submitted.iter().for_each(|(_, id, _)| self.engine.cancel(*id));
                    // Whoever does not listen needs no answer, here and below.
                    let _ = updates.send((number, Update::Refused(error.into())));
                    return;
                }
            }
        }
        for (number, id, watch) in submitted {
            let _ = updates.send((number, Update::Accepted));
            let deadline = time.map(Deadline::new);
            self.clients.insert(id, Client { number, updates: updates.clone(), watch, deadline });
        }
    }

    fn cancel_unread(&mut self) {
        let Loop { engine, clients, .. } = self;
        clients.retain(|id, client| {
            let is_read = !client.updates.is_closed();
            if !is_read {
                engine.cancel(*id);
            }
            is_read
        });
    }

    fn cut(&mut self) {
        for (id, Client { number, updates, .. }) in self.clients.drain() {
            self.engine.cancel(id);
            let _ = updates.send((number, Update::Refused(ApiError::new(Kind::Stopping, CUT))));
        }
    }

    /// Tells how far the prompts are, before the tokens that follow them.
    fn report(&mut self, events: &[Event]) {
        let ended = |id| {
            events.iter().find_map(|event| match event {
                Event::Done { id: of, usage, .. } if *of == id => Some(usage.reused_tokens),
                _ => None,
            })
        };
        for (id, client) in &mut self.clients {
            let Client { number, updates, watch: Some(watch), .. } = client else { continue };
            let (reused, computed) = match ended(*id) {
                Some(reused) => (reused, usize::MAX),
                None => (self.engine.reused(*id), self.engine.cached(*id)),
            };
            watch.news(reused, computed).for_each(|news| {
                let _ = updates.send((*number, Update::Progress(news)));
            });
        }
    }

    fn deliver(&mut self, event: Event) {
        let (Event::Token { id, .. } | Event::Done { id, .. } | Event::Failed { id, .. }) = event;
        let Some(client) = self.clients.get_mut(&id) else {
            if let Event::Done { usage, .. } = &event {
                self.stats.ended(usage, false);
            }
            return;
        };
        let event = match event {
            Event::Done { id, reason: StopReason::Cancelled, usage }
                if client.deadline.as_ref().is_some_and(|deadline| deadline.is_over) =>
            {
                Event::Done { id, reason: StopReason::MaxTokens, usage }
            }
            event => event,
        };
        match &event {
            Event::Token { text, .. } => {
                if client.deadline.as_mut().is_some_and(|deadline| deadline.ends(text)) {
                    self.engine.cancel(id);
                }
            }
            Event::Failed { .. } => {}
            Event::Done { reason, usage, .. } => self.stats.ended(usage, *reason != StopReason::Cancelled),
        }
        let is_last = !matches!(event, Event::Token { .. });
        let _ = client.updates.send((client.number, Update::Engine(event)));
        if is_last {
            self.clients.remove(&id);
        }
    }

    /// The file of the model is damaged: nothing that it computes can be trusted.
    fn fail(self, error: &engine::Error) {
        tracing::error!("the model has failed: {error}");
        // Whoever asks again finds it ended.
        drop(self.ending);
        for Client { number, updates, .. } in self.clients.into_values() {
            let _ = updates.send((number, Update::Refused(ApiError::internal(ENDED))));
        }
    }
}

/// Sends the log-probability of each token of `prompt` but the first.
fn of_prompt(
    prompt: Vec<u32>,
    top: usize,
    number: usize,
    updates: UnboundedSender<(usize, Update)>,
) -> impl FnMut(usize, &[f32]) -> ControlFlow<()> + Send + 'static {
    move |position, logits| {
        let Some(&token) = prompt.get(position + 1) else { return ControlFlow::Continue(()) };
        let update = Update::Prompt(token, Logprobs::new(logits, token, top));
        match updates.send((number, update)) {
            Ok(()) => ControlFlow::Continue(()),
            // Nobody reads them any more.
            Err(_) => ControlFlow::Break(()),
        }
    }
}
