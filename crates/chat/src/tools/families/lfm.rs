//! LFM2: calls as in Python between marks. <https://docs.liquid.ai/lfm/key-concepts/tool-use>.

use crate::tools::format::{Element, Format, open};
use crate::tools::literal::Syntax;

/// `<|tool_call_start|>[f(key="text"), …]<|tool_call_end|>`.
pub(crate) const LFM: Format = Format {
    name: "lfm2",
    known_by: &[&["<|tool_call_start|>"], &["<|tool_list_start|>"], &["List of tools: ", "<|im_end|>"]],
    opens: &[open("<|tool_call_start|>[")],
    call: &[Element::Name(&["("]), Element::Text("("), Element::Literals(Syntax::Python)],
    separator: Some(", "),
    close: "]<|tool_call_end|>",
    apart: None,
    ..Format::USUAL
};
