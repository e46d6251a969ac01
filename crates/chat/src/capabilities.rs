//! The capabilities of a template, and the form of its model's answers.

use std::time::Duration;

use crate::message::Message;
use crate::prompt::{Prompt, Segment, TurnEnd};
use crate::reasoning::Format;
use crate::template::{Options, Template, reasoning_switch};
use crate::tools::{self, Missing};

/// The time limit of a sample. Results are kept: they must not depend on the time of one caller.
const SAMPLE_TIME: Duration = Duration::from_secs(2);

/// Properties of a template that samples show.
#[derive(Debug)]
pub(crate) struct Capabilities {
    /// The marks around reasoning in answers.
    pub(crate) reasoning: Option<&'static Format>,
    /// Whether variables turn reasoning on and off.
    pub(crate) switches_reasoning: bool,
    /// The end of an answer.
    pub(crate) turn_end: Option<TurnEnd>,
    /// How tool calls are written.
    pub(crate) tools: Result<&'static tools::format::Format, Missing>,
}

impl Capabilities {
    pub(crate) fn probe(template: &Template) -> Capabilities {
        let render = |messages: &[Message], options: Options| {
            template.render(messages, &Options { time: SAMPLE_TIME, ..options }).ok()
        };
        let answers = || Options { add_generation_prompt: false, ..Options::default() };
        let question = Message::new("user", "q");

        let thought = Message { reasoning: Some("thought".into()), ..Message::new("assistant", "a") };
        // Some templates compose the marks.
        let sample = render(&[question.clone(), thought], answers()).map(|prompt| prompt.to_string());
        let reasoning = Format::of(&(template.source().to_owned() + &sample.unwrap_or_default()));

        let switched = |on| {
            let options = Options { variables: reasoning_switch(on), ..Options::default() };
            render(std::slice::from_ref(&question), options).map(|prompt| prompt.segments().to_vec())
        };
        let tools =
            tools::detect(&template.sources().collect::<Vec<_>>(), reasoning, |messages, tools, prompts| {
                let options = Options { add_generation_prompt: prompts, tools, ..Options::default() };
                render(messages, options).map(|prompt| prompt.to_string())
            });
        let turns = [("user", "a"), ("assistant", FIRST), ("user", "b"), ("assistant", LAST)];
        let turns = render(&turns.map(|(role, content)| Message::new(role, content)), answers());
        Capabilities {
            reasoning,
            switches_reasoning: switched(true) != switched(false),
            turn_end: turns.and_then(|prompt| turn_end(&prompt, reasoning)),
            tools,
        }
    }
}

/// Sample answers.
const FIRST: &str = "Nineteen-Hedgehogs";
const LAST: &str = "Twenty-Porcupines";

/// The text or token that follows the sample answers in `prompt`.
fn turn_end(prompt: &Prompt, reasoning: Option<&Format>) -> Option<TurnEnd> {
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
fn after<'a>(prompt: &'a Prompt, answer: &str) -> Option<(&'a str, Option<(u32, &'a str)>)> {
    prompt.segments().iter().enumerate().find_map(|(index, segment)| match segment {
        Segment::Text(text) => {
            let (_, rest) = text.split_once(answer)?;
            let next = match prompt.segments().get(index + 1) {
                Some(Segment::Token { id, text }) => Some((*id, &**text)),
                _ => None,
            };
            Some((rest, next))
        }
        Segment::Token { .. } => None,
    })
}
