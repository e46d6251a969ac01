//! GigaChat 3: an object after a mark.

use crate::tools::format::{Element, Format, KEYS, open};

/// Version 3.1: `<|function_call|>{"name": "f", "arguments": {…}}`.
pub(crate) const GIGACHAT_3_1: Format = Format {
    name: "gigachat-3.1",
    known_by: &[&["<|function_call|>", "<|role_sep|>"]],
    opens: &[open("<|function_call|>")],
    call: &[Element::Object(KEYS)],
    apart: None,
    ..Format::USUAL
};

/// Version 3: calls are messages of another role.
pub(crate) const GIGACHAT_3: Format = Format {
    name: "gigachat-3",
    known_by: &[&["function call<|role_sep|>"]],
    opens: &[open("<|message_sep|>\n\nfunction call<|role_sep|>\n"), open("function call<|role_sep|>\n")],
    ..GIGACHAT_3_1
};
