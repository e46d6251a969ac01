//! Hermes 2 Pro, Qwen 2.5 and 3, Granite 4, and many more: JSON between tags.
//! <https://github.com/NousResearch/Hermes-Function-Calling>.

use crate::tools::format::{Element, Format, KEYS, open};

/// `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`.
pub(crate) const HERMES: Format = Format {
    name: "hermes",
    known_by: &[&["<tool_call>"]],
    opens: &[open("<tool_call>")],
    call: &[Element::Text("\n"), Element::Object(KEYS)],
    close: "\n</tool_call>",
    apart: Some("\n"),
    ..Format::USUAL
};
