//! The formats of tool calls, family by family.

use super::format::Element::{
    Arguments, Id, Literals, Name, NumberedName, Object, OptionalId, Parameters, Skip, Text,
};
use super::format::{Attributes, Format, IdPlace, KEYS, Keys, Open, Parameter, keys, open};
use super::literal::Syntax;

/// V3.1: `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`.
const DEEPSEEK_V3_1: Format = Format {
    name: "deepseek-v3.1", opens: &[open("<｜tool▁calls▁begin｜>")],
    call: &[
        Text("<｜tool▁call▁begin｜>"), Name(&["<｜tool▁sep｜>"]), Text("<｜tool▁sep｜>"), Arguments,
        Text("<｜tool▁call▁end｜>"),
    ],
    separator: Some(""), close: "<｜tool▁calls▁end｜>", ..Format::USUAL
};

/// V3.2: parameters in tags.
const DEEPSEEK_V3_2: Format = Format {
    name: "deepseek-v3.2", known_by: &[&["<｜DSML｜", "function_calls"]],
    opens: &[open("<｜DSML｜function_calls>")],
    call: &[
        Text("\n<｜DSML｜invoke name=\""), Name(&["\""]), Text("\">"),
        Parameters(Parameter {
            attributes: Some(Attributes { text: " string=\"true\"", other: " string=\"false\"" }),
            value_open: ">", before: "\n",
            ..Parameter::new("<｜DSML｜parameter name=\"", "\"", "</｜DSML｜parameter>")
        }),
        Text("\n</｜DSML｜invoke>"),
    ],
    separator: Some(""), close: "\n</｜DSML｜function_calls>", ..Format::USUAL
};

/// GLM 4.5: `<tool_call>f`, and lines with `<arg_key>key</arg_key>` and `<arg_value>value</arg_value>`.
const GLM_4_5: Format = Format {
    name: "glm-4.5", known_by: &[&["<tool_call>", "</arg_key>\n<arg_value>"]],
    shows: &["</arg_key>\n<arg_value>", "</arg_value>\n<arg_key>"], opens: &[open("<tool_call>")],
    call: &[
        Name(&["\n", "<"]),
        Parameters(Parameter {
            value_open: "<arg_value>", before: "\n",
            ..Parameter::new("<arg_key>", "</arg_key>\n", "</arg_value>")
        }),
    ],
    close: "\n</tool_call>", apart: Some("\n"), ..Format::USUAL
};

/// `<tool_call>`, `<function=f>`, and values in lines between `<parameter=key>` and `</parameter>`.
///
/// The models often leave out `<tool_call>`.
const QWEN_CODER: Format = Format {
    name: "qwen-coder", known_by: &[&["<tool_call>", "<function=", "<parameter="]],
    opens: &[open("<tool_call>"), Open { then: 1, ..open("<function=") }],
    call: &[
        Text("\n<function="), Name(&[">"]), Text(">"),
        Parameters(Parameter {
            before: "\n", in_lines: true,
            ..Parameter::new("<parameter=", ">", "</parameter>")
        }),
        Text("\n</function>"),
    ],
    close: "\n</tool_call>", apart: Some("\n"), ..Format::USUAL
};

/// Granite 3: `<|tool_call|>[{"name": "f", "arguments": {…}}]`.
const GRANITE: Format = Format {
    name: "granite-3", known_by: &[&["<|tool_call|>"]], opens: &[open("<|tool_call|>["), open("<tool_call>[")],
    call: &[Object(KEYS)], separator: Some(", "), close: "]", ..Format::USUAL
};

/// Version 3.1: `<|function_call|>{"name": "f", "arguments": {…}}`.
const GIGACHAT_3_1: Format = Format {
    name: "gigachat-3.1", known_by: &[&["<|function_call|>", "<|role_sep|>"]],
    opens: &[open("<|function_call|>")],
    call: &[Object(KEYS)], ..Format::USUAL
};

/// A line of JSON for each call, where an answer begins: for models whose templates write no tools.
pub(crate) static GENERIC: Format = Format {
    name: "generic",
    opens: &[Open { mark: "{", at_start: true, is_part: true, then: 0 }],
    call: &[Object(KEYS)], separator: Some("\n"), ..Format::USUAL
};

/// All formats.
pub(crate) fn all() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().chain([&GENERIC])
}

/// Where a template shows no calls, the first format whose texts it contains is used.
pub(crate) static FORMATS: &[Format] = &[
    // gpt-oss. <https://cookbook.openai.com/articles/openai-harmony>.
    // `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>`; the recipient may precede the channel.
    Format {
        name: "harmony", known_by: &[&["<|channel|>", "to=functions."]],
        opens: &[
            open("<|channel|>commentary to=functions."), open("<|channel|>analysis to=functions."),
            open("<|start|>assistant to=functions."),
        ],
        call: &[
            Name(&[" ", "<|"]),
            Skip {
                texts: &[
                    " <|constrain|>json<|message|>", "<|channel|>commentary <|constrain|>json<|message|>",
                    "<|channel|>commentary json<|message|>",
                ],
                end: "<|message|>",
            },
            Arguments,
        ],
        close: "<|call|>", prefill: "<|start|>assistant", ..Format::USUAL
    },
    // Gemma 3, FunctionGemma and Gemma 4.
    // <https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices>.
    // Gemma 4: `<|tool_call>call:f{key:<|"|>text<|"|>}<tool_call|>`.
    Format {
        name: "gemma-4", known_by: &[&["<|tool_call>", "<|\"|>"]], opens: &[open("<|tool_call>")],
        call: &[Text("call:"), Name(&["{"]), Text("{"), Literals(Syntax::Gemma { quote: "<|\"|>" })],
        close: "<tool_call|>", apart: Some(""), ..Format::USUAL
    },
    // FunctionGemma: `<start_function_call>call:f{key:<escape>text<escape>}<end_function_call>`.
    Format {
        name: "function-gemma", known_by: &[&["<start_function_call>"], &["<start_function_declaration>"]],
        opens: &[open("<start_function_call>")],
        call: &[Text("call:"), Name(&["{"]), Text("{"), Literals(Syntax::Gemma { quote: "<escape>" })],
        close: "<end_function_call>", apart: Some(""), ..Format::USUAL
    },
    // DeepSeek, from R1 to V4. <https://api-docs.deepseek.com/guides/function_calling>, and the model cards.
    DEEPSEEK_V3_1,
    // V3 and R1: the kind of call, then the name, then a block of JSON.
    Format {
        name: "deepseek-r1", known_by: &[&["<｜tool▁calls▁begin｜>"]],
        call: &[
            Text("<｜tool▁call▁begin｜>"), Text("function"), Text("<｜tool▁sep｜>"), Name(&["\n"]), Text("\n```json\n"),
            Arguments, Text("\n```"), Text("<｜tool▁call▁end｜>"),
        ],
        separator: Some("\n"), ..DEEPSEEK_V3_1
    },
    DEEPSEEK_V3_2,
    // V4: as V3.2, with another name.
    Format {
        name: "deepseek-v4", known_by: &[&["<｜DSML｜", "tool_calls"]], opens: &[open("<｜DSML｜tool_calls>")],
        close: "\n</｜DSML｜tool_calls>", ..DEEPSEEK_V3_2
    },
    // Kimi K2 and K3. <https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md>.
    // K2: `<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`.
    Format {
        name: "kimi-k2", known_by: &[&["<|tool_calls_section_begin|>"]],
        opens: &[open("<|tool_calls_section_begin|>")],
        call: &[
            Text("<|tool_call_begin|>"), NumberedName("<|tool_call_argument_begin|>"), Arguments,
            Text("<|tool_call_end|>"),
        ],
        separator: Some(""), close: "<|tool_calls_section_end|>", ..Format::USUAL
    },
    // K3: every part has marks with its kind.
    Format {
        name: "kimi-k3", known_by: &[&["<|open|>", "<|close|>", "<|sep|>"]], opens: &[open("<|open|>tools<|sep|>")],
        call: &[
            Text("<|open|>call tool=\""), Name(&["\""]),
            Skip {
                texts: &[
                    "\" index=\"1\"<|sep|>", "\" index=\"2\"<|sep|>", "\" index=\"3\"<|sep|>", "\" index=\"4\"<|sep|>",
                    "\" index=\"5\"<|sep|>", "\" index=\"6\"<|sep|>", "\" index=\"7\"<|sep|>", "\" index=\"8\"<|sep|>",
                ],
                end: "<|sep|>",
            },
            Parameters(Parameter {
                attributes: Some(Attributes { text: " type=\"string\"", other: " type=\"(number|integer|boolean|array|object|null)\"" }),
                value_open: "<|sep|>",
                ..Parameter::new("<|open|>argument key=\"", "\"", "<|close|>argument<|sep|>")
            }),
            Text("<|close|>call<|sep|>"),
        ],
        separator: Some(""), close: "<|close|>tools<|sep|>", ..Format::USUAL
    },
    // M2: `<invoke name="f">` with a tag for each parameter.
    Format {
        name: "minimax-m2", known_by: &[&["minimax:tool_call", "<invoke name="]],
        opens: &[open("<minimax:tool_call>")],
        call: &[
            Text("\n<invoke name=\""), Name(&["\""]), Text("\">"),
            Parameters(Parameter {
                value_open: ">", before: "\n",
                ..Parameter::new("<parameter name=\"", "\"", "</parameter>")
            }),
            Text("\n</invoke>"),
        ],
        separator: Some(""), close: "\n</minimax:tool_call>", ..Format::USUAL
    },
    // MiniMax M1 and M2. <https://huggingface.co/MiniMaxAI/MiniMax-M2/blob/main/docs/tool_calling_guide.md>.
    // M1: objects in lines between tags.
    Format {
        name: "minimax-m1", known_by: &[&["<tool_calls>\\n{"], &["<tool_calls>\n{"]],
        opens: &[open("<tool_calls>")],
        call: &[Text("\n"), Object(KEYS)], separator: Some(""), close: "\n</tool_calls>", ..Format::USUAL
    },
    // GLM 4.5 and later, Hunyuan, Ling and Laguna: keys and values in tags.
    // <https://huggingface.co/zai-org/GLM-4.5>.
    GLM_4_5,
    // GLM 4.7: as GLM 4.5, without line breaks.
    Format {
        name: "glm-4.7", known_by: &[&["<tool_call>", "<arg_key>"]], shows: &["</arg_key><arg_value>"],
        call: &[
            Name(&["\n", "<"]),
            Parameters(Parameter {
                value_open: "<arg_value>",
                ..Parameter::new("<arg_key>", "</arg_key>", "</arg_value>")
            }),
        ],
        close: "</tool_call>", apart: Some(""), ..GLM_4_5
    },
    // Ling 3: as GLM 4.5, without line breaks between parameters.
    Format {
        name: "ling-3", known_by: &[], shows: &["</arg_key>\n<arg_value>", "</arg_value><arg_key>"],
        call: &[
            Name(&["\n", "<"]), Text("\n"),
            Parameters(Parameter {
                value_open: "<arg_value>",
                ..Parameter::new("<arg_key>", "</arg_key>\n", "</arg_value>")
            }),
        ],
        ..GLM_4_5
    },
    // Hunyuan 3: other names of the tags.
    Format {
        name: "hunyuan", known_by: &[&["<tool_calls:opensource>"]], shows: &[],
        opens: &[open("<tool_calls:opensource>")],
        call: &[
            Text("\n<tool_call:opensource>"), Name(&["<"]), Text("<tool_sep:opensource>"),
            Parameters(Parameter {
                value_open: "<arg_value:opensource>", before: "\n",
                ..Parameter::new("<arg_key:opensource>", "</arg_key:opensource>\n", "</arg_value:opensource>")
            }),
            Text("\n</tool_call:opensource>"),
        ],
        separator: Some(""), close: "\n</tool_calls:opensource>", apart: None, ..GLM_4_5
    },
    // Seed-OSS: without line breaks around values.
    Format {
        name: "seed-oss", known_by: &[&["<seed:tool_call>"]], opens: &[open("<seed:tool_call>")],
        call: &[
            Text("\n<function="), Name(&[">"]), Text(">"),
            Parameters(Parameter { before: "\n", ..Parameter::new("<parameter=", ">", "</parameter>") }),
            Text("\n</function>"),
        ],
        close: "\n</seed:tool_call>", ..QWEN_CODER
    },
    // Qwen3-Coder, Qwen 3.5, Nemotron 3 and Seed-OSS: functions and parameters in tags.
    // <https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct>.
    QWEN_CODER,
    // MiniCPM 5: functions and parameters as XML elements.
    // `<function name="f"><param name="key">value</param></function>`.
    Format {
        name: "minicpm-5", known_by: &[&["<function name=\"", "<param name=\""]],
        opens: &[open("<function name=\"")],
        call: &[
            Name(&["\""]), Text("\">"),
            Parameters(Parameter {
                value_open: ">", has_cdata: true,
                ..Parameter::new("<param name=\"", "\"", "</param>")
            }),
        ],
        close: "</function>", apart: Some("\n"), ..Format::USUAL
    },
    // Solar Open: id, name and arguments after one another.
    // `<|tool_call:begin|>id<|tool_call:name|>f<|tool_call:args|>{…}<|tool_call:end|>`.
    Format {
        name: "solar-open", known_by: &[&["<|tool_call:begin|>"]], opens: &[open("<|tool_calls|>")],
        call: &[
            Text("<|tool_call:begin|>"), Id("<|tool_call:name|>"), Name(&["<|tool_call:args|>"]),
            Text("<|tool_call:args|>"), Arguments, Text("<|tool_call:end|>"),
        ],
        separator: Some(""), close: "<|calls|>", ..Format::USUAL
    },
    // Command R7B and Command A: a list of actions.
    // <https://docs.cohere.com/docs/tool-use-overview>.
    // `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {…}}]<|END_ACTION|>`.
    Format {
        name: "cohere", known_by: &[&["<|START_ACTION|>"]], opens: &[open("<|START_ACTION|>[")],
        call: &[
            Text("\n    "),
            Object(Keys::Fields {
                name: "tool_name", arguments: &["parameters"], id: "tool_call_id", id_place: IdPlace::First,
            }),
        ],
        separator: Some(","), close: "\n]<|END_ACTION|>", ..Format::USUAL
    },
    // Apertus: a list of objects of which the name is the key.
    // `<|tools_prefix|>[{"f": {…}}, …]<|tools_suffix|>`.
    Format {
        name: "apertus", known_by: &[&["<|tools_prefix|>"]], opens: &[open("<|tools_prefix|>[")],
        call: &[Object(Keys::NameIsKey)], separator: Some(", "), close: "]<|tools_suffix|>", ..Format::USUAL
    },
    // LFM2: calls as in Python between marks. <https://docs.liquid.ai/lfm/key-concepts/tool-use>.
    // `<|tool_call_start|>[f(key="text"), …]<|tool_call_end|>`.
    Format {
        name: "lfm2",
        known_by: &[&["<|tool_call_start|>"], &["<|tool_list_start|>"], &["List of tools: ", "<|im_end|>"]],
        opens: &[open("<|tool_call_start|>[")],
        call: &[Name(&["("]), Text("("), Literals(Syntax::Python)], separator: Some(", "),
        close: "]<|tool_call_end|>", ..Format::USUAL
    },
    // Granite 3, Nemotron Nano 2, Apriel and MiniMax M1's kin: a JSON list of calls after a mark.
    GRANITE,
    // Nemotron Nano 2: `<TOOLCALL>[{"name": "f", "arguments": {…}}]</TOOLCALL>`.
    Format {
        name: "nemotron-nano-2", known_by: &[&["<TOOLCALL>"]], opens: &[open("<TOOLCALL>[")], close: "]</TOOLCALL>",
        ..GRANITE
    },
    // Apriel: `<tool_calls>[{"name": "f", "arguments": {…}}]</tool_calls>`.
    Format {
        name: "apriel", known_by: &[&["<tool_calls>["]], opens: &[open("<tool_calls>[")],
        call: &[Object(keys(IdPlace::Last))], close: "]</tool_calls>", ..GRANITE
    },
    // Mistral. <https://docs.mistral.ai/cookbooks/concept-deep-dive-tokenization-tool_calling>.
    // Version 11 of the tokenizer and later: `[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{…}`, the id only in some.
    Format {
        name: "mistral-args", known_by: &[&["[TOOL_CALLS]", "[ARGS]"]], opens: &[open("[TOOL_CALLS]")],
        call: &[
            Name(&["[CALL_ID]", "[ARGS]", "{"]),
            OptionalId { mark: "[CALL_ID]", ends: &["[ARGS]", "{"] }, Text("[ARGS]"), Arguments,
        ],
        apart: Some(""), ..Format::USUAL
    },
    // Earlier: `[TOOL_CALLS][{"name": "f", "arguments": {…}, "id": "123456789"}]`.
    Format {
        name: "mistral-list", known_by: &[&["[TOOL_CALLS]"]],
        opens: &[open("[TOOL_CALLS]["), open("[TOOL_CALLS] [")],
        call: &[Object(keys(IdPlace::Last))], separator: Some(", "), close: "]", ..Format::USUAL
    },
    // GigaChat 3: an object after a mark.
    GIGACHAT_3_1,
    // Version 3: calls are messages of another role.
    Format {
        name: "gigachat-3", known_by: &[&["function call<|role_sep|>"]],
        opens: &[open("<|message_sep|>\n\nfunction call<|role_sep|>\n"), open("function call<|role_sep|>\n")],
        ..GIGACHAT_3_1
    },
    // Version 3.2: `>>>f`, a line break and `{…}`. Content follows `>>>all` and a line break.
    Format {
        name: "functionary-v3.2", known_by: &[&[">>>all"]], opens: &[open(">>>")],
        call: &[Name(&["\n"]), Text("\n"), Arguments], headers: &[">>>all\n"], prefill: ">>>", apart: Some(""),
        ..Format::USUAL
    },
    // Functionary. <https://github.com/MeetKai/functionary/tree/main/functionary/prompt_template>.
    // Version 3.1: `<function=f>{…}</function>`.
    Format {
        name: "functionary-v3.1",
        known_by: &[&["<function=", "{\"example_name"], &["<function=example_function_name>"]],
        opens: &[open("<function=")],
        call: &[Name(&[">"]), Text(">"), Arguments], close: "</function>", apart: Some(""), ..Format::USUAL
    },
    // Hermes 2 Pro, Qwen 2.5 and 3, Granite 4, and many more: JSON between tags.
    // <https://github.com/NousResearch/Hermes-Function-Calling>.
    // `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`.
    Format {
        name: "hermes", known_by: &[&["<tool_call>"]], opens: &[open("<tool_call>")],
        call: &[Text("\n"), Object(KEYS)], close: "\n</tool_call>", apart: Some("\n"), ..Format::USUAL
    },
    // An answer that is a list of calls in Python: `[f(key="text"), …]`.
    Format {
        name: "pythonic", known_by: &[&["[func_name1("]],
        opens: &[Open { mark: "[", at_start: true, is_part: false, then: 0 }, open("<|python_start|>[")],
        call: &[Name(&["("]), Text("("), Literals(Syntax::Python)], separator: Some(", "), close: "]",
        ..Format::USUAL
    },
    // Llama 3.1 to 4. <https://www.llama.com/docs/model-cards-and-prompt-formats/>.
    // An answer that is an object: `{"name": "f", "parameters": {…}}`.
    Format {
        name: "llama-json", known_by: &[&["{\"name\": function name, \"parameters\": dictionary"]],
        opens: &[Open { mark: "{", at_start: true, is_part: true, then: 0 }, open("<|python_tag|>")],
        call: &[
            Object(Keys::Fields {
                name: "name", arguments: &["parameters", "arguments"], id: "id", id_place: IdPlace::None,
            }),
        ],
        separator: Some("; "), ..Format::USUAL
    },
    // Gemma 3: a block of Python.
    Format {
        name: "tool-code", known_by: &[&["```tool_code"]], opens: &[open("```tool_code\n")],
        call: &[Name(&["("]), Text("("), Literals(Syntax::Python)], close: "\n```", apart: Some("\n"),
        ..Format::USUAL
    },
];
