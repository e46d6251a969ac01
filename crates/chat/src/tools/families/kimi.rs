//! Kimi K2 and K3. <https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md>.

use crate::tools::format::{Attributes, Element, Format, Parameter, open};

/// K2: `<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`.
pub(crate) const K2: Format = Format {
    name: "kimi-k2",
    known_by: &[&["<|tool_calls_section_begin|>"]],
    opens: &[open("<|tool_calls_section_begin|>")],
    call: &[
        Element::Text("<|tool_call_begin|>"),
        Element::NumberedName("<|tool_call_argument_begin|>"),
        Element::Arguments,
        Element::Text("<|tool_call_end|>"),
    ],
    separator: Some(""),
    close: "<|tool_calls_section_end|>",
    apart: None,
    ..Format::USUAL
};

/// K3: every part has marks with its kind.
pub(crate) const K3: Format = Format {
    name: "kimi-k3",
    known_by: &[&["<|open|>", "<|close|>", "<|sep|>"]],
    opens: &[open("<|open|>tools<|sep|>")],
    call: &[
        Element::Text("<|open|>call tool=\""),
        Element::Name(&["\""]),
        Element::Skip {
            texts: &[
                "\" index=\"1\"<|sep|>",
                "\" index=\"2\"<|sep|>",
                "\" index=\"3\"<|sep|>",
                "\" index=\"4\"<|sep|>",
                "\" index=\"5\"<|sep|>",
                "\" index=\"6\"<|sep|>",
                "\" index=\"7\"<|sep|>",
                "\" index=\"8\"<|sep|>",
            ],
            end: "<|sep|>",
        },
        Element::Parameters(Parameter {
            attributes: Some(Attributes {
                text: " type=\"string\"",
                other: " type=\"(number|integer|boolean|array|object|null)\"",
            }),
            value_open: "<|sep|>",
            ..Parameter::new("<|open|>argument key=\"", "\"", "<|close|>argument<|sep|>")
        }),
        Element::Text("<|close|>call<|sep|>"),
    ],
    separator: Some(""),
    close: "<|close|>tools<|sep|>",
    apart: None,
    ..Format::USUAL
};
