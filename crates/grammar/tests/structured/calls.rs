//! Grammars of tool calls over vocabularies: tokens that cross the end of a trigger, calls in open reasoning, parameters in any
//! order.

use chat::{Choice, OpeningPlace, Specials, Template, ToolFormat, Tools};
use engine::template::Preamble;
use grammar::{Grammar, Source};
use serde_json::json;
use tokenizer::Tokenizer;

use crate::common::{Bench, Verdict, Walk};

fn tools() -> Tools {
    let file = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string" }, "offset": { "type": "integer" }, "limit": { "type": "integer" },
        },
        "required": ["path"],
    });
    let functions = [
        json!({ "name": "read", "parameters": file }),
        json!({ "name": "read_file", "parameters": file }),
        json!({ "name": "get_time", "parameters": {} }),
    ];
    let tools: Vec<_> = functions.iter().map(|function| json!({ "function": function })).collect();
    Tools::read(&tools).expect("tools")
}

/// The vocabularies at hand.
fn benches() -> Vec<Bench> {
    let shared = ["qwen2", "llama-bpe", "gpt-2", "deepseek-coder", "llama-spm", "phi-3"].map(|name| {
        let path = testkit::shared(&format!("vocab/ggml-vocab-{name}.gguf"))?;
        let file = gguf::Gguf::open(path).expect("a file");
        Some(Bench::with(Tokenizer::from_metadata(file.metadata()).expect("a tokenizer")))
    });
    [Some(Bench::new("made-bpe-gpt-2"))].into_iter().chain(shared).flatten().collect()
}

/// Every token that begins in a trigger and ends behind it may be drawn where the grammar of the whole call accepts it, and the
/// call goes on as that grammar says.
#[test]
fn tokens_may_cross_the_end_of_every_trigger() {
    let tools = tools();
    let mut crossed = 0;
    for bench in benches() {
        let tokens: Vec<(u32, &[u8])> = (0..bench.tokenizer.vocab_size() as u32)
            .filter(|id| bench.tokenizer.kind(*id).is_some_and(|kind| !kind.is_special()))
            .filter_map(|id| Some((id, bench.tokenizer.token_bytes(id)?)))
            .collect();
        for name in ToolFormat::names() {
            let format = ToolFormat::named(name, &[]).expect("a format");
            let grammar = format.grammar(&"", &tools, &Choice::Auto, true, None).expect("a grammar");
            let Ok(whole) = bench.compile(&Source::Lark(grammar.lark.clone())) else { continue };
            let Ok(gated) = whole.clone().at_triggers(&grammar.triggers, &Preamble::default(), false) else {
                continue;
            };
            for trigger in &grammar.triggers {
                let text = trigger.text();
                for at in (1..text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let (before, rest) = text.split_at(at);
                    let crossing = |(_, bytes): &&(u32, &[u8])| {
                        bytes.len() > rest.len() && bytes.starts_with(rest.as_bytes())
                    };
                    let crossing: Vec<_> = tokens.iter().filter(crossing).collect();
                    if crossing.is_empty() {
                        continue;
                    }
                    let mut expected = Walk::new(&whole, &bench.tokenizer);
                    expected.push_text(&bench.vocabulary, before);
                    let mut found = Walk::new(&gated, &bench.tokenizer);
                    found.push_text(&bench.vocabulary, before);
                    let (expected, found) = (expected.allowed(), found.allowed());
                    let wanted = crossing.iter().map(|(id, _)| *id).filter(|id| expected.contains(id));
                    let wanted: Vec<u32> = wanted.collect();
                    let drawn: Vec<u32> =
                        crossing.iter().map(|(id, _)| *id).filter(|id| found.contains(id)).collect();
                    assert_eq!(drawn, wanted, "{name}: after {before:?} of {text:?}");
                    crossed += wanted.len();
                    for id in wanted.into_iter().take(2) {
                        let next = |grammar: &Grammar| {
                            let mut walk = Walk::new(grammar, &bench.tokenizer);
                            walk.push_text(&bench.vocabulary, before);
                            walk.allowed();
                            walk.push(id, true);
                            walk.allowed()
                        };
                        assert_eq!(next(&gated), next(&whole), "{name}: {id} after {before:?} of {text:?}");
                    }
                }
            }
        }
    }
    assert!(crossed > 10, "{crossed} tokens cross a trigger");
}

/// Format, opening, end of the name, a parameter's parts, separator, end.
type Written = (&'static str, &'static str, &'static str, [&'static str; 2], &'static str, &'static str);

const WRITTEN: &[Written] = &[
    (
        "qwen-coder",
        "<tool_call>\n<function=read>",
        "",
        ["\n<parameter=NAME>\n", "\n</parameter>"],
        "",
        "\n</function>\n</tool_call>",
    ),
    (
        "glm-4.5",
        "<tool_call>read",
        "",
        ["\n<arg_key>NAME</arg_key>\n<arg_value>", "</arg_value>"],
        "",
        "\n</tool_call>",
    ),
    (
        "hermes",
        "<tool_call>\n{\"name\": \"read\", \"arguments\": ",
        "{",
        ["\"NAME\": ", ""],
        ", ",
        "}}\n</tool_call>",
    ),
    ("mistral-args", "[TOOL_CALLS]read[ARGS]", "{", ["\"NAME\":", ""], ",", "}"),
    ("lfm2", "<|tool_call_start|>[read", "(", ["NAME=", ""], ", ", ")]<|tool_call_end|>"),
    ("gemma-4", "<|tool_call>call:read", "{", ["NAME:", ""], ",", "}<tool_call|>"),
];

/// The text of `read` with these parameters.
fn written((format, open, begin, [before, after], separator, end): Written, names: &[&str]) -> String {
    let value = |name: &str| match (format, name) {
        ("qwen-coder" | "glm-4.5", "path") => "a.txt",
        ("gemma-4", "path") => "<|\"|>a.txt<|\"|>",
        (_, "path") => "\"a.txt\"",
        (_, "offset") => "1",
        _ => "23",
    };
    let parts = names.iter().map(|name| before.replace("NAME", name) + value(name) + after);
    [open, begin, &parts.collect::<Vec<_>>().join(separator), end].concat()
}

#[test]
fn parameters_have_any_order_none_is_missing_and_none_twice() {
    let (bench, tools) = (Bench::new("made-bpe-gpt-2"), tools());
    let orders: &[&[&str]] = &[
        &["path"],
        &["path", "limit"],
        &["limit", "path"],
        &["path", "limit", "offset"],
        &["offset", "path", "limit"],
        &["limit", "offset", "path"],
    ];
    let wrong: &[&[&str]] =
        &[&[], &["limit"], &["limit", "offset"], &["path", "path"], &["limit", "path", "limit"]];
    for format in WRITTEN {
        let tool_format = ToolFormat::named(format.0, &[]).expect("a format");
        let choice = Choice::Named("read".into());
        let lark = tool_format.grammar(&"", &tools, &choice, false, None).expect("a grammar").lark;
        let grammar = bench.compile(&Source::Lark(lark)).expect("a grammar");
        for (names, is_right) in
            orders.iter().map(|names| (names, true)).chain(wrong.iter().map(|names| (names, false)))
        {
            let text = written(*format, names);
            let verdict = bench.judge(&grammar, &text);
            assert_eq!(verdict == Verdict::Accepted, is_right, "{}: {text}: {verdict:?}", format.0);
        }
    }
}

const THINK: &str = "{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]<think>{{ m.reasoning_content }}</think>{{ m.content }}\
    {% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>{% for k, v in c.function.arguments | items %}\n\
    <parameter={{ k }}>\n{{ v }}\n</parameter>{% endfor %}\n</function>\n</tool_call>{% endfor %}{% endfor %}";

fn format() -> ToolFormat {
    Template::new(THINK, Specials::default()).expect("a template").tool_format()
}

/// Whether `text`, an answer in reasoning that the prompt has opened, is accepted.
fn reasoned(bench: &Bench, choice: &Choice, text: &str) -> Verdict {
    let grammar = format().grammar(&"<think>", &tools(), choice, true, None).expect("a grammar");
    let mut whole = bench.compile(&Source::Lark(grammar.lark)).expect("a grammar");
    if *choice == Choice::Auto {
        whole = whole.at_triggers(&grammar.triggers, &format().preamble(), false).expect("triggers");
    }
    let prompt = bench.vocabulary.tokenize(b"<think>").expect("tokens");
    Walk::of(whole.constraint(), prompt, &bench.tokenizer).read(&bench.vocabulary, text)
}

#[test]
fn a_call_ends_open_reasoning() {
    let bench = Bench::new("made-bpe-gpt-2");
    let call = "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>";
    let unknown = call.replace("read", "write");
    let refused = |verdict: &Verdict| matches!(verdict, Verdict::LeavesAt(_));
    for (text, auto, required) in [
        (format!("I need it.\n{call}"), Verdict::Accepted, Verdict::Accepted),
        (format!("{call}\n{call}"), Verdict::Accepted, Verdict::Accepted),
        (format!("Hm.</think>\n\n{call}"), Verdict::Accepted, Verdict::Accepted),
        // It is mentioned.
        (format!("`<tool_call>` it is.</think>{call}"), Verdict::Accepted, Verdict::Accepted),
        ("A <tool_call> may follow. Hm".to_owned(), Verdict::Accepted, Verdict::LeavesAt(0)),
        (format!("'{unknown}'</think>{call}"), Verdict::Accepted, Verdict::Accepted),
        ("Hm.".to_owned(), Verdict::Accepted, Verdict::Incomplete),
        // No such parameter.
        (format!("So: {}", call.replace("path", "paths")), Verdict::LeavesAt(0), Verdict::LeavesAt(0)),
    ] {
        for (choice, expected) in [(Choice::Auto, auto), (Choice::Required, required)] {
            let found = reasoned(&bench, &choice, &text);
            let is_same = found == expected || refused(&found) && refused(&expected);
            assert!(is_same, "{choice:?} {text:?}: {found:?}");
        }
    }
}

/// Calls begin in reasoning only with a name.
#[test]
fn triggers_in_reasoning_have_names() {
    let grammar = format().grammar(&"<think>", &tools(), &Choice::Auto, true, None).expect("a grammar");
    let in_reasoning = |place| place == OpeningPlace::Reasoning;
    let texts: Vec<String> =
        grammar.triggers.iter().filter(|t| in_reasoning(t.place)).map(|t| t.text()).collect();
    assert!(texts.contains(&"<tool_call>\n<function=read>".to_owned()), "{texts:?}");
    let names = ["=read>", "=read_file>", "=get_time>"];
    assert!(texts.iter().all(|text| names.iter().any(|name| text.ends_with(name))), "{texts:?}");
}
