//! Granite 3, Nemotron Nano 2, Apriel and MiniMax M1's kin: a JSON list of calls after a mark.

use crate::tools::format::{Element, Format, IdPlace, KEYS, keys, open};

/// Granite 3: `<|tool_call|>[{"name": "f", "arguments": {…}}]`.
pub(crate) const GRANITE: Format = Format {
    name: "granite-3",
    known_by: &[&["<|tool_call|>"]],
    opens: &[open("<|tool_call|>["), open("<tool_call>[")],
    call: &[Element::Object(KEYS)],
    separator: Some(", "),
    close: "]",
    apart: None,
    ..Format::USUAL
};

/// Nemotron Nano 2: `<TOOLCALL>[{"name": "f", "arguments": {…}}]</TOOLCALL>`.
pub(crate) const NEMOTRON: Format = Format {
    name: "nemotron-nano-2",
    known_by: &[&["<TOOLCALL>"]],
    opens: &[open("<TOOLCALL>[")],
    close: "]</TOOLCALL>",
    ..GRANITE
};

/// Apriel: `<tool_calls>[{"name": "f", "arguments": {…}}]</tool_calls>`.
pub(crate) const APRIEL: Format = Format {
    name: "apriel",
    known_by: &[&["<tool_calls>["]],
    opens: &[open("<tool_calls>[")],
    call: &[Element::Object(keys(IdPlace::Last))],
    close: "]</tool_calls>",
    ..GRANITE
};
