//! Mistral. <https://docs.mistral.ai/cookbooks/concept-deep-dive-tokenization-tool_calling>.

use crate::tools::format::{Element, Format, IdPlace, keys, open};

/// Version 11 of the tokenizer and later: `[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{…}`, the id only in some.
pub(crate) const ARGS: Format = Format {
    name: "mistral-args",
    known_by: &[&["[TOOL_CALLS]", "[ARGS]"]],
    opens: &[open("[TOOL_CALLS]")],
    call: &[
        Element::Name(&["[CALL_ID]", "[ARGS]", "{"]),
        Element::OptionalId { mark: "[CALL_ID]", ends: &["[ARGS]", "{"] },
        Element::Text("[ARGS]"),
        Element::Arguments,
    ],
    ..Format::USUAL
};

/// Earlier: `[TOOL_CALLS][{"name": "f", "arguments": {…}, "id": "123456789"}]`.
pub(crate) const LIST: Format = Format {
    name: "mistral-list",
    known_by: &[&["[TOOL_CALLS]"]],
    opens: &[open("[TOOL_CALLS]["), open("[TOOL_CALLS] [")],
    call: &[Element::Object(keys(IdPlace::Last))],
    separator: Some(", "),
    close: "]",
    apart: None,
    ..Format::USUAL
};
