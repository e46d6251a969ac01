//! MiniCPM 5: functions and parameters as XML elements.

use crate::tools::format::{Element, Format, Parameter, open};

/// `<function name="f"><param name="key">value</param></function>`.
pub(crate) const MINICPM: Format = Format {
    name: "minicpm-5",
    known_by: &[&["<function name=\"", "<param name=\""]],
    opens: &[open("<function name=\"")],
    call: &[
        Element::Name(&["\""]),
        Element::Text("\">"),
        Element::Parameters(Parameter {
            value_open: ">",
            has_cdata: true,
            ..Parameter::new("<param name=\"", "\"", "</param>")
        }),
    ],
    close: "</function>",
    apart: Some("\n"),
    ..Format::USUAL
};
