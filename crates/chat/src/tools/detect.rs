//! Finds the format of tool calls that a template shows.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::format::Format;
use super::formats::FORMATS;
use super::schema::Tools;
use crate::answer::{AnswerParser, Callable};
use crate::delta::{Answer, Calls};
use crate::message::Message;
use crate::reasoning;

/// The tool of a sample.
const NAME: &str = "count_hedgehogs";

/// The format in which the template's rendering of a call reads as that call, or else the first one whose texts it contains.
/// `None` without one, or if the template leaves out the tools. `sources` are its texts; `render` renders messages and tools with
/// the prompt for an answer or without.
pub(crate) fn detect(
    sources: &[&str],
    reasoning: Option<&'static reasoning::Format>,
    render: impl Fn(&[Message], Vec<Json>, bool) -> Option<String>,
) -> Option<&'static Format> {
    let parameters = json!({
        "type": "object",
        "properties": { "place": { "type": "string" }, "year": { "type": "integer" } },
        "required": ["place"],
    });
    let function = json!({ "name": NAME, "description": "Counts.", "parameters": parameters });
    let tool = json!({ "type": "function", "function": function });
    let tools = Arc::new(Tools::read(std::slice::from_ref(&tool)).ok()?);
    let user = Message::new("user", "q");
    let arguments = json!({ "place": "Bath", "year": 1999 });
    let call = json!({ "id": "abcdef123", "type": "function", "function": { "name": NAME, "arguments": arguments } });
    let called =
        Message { tool_calls: vec![serde_json::from_value(call).ok()?], ..Message::new("assistant", "") };

    let prompt = render(std::slice::from_ref(&user), vec![tool.clone()], true).unwrap_or_default();
    let sample = render(&[user, called], vec![tool], false).unwrap_or_default();
    let same = prompt.bytes().zip(sample.bytes()).take_while(|(a, b)| a == b).count();
    let (same, _) = sample.split_at(sample.floor_char_boundary(same));
    // Not within a mark.
    let mark = same.rfind('<').filter(|mark| same.rfind('>').is_none_or(|end| end < *mark));
    let (prompt_end, answer) = sample.split_at(mark.unwrap_or(same.len()));
    let reads = |format: &&'static Format| {
        if !format.shows.iter().all(|text| answer.contains(text)) {
            return false;
        }
        let callable = Callable { format, tools: tools.clone(), calls: Calls::Whole };
        let mut parser = AnswerParser::new(reasoning, Some(callable), &[], prompt_end);
        let mut read = Answer::default();
        parser.push_text(answer).into_iter().chain(parser.finish()).for_each(|delta| read.push(delta));
        let [call] = &*read.tool_calls else { return false };
        let found = call.function.arguments.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok());
        call.function.name == NAME && found.as_ref() == Some(&arguments)
    };
    let format = if answer.contains(NAME) {
        FORMATS.iter().find(reads)
    } else {
        let text = [sources, &[&*prompt, answer]].concat().join("\n");
        let is_known = |format: &&'static Format| {
            format.known_by.iter().any(|texts| texts.iter().all(|known| text.contains(known)))
        };
        FORMATS.iter().find(is_known)
    };
    // A template may write calls, but not the tools that its model can call.
    format.filter(|_| prompt.contains(NAME))
}
