//! Answers with tool calls: what is a call, what is content, and that pieces make no difference.
//!
//! The forms are those that the families document: the model cards, and the tests of vLLM's and llama.cpp's parsers.

use std::sync::Arc;

use chat::{Answer, AnswerParser, Calls, Delta, Prompt, Specials, Template, ToolFormat, Tools};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::tool_calls::{calls, prompt_of, read, read_all};

pub(crate) fn tools() -> Arc<Tools> {
    let weather = json!({"type": "object", "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "zip": {"type": "string"},
        "tags": {"$ref": "#/$defs/tags"},
        "on": {"type": ["boolean", "null"]},
        "unit": {"enum": ["C", "F"]},
    }, "required": ["city"], "$defs": {"tags": {"type": "array", "items": {"type": "string"}}}});
    let functions = [json!({"name": "get_weather", "parameters": weather}), json!({"name": "get_time"})];
    let tools: Vec<Json> = functions.iter().map(|f| json!({"type": "function", "function": f})).collect();
    Arc::new(Tools::read(&tools).expect("tools"))
}

pub(crate) fn parser(format: &str, prompt: &Prompt, mode: Calls) -> AnswerParser {
    ToolFormat::named(format, &[]).expect(format).parser(prompt, tools(), mode)
}

/// Format, answer, content, calls as JSON.
type Case = (&'static str, &'static str, &'static str, &'static str);

const PARIS: &str = r#"[["get_weather", {"city": "Paris"}]]"#;
const BOTH: &str = r#"[["get_weather", {"city": "Paris", "days": 2}], ["get_time", {}]]"#;

const CALLED: &[Case] = &[
    (
        "hermes",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>",
        "",
        PARIS,
    ),
    // Content before and after, white space around calls.
    (
        "hermes",
        "Let me see.\n\n<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\",\"days\":2}}</tool_call>\n\
         <tool_call>\n{\"name\": \"get_time\"}\n</tool_call>\n",
        "Let me see.",
        BOTH,
    ),
    (
        "hermes",
        "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>\n\nDone. ",
        "Done. ",
        r#"[["get_time", {}]]"#,
    ),
    // The end of a call, quotes and braces in an argument.
    (
        "hermes",
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"</tool_call>}\\\"\\\\\"}}</tool_call>",
        "",
        r#"[["get_weather", {"city": "</tool_call>}\"\\"}]]"#,
    ),
    // Arguments before the name, no arguments, null, arguments as a text, another key.
    (
        "hermes",
        "<tool_call>{\"arguments\": {\"city\": \"Paris\"}, \"name\": \"get_weather\"}</tool_call>",
        "",
        PARIS,
    ),
    (
        "hermes",
        "<tool_call>{\"name\": \"get_time\", \"arguments\": null}</tool_call>",
        "",
        r#"[["get_time", {}]]"#,
    ),
    (
        "hermes",
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Paris\\\"}\"}</tool_call>",
        "",
        PARIS,
    ),
    (
        "hermes",
        "<tool_call>{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
        "",
        PARIS,
    ),
    // What follows the arguments is missing.
    ("hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}", "", PARIS),
    (
        "hermes",
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}</tool_call>",
        "",
        PARIS,
    ),
    // A line break that is not escaped, and half of a pair.
    (
        "hermes",
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\nb\\ud83d\\ude00\"}}</tool_call>",
        "",
        "[[\"get_weather\", {\"city\": \"a\\nb😀\"}]]",
    ),
    ("hermes", "</think> a < b <tool", "</think> a < b <tool", "[]"),
    ("llama-json", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}", "", PARIS),
    (
        "llama-json",
        "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
        "",
        PARIS,
    ),
    (
        "llama-json",
        "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\", \"days\": 2}}; {\"name\": \"get_time\", \"parameters\": {}}",
        "",
        BOTH,
    ),
    ("llama-json", "{\"a\": 1}", "{\"a\": 1}", "[]"),
    ("llama-json", "As JSON: {\"name\": \"get_time\"}", "As JSON: {\"name\": \"get_time\"}", "[]"),
    ("pythonic", "[get_weather(city=\"Paris\", days=2), get_time()]", "", BOTH),
    (
        "pythonic",
        "[get_weather(city='it\\'s (a) \"]\"', zip=1234, tags=['x', \"y\"], on=None)]",
        "",
        r#"[["get_weather", {"city": "it's (a) \"]\"", "zip": "1234", "tags": ["x", "y"], "on": null}]]"#,
    ),
    ("pythonic", "[1, 2] is a list", "[1, 2] is a list", "[]"),
    ("tool-code", "```tool_code\nget_weather(city='Paris')\n```", "", PARIS),
    (
        "lfm2",
        "<|tool_call_start|>[get_weather(city=\"Paris\")]<|tool_call_end|>Checking.",
        "Checking.",
        PARIS,
    ),
    (
        "mistral-list",
        "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 2}}, {\"name\": \"get_time\", \"arguments\": {}}]",
        "",
        BOTH,
    ),
    ("mistral-args", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}", "", PARIS),
    (
        "mistral-args",
        "[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{\"city\": \"Paris\", \"days\": 2}[TOOL_CALLS]get_time[ARGS]{}",
        "",
        BOTH,
    ),
    ("gemma-4", "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>}<tool_call|>", "", PARIS),
    (
        "gemma-4",
        "<|tool_call>call:get_weather{city:<|\"|>{a}, \"b\"<|\"|>,tags:[<|\"|>x<|\"|>],on:true,days:-1}<tool_call|>",
        "",
        r#"[["get_weather", {"city": "{a}, \"b\"", "tags": ["x"], "on": true, "days": -1}]]"#,
    ),
    (
        "function-gemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
        "",
        PARIS,
    ),
    (
        "harmony",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\"}<|call|>",
        "",
        PARIS,
    ),
    (
        "harmony",
        " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Paris\"}",
        "",
        PARIS,
    ),
    (
        "deepseek-r1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        PARIS,
    ),
    (
        "deepseek-v3.1",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\", \"days\": 2}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        BOTH,
    ),
    ("functionary-v3.1", "<function=get_weather>{\"city\": \"Paris\"}</function>", "", PARIS),
    ("functionary-v3.2", "get_weather\n{\"city\": \"Paris\", \"days\": 2}>>>get_time\n{}", "", BOTH),
    ("functionary-v3.2", "all\nLet me see.>>>get_weather\n{\"city\": \"Paris\"}", "Let me see.", PARIS),
    ("functionary-v3.2", "all\n1 >>> 0", "1 >>> 0", "[]"),
    ("functionary-v3.2", "Hello.", "Hello.", "[]"),
    (
        "qwen-coder",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>\n\
         </function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
        "",
        BOTH,
    ),
    // Without `<tool_call>`; a string that looks like a number; marks, quotes and line breaks in a value.
    (
        "qwen-coder",
        "<function=get_weather>\n<parameter=city>\n\n\"</parameter>\" </function>\n\\n\n</parameter>\n<parameter=zip>\n1234\n\
         </parameter>\n<parameter=tags>\n['a', \"b\"]\n</parameter>\n<parameter=on>\nnull\n</parameter>\n</function>",
        "",
        r#"[["get_weather", {"city": "\n\"</parameter>\" </function>\n\\n", "zip": "1234", "tags": ["a", "b"], "on": null}]]"#,
    ),
    (
        "glm-4.5",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n\
         <arg_value>2</arg_value>\n</tool_call>\n<tool_call>get_time\n</tool_call>",
        "",
        BOTH,
    ),
    ("glm-4.7", "<tool_call>get_time</tool_call>", "", r#"[["get_time", {}]]"#),
    (
        "granite-3",
        "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
        "",
        PARIS,
    ),
    (
        "cohere",
        "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}\n]<|END_ACTION|>",
        "",
        PARIS,
    ),
    (
        "minimax-m2",
        "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n</minimax:tool_call>",
        "",
        PARIS,
    ),
    (
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|><|tool_calls_section_end|>",
        "",
        PARIS,
    ),
    (
        "minicpm-5",
        "<function name=\"get_weather\"><param name=\"city\"><![CDATA[Paris]]></param></function>",
        "",
        PARIS,
    ),
];

/// Format and answer, in which there is no call: it is content as it is.
const CONTENT: &[(&str, &str)] = &[
    ("hermes", "<tool_call>{\"name\": \"get_moon\", \"arguments\": {}}</tool_call>"),
    ("hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": [1]}</tool_call>"),
    ("hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": Paris}}</tool_call>"),
    ("hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par"),
    ("hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"\\ud83d\"}}</tool_call>"),
    ("hermes", "<tool_call>{\"name\": \"get_weather\""),
    ("hermes", "<tool_call>get_weather</tool_call>"),
    ("hermes", "Use <tool_call> for calls."),
    ("qwen-coder", "<tool_call>\n<function=get_moon>\n</function>\n</tool_call>"),
    ("qwen-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis"),
    ("qwen-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\nand so on"),
    ("glm-4.5", "<tool_call>get_moon\n</tool_call>"),
    ("pythonic", "[get_moon()]"),
    ("pythonic", "[get_weather(city=\"Paris\""),
    ("pythonic", "[get_weather(\"Paris\")]"),
    ("gemma-4", "<|tool_call>call:get_moon{}<tool_call|>"),
    ("mistral-list", "[TOOL_CALLS][]"),
    ("mistral-args", "[TOOL_CALLS]get_moon[ARGS]{}"),
    ("functionary-v3.1", "<function=get_moon>{}</function>"),
    ("harmony", "<|channel|>commentary to=functions.get_moon <|constrain|>json<|message|>{}"),
    ("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_moon<｜tool▁sep｜>{}"),
    ("llama-json", "{\"name\": \"get_moon\", \"parameters\": {}}"),
];

/// The prompt that precedes the answers of `format` in these tests.
pub(crate) fn prompt_for(format: &str) -> Prompt {
    prompt_of(match format {
        "harmony" => "<|start|>assistant",
        "functionary-v3.2" => ">>>",
        _ => "assistant\n",
    })
}

#[test]
fn calls_are_read_as_documented() {
    for &(format, answer, content, expected) in CALLED {
        let prompt = prompt_for(format);
        let found = read_all(|mode| parser(format, &prompt, mode), answer);
        let expected: Json = serde_json::from_str(expected).expect("JSON");
        assert_eq!((calls(&found), &*found.content), (expected, content), "{format}: {answer:?}");
    }
}

#[test]
fn nothing_is_lost_of_what_is_no_call() {
    for &(format, answer) in CONTENT {
        let prompt = prompt_for(format);
        let found = read_all(|mode| parser(format, &prompt, mode), answer);
        assert_eq!((calls(&found), &*found.content), (json!([]), answer), "{format}");
    }
}

/// A broken call is content, and the next one is a call.
#[test]
fn calls_follow_broken_ones() {
    let good = "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>";
    for broken in [
        "<tool_call>{\"name\": \"get_moon\"}</tool_call>",
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": {city}}",
        "<tool_call>",
    ] {
        let answer = format!("{broken} {good}");
        let found = read_all(|mode| parser("hermes", &prompt_of(""), mode), &answer);
        assert_eq!(
            (calls(&found), found.content.trim_end()),
            (json!([["get_time", {}]]), broken),
            "{answer}"
        );
    }
}

/// Arguments are passed on while they are generated, and a call that breaks then is withdrawn.
#[test]
fn a_stream_passes_arguments_on() {
    let mut stream = parser("hermes", &prompt_of(""), Calls::Streamed);
    assert_eq!(stream.push_text("Well. \n<tool_call>{\"name\": \"get_wea"), [Delta::Content("Well.".into())]);
    assert_eq!(stream.push_text("ther\", \"arguments\": "), []);
    let begin = Delta::ToolCallBegin { index: 0, name: "get_weather".into(), id: None };
    let json = |json: &str| Delta::ToolCallArguments { index: 0, json: json.into() };
    assert_eq!(stream.push_text("{\"city\": \"Pa"), [begin, json("{\"city\": \"Pa")]);
    assert_eq!(stream.push_text("ris\n\""), [json("ris\\n\"")]);
    assert_eq!(stream.push_text("}}"), [json("}"), Delta::ToolCallEnd { index: 0 }]);
    assert_eq!(stream.push_text("</tool_call>"), []);
    let text = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"days\": 1";
    assert_eq!(stream.push_text(text).len(), 2);
    let broken = Delta::ToolCallBroken { index: 1, text: text.into() };
    assert_eq!(stream.push_text("x"), [broken, Delta::Content("x".into())]);
    let id = |delta: &Delta| matches!(delta, Delta::ToolCallBegin { index: 2, id: None, .. });
    assert!(stream.push_text("<tool_call>{\"name\": \"get_time\", \"arguments\": {}").iter().any(id));
    assert_eq!(stream.finish(), [Delta::ToolCallEnd { index: 2 }]);

    let mut stream = parser("qwen-coder", &prompt_of(""), Calls::Streamed);
    stream.push_text("<tool_call>\n<function=get_weather>\n<parameter=city>\nPa");
    assert_eq!(stream.push_text("\"ris\n</para"), [json("\\\"ris")]);
    assert_eq!(stream.push_text("meter>\n</function>\n"), [json("\"}"), Delta::ToolCallEnd { index: 0 }]);
}

#[test]
fn whole_calls_are_never_withdrawn() {
    for &(format, answer) in CONTENT {
        let mut whole = parser(format, &prompt_for(format), Calls::Whole);
        let deltas: Vec<Delta> =
            answer.split_inclusive(' ').flat_map(|piece| whole.push_text(piece)).collect();
        assert!(
            deltas.iter().chain(&whole.finish()).all(|delta| matches!(delta, Delta::Content(_))),
            "{answer}"
        );
    }
}

pub(crate) const THINK: &str = "{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]<think>{{ m.reasoning_content }}</think>{{ m.content }}\
    {% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}\
    {% if add_generation_prompt %}[assistant]{{ '<think>' if think else '' }}{% endif %}";

/// Calls within reasoning are reasoning; an opening of reasoning in the prompt counts.
#[test]
fn reasoning_precedes_calls() {
    let template = Template::new(THINK, Specials::default()).expect("a template");
    let format = template.tool_format();
    assert_eq!(format.name(), "hermes");
    let call = "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>";
    for (prompt, answer) in [
        ("<think>", format!("Hm {call}</think>\n\n{call}\nA </think> b")),
        ("", format!("<think>Hm {call}</think>{call} A </think> b")),
    ] {
        let prompt = prompt_of(prompt);
        let found = read_all(|mode| format.parser(&prompt, tools(), mode), &answer);
        assert_eq!(found.reasoning, format!("Hm {call}"));
        assert_eq!((calls(&found), &*found.content), (json!([["get_time", {}]]), "A </think> b"));
    }
}

/// Marks may be special tokens, which are not printed.
#[test]
fn special_tokens_are_marks_of_calls() {
    let tokens =
        vec![(7, "<|tool_call>".to_owned()), (8, "<tool_call|>".to_owned()), (9, "<|\"|>".to_owned())];
    let format = ToolFormat::named("gemma-4", &tokens).expect("a format");
    let mut parser = format.parser(&prompt_of(""), tools(), Calls::Whole);
    let mut answer = Answer::default();
    let tokens =
        [(7, ""), (1, "call:get_weather"), (1, "{city:"), (9, ""), (1, "Paris"), (9, ""), (1, "}"), (8, "")];
    for (token, text) in tokens {
        parser.push(token, text).into_iter().for_each(|delta| answer.push(delta));
    }
    assert_eq!(calls(&answer), serde_json::from_str::<Json>(PARIS).expect("JSON"));
}

#[test]
fn ids_are_the_models() {
    let id = |format: &str, answer: &str| {
        read(parser(format, &prompt_of(""), Calls::Whole), [answer]).tool_calls[0].id.clone()
    };
    assert_eq!(
        id("mistral-args", "[TOOL_CALLS]get_time[CALL_ID]abcdefghi[ARGS]{}").as_deref(),
        Some("abcdefghi")
    );
    assert_eq!(
        id("mistral-list", "[TOOL_CALLS][{\"name\": \"get_time\", \"arguments\": {}, \"id\": \"x\"}]")
            .as_deref(),
        Some("x")
    );
    let kimi =
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:3<|tool_call_argument_begin|>{}";
    assert_eq!(id("kimi-k2", kimi).as_deref(), Some("functions.get_time:3"));
    assert_eq!(id("hermes", "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}"), None);
}

/// Nesting of 127 is read, more is none of a call; and neither takes a deep stack.
#[test]
fn arguments_nest_to_a_depth() {
    for (format, open, close) in [
        ("hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": ", "}}</tool_call>"),
        ("functionary-v3.1", "<function=get_weather>{\"city\": ", "}</function>"),
        ("pythonic", "[get_weather(city=", ")]"),
        ("gemma-4", "<|tool_call>call:get_weather{city:", "}<tool_call|>"),
        ("qwen-coder", "<function=get_weather>\n<parameter=tags>\n", "\n</parameter>\n</function>"),
    ] {
        for (depth, is_call) in [(90, true), (200_000, format == "qwen-coder")] {
            let answer = format!("{open}{}{}{close}", "[".repeat(depth), "]".repeat(depth));
            let found = read(parser(format, &prompt_of(""), Calls::Streamed), [&*answer]);
            assert_eq!(found.tool_calls.len(), usize::from(is_call), "{format}, {depth}");
            assert!(is_call || found.content == answer, "{format}, {depth}");
        }
    }
}

/// Long answers take linear time: this would take hours if each mark or piece were searched again.
#[test]
fn long_answers_end() {
    let parts = [
        "<tool_call>",
        "<tool_call>{\"name\": \"get_time\"}</tool_call>\n",
        "[",
        "{\"a\":",
        " \n",
        "<function=get_time>",
        ">>>",
        "<",
    ];
    for format in ["hermes", "llama-json", "qwen-coder", "functionary-v3.2", "harmony"] {
        for part in parts {
            let answer = part.repeat((1 << 17) / part.len());
            let found = read(parser(format, &prompt_of(""), Calls::Streamed), answer.split_inclusive('\n'));
            assert!(found.content.len() <= answer.len());
        }
    }
}

#[test]
fn tools_are_checked() {
    let wrong = |tool: Json| Tools::read(&[tool]).expect_err("wrong").to_string();
    assert!(wrong(json!({"type": "retrieval"})).contains("tools[0] has the type \"retrieval\""));
    assert!(wrong(json!({"function": {}})).contains("tools[0].function.name is missing"));
    assert!(wrong(json!({"function": {"name": "a b"}})).contains("\"a b\""));
    assert!(
        wrong(json!({"function": {"name": "f", "parameters": {"type": "array"}}})).contains("parameters")
    );
    assert!(wrong(json!({"function": {"name": "f", "parameters": true}})).contains("parameters is true"));
    let twice = json!({"function": {"name": "f"}});
    let error = Tools::read(&[twice.clone(), twice]).expect_err("twice").to_string();
    assert!(error.contains("tools[1]") && error.contains("rename"), "{error}");
}

/// Texts that answers are made of: all cases, their marks, and what confuses parsers.
pub(crate) fn parts() -> impl Strategy<Value = String> {
    let marks = [
        "<tool_call>",
        "</tool_call>",
        "<function=",
        "get_weather",
        "get_time",
        ">",
        "</function>",
        "<parameter=",
        "city",
        "</parameter>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "\\",
        "\\u",
        "d83d",
        ":",
        ",",
        "{\"name\": \"get_time\", \"arguments\": {}}",
        "{\"city\": \"",
        "\"}",
        "name",
        "arguments",
        "<|channel|>",
        "commentary to=functions.",
        "<|message|>",
        "<|call|>",
        "<|start|>assistant",
        "<|end|>",
        "<|\"|>",
        "<|tool_call>call:",
        "<tool_call|>",
        ">>>",
        "all\n",
        "\n",
        " ",
        "ü",
        "=",
        "1",
        "null",
        "True",
        "'",
        "; ",
        "<![CDATA[",
        "]]>",
        "<|python_tag|>",
        "<|START_ACTION|>[",
        "```tool_code\n",
        "```",
        "😀",
    ];
    let texts = CALLED.iter().map(|case| case.1).chain(CONTENT.iter().map(|case| case.1)).collect::<Vec<_>>();
    prop_oneof![
        4 => prop::sample::select(marks.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(texts).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => (1020..1030usize).prop_map(|length| " ".repeat(length)),
    ]
}

proptest! {
    /// Any pieces give the same answer, whether calls are streamed or not; each call is complete.
    #[test]
    fn pieces_of_answers_make_no_difference(
        format in prop::sample::select(ToolFormat::names().collect::<Vec<_>>()),
        parts in prop::collection::vec(parts(), 0..14),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let answer = parts.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| answer.floor_char_boundary(cut.index(answer.len() + 1))).collect();
        cuts.extend([0, answer.len()]);
        cuts.sort_unstable();
        let prompt = prompt_for(format);
        let whole = read(parser(format, &prompt, Calls::Whole), [&*answer]);
        for mode in [Calls::Whole, Calls::Streamed] {
            let at_once = read(parser(format, &prompt, mode), [&*answer]);
            let in_pieces = read(parser(format, &prompt, mode), cuts.windows(2).map(|cut| &answer[cut[0]..cut[1]]));
            prop_assert_eq!(&at_once, &in_pieces);
            prop_assert_eq!((calls(&at_once), &at_once.content), (calls(&whole), &whole.content));
        }
        for call in calls(&whole).as_array().expect("calls") {
            prop_assert!(tools().get(call[0].as_str().expect("a name")).is_some() && call[1].is_object());
        }
    }

    /// Calls begin, go on and end in order.
    #[test]
    fn deltas_are_in_order(
        format in prop::sample::select(ToolFormat::names().collect::<Vec<_>>()),
        parts in prop::collection::vec(parts(), 0..14),
        is_cut: bool,
    ) {
        let mut stream = parser(format, &prompt_for(format), Calls::Streamed);
        let deltas: Vec<Delta> = parts.iter().flat_map(|part| stream.push_text(part)).collect();
        let (mut next, mut open) = (0, false);
        let rest = if is_cut { stream.cut() } else { stream.finish() };
        for delta in deltas.into_iter().chain(rest) {
            match delta {
                Delta::ToolCallBegin { index, .. } => {
                    prop_assert!(!open && index == next);
                    open = true;
                }
                Delta::ToolCallArguments { index, json } => prop_assert!(open && index == next && !json.is_empty()),
                Delta::ToolCallEnd { index }
                | Delta::ToolCallBroken { index, .. }
                | Delta::ToolCallCut { index } => {
                    prop_assert!(open && index == next);
                    (next, open) = (next + 1, false);
                }
                Delta::Content(text) | Delta::Reasoning(text) => prop_assert!(!open && !text.is_empty()),
            }
        }
        prop_assert!(!open);
    }
}
