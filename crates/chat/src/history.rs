//! Conversations for templates that do not take every one: answers with calls in the form that the template writes, and roles that
//! alternate.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use crate::message::{Content, Message, ToolCall};
use crate::system::{is_system, joined};
use crate::tools::completed_object;

/// What a template writes of an answer with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallForm {
    /// Messages of the role `assistant` with `tool_calls`.
    Calls {
        /// Whether an answer has only one: each is an answer of its own, before its result.
        split: bool,
        content: Beside,
        /// Whether reasoning is left out.
        drops_reasoning: bool,
    },
    /// The template knows no calls: they and their results are text.
    Text,
}

/// Where the content of an answer with calls goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Kept,
    /// In an answer before it.
    Apart,
    Dropped,
}

/// What an answer with calls has besides its first call, which decides how a template takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Has {
    content: bool,
    reasoning: bool,
    more_calls: bool,
}

impl Has {
    pub(crate) const ALL: usize = 8;

    fn new(answer: &Message) -> Has {
        Has {
            content: !answer.text().is_empty(),
            reasoning: answer.reasoning.as_ref().is_some_and(|text| !text.is_empty()),
            more_calls: answer.tool_calls.len() > 1,
        }
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.content) + 2 * usize::from(self.reasoning) + 4 * usize::from(self.more_calls)
    }
}

/// Words of a sample that no template writes on its own.
const CONTENT: &str = "TwentyOneBadgers";
const CALL: &str = "TwentyTwoFoxes";

/// The form of answers like `has`: the first one of which the template writes all calls, and the content if any form keeps it.
/// `render` renders a sample.
pub(crate) fn probe(has: Has, render: impl Fn(&[Message]) -> Option<String>) -> CallForm {
    let flags = |is_needed: bool| if is_needed { &[false, true][..] } else { &[false] };
    let contents: &[Beside] =
        if has.content { &[Beside::Kept, Beside::Apart, Beside::Dropped] } else { &[Beside::Kept] };
    let mut forms = Vec::new();
    for &drops_reasoning in flags(has.reasoning) {
        for &content in contents {
            for &split in flags(has.more_calls) {
                forms.push(CallForm::Calls { split, content, drops_reasoning });
            }
        }
    }
    let sample = sample(has);
    let calls = if has.more_calls { 2 } else { 1 };
    let written = |form: &CallForm| {
        let text = render(&lowered(&sample, |_| *form, || true)).unwrap_or_default();
        let has_calls = (0..calls).all(|call| text.contains(&format!("{CALL}{call}A")));
        has_calls.then(|| !has.content || text.contains(CONTENT))
    };
    let mut fallback = CallForm::Text;
    for form in &forms {
        match written(form) {
            Some(true) => return *form,
            Some(false) if fallback == CallForm::Text => fallback = *form,
            _ => {}
        }
    }
    fallback
}

/// Whether the template of `render` writes a result without its call.
pub(crate) fn writes_results(render: impl Fn(&[Message]) -> Option<String>) -> bool {
    let sample = [Message::new("user", "q"), Message::new("tool", CONTENT)];
    render(&sample).is_some_and(|text| text.contains(CONTENT))
}

fn sample(has: Has) -> Vec<Message> {
    let calls = if has.more_calls { 2 } else { 1 };
    let call = |number: usize| {
        let function = json!({ "name": format!("{CALL}{number}"), "arguments": { "place": format!("{CALL}{number}A") } });
        serde_json::from_value(json!({ "id": id(number), "type": "function", "function": function })).ok()
    };
    let answer = Message {
        reasoning: has.reasoning.then(|| "thought".to_owned()),
        tool_calls: (0..calls).filter_map(call).collect(),
        ..Message::new("assistant", if has.content { CONTENT } else { "" })
    };
    let result = |number| Message { tool_call_id: Some(id(number)), ..Message::new("tool", "1") };
    let results = (0..calls).map(result);
    [Message::new("user", "q"), answer].into_iter().chain(results).collect()
}

fn id(number: usize) -> String {
    format!("abcdef12{number}")
}

/// `messages` with each answer that has calls in the form for it, and results without a call as text unless the template
/// `writes_results`.
pub(crate) fn lowered(
    messages: &[Message],
    form: impl Fn(Has) -> CallForm,
    writes_results: impl Fn() -> bool,
) -> Vec<Message> {
    let (mut lowered, mut names) = (Vec::with_capacity(messages.len()), HashMap::new());
    let mut rest = messages;
    while let [message, after @ ..] = rest {
        rest = after;
        // Without a call.
        if message.role == "tool" && !writes_results() {
            lowered.extend(results_as_text(std::slice::from_ref(message), &names));
            continue;
        }
        if message.role != "assistant" || message.tool_calls.is_empty() {
            lowered.push(message.clone());
            continue;
        }
        let results = after.iter().take_while(|message| message.role == "tool").count();
        let (results, after) = after.split_at(results);
        rest = after;
        match form(Has::new(message)) {
            CallForm::Text => {
                lowered.push(calls_as_text(message));
                names
                    .extend(message.tool_calls.iter().map(|call| (call.id.as_deref(), &*call.function.name)));
                lowered.extend(results_as_text(results, &names));
            }
            CallForm::Calls { split, content, drops_reasoning } => {
                let mut answer = message.clone();
                answer.reasoning = answer.reasoning.filter(|_| !drops_reasoning);
                if content != Beside::Kept {
                    let text = std::mem::take(&mut answer.content);
                    let before = Message { content: text, ..Message::new("assistant", "") };
                    lowered.extend((content == Beside::Apart).then_some(before));
                }
                lowered.extend(if split {
                    one_by_one(answer, results)
                } else {
                    [&[answer], results].concat()
                });
            }
        }
    }
    lowered
}

/// Answers with a call each, each followed by its result.
fn one_by_one(answer: Message, results: &[Message]) -> Vec<Message> {
    let mut left: Vec<Option<&Message>> = results.iter().map(Some).collect();
    let mut apart = Vec::new();
    let calls = answer.tool_calls.clone();
    for (number, call) in calls.into_iter().enumerate() {
        // By its id, or else by its place.
        let is_its = |result: &Option<&Message>| {
            result.is_some_and(|result| call.id.is_some() && result.tool_call_id == call.id)
        };
        let place = left.iter().position(is_its);
        let place = place.or_else(|| call.id.is_none().then_some(number).filter(|place| *place < left.len()));
        let first = if number == 0 { answer.clone() } else { Message::new("assistant", "") };
        apart.push(Message { tool_calls: vec![call], ..first });
        apart.extend(place.and_then(|place| left[place].take()).cloned());
    }
    apart.extend(left.into_iter().flatten().cloned());
    apart
}

/// An answer whose calls are lines of JSON after its content.
fn calls_as_text(answer: &Message) -> Message {
    let calls = answer.tool_calls.iter().map(|call| {
        let arguments = arguments(call);
        json!({ "name": call.function.name, "arguments": arguments }).to_string()
    });
    let content = answer.text().into_owned();
    let lines: Vec<String> = Some(content).filter(|text| !text.is_empty()).into_iter().chain(calls).collect();
    Message { tool_calls: Vec::new(), content: Content::Text(lines.join("\n")), ..answer.clone() }
}

/// Results of tools as one message of the user. `names` are those of the tools by the ids of their calls.
fn results_as_text(results: &[Message], names: &HashMap<Option<&str>, &str>) -> Option<Message> {
    let text = |result: &Message| {
        let called = names.get(&result.tool_call_id.as_deref()).copied();
        match result.name.as_deref().or(called) {
            Some(name) => format!("Result of {name}:\n{}", result.text()),
            None => format!("Result of a tool:\n{}", result.text()),
        }
    };
    let texts: Vec<String> = results.iter().map(text).collect();
    (!texts.is_empty()).then(|| Message::new("user", texts.join("\n\n")))
}

/// The arguments of a call as an object. Those that were cut are completed.
pub(crate) fn arguments(call: &ToolCall) -> Json {
    let Some(text) = call.function.arguments.as_str() else { return call.function.arguments.clone() };
    match serde_json::from_str(text) {
        Ok(object @ Json::Object(_)) => object,
        _ => completed_object(text).unwrap_or_else(|| json!({})),
    }
}

/// A way to write a conversation.
pub(crate) type Form = fn(&[Message]) -> Vec<Message>;

/// Ways to write a conversation that a template refuses, each more different than the one before.
pub(crate) const FORMS: [Form; 3] = [<[Message]>::to_vec, alternating, completed];

/// Messages of one role that follow each other are one, and an answer that comes first follows an empty message of the user.
fn alternating(messages: &[Message]) -> Vec<Message> {
    let mut result: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        if message.role == "assistant" && result.iter().all(is_system) {
            result.push(Message::new("user", ""));
        }
        let is_same = |last: &&mut Message| {
            last.role == message.role
                && ["user", "assistant"].contains(&&*message.role)
                && last.name == message.name
        };
        match result.last_mut().filter(is_same) {
            Some(last) => {
                last.content = joined(&[last, message]);
                last.tool_calls.extend(message.tool_calls.iter().cloned());
                if let Some(more) = &message.reasoning {
                    let reasoning = last.reasoning.take().map(|text| text + "\n" + more);
                    last.reasoning = reasoning.or_else(|| Some(more.clone()));
                }
            }
            None => result.push(message.clone()),
        }
    }
    result
}

/// As [`alternating`]; besides, each call has a result, a result without a call is a message of the user, and an empty answer
/// stands between results and a message of the user.
fn completed(messages: &[Message]) -> Vec<Message> {
    let (mut result, mut open): (Vec<Message>, Vec<ToolCall>) = (Vec::new(), Vec::new());
    for message in messages {
        if message.role == "tool" {
            let place = open.iter().position(|call| call.id == message.tool_call_id);
            match place.or_else(|| (message.tool_call_id.is_none() && !open.is_empty()).then_some(0)) {
                Some(place) => {
                    open.remove(place);
                    result.push(message.clone());
                }
                None => result.extend(results_as_text(std::slice::from_ref(message), &HashMap::new())),
            }
            continue;
        }
        result.extend(open.drain(..).map(without_result));
        if message.role == "user" && result.last().is_some_and(|last| last.role == "tool") {
            result.push(Message::new("assistant", ""));
        }
        open.extend(message.tool_calls.iter().cloned());
        result.push(message.clone());
    }
    result.extend(open.drain(..).map(without_result));
    alternating(&result)
}

fn without_result(call: ToolCall) -> Message {
    Message { tool_call_id: call.id, name: Some(call.function.name), ..Message::new("tool", "(no result)") }
}

/// `messages` with `tools` in a text, for a template that writes no tools.
pub(crate) fn with_tools_as_text(messages: &[Message], tools: &[Json]) -> Vec<Message> {
    let mut messages = lowered(messages, |_| CallForm::Text, || false);
    let tools = tools.iter().map(|tool| tool.get("function").unwrap_or(tool).to_string());
    let tools = tools.collect::<Vec<_>>().join("\n");
    let text =
        format!("You can call these tools, each described by a line of JSON:\n\n{tools}\n\n{HOW_TO_CALL}");
    match messages.first_mut().filter(|message| is_system(message)) {
        Some(system) => system.content = joined(&[system, &Message::new("system", format!("\n{text}"))]),
        None => messages.insert(0, Message::new("system", text)),
    }
    messages
}

const HOW_TO_CALL: &str = "To call a tool, answer with a line of JSON and nothing else: {\"name\": NAME, \"arguments\": \
    {PARAMETER: VALUE}}. To call several tools, write a line for each. You get the results then. Answer as usual if you need no tool.";
