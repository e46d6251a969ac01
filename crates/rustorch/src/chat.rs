//! Conversations.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use chat::{Answer as ChatAnswer, Message};
use engine::{Refusal, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::driver::Stopper;
use crate::loaded::Loaded;
use crate::prepare::Prepared;
use crate::request::{Conversation, Ending, Input, Request, TemplateUse};
use crate::settings::settings_methods;
use crate::stream::{Delta, DeltaKind, End, Stream};
use crate::{Error, Result};

const SYSTEM: &str = "system";
const USER: &str = "user";

const MAX_SAVED_BYTES: u64 = 64 << 20;

/// A conversation. It applies the model's chat template, keeps the messages, and computes only what is new in a turn.
///
/// With a template, special tokens come from the template only, never from the text of a message. Without one in the model's file,
/// messages follow each other as plain text: an answer right after the user's message, the next message on a new line.
#[derive(Clone, Debug)]
pub struct Chat {
    model: Arc<Loaded>,
    /// Its messages are `messages`, in each turn.
    request: Request,
    messages: Vec<Message>,
    tools: Vec<Json>,
    variables: Map<String, Json>,
    is_raw: bool,
    merged_system: bool,
}

settings_methods!(Chat);

#[derive(Serialize, Deserialize)]
struct Saved {
    messages: Vec<Message>,
}

impl Chat {
    pub(crate) fn new(model: Arc<Loaded>) -> Chat {
        Chat {
            model,
            request: Request::new(Vec::new()),
            messages: Vec::new(),
            tools: Vec::new(),
            variables: Map::new(),
            is_raw: false,
            merged_system: false,
        }
    }

    /// Sets the system message, which says how to answer.
    pub fn system(mut self, text: impl Into<String>) -> Chat {
        self.set_system(Some(text.into()));
        self
    }

    /// Sets the system message; `None` removes it.
    pub fn set_system(&mut self, text: Option<String>) {
        self.messages =
            text.map(|text| Message::new(SYSTEM, text)).into_iter().chain(self.turns().to_vec()).collect();
    }

    /// Continues these messages.
    pub fn with_messages(mut self, messages: Vec<Message>) -> Chat {
        self.messages = messages;
        self
    }

    /// Replaces the messages.
    pub fn set_messages(&mut self, messages: Vec<Message>) {
        self.messages = messages;
    }

    /// Lets answers call these tools, each in OpenAI's shape. Append results by [`push`](Chat::push), then call
    /// [`answer`](Chat::answer).
    pub fn tools(mut self, tools: Vec<Json>) -> Chat {
        self.tools = tools;
        self
    }

    /// Sets variables of the chat template, such as `enable_thinking`.
    pub fn variables(mut self, variables: Map<String, Json>) -> Chat {
        self.variables = variables;
        self
    }

    /// The parameters of the following answers, for programs that change them between turns. The input is not used.
    pub fn request_mut(&mut self) -> &mut Request {
        &mut self.request
    }

    /// The template's variables of the following answers.
    pub fn variables_mut(&mut self) -> &mut Map<String, Json> {
        &mut self.variables
    }

    /// Says `text` to the model. The answer is computed as it is read.
    pub fn say(&mut self, text: impl Into<String>) -> Answer<'_> {
        self.messages.push(Message::new(USER, text));
        self.begin(1)
    }

    /// Says `text` to the model, and reads the answer as a value: JSON of the type's schema, read by `serde`.
    ///
    /// # Errors
    /// As the answer, and if it is cut before the JSON is complete.
    #[cfg(feature = "schemars")]
    pub fn ask<T>(&mut self, text: impl Into<String>) -> Result<T>
    where
        T: serde::de::DeserializeOwned + schemars::JsonSchema,
    {
        let format = self.request.format.replace(crate::generate::schema::<T>());
        let answer = self.say(text).text();
        self.request.format = format;
        crate::generate::read_json(answer?)
    }

    /// Appends a message, such as a tool's result.
    pub fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Lets the model answer the messages so far.
    pub fn answer(&mut self) -> Answer<'_> {
        self.begin(0)
    }

    /// Begins an answer to the messages, of which the last `new` are undone with the turn.
    fn begin(&mut self, new: usize) -> Answer<'_> {
        let submitted = self.prepared().map_err(|error| self.full(error)).and_then(|prepared| {
            let (merged_system, prompt_tokens) = (prepared.merged_system(), prepared.prompt().len());
            let stream = prepared.submit()?;
            self.merged_system = merged_system;
            Ok((stream, prompt_tokens))
        });
        let (stream, prompt_tokens) = match submitted {
            Ok((stream, prompt_tokens)) => (Ok(stream), prompt_tokens),
            Err(error) => (Err(Some(error)), 0),
        };
        Answer { new, chat: self, stream, prompt_tokens, answer: ChatAnswer::default(), tokens: 0, end: None }
    }

    /// An error of a conversation that no longer fits, in its terms: the last message is not to blame.
    fn full(&self, error: Error) -> Error {
        match error {
            Error::TextTooLong { bytes, most, n_ctx }
                if self.messages.last().is_some_and(|last| last.text().len() <= most) =>
            {
                Error::ConversationFull { tokens: bytes.div_ceil((most / n_ctx.max(1)).max(1)), n_ctx }
            }
            error => error,
        }
    }

    fn prepared(&self) -> Result<Prepared> {
        let conversation = Conversation {
            variables: self.variables.clone(),
            ending: Ending::Answer,
            template: if self.is_raw { TemplateUse::Never } else { TemplateUse::IfUsable },
            ..Conversation::new(self.messages.clone()).tools(self.tools.clone())
        };
        let mut request = Request { input: Input::from(conversation), ..self.request.clone() };
        // A conversation goes on with one answer.
        request.params.n = 1;
        self.model.prepare(request)
    }

    /// The messages so far, the system message first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The messages but the system message.
    fn turns(&self) -> &[Message] {
        match &self.messages[..] {
            [first, turns @ ..] if first.role == SYSTEM => turns,
            turns => turns,
        }
    }

    /// Removes all messages but the system message.
    pub fn clear(&mut self) {
        self.messages.retain(|message| message.role == SYSTEM);
    }

    /// Removes the oldest turn: the user's message and the answer. Returns whether there was one.
    pub fn drop_oldest(&mut self) -> bool {
        let first = self.messages.len() - self.turns().len();
        if self.messages.len() <= first {
            return false;
        }
        let next = self.messages.iter().skip(first + 1).position(|message| message.role == USER);
        let end = next.map_or(self.messages.len(), |next| first + 1 + next);
        self.messages.drain(first..end);
        true
    }

    /// Removes the user's last message and what follows it, and returns its text; `None` if there is none.
    pub fn drop_last(&mut self) -> Option<String> {
        let last = self.messages.iter().rposition(|message| message.role == USER)?;
        self.messages.drain(last..).next().map(|message| message.text().into_owned())
    }

    /// Removes the oldest turns until the prompt with `text` as the next message leaves `free` tokens of the context for the
    /// answer. Returns their number: all turns if even that does not suffice.
    ///
    /// # Errors
    /// If `text` alone cannot fit, or the template rejects the conversation.
    pub fn make_room(&mut self, text: &str, free: usize) -> Result<usize> {
        let n_ctx = self.model.limits().map_or(0, |limits| limits.n_ctx);
        self.model.check_bytes(text.len())?;
        let mut dropped = 0;
        loop {
            self.messages.push(Message::new(USER, text));
            let prompt = self.prepared().map(|prepared| prepared.prompt().len());
            self.messages.pop();
            let tokens = match prompt {
                Err(Error::TextTooLong { .. }) => usize::MAX,
                prompt => prompt?,
            };
            if tokens.saturating_add(free) <= n_ctx || !self.drop_oldest() {
                return Ok(dropped);
            }
            dropped += 1;
        }
    }

    /// Tokens of the prompt for the next answer.
    ///
    /// # Errors
    /// If the template rejects the conversation.
    pub fn prompt(&self) -> Result<Vec<u32>> {
        Ok(self.prepared()?.prompt().to_vec())
    }

    /// Whether the template is used.
    pub fn is_templated(&self) -> bool {
        !self.is_raw && self.model.model().template().is_ok()
    }

    /// Switches between template and plain text.
    ///
    /// # Errors
    /// If the model has no usable template.
    pub fn set_templated(&mut self, templated: bool) -> Result<()> {
        if templated {
            self.model.template()?;
        }
        self.is_raw = !templated;
        Ok(())
    }

    /// Whether the last prompt had system messages within others, because the template does not write them where they were.
    pub fn merged_system(&self) -> bool {
        self.merged_system
    }

    pub(crate) fn set_model(&mut self, model: Arc<Loaded>) {
        self.model = model;
    }

    /// Saves the messages as JSON: `{"messages": [{"role": …, "content": …}, …]}`.
    ///
    /// # Errors
    /// If the file cannot be written, or exists and is not a saved conversation.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let is_saved =
            |path: &Path| read(path).is_ok_and(|json| serde_json::from_slice::<Saved>(&json).is_ok());
        let mut file = gguf::output::Target::new(path, "saved conversation", is_saved)?.create()?;
        let json = serde_json::to_string_pretty(&Saved { messages: self.messages.clone() })
            .map_err(|error| Error::conversation(path, error.into()))?;
        file.write_all((json + "\n").as_bytes()).map_err(|error| Error::conversation(path, error))?;
        Ok(file.finish()?)
    }

    /// Replaces the messages with saved ones.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid. The conversation is unchanged then.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
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
#[derive(Debug)]
pub struct Answer<'a> {
    chat: &'a mut Chat,
    /// Messages that this turn has added.
    new: usize,
    /// Or the error that is the only item.
    stream: Result<Stream, Option<Error>>,
    prompt_tokens: usize,
    answer: ChatAnswer,
    tokens: usize,
    end: Option<End>,
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
        self.end.as_ref()
    }

    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Generated tokens so far.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Whether the prompt has system messages within others, because the template does not write them where they were.
    pub fn merged_system(&self) -> bool {
        self.chat.merged_system
    }

    /// A handle that ends the answer from another thread.
    ///
    /// # Errors
    /// If the request was refused, so there is no answer.
    pub fn stopper(&mut self) -> Result<Stopper> {
        match &mut self.stream {
            Ok(stream) => Ok(stream.stopper()),
            Err(error) => Err(error.take().unwrap_or(Error::Panicked)),
        }
    }

    /// The next piece with tokens, tool calls and progress; the conversation keeps it as one that was read.
    pub fn next_delta(&mut self) -> Option<Result<Delta>> {
        let delta = match &mut self.stream {
            Ok(stream) => stream.wait(),
            Err(error) => error.take().map(Err),
        };
        let delta = delta.map(|delta| delta.map_err(conversation_full));
        match &delta {
            Some(Ok(Delta { kind: DeltaKind::Token { .. }, .. })) => self.tokens += 1,
            Some(Ok(Delta { kind: DeltaKind::Part(part), .. })) => self.answer.push(part.clone()),
            Some(Ok(Delta { kind: DeltaKind::End(end), .. })) => self.end = Some(end.clone()),
            Some(Err(_)) => self.answer = ChatAnswer::default(),
            _ => {}
        }
        delta
    }
}

impl Iterator for Answer<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        loop {
            match self.next_delta()?.map(|delta| delta.kind) {
                Ok(DeltaKind::Part(chat::Delta::Content(content))) => {
                    return Some(Ok(Piece { content, reasoning: String::new() }));
                }
                Ok(DeltaKind::Part(chat::Delta::Reasoning(reasoning))) => {
                    return Some(Ok(Piece { content: String::new(), reasoning }));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl std::iter::FusedIterator for Answer<'_> {}

impl Drop for Answer<'_> {
    /// Appends the answer to the conversation.
    fn drop(&mut self) {
        let ChatAnswer { reasoning, content, mut tool_calls } = std::mem::take(&mut self.answer);
        // A call that a limit has cut could not be rendered in the next prompt.
        tool_calls.retain(|call| !is_cut(&call.function.arguments));
        let is_empty = reasoning.is_empty() && content.is_empty() && tool_calls.is_empty();
        let has_ended = self.end.as_ref().is_some_and(|end| end.reason != StopReason::Cancelled);
        let messages = &mut self.chat.messages;
        if is_empty && !has_ended {
            messages.truncate(messages.len().saturating_sub(self.new));
            return;
        }
        let reasoning = Some(reasoning).filter(|text| !text.is_empty());
        messages.push(Message { reasoning, tool_calls, ..Message::new("assistant", content) });
    }
}

/// Whether the arguments of a call end before their JSON does.
fn is_cut(arguments: &Json) -> bool {
    arguments.as_str().is_some_and(|text| serde_json::from_str::<Map<String, Json>>(text).is_err())
}

/// An error of a conversation that no longer fits, in its terms.
fn conversation_full(error: Error) -> Error {
    match &error {
        Error::Engine { error: engine } => match **engine {
            engine::Error::Prompt(Refusal::TooLong { tokens, n_ctx }) => {
                Error::ConversationFull { tokens, n_ctx }
            }
            _ => error,
        },
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_cut_where_its_json_is() {
        for (arguments, cut) in [
            (serde_json::json!({ "city": "Rome" }), false),
            ("{\"city\": \"Rome\"}".into(), false),
            ("{\"city\": \"Ro".into(), true),
            ("{".into(), true),
            ("".into(), true),
        ] {
            assert_eq!(is_cut(&arguments), cut, "{arguments}");
        }
    }
}
