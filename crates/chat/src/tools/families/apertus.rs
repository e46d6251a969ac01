//! Apertus: a list of objects of which the name is the key.

use crate::tools::format::{Element, Format, Keys, open};

/// `<|tools_prefix|>[{"f": {…}}, …]<|tools_suffix|>`.
pub(crate) const APERTUS: Format = Format {
    name: "apertus",
    known_by: &[&["<|tools_prefix|>"]],
    opens: &[open("<|tools_prefix|>[")],
    call: &[Element::Object(Keys::NameIsKey)],
    separator: Some(", "),
    close: "]<|tools_suffix|>",
    apart: None,
    ..Format::USUAL
};
