//! The answers to a request, as they are generated.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use chat::AnswerParser;
use engine::{Event, Logprobs, StopReason, Usage};

use crate::driver::{Demand, Driver, Progress, Stopper, Update, Updates};
use crate::{Error, Result};

/// Why an answer ended, and its usage.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// Why.
    pub reason: StopReason,
    /// Tokens, times and the seed.
    pub usage: Usage,
    /// Tokens that belong to reasoning.
    pub reasoning_tokens: usize,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// The answer that it belongs to, from 0.
    pub choice: usize,
    /// The piece.
    pub kind: DeltaKind,
}

/// What a [`Delta`] tells of its answer.
///
/// A generated token comes first, then the parts of the answer that it decides: none while a text may still become a stop
/// string, a mark or a tool call, or several.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DeltaKind {
    /// A generated token.
    Token {
        /// Its id.
        id: u32,
        /// Its text as generated, marks of reasoning and tool calls included; whole characters, often empty.
        text: String,
        /// If the request asked for them.
        logprobs: Option<Logprobs>,
    },
    /// Text, reasoning, or a piece of a tool call.
    Part(chat::Delta),
    /// A token of the prompt, from the second one on, if the request asked for their log-probabilities.
    PromptToken {
        /// Its id.
        id: u32,
        /// Its log-probabilities.
        logprobs: Logprobs,
    },
    /// More of the prompt has been computed, if the request asked for progress.
    Progress(Progress),
    /// The answer has ended.
    End(End),
}

impl Delta {
    /// The text, if it is a piece of the answer's text.
    pub fn text(&self) -> Option<&str> {
        if let DeltaKind::Part(chat::Delta::Content(text)) = &self.kind { Some(text) } else { None }
    }
}

/// Prints text of the answer, and nothing for other kinds.
impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().unwrap_or_default())
    }
}

/// One answer.
struct Answer {
    parser: AnswerParser,
    reasoning_tokens: usize,
}

/// The answers to a request: a `futures::Stream`, and for a loop an iterator that blocks. Dropping it cancels what has not been
/// generated.
///
/// An error is the last item.
#[must_use = "dropping it cancels the request"]
pub struct Stream {
    driver: Arc<Driver>,
    demand: Arc<Demand>,
    updates: Updates,
    answers: Vec<Answer>,
    ready: VecDeque<Delta>,
    /// Answers that have not ended.
    open: usize,
    is_accepted: bool,
    left_open: Vec<String>,
}

impl Stream {
    pub(crate) fn new(
        driver: Arc<Driver>,
        demand: Arc<Demand>,
        updates: Updates,
        parsers: Vec<AnswerParser>,
        left_open: Vec<String>,
    ) -> Stream {
        let open = parsers.len();
        let answers = parsers.into_iter().map(|parser| Answer { parser, reasoning_tokens: 0 }).collect();
        let (ready, is_accepted) = (VecDeque::new(), false);
        Stream { driver, demand, updates, answers, ready, open, is_accepted, left_open }
    }

    /// The parts of schemas that the answers' grammar does not enforce: the name of a tool, or nothing for the format, a JSON pointer
    /// and a keyword.
    pub fn left_open(&self) -> &[String] {
        &self.left_open
    }

    /// A handle that ends the answers from another thread; they then end as cancelled.
    pub fn stopper(&self) -> Stopper {
        self.driver.stopper(self.demand.clone())
    }

    /// Waits until the engine has accepted the request, before it computes anything.
    ///
    /// # Errors
    /// If the request is invalid: the prompt is too long, a parameter is out of range.
    pub async fn accepted(&mut self) -> Result<()> {
        std::future::poll_fn(|context| self.poll_accepted(context)).await
    }

    fn poll_accepted(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while !self.is_accepted && self.open > 0 {
            match ready!(self.updates.poll_recv(context)) {
                Some((index, update)) => self.take(index, update)?,
                None => return Poll::Ready(Err(self.fail(self.driver.fate()))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next piece, also for those who poll.
    pub fn poll_delta(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Delta>>> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(delta)));
            }
            if self.open == 0 {
                return Poll::Ready(None);
            }
            let update = match self.updates.poll_recv(context) {
                Poll::Ready(update) => update,
                Poll::Pending => {
                    self.driver.raise(&self.demand);
                    return Poll::Pending;
                }
            };
            let taken = match update {
                Some((index, update)) => self.take(index, update),
                None => Err(self.fail(self.driver.fate())),
            };
            if let Err(error) = taken {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// The next piece, or `None` after the end.
    pub async fn next_delta(&mut self) -> Option<Result<Delta>> {
        std::future::poll_fn(|context| self.poll_delta(context)).await
    }

    /// Blocks until the next piece, or returns `None` after the end.
    pub fn wait(&mut self) -> Option<Result<Delta>> {
        pollster::block_on(self.next_delta())
    }

    fn take(&mut self, index: usize, update: Update) -> Result<()> {
        let delta = |kind| Delta { choice: index, kind };
        match update {
            Update::Accepted => self.is_accepted = true,
            Update::Prompt(id, logprobs) => {
                self.ready.push_back(delta(DeltaKind::PromptToken { id, logprobs }))
            }
            Update::Progress(progress) => self.ready.push_back(delta(DeltaKind::Progress(progress))),
            Update::Failed(error) => return Err(self.fail(error)),
            Update::Event(Event::Failed { error, .. }) => return Err(self.fail(error.into())),
            Update::Event(Event::Token { token, text, logprobs, .. }) => {
                let answer = &mut self.answers[index];
                let parts = answer.parser.push(token, &text);
                let is_reasoning = |part: &chat::Delta| matches!(part, chat::Delta::Reasoning(_));
                answer.reasoning_tokens += usize::from(parts.iter().any(is_reasoning));
                self.ready.push_back(delta(DeltaKind::Token { id: token, text, logprobs }));
                self.ready.extend(parts.into_iter().map(|part| delta(DeltaKind::Part(part))));
            }
            Update::Event(Event::Done { reason, usage, .. }) => {
                self.open -= 1;
                let answer = &mut self.answers[index];
                let parts = if reason.is_cut() {
                    answer.parser.cut()
                } else {
                    let mut parts = answer.parser.finish();
                    // A call within which the model ends stays what was passed on of it.
                    parts.retain(|part| !matches!(part, chat::Delta::ToolCallBroken { .. }));
                    parts
                };
                self.ready.extend(parts.into_iter().map(|part| delta(DeltaKind::Part(part))));
                let reasoning_tokens = answer.reasoning_tokens;
                self.ready.push_back(delta(DeltaKind::End(End { reason, usage, reasoning_tokens })));
            }
        }
        Ok(())
    }

    /// Ends the stream with `error`.
    fn fail(&mut self, error: Error) -> Error {
        self.open = 0;
        self.updates.close();
        self.driver.wake();
        error
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.updates.close();
        self.driver.wake();
    }
}

impl IntoIterator for Stream {
    type Item = Result<Delta>;
    type IntoIter = Deltas;

    fn into_iter(self) -> Deltas {
        Deltas(self)
    }
}

/// The pieces of a [`Stream`]. An error is the last item.
#[must_use = "dropping it cancels the request"]
#[derive(Debug)]
pub struct Deltas(Stream);

impl Iterator for Deltas {
    type Item = Result<Delta>;

    fn next(&mut self) -> Option<Result<Delta>> {
        self.0.wait()
    }
}

impl std::iter::FusedIterator for Deltas {}

impl futures_core::Stream for Stream {
    type Item = Result<Delta>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Delta>>> {
        self.poll_delta(context)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("open", &self.open).finish_non_exhaustive()
    }
}
