//! A conversation: messages, chat template, and a KV cache that is reused across turns.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use ::chat::{Answer, AnswerParser, Calls, Delta, Message, Prompt};
use outfile::Target;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::model::{Model, NoTemplate};
use crate::params::Params;
use crate::request::{Event, Request};
use crate::sampling::Processor;
use crate::scheduler::{Refusal, RequestId};
use crate::stop::StopReason;
use crate::{Error, Usage};

/// A conversation. A turn finds those before it in the KV cache, and prefills only new tokens. The text is the same as that
/// of a fresh engine given the whole conversation.
///
/// [`say`](Chat::say) submits a turn; the caller steps the engine and passes its events to
/// [`on_event`](Chat::on_event).
///
/// With a template, special tokens come from the template only, never from the text of a message. Without one (raw),
/// messages are concatenated as plain text: an answer right after the user's message, the next message on a new line.
#[derive(Debug)]
pub struct Chat {
    /// Parameters of answers. Their stop conditions are besides those of the model and the template.
    pub params: Params,
    /// Logit processors, of which each answer gets a copy in this state.
    pub processors: Vec<Box<dyn Processor>>,
    /// Options of the template: current time, extra variables.
    pub template_options: ::chat::Options,
    messages: Vec<Message>,
    /// Whether to use the template if the model has one.
    templated: bool,
    has_template: bool,
    merged_system: bool,
    pending: Option<Pending>,
}

/// The turn in progress.
#[derive(Debug)]
struct Pending {
    id: RequestId,
    parser: AnswerParser,
    /// The answer so far.
    answer: Answer,
}

/// What an event means for a [`Chat`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// New text to print.
    pub text: Answer,
    /// Present when the turn has ended.
    pub usage: Option<Usage>,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    messages: Vec<Message>,
}

const SYSTEM: &str = "system";

const MAX_SAVED_BYTES: u64 = 64 << 20;

impl Chat {
    /// An empty conversation, with the model's template if it is usable.
    pub fn new(engine: &Engine) -> Chat {
        Chat {
            params: Params::default(),
            processors: Vec::new(),
            template_options: ::chat::Options::default(),
            messages: Vec::new(),
            templated: true,
            has_template: engine.model().template().is_ok(),
            merged_system: false,
            pending: None,
        }
    }

    /// Moves to another engine, perhaps with another model. Messages and settings stay; the next turn computes the
    /// whole conversation. Raw stays raw; otherwise the new model's template is used if it is usable. Fails if a turn
    /// is in progress. Nothing has changed then.
    pub fn move_to(&mut self, engine: &Engine) -> Result<(), Error> {
        if self.pending.is_some() {
            return Err(Error::Answering);
        }
        self.has_template = engine.model().template().is_ok();
        Ok(())
    }

    /// The messages so far, starting with the system message if there is one.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the template is used.
    pub fn is_templated(&self) -> bool {
        self.templated && self.has_template
    }

    /// Switches between template and raw text. Fails if the model has no usable template.
    pub fn set_templated(&mut self, model: &Model, templated: bool) -> Result<(), Error> {
        if templated {
            model.template().map_err(|why: &NoTemplate| Error::NoTemplate { why: why.to_string() })?;
        }
        self.templated = templated;
        Ok(())
    }

    /// Sets the system message; `None` removes it.
    pub fn set_system(&mut self, text: Option<String>) {
        if self.messages.first().is_some_and(|message| message.role == SYSTEM) {
            self.messages.remove(0);
        }
        if let Some(text) = text {
            self.messages.insert(0, Message::new(SYSTEM, text));
        }
    }

    /// Removes all messages but the system message. Cancels a turn in progress.
    pub fn clear(&mut self, engine: &mut Engine) {
        if let Some(Pending { id, .. }) = self.pending.take() {
            engine.cancel(id);
        }
        self.messages.retain(|message| message.role == SYSTEM);
    }

    /// Removes the oldest turn: the user's message and the answer. Returns whether there was one.
    pub fn drop_oldest(&mut self) -> bool {
        let first = usize::from(self.messages.first().is_some_and(|message| message.role == SYSTEM));
        if self.pending.is_some() || self.messages.len() <= first {
            return false;
        }
        let is_user = |message: &Message| message.role == "user";
        let next = self.messages.iter().skip(first + 1).position(is_user);
        let end = next.map_or(self.messages.len(), |next| first + 1 + next);
        self.messages.drain(first..end);
        true
    }

    /// Removes the oldest turns until the prompt with `text` as the next message leaves `free` tokens of the context
    /// for the answer. Returns their number: all turns if even that does not suffice. Fails if `text` alone cannot fit,
    /// or the template rejects the conversation.
    pub fn make_room(&mut self, engine: &Engine, text: &str, free: usize) -> Result<usize, Error> {
        engine.admits_text(text.len())?;
        let n_ctx = engine.limits().n_ctx;
        let mut dropped = 0;
        loop {
            self.messages.push(Message::new("user", text));
            let prompt = self.prompt(engine.model());
            self.messages.pop();
            let fits = prompt?.len().saturating_add(free) <= n_ctx;
            if fits || !self.drop_oldest() {
                return Ok(dropped);
            }
            dropped += 1;
        }
    }

    /// Submits `text` as the user's message. Step the engine and pass its events to [`on_event`](Chat::on_event) until
    /// the answer ends. Fails if the conversation no longer fits the context, the template rejects it, sampling or stop
    /// strings are invalid, or a turn is in progress. The conversation is unchanged then.
    pub fn say(&mut self, engine: &mut Engine, text: impl Into<String>) -> Result<RequestId, Error> {
        if self.pending.is_some() {
            return Err(Error::Answering);
        }
        let text = text.into();
        engine.admits_text(text.len())?;
        self.messages.push(Message::new("user", text));
        let submitted = self.submit(engine);
        if submitted.is_err() {
            self.messages.pop();
        }
        submitted
    }

    /// Whether the last prompt had the system message in front of the first user message, because the template does
    /// not support system messages.
    pub fn merged_system(&self) -> bool {
        self.merged_system
    }

    fn submit(&mut self, engine: &mut Engine) -> Result<RequestId, Error> {
        let (prompt, rendered) = self.rendered(engine.model())?;
        let merged_system = rendered.as_ref().is_some_and(Prompt::merged_system);
        let mut processors = self.processors.clone();
        let turn_end = rendered.as_ref().and_then(Prompt::turn_end).cloned();
        if let Some(prompt) = &rendered {
            let preamble = prompt.preamble();
            processors.iter_mut().for_each(|processor| processor.expect(&preamble));
        }
        let parser = rendered.map_or_else(AnswerParser::plain, |prompt| prompt.parser(Calls::default()));
        let request = Request { params: self.params.clone(), turn_end, processors, ..Request::new(prompt) };
        let id = engine.submit(request).map_err(|error| match error {
            Error::Prompt(Refusal::TooLong { tokens, n_ctx }) => Error::ConversationFull { tokens, n_ctx },
            other => other,
        })?;
        self.merged_system = merged_system;
        self.pending = Some(Pending { id, parser, answer: Answer::default() });
        Ok(id)
    }

    /// Handles an event of this chat's turn; others are ignored. Returns the text that is new, and the usage when the
    /// turn ends.
    ///
    /// A cancelled answer keeps the text so far. If there is none, or the answer failed, the turn is undone.
    pub fn on_event(&mut self, event: &Event) -> Progress {
        let Some(pending) = &mut self.pending else { return Progress::default() };
        let mut push = |deltas: Vec<Delta>| {
            let text = Answer::from_iter(deltas);
            pending.answer.append(&text);
            text
        };
        match event {
            Event::Token { id, token, text, .. } if *id == pending.id => {
                Progress { text: push(pending.parser.push(*token, text)), usage: None }
            }
            Event::Done { id, reason, usage } if *id == pending.id => {
                let rest = if reason.is_cut() { AnswerParser::cut } else { AnswerParser::finish };
                let text = push(rest(&mut pending.parser));
                let Answer { reasoning, content, .. } = std::mem::take(&mut pending.answer);
                self.pending = None;
                if *reason == StopReason::Cancelled && reasoning.is_empty() && content.is_empty() {
                    self.messages.pop();
                } else {
                    let reasoning = Some(reasoning).filter(|reasoning| !reasoning.is_empty());
                    self.messages.push(Message { reasoning, ..Message::new("assistant", content) });
                }
                Progress { text, usage: Some(*usage) }
            }
            Event::Failed { id, .. } if *id == pending.id => {
                self.step_failed();
                Progress::default()
            }
            _ => Progress::default(),
        }
    }

    /// Call when [`Engine::step`] failed: the turn is undone.
    pub fn step_failed(&mut self) {
        if self.pending.take().is_some() {
            self.messages.pop();
        }
    }

    /// The turn in progress.
    pub fn pending(&self) -> Option<RequestId> {
        self.pending.as_ref().map(|pending| pending.id)
    }

    /// The prompt for the next answer: one BOS if the file says so, and no EOS but those of the template. Fails if the
    /// template rejects the conversation.
    pub fn prompt(&self, model: &Model) -> Result<Vec<u32>, Error> {
        self.rendered(model).map(|(prompt, _)| prompt)
    }

    /// The prompt, and as the template wrote it.
    fn rendered(&self, model: &Model) -> Result<(Vec<u32>, Option<Prompt>), Error> {
        let Some(template) = model.template().ok().filter(|_| self.templated) else {
            return Ok((self.raw_prompt(model), None));
        };
        let rendered = template.render(&self.messages, &self.template_options)?;
        Ok((model.encode_rendered(&rendered), Some(rendered)))
    }

    fn raw_prompt(&self, model: &Model) -> Vec<u32> {
        let mut text = String::new();
        for message in &self.messages {
            if message.role != "assistant" && !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&message.text());
        }
        model.encode_prompt(&text, false)
    }

    /// Saves the conversation as JSON: `{"messages": [{"role": …, "content": …}, …]}`. Fails if the file cannot be
    /// written, or exists and is not a saved conversation.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let is_saved =
            |path: &Path| read(path).is_ok_and(|json| serde_json::from_slice::<Saved>(&json).is_ok());
        let mut file = Target::new(path, "saved conversation", is_saved)?.create()?;
        let messages = self.messages.clone();
        let json = serde_json::to_string_pretty(&Saved { messages })
            .map_err(|error| Error::conversation(path, error.into()))?;
        file.write_all((json + "\n").as_bytes()).map_err(|error| Error::conversation(path, error))?;
        Ok(file.finish()?)
    }

    /// Replaces the conversation with a saved one. Fails if the file cannot be read or is invalid, or a turn is in
    /// progress. The conversation is unchanged then.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        if self.pending.is_some() {
            return Err(Error::Answering);
        }
        let path = path.as_ref();
        let json = read(path).map_err(|error| Error::conversation(path, error))?;
        let saved: Saved =
            serde_json::from_slice(&json).map_err(|error| Error::conversation(path, error.into()))?;
        self.messages = saved.messages;
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    File::open(path)?.take(MAX_SAVED_BYTES + 1).read_to_end(&mut json)?;
    if json.len() as u64 > MAX_SAVED_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "more than 64 MiB"));
    }
    Ok(json)
}
