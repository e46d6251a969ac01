//! A conversation on an engine: messages, template, and a cache that lives from turn to turn.

use std::path::Path;

use ::chat::{Message, Segment, TurnEnd};
use serde::{Deserialize, Serialize};
use tokenizer::Part;

use crate::engine::Engine;
use crate::model::{Model, NoTemplate};
use crate::request::{Event, Request};
use crate::sampling::Sampling;
use crate::scheduler::{Refusal, RequestId, SequenceId};
use crate::stop::{Stop, StopReason};
use crate::{Error, Usage};

/// A conversation. The KV cache of its sequence is kept between turns, so that a turn prefills only
/// what is new; its text is that of a fresh engine given the whole conversation.
///
/// [`say`](Chat::say) submits a turn; the caller steps the engine and shows the chat its events with
/// [`on_event`](Chat::on_event).
///
/// With a template the messages go through it; its special tokens are tokens, and what a message says
/// never is. Without one, raw, the messages follow each other as plain text: an answer right after
/// what was said, the next message on a line of its own.
#[derive(Debug)]
pub struct Chat {
    /// How answers are sampled.
    pub sampling: Sampling,
    /// Tokens of an answer, at most.
    pub max_tokens: Option<usize>,
    /// What ends an answer, besides the model's and the template's own ends.
    pub stop: Stop,
    /// The template's options: the time it is told, its further variables.
    pub template_options: ::chat::Options,
    sequence: SequenceId,
    messages: Vec<Message>,
    /// Whether messages are to go through the template, where the model has one.
    templated: bool,
    has_template: bool,
    turn_end: Option<TurnEnd>,
    pending: Option<Pending>,
}

/// A turn that has not ended.
#[derive(Debug)]
struct Pending {
    id: RequestId,
    answer: String,
}

/// What is saved of a conversation.
#[derive(Serialize, Deserialize)]
struct Saved {
    messages: Vec<Message>,
}

const SYSTEM: &str = "system";

impl Chat {
    /// An empty conversation, through the model's template if it has one that can be used.
    pub fn new(engine: &mut Engine) -> Chat {
        let template = engine.model().template().ok();
        Chat {
            sampling: Sampling::default(),
            max_tokens: None,
            stop: Stop::default(),
            template_options: ::chat::Options::default(),
            messages: Vec::new(),
            templated: true,
            has_template: template.is_some(),
            turn_end: template.and_then(::chat::Template::turn_end),
            pending: None,
            sequence: engine.new_sequence(),
        }
    }

    /// Goes on on another engine, perhaps with another model: messages and settings stay, and the next
    /// turn computes the whole conversation. Messages that were sent raw stay raw; others go through
    /// the new model's template, if it has one that can be used.
    ///
    /// # Errors
    /// While an answer has not ended. Nothing has changed then.
    pub fn move_to(&mut self, engine: &mut Engine) -> Result<(), Error> {
        if self.pending.is_some() {
            return Err(Error::Answering);
        }
        let template = engine.model().template().ok();
        self.has_template = template.is_some();
        self.turn_end = template.and_then(::chat::Template::turn_end);
        self.sequence = engine.new_sequence();
        Ok(())
    }

    /// The messages so far, a system message first if there is one.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether messages go through the template.
    pub fn is_templated(&self) -> bool {
        self.templated && self.has_template
    }

    /// Sends messages through the template, or raw.
    ///
    /// # Errors
    /// When there is no template that can be used; says why.
    pub fn set_templated(&mut self, model: &Model, templated: bool) -> Result<(), Error> {
        if templated {
            model.template().map_err(|why: &NoTemplate| Error::NoTemplate { why: why.to_string() })?;
        }
        self.templated = templated;
        Ok(())
    }

    /// Puts a system message first, in place of an earlier one; without a text there is none.
    pub fn set_system(&mut self, text: Option<String>) {
        if self.messages.first().is_some_and(|message| message.role == SYSTEM) {
            self.messages.remove(0);
        }
        if let Some(text) = text {
            self.messages.insert(0, Message::new(SYSTEM, text));
        }
    }

    /// Forgets the conversation, but not the system message. A turn that has not ended is cancelled.
    pub fn clear(&mut self, engine: &mut Engine) {
        if let Some(pending) = self.pending.take() {
            engine.cancel(pending.id);
        }
        engine.forget(self.sequence);
        self.messages.retain(|message| message.role == SYSTEM);
    }

    /// Says `text` as the user. Step the engine and [`on_event`](Chat::on_event) its events until the answer
    /// has ended.
    ///
    /// # Errors
    /// When the conversation does not fit the context any more, when the template refuses it, when
    /// sampling or stop strings make no sense, or when an answer has not ended. The conversation is as
    /// before then.
    pub fn say(&mut self, engine: &mut Engine, text: impl Into<String>) -> Result<RequestId, Error> {
        if self.pending.is_some() {
            return Err(Error::Answering);
        }
        self.messages.push(Message::new("user", text));
        let submitted = self.submit(engine);
        match submitted {
            Ok(id) => self.pending = Some(Pending { id, answer: String::new() }),
            Err(_) => {
                self.messages.pop();
            }
        }
        submitted
    }

    fn submit(&self, engine: &mut Engine) -> Result<RequestId, Error> {
        let request = Request::new(self.prompt(engine.model())?)
            .sampling(self.sampling.clone())
            .stop(self.stops())
            .max_tokens(self.max_tokens)
            .sequence(self.sequence);
        engine.submit(request).map_err(|error| match error {
            Error::Prompt(Refusal::TooLong { tokens, n_ctx }) => Error::ConversationFull { tokens, n_ctx },
            other => other,
        })
    }

    /// Takes note of what the engine says of this chat's turn; other events change nothing. Returns
    /// what the turn took when it has ended.
    ///
    /// An answer that was cancelled stays as far as it came; when nothing came, or it failed, the turn
    /// is as if it had not been.
    pub fn on_event(&mut self, event: &Event) -> Option<Usage> {
        let pending = self.pending.as_mut()?;
        match event {
            Event::Token { id, text, .. } if *id == pending.id => pending.answer.push_str(text),
            Event::Done { id, reason, usage } if *id == pending.id => {
                let answer = std::mem::take(&mut pending.answer);
                self.pending = None;
                if *reason == StopReason::Cancelled && answer.is_empty() {
                    self.messages.pop();
                } else {
                    self.messages.push(Message::new("assistant", answer));
                }
                return Some(*usage);
            }
            Event::Failed { id, .. } if *id == pending.id => self.step_failed(),
            _ => {}
        }
        None
    }

    /// To be called when [`Engine::step`] failed: the turn is as if it had not been.
    pub fn step_failed(&mut self) {
        if self.pending.take().is_some() {
            self.messages.pop();
        }
    }

    /// The turn that has not ended.
    pub fn pending(&self) -> Option<RequestId> {
        self.pending.as_ref().map(|pending| pending.id)
    }

    /// The ids that ask for the next answer: BOS where the file says so, once, and never an EOS that
    /// the template did not write.
    ///
    /// # Errors
    /// When the template refuses the conversation.
    pub fn prompt(&self, model: &Model) -> Result<Vec<u32>, Error> {
        let Ok(template) = model.template() else { return Ok(self.raw_prompt(model)) };
        if !self.templated {
            return Ok(self.raw_prompt(model));
        }
        let rendered = template.render(&self.messages, &self.template_options)?;
        let parts = rendered.segments().iter().map(|segment| match segment {
            Segment::Text(text) => Part::Text(text),
            Segment::Token { id, .. } => Part::Token(*id),
        });
        Ok(model.tokenizer().with_bos(model.tokenizer().encode_parts(parts, false)))
    }

    fn raw_prompt(&self, model: &Model) -> Vec<u32> {
        let mut text = String::new();
        for message in &self.messages {
            let goes_on = message.role == "assistant" || text.is_empty() || text.ends_with('\n');
            text.push_str(if goes_on { "" } else { "\n" });
            text.push_str(&message.content);
        }
        model.encode_prompt(&text, false)
    }

    fn stops(&self) -> Stop {
        let mut stop = self.stop.clone();
        match &self.turn_end {
            Some(TurnEnd::Token(id)) if self.templated => stop.ids.push(*id),
            Some(TurnEnd::Text(text)) if self.templated => stop.strings.push(text.clone()),
            _ => {}
        }
        stop
    }

    /// Writes the conversation to a file: `{"messages": [{"role": …, "content": …}, …]}`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let messages = self.messages.clone();
        let json = serde_json::to_string_pretty(&Saved { messages })
            .map_err(|error| Error::conversation(path, error.into()))?;
        std::fs::write(path, json + "\n").map_err(|error| Error::conversation(path, error))
    }

    /// Replaces the conversation with one that [`save`](Chat::save) wrote.
    ///
    /// # Errors
    /// When the file cannot be read or holds something else, and while an answer has not ended. The
    /// conversation is as before then.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        if self.pending.is_some() {
            return Err(Error::Answering);
        }
        let path = path.as_ref();
        let json = std::fs::read(path).map_err(|error| Error::conversation(path, error))?;
        let saved: Saved =
            serde_json::from_slice(&json).map_err(|error| Error::conversation(path, error.into()))?;
        self.messages = saved.messages;
        Ok(())
    }
}
