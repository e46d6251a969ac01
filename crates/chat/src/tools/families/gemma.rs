//! Gemma 3, FunctionGemma and Gemma 4.
//! <https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices>.

use crate::tools::format::{Element, Format, open};
use crate::tools::literal::Syntax;

/// Gemma 4: `<|tool_call>call:f{key:<|"|>text<|"|>}<tool_call|>`.
pub(crate) const GEMMA_4: Format = Format {
    name: "gemma-4",
    known_by: &[&["<|tool_call>", "<|\"|>"]],
    opens: &[open("<|tool_call>")],
    call: &[
        Element::Text("call:"),
        Element::Name(&["{"]),
        Element::Text("{"),
        Element::Literals(Syntax::Gemma { quote: "<|\"|>" }),
    ],
    close: "<tool_call|>",
    ..Format::USUAL
};

/// FunctionGemma: `<start_function_call>call:f{key:<escape>text<escape>}<end_function_call>`.
pub(crate) const FUNCTION_GEMMA: Format = Format {
    name: "function-gemma",
    known_by: &[&["<start_function_call>"], &["<start_function_declaration>"]],
    opens: &[open("<start_function_call>")],
    call: &[
        Element::Text("call:"),
        Element::Name(&["{"]),
        Element::Text("{"),
        Element::Literals(Syntax::Gemma { quote: "<escape>" }),
    ],
    close: "<end_function_call>",
    ..Format::USUAL
};

/// Gemma 3: a block of Python.
pub(crate) const TOOL_CODE: Format = Format {
    name: "tool-code",
    known_by: &[&["```tool_code"]],
    opens: &[open("```tool_code\n")],
    call: &[Element::Name(&["("]), Element::Text("("), Element::Literals(Syntax::Python)],
    close: "\n```",
    apart: Some("\n"),
    ..Format::USUAL
};
