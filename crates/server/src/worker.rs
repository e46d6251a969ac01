//! The engine's thread: commands in, one channel per request out.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use engine::{Engine, Event, LogitRows, Logprobs, Request, RequestId, StopReason};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::ApiError;
use crate::metrics::Stats;

/// What the engine says of the requests of a job: the number of the request among them, and an event.
pub(crate) type Updates = UnboundedReceiver<(usize, Update)>;

/// News of a request. The first is `Accepted` or `Refused`; `Done` and `Failed` are the last.
#[derive(Debug)]
pub(crate) enum Update {
    Accepted,
    Refused(ApiError),
    /// A token of the prompt, in order, from the second one on.
    Prompt(u32, Logprobs),
    Engine(Event),
}

/// Requests of one job.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) requests: Vec<Request>,
    /// Return the log-probability of each token of the prompts, and of this many most likely tokens.
    pub(crate) prompt_logprobs: Option<usize>,
}

enum Command {
    Submit(Work, UnboundedSender<(usize, Update)>),
    Stop,
}

/// A handle of the engine's thread.
#[derive(Debug)]
pub(crate) struct Worker {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Writes figures of the engine to `stats`.
    pub(crate) fn start(engine: Engine, stats: Arc<Stats>) -> std::io::Result<Worker> {
        let (commands, inbox) = mpsc::channel();
        let loop_ = Loop { engine, inbox, clients: HashMap::new(), stats };
        let thread = thread::Builder::new().name("engine".into()).spawn(move || loop_.run())?;
        Ok(Worker { commands, thread: Some(thread) })
    }

    /// Submits the requests of a job. Dropping the receiver cancels them.
    pub(crate) fn submit(&self, work: Work) -> Result<Updates, ApiError> {
        let (updates, receiver) = unbounded_channel();
        let sent = self.commands.send(Command::Submit(work, updates));
        sent.map_err(|_| ApiError::internal(ENDED))?;
        Ok(receiver)
    }
}

/// The engine ends only with the server, or when its file is damaged.
pub(crate) const ENDED: &str = "the model has failed; the server's log says why; restart the server";

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
}

struct Loop {
    engine: Engine,
    inbox: Receiver<Command>,
    clients: HashMap<RequestId, Client>,
    stats: Arc<Stats>,
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
                    Ok(Command::Stop) | Err(_) => return,
                }
            }
            loop {
                match self.inbox.try_recv() {
                    Ok(Command::Submit(work, updates)) => self.submit(work, &updates),
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.cancel_unread();
            match self.engine.step() {
                Ok(events) => events.into_iter().for_each(|event| self.deliver(event)),
                Err(error) => return self.fail(&error),
            }
            self.stats.measure(&self.engine);
        }
    }

    fn submit(&mut self, work: Work, updates: &UnboundedSender<(usize, Update)>) {
        let mut submitted = Vec::new();
        for (number, request) in work.requests.into_iter().enumerate() {
            let taken = match work.prompt_logprobs {
                None => self.engine.submit(request),
                Some(top) => {
                    let observer = of_prompt(request.prompt.clone(), top, number, updates.clone());
                    self.engine.submit_observed(request, LogitRows::All, observer)
                }
            };
            match taken {
                Ok(id) => submitted.push((number, id)),
                Err(error) => {
                    submitted.iter().for_each(|(_, id)| self.engine.cancel(*id));
                    // Whoever does not listen needs no answer, here and below.
                    let _ = updates.send((number, Update::Refused(error.into())));
                    return;
                }
            }
        }
        for (number, id) in submitted {
            let _ = updates.send((number, Update::Accepted));
            self.clients.insert(id, Client { number, updates: updates.clone() });
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

    fn deliver(&mut self, event: Event) {
        let (id, is_last) = match &event {
            Event::Token { id, .. } => (*id, false),
            Event::Done { id, reason, usage } => {
                if *reason != StopReason::Cancelled {
                    self.stats.ended(usage);
                }
                (*id, true)
            }
            Event::Failed { id, .. } => (*id, true),
        };
        let client = match is_last {
            true => self.clients.remove(&id),
            false => self
                .clients
                .get(&id)
                .map(|client| Client { number: client.number, updates: client.updates.clone() }),
        };
        if let Some(Client { number, updates }) = client {
            let _ = updates.send((number, Update::Engine(event)));
        }
    }

    /// The file of the model is damaged: nothing that it computes can be trusted.
    fn fail(self, error: &engine::Error) {
        tracing::error!("the model has failed: {error}");
        for Client { number, updates } in self.clients.into_values() {
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
