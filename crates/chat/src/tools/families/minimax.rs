//! MiniMax M1 and M2. <https://huggingface.co/MiniMaxAI/MiniMax-M2/blob/main/docs/tool_calling_guide.md>.

use crate::tools::format::{Element, Format, KEYS, Parameter, open};

/// M1: objects in lines between tags.
pub(crate) const M1: Format = Format {
    name: "minimax-m1",
    known_by: &[&["<tool_calls>\\n{"], &["<tool_calls>\n{"]],
    opens: &[open("<tool_calls>")],
    call: &[Element::Text("\n"), Element::Object(KEYS)],
    separator: Some(""),
    close: "\n</tool_calls>",
    apart: None,
    ..Format::USUAL
};

/// M2: `<invoke name="f">` with a tag for each parameter.
pub(crate) const M2: Format = Format {
    name: "minimax-m2",
    known_by: &[&["minimax:tool_call", "<invoke name="]],
    opens: &[open("<minimax:tool_call>")],
    call: &[
        Element::Text("\n<invoke name=\""),
        Element::Name(&["\""]),
        Element::Text("\">"),
        Element::Parameters(Parameter {
            value_open: ">",
            before: "\n",
            ..Parameter::new("<parameter name=\"", "\"", "</parameter>")
        }),
        Element::Text("\n</invoke>"),
    ],
    separator: Some(""),
    close: "\n</minimax:tool_call>",
    apart: None,
    ..Format::USUAL
};
