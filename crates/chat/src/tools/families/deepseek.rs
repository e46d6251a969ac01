//! DeepSeek, from R1 to V4. <https://api-docs.deepseek.com/guides/function_calling>, and the model cards.

use crate::tools::format::{Attributes, Element, Format, Parameter, open};

/// V3.1: `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`.
pub(crate) const V3_1: Format = Format {
    name: "deepseek-v3.1",
    known_by: &[],
    opens: &[open("<｜tool▁calls▁begin｜>")],
    call: &[
        Element::Text("<｜tool▁call▁begin｜>"),
        Element::Name(&["<｜tool▁sep｜>"]),
        Element::Text("<｜tool▁sep｜>"),
        Element::Arguments,
        Element::Text("<｜tool▁call▁end｜>"),
    ],
    separator: Some(""),
    close: "<｜tool▁calls▁end｜>",
    apart: None,
    ..Format::USUAL
};

/// V3 and R1: the kind of call, then the name, then a block of JSON.
pub(crate) const R1: Format = Format {
    name: "deepseek-r1",
    known_by: &[&["<｜tool▁calls▁begin｜>"]],
    call: &[
        Element::Text("<｜tool▁call▁begin｜>"),
        Element::Text("function"),
        Element::Text("<｜tool▁sep｜>"),
        Element::Name(&["\n"]),
        Element::Text("\n```json\n"),
        Element::Arguments,
        Element::Text("\n```"),
        Element::Text("<｜tool▁call▁end｜>"),
    ],
    separator: Some("\n"),
    ..V3_1
};

/// V3.2: parameters in tags.
pub(crate) const V3_2: Format = Format {
    name: "deepseek-v3.2",
    known_by: &[&["<｜DSML｜", "function_calls"]],
    opens: &[open("<｜DSML｜function_calls>")],
    call: &[
        Element::Text("\n<｜DSML｜invoke name=\""),
        Element::Name(&["\""]),
        Element::Text("\">"),
        Element::Parameters(Parameter {
            attributes: Some(Attributes { text: " string=\"true\"", other: " string=\"false\"" }),
            value_open: ">",
            before: "\n",
            ..Parameter::new("<｜DSML｜parameter name=\"", "\"", "</｜DSML｜parameter>")
        }),
        Element::Text("\n</｜DSML｜invoke>"),
    ],
    separator: Some(""),
    close: "\n</｜DSML｜function_calls>",
    apart: None,
    ..Format::USUAL
};

/// V4: as V3.2, with another name.
pub(crate) const V4: Format = Format {
    name: "deepseek-v4",
    known_by: &[&["<｜DSML｜", "tool_calls"]],
    opens: &[open("<｜DSML｜tool_calls>")],
    close: "\n</｜DSML｜tool_calls>",
    ..V3_2
};
