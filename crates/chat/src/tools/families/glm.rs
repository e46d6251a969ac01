//! GLM 4.5 and later, Hunyuan, Ling and Laguna: keys and values in tags.
//! <https://huggingface.co/zai-org/GLM-4.5>.

use crate::tools::format::{Element, Format, Parameter, open};

/// GLM 4.5: `<tool_call>f`, and lines with `<arg_key>key</arg_key>` and `<arg_value>value</arg_value>`.
pub(crate) const GLM_4_5: Format = Format {
    name: "glm-4.5",
    known_by: &[&["<tool_call>", "</arg_key>\n<arg_value>"]],
    shows: &["</arg_key>\n<arg_value>", "</arg_value>\n<arg_key>"],
    opens: &[open("<tool_call>")],
    call: &[
        Element::Name(&["\n", "<"]),
        Element::Parameters(Parameter {
            value_open: "<arg_value>",
            before: "\n",
            ..Parameter::new("<arg_key>", "</arg_key>\n", "</arg_value>")
        }),
    ],
    close: "\n</tool_call>",
    apart: Some("\n"),
    ..Format::USUAL
};

/// GLM 4.7: as GLM 4.5, without line breaks.
pub(crate) const GLM_4_7: Format = Format {
    name: "glm-4.7",
    known_by: &[&["<tool_call>", "<arg_key>"]],
    shows: &["</arg_key><arg_value>"],
    call: &[
        Element::Name(&["\n", "<"]),
        Element::Parameters(Parameter {
            value_open: "<arg_value>",
            ..Parameter::new("<arg_key>", "</arg_key>", "</arg_value>")
        }),
    ],
    close: "</tool_call>",
    apart: Some(""),
    ..GLM_4_5
};

/// Ling 3: as GLM 4.5, without line breaks between parameters.
pub(crate) const LING: Format = Format {
    name: "ling-3",
    known_by: &[],
    shows: &["</arg_key>\n<arg_value>", "</arg_value><arg_key>"],
    call: &[
        Element::Name(&["\n", "<"]),
        Element::Text("\n"),
        Element::Parameters(Parameter {
            value_open: "<arg_value>",
            ..Parameter::new("<arg_key>", "</arg_key>\n", "</arg_value>")
        }),
    ],
    ..GLM_4_5
};

/// Hunyuan 3: other names of the tags.
pub(crate) const HUNYUAN: Format = Format {
    name: "hunyuan",
    known_by: &[&["<tool_calls:opensource>"]],
    shows: &[],
    opens: &[open("<tool_calls:opensource>")],
    call: &[
        Element::Text("\n<tool_call:opensource>"),
        Element::Name(&["<"]),
        Element::Text("<tool_sep:opensource>"),
        Element::Parameters(Parameter {
            value_open: "<arg_value:opensource>",
            before: "\n",
            ..Parameter::new("<arg_key:opensource>", "</arg_key:opensource>\n", "</arg_value:opensource>")
        }),
        Element::Text("\n</tool_call:opensource>"),
    ],
    separator: Some(""),
    close: "\n</tool_calls:opensource>",
    apart: None,
    ..GLM_4_5
};
