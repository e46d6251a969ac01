//! Reads answers: reasoning, content and tool calls.

use std::collections::HashMap;
use std::sync::Arc;

use crate::delta::{Calls, Delta};
use crate::reasoning;
use crate::tools::format::{Format, Open};
use crate::tools::input::{Input, MAX_SPACE, Step, trimmed, undecided};
use crate::tools::schema::Tools;
use crate::tools::section::Section;

/// Most bytes that are read at once.
const PIECE: usize = 1 << 12;

/// The tools of an answer and how they are called.
#[derive(Clone, Debug)]
pub(crate) struct Callable {
    pub(crate) format: &'static Format,
    pub(crate) tools: Arc<Tools>,
    pub(crate) calls: Calls,
}

/// Where in an answer the text belongs.
#[derive(Clone, Debug)]
enum Place {
    /// Before reasoning or content.
    Start,
    Reasoning,
    Content,
    Calls(Box<Section>),
}

/// What a mark begins.
#[derive(Clone, Copy)]
enum Mark {
    Reasoning,
    Call,
    /// Nothing: it is part of neither.
    Skipped,
}

/// Reads an answer while it is generated. The result does not depend on where pieces of the answer begin and end.
///
/// Reasoning is at the start of an answer, between the marks of the template's format; the same marks within the
/// content are content. Tool calls are in the content. White space around reasoning and calls belongs to nothing.
///
/// What looks like a call but is none is content as the model wrote it: a call of an unknown tool, arguments that are
/// not JSON or nest deeper than 127, a call that the end of the answer cuts. Marks that follow complete arguments may be
/// missing. Line breaks in JSON strings, which models do not always escape, are escaped.
#[derive(Clone, Debug)]
pub struct AnswerParser {
    reasoning: Option<&'static reasoning::Format>,
    callable: Option<Callable>,
    /// Special tokens that are part of marks. Their text is not printed with the answer.
    tokens: HashMap<u32, String>,
    place: Place,
    /// Whether white space at the start is skipped.
    skips_space: bool,
    /// Text that may be part of a mark, or white space before one.
    held: String,
    /// The beginning of the answer that is in the prompt, until content or a call follows.
    prefill: &'static str,
    /// Whether there has been content or a call.
    has_content: bool,
    /// The number of the next call.
    next_call: usize,
}

impl AnswerParser {
    /// For an answer without a template: all of it is content.
    pub fn plain() -> AnswerParser {
        AnswerParser::new(None, None, &[], "")
    }

    /// For an answer to `prompt` by a model whose special tokens are `special`.
    pub(crate) fn new(
        reasoning: Option<&'static reasoning::Format>,
        callable: Option<Callable>,
        special: &[(u32, String)],
        prompt: &str,
    ) -> AnswerParser {
        let marks = reasoning.into_iter().flat_map(reasoning::Format::marks);
        let call_marks = callable.iter().flat_map(|callable| callable.format.marks());
        let marks: Vec<&str> = marks.chain(call_marks).collect();
        let is_part = |text: &str| marks.iter().any(|mark| mark.contains(text));
        let tokens = special.iter().filter(|(_, text)| is_part(text)).cloned().collect();
        let prompt = prompt.trim_end();
        let (place, skips_space) = match reasoning {
            Some(format) if prompt.ends_with(format.open) => (Place::Reasoning, true),
            Some(format) => (Place::Start, prompt.ends_with(format.close)),
            None if callable.is_some() => (Place::Start, false),
            None => (Place::Content, false),
        };
        let prefill = callable.as_ref().map_or("", |callable| callable.format.prefill);
        let prefill = if prompt.ends_with(prefill) { prefill } else { "" };
        AnswerParser {
            reasoning,
            callable,
            tokens,
            place,
            skips_space,
            held: prefill.to_owned(),
            prefill,
            has_content: false,
            next_call: 0,
        }
    }

    /// Takes a generated token and the text to print with it. Returns what is decided.
    pub fn push(&mut self, token: u32, text: &str) -> Vec<Delta> {
        let Some(mark) = self.tokens.get(&token) else { return self.push_text(text) };
        let text = text.to_owned() + mark;
        self.push_text(&text)
    }

    /// Takes text. Returns what is decided.
    pub fn push_text(&mut self, mut text: &str) -> Vec<Delta> {
        let mut out = Vec::new();
        // In pieces, so that the time is linear: each step searches all that is not decided.
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
            self.push_piece(piece, &mut out);
            text = rest;
        }
        out
    }

    fn push_piece(&mut self, text: &str, out: &mut Vec<Delta>) {
        let held = std::mem::take(&mut self.held) + text;
        let mut input = Input::new(&held, true);
        while self.step(&mut input, out) {}
        self.held = input.rest().to_owned();
    }

    /// The rest of the answer.
    pub fn finish(&mut self) -> Vec<Delta> {
        let held = std::mem::take(&mut self.held);
        let mut input = Input::new(&held, false);
        let mut out = Vec::new();
        while self.step(&mut input, &mut out) {}
        let rest = input.rest();
        match self.place {
            Place::Reasoning if self.skips_space => reason(trimmed(rest.trim_start()), &mut out),
            Place::Reasoning => reason(trimmed(rest), &mut out),
            Place::Start if self.skips_space => self.content(rest.trim_start(), &mut out),
            Place::Start | Place::Content | Place::Calls(_) => self.content(rest, &mut out),
        }
        out
    }

    /// The rest of an answer that was cut by a limit or a stop sequence, instead of [`AnswerParser::finish`].
    ///
    /// Of a call that is cut, what is known is passed on once its name is; before that, and of a mark, nothing is: so
    /// what is cut is the beginning of what would have come without the cut. Text that is a call only if it goes on as
    /// one, without a mark before it, is content.
    pub fn cut(&mut self) -> Vec<Delta> {
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::new();
        // What is held is white space and the beginning of a mark.
        let content = match &mut self.place {
            Place::Calls(section) => section.cut(&mut out).map(|text| text + &held),
            Place::Start if self.skips_space => None,
            Place::Start | Place::Content => Some(held).filter(|held| held.trim_start().is_empty()),
            Place::Reasoning => None,
        };
        self.content(&content.unwrap_or_default(), &mut out);
        out
    }

    /// Whether the answer is within reasoning.
    pub fn is_reasoning(&self) -> bool {
        matches!(self.place, Place::Reasoning)
    }

    /// Moves text from `input` to `out`. Returns whether the place has changed, so that there may be more to do.
    fn step(&mut self, input: &mut Input<'_>, out: &mut Vec<Delta>) -> bool {
        match self.place {
            Place::Start => self.start(input),
            Place::Reasoning => self.reason(input, out),
            Place::Content => self.answer(input, out),
            Place::Calls(_) => self.call(input, out),
        }
    }

    fn start(&mut self, input: &mut Input<'_>) -> bool {
        if self.skips_space {
            input.skip_space();
        }
        let text = input.rest().trim_start();
        let space = input.rest().len() - text.len();
        if space > MAX_SPACE {
            self.place = Place::Content;
            return true;
        }
        // The longest mark counts. After an answer, its end may be repeated, as by `<|end|><|return|>`.
        let skipped = self.headers().chain(self.ends()).map(|mark| (mark, Mark::Skipped));
        let opens = self.opens().filter(|open| !open.at_start).map(|open| (open.mark, Mark::Call));
        let marks = self
            .reasoning
            .map(|format| (format.open, Mark::Reasoning))
            .into_iter()
            .chain(skipped)
            .chain(opens);
        let found =
            marks.clone().filter(|(mark, _)| text.starts_with(mark)).max_by_key(|(mark, _)| mark.len());
        let length = found.map_or(0, |(mark, _)| mark.len());
        let may_be_longer = marks.into_iter().any(|(mark, _)| mark.len() > length && mark.starts_with(text));
        if input.more && (may_be_longer || text.is_empty() && self.skips_space) {
            return false;
        }
        match found {
            Some((mark, Mark::Reasoning)) => {
                input.take(space + mark.len());
                (self.place, self.skips_space) = (Place::Reasoning, true);
            }
            Some((mark, Mark::Skipped)) => {
                input.take(space + mark.len());
                (self.skips_space, self.prefill) = (true, "");
            }
            Some((_, Mark::Call)) | None => self.place = Place::Content,
        }
        true
    }

    fn reason(&mut self, input: &mut Input<'_>, out: &mut Vec<Delta>) -> bool {
        let Some(format) = self.reasoning else { return false };
        if self.skips_space {
            input.skip_space();
            self.skips_space = input.rest().is_empty();
        }
        let text = input.rest();
        if let Some(at) = text.find(format.close) {
            reason(trimmed(&text[..at]), out);
            input.take(at + format.close.len());
            (self.place, self.skips_space) = (Place::Start, true);
            return true;
        }
        let decided = trimmed(&text[..undecided(text, &[format.close])]).len();
        reason(input.take(decided), out);
        false
    }

    fn answer(&mut self, input: &mut Input<'_>, out: &mut Vec<Delta>) -> bool {
        if !self.has_content && self.prefill.is_empty() {
            let text = input.rest().trim_start();
            let mut first = self.opens().filter(|open| open.at_start);
            let space = input.rest().len() - text.len();
            let opened = first.clone().find(|open| text.starts_with(open.mark));
            if let Some(open) = opened.filter(|_| space <= MAX_SPACE) {
                let from = input.at();
                input.skip_space();
                self.begin(open, from, input);
                return true;
            }
            if input.more && space <= MAX_SPACE && first.any(|open| open.mark.starts_with(text)) {
                return false;
            }
        }
        let text = input.rest();
        let end = self.ends().filter_map(|end| Some((text.find(end)?, end.len()))).min();
        let opens = self.opens().filter(|open| !open.at_start);
        let call = opens.filter_map(|open| Some((text.find(open.mark)?, open)));
        let call = call.min_by_key(|(at, open)| (*at, std::cmp::Reverse(open.mark.len())));
        if let Some((at, open)) = call.filter(|(at, _)| end.is_none_or(|(end, _)| *at < end)) {
            let content = trimmed(&text[..at]);
            let from = input.at() + content.len();
            self.content(content, out);
            input.take(at);
            self.begin(open, from, input);
            return true;
        }
        if let Some((at, length)) = end {
            let content = input.take(at);
            self.content(content, out);
            input.take(length);
            (self.place, self.skips_space) = (Place::Start, true);
            return true;
        }
        let marks = self.ends().chain(self.opens().map(|open| open.mark));
        let decided = &text[..undecided(text, &marks.collect::<Vec<_>>())];
        let decided = if self.callable.is_some() { trimmed(decided) } else { decided };
        let content = input.take(decided.len());
        self.content(content, out);
        false
    }

    /// Begins a section whose opening is next, after white space from `from` on.
    fn begin(&mut self, open: &'static Open, from: usize, input: &mut Input<'_>) {
        let Some(callable) = &self.callable else { return };
        input.take(if open.is_part { 0 } else { open.mark.len() });
        let raw = input.since(from);
        let whole = callable.calls == Calls::Whole;
        let section = Section::new(callable.format, open, raw, self.next_call, whole);
        (self.place, self.has_content) = (Place::Calls(Box::new(section)), true);
    }

    fn call(&mut self, input: &mut Input<'_>, out: &mut Vec<Delta>) -> bool {
        let (Place::Calls(section), Some(callable)) = (&mut self.place, &self.callable) else { return false };
        let mut deltas = Vec::new();
        let step = section.step(input, &callable.tools, &mut deltas);
        self.next_call = section.next_index();
        for delta in deltas {
            match delta {
                Delta::Content(text) => self.content(&text, out),
                Delta::ToolCallBroken { index, text } => {
                    let prefill = std::mem::take(&mut self.prefill);
                    let text = text.strip_prefix(prefill).unwrap_or(&text).to_owned();
                    out.push(Delta::ToolCallBroken { index, text });
                }
                other => {
                    if matches!(other, Delta::ToolCallEnd { .. }) {
                        self.prefill = "";
                    }
                    out.push(other);
                }
            }
        }
        match step {
            Step::More => return false,
            Step::Done => (self.place, self.skips_space) = (Place::Start, true),
            Step::Broken => self.place = Place::Content,
        }
        true
    }

    fn content(&mut self, text: &str, out: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let text = text.strip_prefix(std::mem::take(&mut self.prefill)).unwrap_or(text);
        if text.is_empty() {
            return;
        }
        self.has_content = true;
        match out.last_mut() {
            Some(Delta::Content(last)) => last.push_str(text),
            _ => out.push(Delta::Content(text.to_owned())),
        }
    }

    /// The openings of calls.
    fn opens(&self) -> impl Iterator<Item = &'static Open> + Clone + use<> {
        let format = self.callable.as_ref().map(|callable| callable.format);
        format.into_iter().flat_map(|format| format.opens)
    }

    fn headers(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let format = self.callable.as_ref().map(|callable| callable.format);
        let ours = format.into_iter().flat_map(|format| format.headers);
        self.reasoning.into_iter().flat_map(|format| format.headers).chain(ours).copied()
    }

    fn ends(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.reasoning.into_iter().flat_map(|format| format.ends).copied()
    }
}

fn reason(text: &str, out: &mut Vec<Delta>) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(Delta::Reasoning(last)) => last.push_str(text),
        _ => out.push(Delta::Reasoning(text.to_owned())),
    }
}
