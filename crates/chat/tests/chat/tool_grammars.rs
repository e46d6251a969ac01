//! Grammars of tool calls. `tools/checks/tool_grammars.py` compiles them with llguidance.

use chat::{
    Choice, Grammar, OpeningPlace, Segment, Specials, Template, ToolFormat, Tools, ToolsError, Trigger,
};
use serde_json::{Value as Json, json};

use crate::tool_calls::{goldens, prompt_of};

fn tools() -> Tools {
    Tools::read(goldens()["tools"].as_array().expect("tools")).expect("tools")
}

fn format(name: &str, tokens: &[(u32, &str)]) -> ToolFormat {
    let tokens: Vec<_> = tokens.iter().map(|(id, text)| (*id, (*text).to_owned())).collect();
    ToolFormat::named(name, &tokens).expect(name)
}

#[test]
fn a_grammar_begins_at_its_trigger() {
    let time = Tools::read(&[json!({"function": {"name": "get_time"}})]).expect("tools");
    let hermes = format("hermes", &[(7, "<tool_call>"), (8, "</tool_call>")]);
    let auto = hermes.grammar(&prompt_of(""), &time, &Choice::Auto, false, None).expect("a grammar");
    let lark = "start: <[7]> call_0 \"\\n\" <[8]>\n\
        arguments_0: %json {\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}\n\
        call_0_0: \"\\n\" \"{\" \"\\\"name\\\": \\\"get_time\\\", \\\"arguments\\\": \" arguments_0 \"}\"\n\
        call_0: call_0_0\n";
    let triggers = vec![Trigger {
        segments: vec![Segment::Token { id: 7, text: "<tool_call>".into() }],
        place: OpeningPlace::Content,
    }];
    assert_eq!(auto, Grammar { triggers, lark: lark.into(), unenforced: Vec::new() });
    let required = hermes.grammar(&prompt_of(""), &time, &Choice::Required, false, None).expect("a grammar");
    assert_eq!(required, Grammar { lark: lark.into(), ..Grammar::default() });
    let parallel =
        hermes.grammar(&prompt_of(""), &time, &Choice::Required, true, None).expect("a grammar").lark;
    let start = "start: <[7]> call_0 \"\\n\" <[8]> ((\"\\n\")? <[7]> call_0 \"\\n\" <[8]>)*\n";
    assert_eq!(parallel.lines().next(), Some(start.trim_end()));
}

#[test]
fn triggers_are_no_content() {
    let triggers = |name: &str, prompt: &str| -> Vec<(String, bool)> {
        let grammar = format(name, &[])
            .grammar(&prompt_of(prompt), &tools(), &Choice::Auto, true, None)
            .expect("a grammar");
        let triggers = grammar.triggers.into_iter();
        triggers.map(|trigger| (trigger.text(), trigger.place == OpeningPlace::Start)).collect()
    };
    let owned =
        |list: &[(&str, bool)]| list.iter().map(|(text, at)| ((*text).to_owned(), *at)).collect::<Vec<_>>();
    let names =
        [("{\"name\": \"get_weather\"", true), ("{\"name\": \"get_time\"", true), ("<|python_tag|>", false)];
    assert_eq!(triggers("llama-json", ""), owned(&names));
    let names = [("[get_weather(", true), ("[get_time(", true), ("<|python_start|>[", false)];
    assert_eq!(triggers("pythonic", ""), owned(&names));
    let names = [
        (">>>get_weather\n", false),
        (">>>get_time\n", false),
        ("get_weather\n", true),
        ("get_time\n", true),
    ];
    assert_eq!(triggers("functionary-v3.2", ">>>"), owned(&names));
    assert_eq!(triggers("harmony", "<|start|>assistant").last(), Some(&(" to=functions.".to_owned(), true)));
}

#[test]
fn a_choice_needs_its_tool() {
    let hermes = format("hermes", &[]);
    let choose = |choice| hermes.grammar(&prompt_of(""), &tools(), &choice, true, None);
    let named = choose(Choice::Named("get_time".into())).expect("a grammar").lark;
    assert!(named.contains("get_time") && !named.contains("get_weather"));
    assert_eq!(choose(Choice::Named("f".into())), Err(ToolsError::Unknown { name: "f".into() }));
    assert_eq!(
        hermes.grammar(&prompt_of(""), &Tools::default(), &Choice::Required, true, None),
        Err(ToolsError::None)
    );
}

/// Marks that are special tokens in vocabularies.
fn special(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for (open, close) in [
        ("<|", "|>"),
        ("<｜", "｜>"),
        ("<tool_call", "|>"),
        ("[", "]"),
        ("<tool_call", ">"),
        ("</tool_call", ">"),
        ("<escape", ">"),
    ] {
        for (at, _) in text.match_indices(open) {
            let end = text[at..].find(close).map_or(at, |end| at + end + close.len());
            let token = &text[at..end];
            let is_token = token.len() > 2 && token[1..].chars().all(|c| !"<[ \n".contains(c));
            let is_upper = !token.starts_with('[')
                || token[1..token.len() - 1].chars().all(|c| c.is_ascii_uppercase() || c == '_');
            if is_token && is_upper {
                tokens.push(token.to_owned());
            }
        }
    }
    tokens.sort();
    tokens.dedup();
    tokens
}

const THINK: &str = "{{ tools | tojson }}{% for m in messages %}<think>{{ m.reasoning_content }}</think>{{ m.content }}\
    {% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}";
pub(crate) const HARMONY: &str = "{{ tools | tojson }}{% for m in messages %}<|start|>{{ m.role }}{% for c in m.tool_calls %}<|channel|>\
    commentary to=functions.{{ c.function.name }} <|constrain|>json<|message|>{{ c.function.arguments | tojson }}<|call|>\
    {% else %}{{ '<|channel|>analysis<|message|>' if m.role == 'assistant' }}{{ m.content }}<|end|>{% endfor %}{% endfor %}\
    {% if add_generation_prompt %}<|start|>assistant{% endif %}";

const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"0123\"}}\n</tool_call>";

/// Template, prompt and an answer with reasoning before its call.
const THOUGHT: [(&str, &str, &str); 6] = [
    (THINK, "", CALL),
    (
        THINK,
        "",
        concat!(
            "<think>\nHm < 1\n</think>\n\n",
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"0123\"}}\n</tool_call>"
        ),
    ),
    (
        THINK,
        "<think>\n",
        concat!(
            "Hm.</think>",
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"0123\"}}\n</tool_call>"
        ),
    ),
    (THINK, "<think></think>", CALL),
    (
        HARMONY,
        "<|start|>assistant",
        " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"0123\"}<|call|>",
    ),
    (
        HARMONY,
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather \
         <|constrain|>json<|message|>{\"city\": \"0123\"}<|call|>",
    ),
];

/// All grammars, for `tools/checks/tool_grammars.py`.
#[test]
fn every_format_has_grammars() {
    let (goldens, tools) = (goldens(), tools());
    let mut all = Vec::new();
    for (file, golden) in goldens["templates"].as_object().expect("templates") {
        let name = crate::tool_calls::format_of(file);
        for case in golden["answers"].as_array().expect("answers").iter().filter(|_| name != "none") {
            let (prompt, answer) = (case[1].as_str().expect("a text"), case[2].as_str().expect("a text"));
            for tokens in [Vec::new(), special(answer)] {
                let tokens: Vec<(u32, &str)> = (300..).zip(tokens.iter().map(String::as_str)).collect();
                for (choice, parallel) in [
                    (Choice::Auto, true),
                    (Choice::Required, true),
                    (Choice::Required, false),
                    (Choice::Named("get_time".into()), true),
                ] {
                    let grammar =
                        format(name, &tokens).grammar(&prompt_of(prompt), &tools, &choice, parallel, None);
                    let grammar = grammar.expect("a grammar");
                    let triggers: Json = grammar
                        .triggers
                        .iter()
                        .map(|trigger| json!([trigger.text(), trigger.place == OpeningPlace::Start]))
                        .collect();
                    all.push(json!({
                        "file": file, "format": name, "calls": case[0], "answer": answer, "tokens": tokens,
                        "choice": format!("{choice:?}"), "parallel": parallel, "lark": grammar.lark, "triggers": triggers,
                    }));
                }
            }
        }
    }
    all.extend(THOUGHT.iter().map(|(source, prompt, answer)| {
        let template = Template::new(source, Specials::default()).expect("a template");
        let format = template.tool_format();
        let grammar =
            format.grammar(&prompt_of(prompt), &tools, &Choice::Required, true, None).expect("a grammar");
        json!({
            "file": "reasoning", "format": format.name(), "calls": 0, "answer": answer, "tokens": [],
            "choice": "Required", "parallel": true, "lark": grammar.lark, "triggers": [["", true]],
        })
    }));
    if let Some(path) = std::env::var_os("RUSTORCH_GRAMMARS") {
        std::fs::write(path, Json::from(all).to_string()).expect("written");
    }
}
