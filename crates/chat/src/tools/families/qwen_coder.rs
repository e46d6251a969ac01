//! Qwen3-Coder, Qwen 3.5, Nemotron 3 and Seed-OSS: functions and parameters in tags.
//! <https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct>.

use crate::tools::format::{Element, Format, Open, Parameter, open};

/// `<tool_call>`, `<function=f>`, and values in lines between `<parameter=key>` and `</parameter>`.
///
/// The models often leave out `<tool_call>`.
pub(crate) const QWEN_CODER: Format = Format {
    name: "qwen-coder",
    known_by: &[&["<tool_call>", "<function=", "<parameter="]],
    opens: &[open("<tool_call>"), Open { then: 1, ..open("<function=") }],
    call: &[
        Element::Text("\n<function="),
        Element::Name(&[">"]),
        Element::Text(">"),
        Element::Parameters(Parameter {
            before: "\n",
            in_lines: true,
            ..Parameter::new("<parameter=", ">", "</parameter>")
        }),
        Element::Text("\n</function>"),
    ],
    close: "\n</tool_call>",
    apart: Some("\n"),
    ..Format::USUAL
};

/// Seed-OSS: without line breaks around values.
pub(crate) const SEED: Format = Format {
    name: "seed-oss",
    known_by: &[&["<seed:tool_call>"]],
    opens: &[open("<seed:tool_call>")],
    call: &[
        Element::Text("\n<function="),
        Element::Name(&[">"]),
        Element::Text(">"),
        Element::Parameters(Parameter { before: "\n", ..Parameter::new("<parameter=", ">", "</parameter>") }),
        Element::Text("\n</function>"),
    ],
    close: "\n</seed:tool_call>",
    ..QWEN_CODER
};
