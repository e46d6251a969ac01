//! Conversations.

use std::fmt;
use std::sync::Arc;

use engine::{Event, Message, Request, StopReason, Usage};

use crate::Result;
use crate::generate::{End, State};
use crate::loaded::Loaded;
use crate::settings::{settings, settings_methods};
use crate::shared::Running;

/// A conversation. It applies the model's chat template, keeps the messages, and computes only what is new in a turn.
///
/// Without a template in the model's file, messages follow each other as plain text.
#[derive(Debug)]
pub struct Chat {
    model: Arc<Loaded>,
    settings: Request,
    /// Or why the model cannot chat, for the first answer.
    chat: Result<engine::Chat>,
}

settings_methods!(Chat);

impl Chat {
    pub(crate) fn new(model: Arc<Loaded>) -> Chat {
        let chat = model.shared().and_then(|shared| shared.with(|engine| Ok(engine::Chat::new(engine))));
        Chat { model, settings: settings(), chat }
    }

    /// Sets the system message, which says how to answer.
    pub fn system(mut self, text: impl Into<String>) -> Chat {
        if let Ok(chat) = &mut self.chat {
            chat.set_system(Some(text.into()));
        }
        self
    }

    /// Says `text` to the model. The answer is computed as it is read.
    pub fn say(&mut self, text: impl Into<String>) -> Answer<'_> {
        let state = self.submit(text.into()).map_or_else(State::Failed, State::Running);
        Answer { chat: self, state }
    }

    fn submit(&mut self, text: String) -> Result<Running> {
        let chat = self.chat.as_mut().map_err(|error| error.clone())?;
        let Request { params, processors, .. } = self.settings.clone();
        (chat.params, chat.processors) = (params, processors);
        self.model.shared()?.submit(|engine| chat.say(engine, text))
    }

    /// The messages so far, the system message first.
    pub fn messages(&self) -> &[Message] {
        self.chat.as_ref().map_or(&[], |chat| chat.messages())
    }

    /// Forgets all messages but the system message.
    ///
    /// # Errors
    /// If the model cannot chat, or is lost.
    pub fn clear(&mut self) -> Result<()> {
        let chat = self.chat.as_mut().map_err(|error| error.clone())?;
        self.model.shared()?.with(|engine| {
            chat.clear(engine);
            Ok(())
        })
    }
}

/// A piece of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// What the model says. Printing a piece prints this.
    pub content: String,
    /// What the model thinks before it answers.
    pub reasoning: String,
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.content)
    }
}

impl FromIterator<Piece> for String {
    fn from_iter<I: IntoIterator<Item = Piece>>(pieces: I) -> String {
        pieces.into_iter().map(|piece| piece.content).collect()
    }
}

/// The pieces of an answer, as they are generated. An error is the last item, and undoes the turn.
///
/// Dropping the iterator ends the answer there: the conversation keeps what was read. If that is nothing, the turn is undone.
#[must_use = "dropping it cancels the answer"]
pub struct Answer<'a> {
    chat: &'a mut Chat,
    state: State,
}

impl Answer<'_> {
    /// The whole answer, without reasoning.
    ///
    /// # Errors
    /// As the pieces.
    pub fn text(self) -> Result<String> {
        self.collect()
    }

    /// Why the answer ended; `None` before its end, or if it failed.
    pub fn end(&self) -> Option<&End> {
        self.state.end()
    }
}

impl Iterator for Answer<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        loop {
            let event = self.state.next()?;
            let Ok(chat) = &mut self.chat.chat else { return Some(event.map(|_| Piece::default())) };
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    chat.step_failed();
                    return Some(Err(error));
                }
            };
            let engine::template::Answer { content, reasoning, .. } = chat.on_event(&event).text;
            if !content.is_empty() || !reasoning.is_empty() {
                return Some(Ok(Piece { content, reasoning }));
            }
        }
    }
}

impl std::iter::FusedIterator for Answer<'_> {}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if let Ok(chat) = &mut self.chat.chat
            && let Some(id) = chat.pending()
        {
            chat.on_event(&Event::Done { id, reason: StopReason::Cancelled, usage: Usage::default() });
        }
    }
}

impl fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("end", &self.end()).finish_non_exhaustive()
    }
}
