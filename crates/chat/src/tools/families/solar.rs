//! Solar Open: id, name and arguments after one another.

use crate::tools::format::{Element, Format, open};

/// `<|tool_call:begin|>id<|tool_call:name|>f<|tool_call:args|>{…}<|tool_call:end|>`.
pub(crate) const SOLAR: Format = Format {
    name: "solar-open",
    known_by: &[&["<|tool_call:begin|>"]],
    opens: &[open("<|tool_calls|>")],
    call: &[
        Element::Text("<|tool_call:begin|>"),
        Element::Id("<|tool_call:name|>"),
        Element::Name(&["<|tool_call:args|>"]),
        Element::Text("<|tool_call:args|>"),
        Element::Arguments,
        Element::Text("<|tool_call:end|>"),
    ],
    separator: Some(""),
    close: "<|calls|>",
    apart: None,
    ..Format::USUAL
};
