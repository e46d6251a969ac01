//! Llama 3.1 to 4. <https://www.llama.com/docs/model-cards-and-prompt-formats/>.

use crate::tools::format::{Element, Format, IdPlace, Keys, Open, open};
use crate::tools::literal::Syntax;

/// An answer that is an object: `{"name": "f", "parameters": {…}}`.
pub(crate) const JSON: Format = Format {
    name: "llama-json",
    known_by: &[&["{\"name\": function name, \"parameters\": dictionary"]],
    opens: &[Open { mark: "{", at_start: true, is_part: true, then: 0 }, open("<|python_tag|>")],
    call: &[Element::Object(Keys::Fields {
        name: "name",
        arguments: &["parameters", "arguments"],
        id: "id",
        id_place: IdPlace::None,
    })],
    separator: Some("; "),
    apart: None,
    ..Format::USUAL
};

/// An answer that is a list of calls in Python: `[f(key="text"), …]`.
pub(crate) const PYTHONIC: Format = Format {
    name: "pythonic",
    known_by: &[&["[func_name1("]],
    opens: &[Open { mark: "[", at_start: true, is_part: false, then: 0 }, open("<|python_start|>[")],
    call: &[Element::Name(&["("]), Element::Text("("), Element::Literals(Syntax::Python)],
    separator: Some(", "),
    close: "]",
    apart: None,
    ..Format::USUAL
};
