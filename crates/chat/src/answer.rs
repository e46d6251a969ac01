//! Reads answers: reasoning, content and tool calls.

use std::collections::HashMap;
use std::sync::Arc;

use crate::delta::{Answer, Calls, Delta};
use crate::parts::{AnswerPart, Leads, Marks, Next, OpeningPlace, Preamble};
use crate::reasoning;
use crate::tools::format::Format;
use crate::tools::input::{Input, MAX_SPACE, Step};
use crate::tools::schema::Tools;
use crate::tools::section::Section;

/// Most bytes that are read at once.
const PIECE: usize = 1 << 12;

#[derive(Clone, Debug)]
pub(crate) struct Callable {
    pub(crate) format: &'static Format,
    pub(crate) tools: Arc<Tools>,
    pub(crate) calls: Calls,
}

#[derive(Clone, Debug)]
enum State {
    Part(AnswerPart),
    Calls(Box<Section>),
}

/// Calls in reasoning that is not closed, read on their own.
#[derive(Clone, Debug)]
struct Attempt {
    parser: AnswerParser,
    /// What it has read.
    text: String,
    deltas: Vec<Delta>,
    /// The mark that ends reasoning.
    close: String,
}

impl Attempt {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.deltas.extend(self.parser.push_text(text));
    }

    /// Whether other text follows the calls or there are none: they are quoted.
    fn has_failed(&self) -> bool {
        let is_other = |delta: &Delta| match delta {
            Delta::Content(text) => !text.trim().is_empty(),
            Delta::Reasoning(_) | Delta::ToolCallBroken { .. } => true,
            _ => false,
        };
        self.deltas.iter().any(is_other) || self.text.contains(&self.close)
    }
}

/// How many calls in open reasoning may turn out to be quoted: after that, they do not count.
const MAX_ATTEMPTS: usize = 16;

/// Reads an answer while it is generated. The result does not depend on where pieces of the answer begin and end.
///
/// Reasoning is at the start of an answer, between the marks of the template's format; the same marks within the
/// content are content. Tool calls are in the content, or end reasoning that is not closed: there, a call counts once the
/// answer ends with it, and one that other text follows is quoted. White space around reasoning and calls belongs to nothing.
///
/// Text that only looks like a call is content, as the model wrote it: a call of an unknown tool, arguments that are
/// not JSON or nest deeper than 127, a call that the end of the answer cuts. Marks that follow complete arguments may be
/// missing. Line breaks in JSON strings, which models do not always escape, are escaped.
#[derive(Clone, Debug)]
pub struct AnswerParser {
    marks: Marks,
    callable: Option<Callable>,
    /// Special tokens that are part of marks. Their text is not printed with the answer.
    tokens: HashMap<u32, String>,
    state: State,
    skips_space: bool,
    /// Calls in open reasoning, until the answer ends with them or goes on.
    attempt: Option<Box<Attempt>>,
    attempts: usize,
    /// Text that may be part of a mark, or white space before one.
    held: String,
    /// Text that is read again, because it is no call, and how many of its first bytes begin none.
    again: Option<(String, usize)>,
    /// The first bytes of the text that is read in which no calls begin.
    without_calls: usize,
    /// The beginning of the answer that is in the prompt, until content or a call follows.
    prefill: &'static str,
    has_content: bool,
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
        let format = callable.as_ref().map(|callable| callable.format);
        let texts = reasoning.into_iter().flat_map(reasoning::Format::marks);
        let texts: Vec<&str> = texts.chain(format.into_iter().flat_map(Format::marks)).collect();
        let is_part = |text: &str| texts.iter().any(|mark| mark.contains(text));
        let tokens = special.iter().filter(|(_, text)| is_part(text)).cloned().collect();
        let opens = format.into_iter().flat_map(|format| format.opens);
        let opens = opens.enumerate().flat_map(|(number, open)| {
            let places: &[OpeningPlace] = if open.at_start {
                &[OpeningPlace::Start]
            } else {
                &[OpeningPlace::Content, OpeningPlace::Reasoning]
            };
            places.iter().map(move |place| (number, open.mark, *place))
        });
        let prompt = prompt.trim_end();
        let prefills = [format.map(|format| format.prefill), reasoning.map(|format| format.prefill)];
        let prefill = prefills.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or_default();
        let prefill = if prompt.ends_with(prefill) { prefill } else { "" };
        AnswerParser {
            marks: Marks::with_calls(&Preamble::new(reasoning, format), opens),
            tokens,
            state: State::Part(match reasoning {
                Some(format) if prompt.ends_with(format.open) => AnswerPart::REASONING,
                None if callable.is_none() => AnswerPart::Content,
                _ => AnswerPart::Start { may_reason: true, is_first: true },
            }),
            skips_space: reasoning
                .is_some_and(|format| [format.open, format.close].iter().any(|mark| prompt.ends_with(mark))),
            callable,
            attempt: None,
            attempts: 0,
            held: prefill.to_owned(),
            again: None,
            without_calls: 0,
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
        match &mut self.attempt {
            Some(attempt) => {
                attempt.push(text);
                if attempt.has_failed() {
                    self.give_up();
                    self.read(String::new(), true, out);
                }
            }
            None => {
                let held = std::mem::take(&mut self.held) + text;
                self.read(held, true, out);
            }
        }
    }

    /// Reads `text`, and holds what is not decided.
    fn read(&mut self, mut text: String, more: bool, out: &mut Vec<Delta>) {
        loop {
            if let Some(again) = self.again.take() {
                (text, self.without_calls) = again;
            }
            let mut input = Input::new(&text, more);
            while self.step(&mut input, out) {}
            self.without_calls = self.without_calls.saturating_sub(input.at());
            self.held = input.rest().to_owned();
            if self.attempt.as_ref().is_some_and(|attempt| attempt.has_failed()) {
                self.give_up();
            }
            if self.again.is_none() {
                return;
            }
        }
    }

    /// Tries whether calls follow in open reasoning.
    fn attempt(&mut self, text: &str) {
        let parser = AnswerParser {
            state: State::Part(AnswerPart::Start { may_reason: false, is_first: false }),
            held: String::new(),
            without_calls: 0,
            ..self.clone()
        };
        let close = self.marks.end_of_reasoning().unwrap_or_default().to_owned();
        let mut attempt = Attempt { parser, text: String::new(), deltas: Vec::new(), close };
        attempt.push(text);
        (self.attempt, self.attempts) = (Some(Box::new(attempt)), self.attempts + 1);
    }

    /// Reads again what was no call.
    fn give_up(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            let without_calls = attempt.text.find(&attempt.close).unwrap_or(attempt.text.len());
            self.again = Some((attempt.text, without_calls));
        }
    }

    /// Ends the calls in open reasoning. Returns whether these are all that was left.
    fn end_attempt(
        &mut self,
        end: fn(&mut AnswerParser) -> Vec<Delta>,
        more: bool,
        out: &mut Vec<Delta>,
    ) -> bool {
        let Some(attempt) = &mut self.attempt else { return false };
        attempt.deltas.extend(end(&mut attempt.parser));
        if attempt.has_failed() {
            self.give_up();
            self.read(String::new(), more, out);
            // What is left may be another attempt.
            return self.end_attempt(end, more, out);
        }
        out.append(&mut attempt.deltas);
        self.attempt = None;
        true
    }

    /// The rest of the answer.
    pub fn finish(&mut self) -> Vec<Delta> {
        let mut out = Vec::new();
        if self.end_attempt(AnswerParser::finish, false, &mut out) {
            return out;
        }
        let held = std::mem::take(&mut self.held);
        self.read(held, false, &mut out);
        if self.end_attempt(AnswerParser::finish, false, &mut out) {
            return out;
        }
        // White space.
        let rest = std::mem::take(&mut self.held);
        match self.state {
            State::Part(AnswerPart::Reasoning { .. }) => {}
            State::Part(AnswerPart::Start { .. }) if self.skips_space => {}
            State::Part(_) | State::Calls(_) => self.content(&rest, &mut out),
        }
        out
    }

    /// The rest of an answer that was cut by a limit or a stop sequence, instead of [`AnswerParser::finish`]: a beginning of the
    /// uncut answer. A call that is cut is passed on as far as it is known, once its name is; the beginning of a mark is dropped.
    pub fn cut(&mut self) -> Vec<Delta> {
        let mut out = Vec::new();
        if self.end_attempt(AnswerParser::cut, true, &mut out) {
            return out;
        }
        let held = std::mem::take(&mut self.held);
        // White space and the beginning of a mark are held.
        let content = match &mut self.state {
            State::Calls(section) => section.cut(&mut out).map(|text| text + &held),
            State::Part(AnswerPart::Reasoning { .. }) => None,
            State::Part(AnswerPart::Start { .. }) if self.skips_space => None,
            State::Part(_) => Some(held).filter(|held| held.trim_start().is_empty()),
        };
        self.content(&content.unwrap_or_default(), &mut out);
        out
    }

    fn step(&mut self, input: &mut Input<'_>, out: &mut Vec<Delta>) -> bool {
        match self.state {
            State::Part(part) => self.part(part, input, out),
            State::Calls(_) => self.call(input, out),
        }
    }

    fn part(&mut self, mut part: AnswerPart, input: &mut Input<'_>, out: &mut Vec<Delta>) -> bool {
        let text = input.rest();
        // The part's text ends at `end`; white space follows, up to `at`.
        let (mut begin, mut end, mut at) = (0, 0, 0);
        while let Some(c) = text[at..].chars().next() {
            let may_call = input.at() + at >= self.without_calls
                && !(self.attempts >= MAX_ATTEMPTS && matches!(part, AnswerPart::Reasoning { .. }));
            let (length, leads) = match self.marks.next(part, &text.as_bytes()[at..], input.more, may_call) {
                Next::Undecided => break,
                Next::Mark(length, leads) => (length, leads),
                Next::Text => {
                    at += c.len_utf8();
                    part = part.after_text(c);
                    match part {
                        AnswerPart::Start { .. } | AnswerPart::Reasoning { .. }
                            if c.is_whitespace() && self.skips_space =>
                        {
                            (begin, end) = (at, at);
                        }
                        AnswerPart::Start { .. } if c.is_whitespace() && at - begin <= MAX_SPACE => {}
                        AnswerPart::Content if self.callable.is_none() => end = at,
                        AnswerPart::Reasoning { .. } | AnswerPart::Content if c.is_whitespace() => {
                            end = end.max(text.floor_char_boundary(at.saturating_sub(MAX_SPACE)));
                        }
                        AnswerPart::Reasoning { .. } => (end, self.skips_space) = (at, false),
                        AnswerPart::Start { .. } | AnswerPart::Content => {
                            (end, part) = (at, AnswerPart::Content)
                        }
                    }
                    continue;
                }
            };
            // Only before calls and reasoning, white space belongs to nothing.
            let is_end = part == AnswerPart::Content && leads == Leads::Start;
            self.pass_on(part, &text[begin..if is_end { at } else { end }], out);
            if matches!((leads, part), (Leads::Calls(_), AnswerPart::Reasoning { .. })) {
                self.state = State::Part(part);
                input.take(end);
                self.attempt(input.take(input.rest().len()));
                return false;
            }
            let from = input.at() + end;
            input.take(at);
            match leads {
                Leads::Calls(number) => self.begin(number, from, input),
                Leads::Reasoning => {
                    // The mark is not part of it again.
                    let after = AnswerPart::Reasoning { is_first: false, is_quoted: false };
                    let is_again = matches!(part, AnswerPart::Reasoning { .. });
                    let part = if is_again { after } else { AnswerPart::REASONING };
                    (self.state, self.skips_space) = (State::Part(part), true);
                }
                Leads::Start => {
                    if matches!(part, AnswerPart::Start { .. }) {
                        self.prefill = "";
                    }
                    self.start();
                }
            }
            if !matches!(leads, Leads::Calls(_)) {
                input.take(length);
            }
            return true;
        }
        self.pass_on(part, &text[begin..end], out);
        input.take(end);
        self.state = State::Part(part);
        false
    }

    fn pass_on(&mut self, part: AnswerPart, text: &str, out: &mut Vec<Delta>) {
        match (part, out.last_mut()) {
            (AnswerPart::Content, _) => self.content(text, out),
            (AnswerPart::Reasoning { .. }, Some(Delta::Reasoning(last))) => last.push_str(text),
            (AnswerPart::Reasoning { .. }, _) if !text.is_empty() => {
                out.push(Delta::Reasoning(text.to_owned()))
            }
            (AnswerPart::Reasoning { .. } | AnswerPart::Start { .. }, _) => {}
        }
    }

    fn start(&mut self) {
        let part = AnswerPart::Start { may_reason: true, is_first: !self.has_content };
        (self.state, self.skips_space) = (State::Part(part), true);
    }

    /// Begins a section whose opening, that with this number, is next, after white space from `from` on.
    fn begin(&mut self, number: usize, from: usize, input: &mut Input<'_>) {
        let Some(callable) = &self.callable else { return };
        let open = &callable.format.opens[number];
        input.take(if open.is_part { 0 } else { open.mark.len() });
        let raw = input.since(from);
        let whole = callable.calls == Calls::Whole;
        let section = Section::new(callable.format, open, raw, self.next_call, whole);
        (self.state, self.has_content) = (State::Calls(Box::new(section)), true);
    }

    fn call(&mut self, input: &mut Input<'_>, out: &mut Vec<Delta>) -> bool {
        let (State::Calls(section), Some(callable)) = (&mut self.state, &self.callable) else { return false };
        let mut deltas = Vec::new();
        let step = section.step(input, &callable.tools, &mut deltas);
        self.next_call = section.next_index();
        // The header of what is no call is no content.
        let has_header = step == Step::Broken && self.marks.has_spans();
        for delta in deltas {
            match delta {
                Delta::Content(text) if has_header => {
                    let without_calls = text.len();
                    self.again = Some((text + input.take(input.rest().len()), without_calls));
                    self.start();
                    return false;
                }
                Delta::Content(text) => self.content(&text, out),
                Delta::ToolCallBroken { index, text } => {
                    let prefill = std::mem::take(&mut self.prefill);
                    let text = text.strip_prefix(prefill).unwrap_or(&text).to_owned();
                    let text = if has_header { self.without_marks(text) } else { text };
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
            Step::Done => self.start(),
            Step::Broken => self.state = State::Part(AnswerPart::Content),
        }
        true
    }

    /// `text`, which is no call, as content.
    fn without_marks(&self, text: String) -> String {
        let part = State::Part(AnswerPart::Start { may_reason: true, is_first: false });
        let mut parser = AnswerParser { state: part, held: String::new(), prefill: "", ..self.clone() };
        parser.without_calls = text.len();
        let mut deltas = Vec::new();
        parser.read(text, true, &mut deltas);
        deltas.extend(parser.finish());
        Answer::from_iter(deltas).content
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
}
