//! Command R7B and Command A: a list of actions.
//! <https://docs.cohere.com/docs/tool-use-overview>.

use crate::tools::format::{Element, Format, IdPlace, Keys, open};

/// `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {…}}]<|END_ACTION|>`.
pub(crate) const COHERE: Format = Format {
    name: "cohere",
    known_by: &[&["<|START_ACTION|>"]],
    opens: &[open("<|START_ACTION|>[")],
    call: &[
        Element::Text("\n    "),
        Element::Object(Keys::Fields {
            name: "tool_name",
            arguments: &["parameters"],
            id: "tool_call_id",
            id_place: IdPlace::First,
        }),
    ],
    separator: Some(","),
    close: "\n]<|END_ACTION|>",
    apart: None,
    ..Format::USUAL
};
