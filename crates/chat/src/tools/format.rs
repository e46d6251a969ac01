//! The description of a tool call format, which the parser and the grammar both follow.

use super::literal::Syntax;

/// How the models of a family write tool calls.
///
/// Calls stand in a section: an opening, one or more calls, and its end. White space between the parts is optional
/// when it is read; the grammar writes it as it is here.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    /// Texts of which one set is in each template of this format. Decides only where a template shows no calls.
    pub(crate) known_by: &'static [&'static [&'static str]],
    /// Texts in calls, where formats that are read alike are written differently.
    pub(crate) shows: &'static [&'static str],
    pub(crate) opens: &'static [Open],
    pub(crate) call: &'static [Element],
    /// Between calls of a section; `None` if a section has only one.
    pub(crate) separator: Option<&'static str>,
    /// The end of a section. It may be missing.
    pub(crate) close: &'static str,
    /// Between sections; `None` if an answer has only one.
    pub(crate) apart: Option<&'static str>,
    pub(crate) headers: &'static [&'static str],
    /// The beginning of an answer that the prompt has.
    pub(crate) prefill: &'static str,
}

/// The opening of a section.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) mark: &'static str,
    /// Whether it begins a section only where content begins.
    pub(crate) at_start: bool,
    /// Whether the mark is also the beginning of the first call.
    pub(crate) is_part: bool,
    /// The first part that follows: some models leave out the opening.
    pub(crate) then: usize,
}

/// An opening anywhere in the content.
pub(crate) const fn open(mark: &'static str) -> Open {
    Open { mark, at_start: false, is_part: false, then: 0 }
}

#[derive(Debug)]
pub(crate) enum Element {
    /// This text. After the arguments, it may be missing.
    Text(&'static str),
    /// The name of the tool, up to one of these texts.
    Name(&'static [&'static str]),
    /// `functions.NAME:NUMBER` up to this text. All of it is the id.
    NumberedName(&'static str),
    /// The id, up to this text.
    Id(&'static str),
    /// The id after `mark`, up to one of `ends`. Both may be missing.
    OptionalId {
        mark: &'static str,
        ends: &'static [&'static str],
    },
    /// Anything up to and with `end`. The grammar writes one of `texts`.
    Skip {
        texts: &'static [&'static str],
        end: &'static str,
    },
    Arguments,
    Object(Keys),
    /// Parameters, each with marks.
    Parameters(Parameter),
    /// Arguments as literals, after the opening bracket, with the closing one.
    Literals(Syntax),
}

#[derive(Debug)]
pub(crate) enum Keys {
    /// The name is a value.
    Fields {
        name: &'static str,
        /// Keys of the arguments. The grammar writes the first one.
        arguments: &'static [&'static str],
        id: &'static str,
        /// Where the model writes an id.
        id_place: IdPlace,
    },
    /// The name is the key, the arguments its value.
    NameIsKey,
}

/// Where in a call a grammar writes the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdPlace {
    None,
    /// Before the name, a number.
    First,
    /// After the arguments. It may be missing.
    Last,
}

pub(crate) const KEYS: Keys = keys(IdPlace::None);

pub(crate) const fn keys(id_place: IdPlace) -> Keys {
    Keys::Fields { name: "name", arguments: &["arguments", "parameters"], id: "id", id_place }
}

/// A parameter: `open`, its name, `key_end`, attributes, `value_open`, its value and `close`.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) open: &'static str,
    pub(crate) key_end: &'static str,
    /// Attributes that say whether the value is a string.
    pub(crate) attributes: Option<Attributes>,
    pub(crate) value_open: &'static str,
    pub(crate) close: &'static str,
    /// Whether there is a line break after `value_open` and before `close`, which are no part of the value.
    pub(crate) in_lines: bool,
    /// Whether a value may be in `<![CDATA[…]]>`.
    pub(crate) has_cdata: bool,
    pub(crate) before: &'static str,
}

#[derive(Debug)]
pub(crate) struct Attributes {
    pub(crate) text: &'static str,
    /// The attribute of other values, as a regular expression.
    pub(crate) other: &'static str,
}

impl Format {
    pub(crate) const USUAL: Format = Format {
        name: "",
        known_by: &[],
        shows: &[],
        opens: &[],
        call: &[],
        separator: None,
        close: "",
        apart: None,
        headers: &[],
        prefill: "",
    };

    /// All texts that may be special tokens.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &'static str> {
        let opens = self.opens.iter().map(|open| open.mark);
        let ends = [self.close, self.separator.unwrap_or_default(), self.prefill];
        let calls = self.call.iter().flat_map(Element::marks);
        opens.chain(ends).chain(calls).chain(self.headers.iter().copied())
    }

    /// The text that must follow part `index` of a call.
    pub(crate) fn next_text(&self, index: usize) -> &'static str {
        match self.call.get(index + 1) {
            Some(Element::Text(text)) => text.trim(),
            _ => self.close.trim(),
        }
    }

    /// How a call in a section begins; empty if with a name.
    pub(crate) fn call_start(&self) -> &'static str {
        let starts = self.call.iter().map(|element| match element {
            Element::Text(text) => Some(text.trim()),
            Element::Object(_) => Some("{"),
            _ => None,
        });
        starts.take_while(Option::is_some).flatten().find(|start| !start.is_empty()).unwrap_or_default()
    }
}

impl Element {
    fn marks(&self) -> Vec<&'static str> {
        match self {
            Element::Text(text) | Element::NumberedName(text) | Element::Id(text) => vec![text],
            Element::Name(ends) => ends.to_vec(),
            Element::OptionalId { mark, ends } => [&[*mark], *ends].concat(),
            Element::Skip { texts, end } => [*texts, &[*end]].concat(),
            Element::Parameters(parameter) => {
                vec![parameter.open, parameter.key_end, parameter.value_open, parameter.close]
            }
            Element::Literals(Syntax::Gemma { quote }) => vec![quote],
            Element::Arguments | Element::Object(_) | Element::Literals(Syntax::Python) => vec![],
        }
    }
}

impl Parameter {
    /// A parameter without more than these marks.
    pub(crate) const fn new(open: &'static str, key_end: &'static str, close: &'static str) -> Parameter {
        Parameter {
            open,
            key_end,
            attributes: None,
            value_open: "",
            close,
            in_lines: false,
            has_cdata: false,
            before: "",
        }
    }
}
