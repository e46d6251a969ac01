//! Functionary. <https://github.com/MeetKai/functionary/tree/main/functionary/prompt_template>.

use crate::tools::format::{Element, Format, open};

/// Version 3.1: `<function=f>{…}</function>`.
pub(crate) const V3_1: Format = Format {
    name: "functionary-v3.1",
    known_by: &[&["<function=", "{\"example_name"], &["<function=example_function_name>"]],
    opens: &[open("<function=")],
    call: &[Element::Name(&[">"]), Element::Text(">"), Element::Arguments],
    close: "</function>",
    ..Format::USUAL
};

/// Version 3.2: `>>>f`, a line break and `{…}`. Content follows `>>>all` and a line break.
pub(crate) const V3_2: Format = Format {
    name: "functionary-v3.2",
    known_by: &[&[">>>all"]],
    opens: &[open(">>>")],
    call: &[Element::Name(&["\n"]), Element::Text("\n"), Element::Arguments],
    headers: &[">>>all\n"],
    prefill: ">>>",
    ..Format::USUAL
};
