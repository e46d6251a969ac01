//! The capabilities of a template, and the form of its model's answers.

use std::time::Duration;

use serde_json::{Map, Value as Json};

use crate::message::Message;
use crate::prompt::{self, Segment, TurnEnd};
use crate::reasoning::Format;
use crate::tools;

/// The time limit of a sample. Results are kept: they must not depend on the time of one caller.
pub(crate) const SAMPLE_TIME: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Capabilities {
    pub(crate) reasoning: Option<&'static Format>,
    pub(crate) switches_reasoning: bool,
    pub(crate) turn_end: Option<TurnEnd>,
    /// How it writes calls of tools; `None` if it writes no tools.
    pub(crate) tools: Option<&'static tools::format::Format>,
}

impl Capabilities {
    /// `sources` are the template's texts, first that without tools. The flag of `render` appends the prompt of an answer.
    pub(crate) fn probe(
        sources: &[&str],
        render: impl Fn(&[Message], Vec<Json>, Map<String, Json>, bool) -> Option<Vec<Segment>>,
    ) -> Capabilities {
        let answered = |messages: &[Message]| render(messages, Vec::new(), Map::new(), false);
        let question = Message::new("user", "q");

        let thought = Message { reasoning: Some("thought".into()), ..Message::new("assistant", "a") };
        // Some templates compose the marks.
        let sample = answered(&[question.clone(), thought]).unwrap_or_default();
        let reasoning = Format::of(&(sources[0].to_owned() + &prompt::text(&sample)));

        let switched = |on| render(std::slice::from_ref(&question), Vec::new(), reasoning_switch(on), true);
        let tools = tools::detect(sources, reasoning, |messages, tools, prompts| {
            render(messages, tools, Map::new(), prompts).map(|segments| prompt::text(&segments))
        });
        let turns = [("user", "a"), ("assistant", FIRST), ("user", "b"), ("assistant", LAST)];
        let turns = answered(&turns.map(|(role, content)| Message::new(role, content)));
        Capabilities {
            reasoning,
            switches_reasoning: switched(true) != switched(false),
            turn_end: turns.and_then(|segments| turn_end(&segments, reasoning)),
            tools,
        }
    }
}

/// The variables that turn reasoning on or off, by the names that templates have for it.
pub fn reasoning_switch(on: bool) -> Map<String, Json> {
    ["enable_thinking", "thinking"].map(|name| (name.to_owned(), on.into())).into_iter().collect()
}

const FIRST: &str = "Nineteen-Hedgehogs";
const LAST: &str = "Twenty-Porcupines";

/// The text or token that follows the sample answers in `prompt`.
fn turn_end(prompt: &[Segment], reasoning: Option<&Format>) -> Option<TurnEnd> {
    let ends_reasoning = |text: &str| reasoning.is_some_and(|format| format.closes_with(text));
    let (text, token) = after(prompt, LAST)?;
    if let Some((id, token)) = token
        && text.trim().is_empty()
    {
        return (!ends_reasoning(token)).then_some(TurnEnd::Token(id));
    }
    let (other, _) = after(prompt, FIRST)?;
    let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c);
    let same = same.collect::<String>().trim().to_owned();
    (!same.is_empty() && !ends_reasoning(&same)).then_some(TurnEnd::Text(same))
}

/// The text after `answer` in `prompt`, and the token that ends this text.
fn after<'a>(prompt: &'a [Segment], answer: &str) -> Option<(&'a str, Option<(u32, &'a str)>)> {
    prompt.iter().enumerate().find_map(|(index, segment)| match segment {
        Segment::Text(text) => {
            let (_, rest) = text.split_once(answer)?;
            let next = match prompt.get(index + 1) {
                Some(Segment::Token { id, text }) => Some((*id, &**text)),
                _ => None,
            };
            Some((rest, next))
        }
        Segment::Token { .. } => None,
    })
}
