//! gpt-oss. <https://cookbook.openai.com/articles/openai-harmony>.

use crate::tools::format::{Element, Format, open};

/// `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>`; the recipient may precede the channel.
pub(crate) const HARMONY: Format = Format {
    name: "harmony",
    known_by: &[&["<|channel|>", "to=functions."]],
    opens: &[
        open("<|channel|>commentary to=functions."),
        open("<|channel|>analysis to=functions."),
        open("<|start|>assistant to=functions."),
    ],
    call: &[
        Element::Name(&[" ", "<|"]),
        Element::Skip {
            texts: &[
                " <|constrain|>json<|message|>",
                "<|channel|>commentary <|constrain|>json<|message|>",
                "<|channel|>commentary json<|message|>",
            ],
            end: "<|message|>",
        },
        Element::Arguments,
    ],
    close: "<|call|>",
    apart: None,
    prefill: "<|start|>assistant",
    ..Format::USUAL
};
