//! Reads a section of tool calls while it is generated.

use super::format::{Element, Format, Open};
use super::input::{Input, Step};
use super::literal::{End, Ends};
use super::object::Object;
use super::parameters::Parameters;
use super::scanner::{Scanner, State, escaped};
use super::schema::Tools;
use crate::delta::Delta;

/// Longest name, id or other text before the arguments, in bytes.
const MAX_NAME: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Section {
    format: &'static Format,
    /// The part of the call that is read; `None` after a call.
    element: Option<usize>,
    part: Part,
    call: Call,
    /// Whether a call is passed on only when it is complete.
    whole: bool,
    /// Whether nothing but the first call shows that it is one, as no mark precedes it.
    may_be_content: bool,
}

#[derive(Clone, Debug, Default)]
struct Call {
    index: usize,
    /// The text as the model wrote it.
    raw: String,
    name: Option<String>,
    id: Option<String>,
    /// Arguments that are not passed on.
    arguments: String,
    has_begun: bool,
    /// Whether name and arguments are complete. What follows may be missing then.
    is_complete: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Start,
    Arguments(Scanner),
    Object(Object),
    Parameters(Parameters),
    Literals { ends: Ends, text: String },
}

impl Section {
    /// A section whose opening has been read: `raw`. Its first call has the number `index`.
    pub(crate) fn new(format: &'static Format, open: &Open, raw: &str, index: usize, whole: bool) -> Section {
        let call = Call { index, raw: raw.to_owned(), ..Call::default() };
        Section {
            format,
            element: Some(open.then),
            part: Part::Start,
            call,
            whole,
            may_be_content: open.at_start,
        }
    }

    pub(crate) fn next_index(&self) -> usize {
        self.call.index + usize::from(self.call.has_begun)
    }

    /// Reads from `input`: [`Step::Done`] after the section, [`Step::Broken`] if there is no call; its text is in `out` then.
    pub(crate) fn step(&mut self, input: &mut Input<'_>, tools: &Tools, out: &mut Vec<Delta>) -> Step {
        let from = input.at();
        let mut from = from;
        loop {
            let step = match self.element.and_then(|index| Some((index, self.format.call.get(index)?))) {
                None if self.element.is_some() => {
                    self.call.raw.push_str(input.since(from));
                    from = input.at();
                    self.end(out);
                    continue;
                }
                None => match self.between(input) {
                    // The next call.
                    Step::Done if self.element.is_some() => continue,
                    Step::More if !input.more => Step::Done,
                    step => step,
                },
                Some((index, element)) => {
                    let step = match self.read(index, element, input, tools) {
                        // Marks after the arguments may be missing.
                        Step::Broken if self.call.is_complete => Step::Done,
                        Step::More if self.call.is_complete && !input.more => Step::Done,
                        Step::More if !input.more => Step::Broken,
                        step => step,
                    };
                    if step == Step::Done {
                        (self.element, self.part) = (Some(index + 1), Part::Start);
                        continue;
                    }
                    step
                }
            };
            self.call.raw.push_str(input.since(from));
            match step {
                Step::More if !self.whole => self.call.pass_on(out),
                Step::Broken => {
                    if !self.whole {
                        self.call.pass_on(out);
                    }
                    self.call.give_back(out);
                }
                Step::More | Step::Done => {}
            }
            return step;
        }
    }

    /// Ends where the answer was cut, and passes on the call if its name is known. Returns text that may still be content.
    pub(crate) fn cut(&mut self, out: &mut Vec<Delta>) -> Option<String> {
        self.element?;
        let call = &mut self.call;
        if call.name.is_none() {
            return self.may_be_content.then(|| std::mem::take(&mut call.raw));
        }
        if call.is_complete {
            self.end(out);
            return None;
        }
        call.begin(out);
        call.pass_on(out);
        out.push(Delta::ToolCallCut { index: call.index });
        None
    }

    fn end(&mut self, out: &mut Vec<Delta>) {
        if self.call.arguments.is_empty() && !self.call.has_begun {
            self.call.arguments.push_str("{}");
        }
        self.call.pass_on(out);
        out.push(Delta::ToolCallEnd { index: self.call.index });
        self.call = Call { index: self.call.index + 1, ..Call::default() };
        (self.element, self.part, self.may_be_content) = (None, Part::Start, false);
    }

    /// After a call: the end of the section, or another call.
    fn between(&mut self, input: &mut Input<'_>) -> Step {
        let format = self.format;
        input.skip_space();
        let close = format.close.trim();
        if !close.is_empty() && input.eat(close) {
            return Step::Done;
        }
        let separator = format.separator.map(str::trim);
        let start = format.call_start();
        let is_next = match separator {
            None => false,
            Some("") => !start.is_empty() && input.rest().starts_with(start),
            Some(separator) => input.eat(separator),
        };
        if is_next {
            self.element = Some(0);
            return Step::Done;
        }
        let waits = |mark: &str| !mark.is_empty() && input.may_become(mark);
        if waits(close) || separator.is_some_and(|text| waits(text) || text.is_empty() && waits(start)) {
            return Step::More;
        }
        Step::Done
    }

    fn read(
        &mut self,
        index: usize,
        element: &'static Element,
        input: &mut Input<'_>,
        tools: &Tools,
    ) -> Step {
        let call = &mut self.call;
        let tool = call.name.as_ref().and_then(|name| tools.get(name));
        if let Part::Start = self.part {
            self.part = match element {
                Element::Object(keys) => Part::Object(Object::new(keys, self.whole)),
                Element::Parameters(parameter) => {
                    let next = [self.format.next_text(index), self.format.close.trim()];
                    Part::Parameters(Parameters::new(parameter, next))
                }
                Element::Literals(_) => Part::Literals { ends: Ends::default(), text: String::new() },
                _ => Part::Start,
            };
        }
        match element {
            Element::Text(text) => {
                input.skip_space();
                let text = text.trim();
                if input.eat(text) {
                    Step::Done
                } else if input.may_become(text) {
                    Step::More
                } else {
                    Step::Broken
                }
            }
            Element::Name(ends) => {
                input.skip_space();
                let rest = input.rest();
                let Some(at) = ends.iter().filter_map(|end| rest.find(end)).min() else {
                    let may_go_on = tools.may_begin(rest) && rest.len() <= MAX_NAME;
                    return if may_go_on { Step::More } else { Step::Broken };
                };
                call.set_name(rest[..at].trim(), tools).map_or(Step::Broken, |()| {
                    input.take(at);
                    Step::Done
                })
            }
            Element::NumberedName(end) | Element::Id(end) | Element::Skip { end, .. } => {
                let text = match input.take_until(end, MAX_NAME) {
                    Ok(text) => text.trim(),
                    Err(step) => return step,
                };
                if !matches!(element, Element::Skip { .. }) {
                    call.id = Some(text.to_owned());
                }
                if !matches!(element, Element::NumberedName(_)) {
                    return Step::Done;
                }
                let name = text.strip_prefix("functions.").unwrap_or(text);
                let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
                let numbered = name.rsplit_once(':').filter(|(_, number)| is_number(number));
                let name = numbered.map_or(name, |(name, _)| name);
                call.set_name(name, tools).map_or(Step::Broken, |()| Step::Done)
            }
            Element::OptionalId { mark, ends } => {
                if input.may_become(mark) {
                    return Step::More;
                }
                let Some(rest) = input.rest().strip_prefix(mark) else { return Step::Done };
                match ends.iter().filter_map(|end| rest.find(end)).min() {
                    Some(at) if at <= MAX_NAME => {
                        call.id = Some(rest[..at].trim().to_owned());
                        input.take(mark.len() + at);
                        Step::Done
                    }
                    None if rest.len() <= MAX_NAME => Step::More,
                    _ => Step::Broken,
                }
            }
            Element::Arguments => {
                if matches!(self.part, Part::Start) {
                    input.skip_space();
                    if input.rest().is_empty() {
                        return Step::More;
                    }
                    let next = self.format.next_text(index);
                    if !next.is_empty() && input.rest().starts_with(next) {
                        // Nothing is no argument.
                        call.is_complete = true;
                        return Step::Done;
                    }
                    if !next.is_empty() && input.may_become(next) {
                        return Step::More;
                    }
                    self.part = Part::Arguments(Scanner::new());
                }
                let Part::Arguments(scanner) = &mut self.part else { return Step::Broken };
                arguments(scanner, input, call)
            }
            Element::Object(_) => {
                let Part::Object(object) = &mut self.part else { return Step::Broken };
                let step = read_object(object, input, tools);
                if object.name.is_some() {
                    (call.name, call.id) = (object.name.clone(), call.id.take().or(object.id.take()));
                    call.arguments.push_str(&std::mem::take(&mut object.arguments));
                    call.is_complete = object.has_arguments || step == Step::Done;
                }
                step
            }
            Element::Parameters(_) => {
                let (Part::Parameters(parameters), Some(tool)) = (&mut self.part, tool) else {
                    return Step::Broken;
                };
                let step = parameters.step(input, tool, &mut call.arguments);
                call.is_complete = step == Step::Done;
                step
            }
            Element::Literals(syntax) => {
                let (Part::Literals { ends, text }, Some(tool)) = (&mut self.part, tool) else {
                    return Step::Broken;
                };
                match ends.find(*syntax, input.rest(), input.more) {
                    End::Seen(bytes) => {
                        text.push_str(input.take(bytes));
                        Step::More
                    }
                    End::Invalid => Step::Broken,
                    End::Found(bytes) => {
                        text.push_str(input.take(bytes));
                        let inner = &text[..text.len() - syntax.brackets().1.len_utf8()];
                        let Some(read) = syntax.arguments(inner, tool) else { return Step::Broken };
                        call.arguments = serde_json::Value::Object(read).to_string();
                        call.is_complete = true;
                        Step::Done
                    }
                }
            }
        }
    }
}

fn arguments(scanner: &mut Scanner, input: &mut Input<'_>, call: &mut Call) -> Step {
    for c in input.rest().chars() {
        let in_text = scanner.state() == State::Text;
        if scanner.depth() == 0 && c != '{' || scanner.push(c).is_err() {
            return Step::Broken;
        }
        input.take(c.len_utf8());
        escaped(c, in_text, &mut call.arguments);
        if scanner.is_done() {
            call.is_complete = true;
            return Step::Done;
        }
    }
    Step::More
}

fn read_object(object: &mut Object, input: &mut Input<'_>, tools: &Tools) -> Step {
    for c in input.rest().chars() {
        if object.push(c, tools).is_err() {
            return Step::Broken;
        }
        input.take(c.len_utf8());
        if object.is_done() {
            return if object.name.is_some() { Step::Done } else { Step::Broken };
        }
    }
    Step::More
}

impl Call {
    fn set_name(&mut self, name: &str, tools: &Tools) -> Option<()> {
        self.name = Some(tools.get(name)?.name.clone());
        Some(())
    }

    /// Passes on what is known of the call.
    fn pass_on(&mut self, out: &mut Vec<Delta>) {
        if self.name.is_none() || self.arguments.is_empty() {
            return;
        }
        self.begin(out);
        let json = std::mem::take(&mut self.arguments);
        out.push(Delta::ToolCallArguments { index: self.index, json });
    }

    /// Begins the call whose name is known, if it has not begun.
    fn begin(&mut self, out: &mut Vec<Delta>) {
        if let Some(name) = self.name.as_ref().filter(|_| !self.has_begun) {
            out.push(Delta::ToolCallBegin { index: self.index, name: name.clone(), id: self.id.take() });
            self.has_begun = true;
        }
    }

    /// Returns the text of a broken call as content.
    fn give_back(&mut self, out: &mut Vec<Delta>) {
        let text = std::mem::take(&mut self.raw);
        out.push(if self.has_begun {
            Delta::ToolCallBroken { index: self.index, text }
        } else {
            Delta::Content(text)
        });
    }
}
