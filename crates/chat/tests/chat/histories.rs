//! Conversations as clients send them back: each answer that a server can give, roles that do not alternate, calls without results.

use chat::{Calls, Choice, Message, Options, Specials, Template, builtin, builtin_names};
use serde_json::{Value as Json, json};

use crate::tool_calls::read_all;

/// The templates at hand, with their names.
fn templates() -> Vec<(String, Template)> {
    let mut sources: Vec<(String, String)> =
        builtin_names().map(|name| (name.to_owned(), builtin(name).expect("a template"))).collect();
    if let Some(folder) = testkit::shared("templates") {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a file").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            if name.ends_with(".jinja") {
                sources.push((name, std::fs::read_to_string(path).expect("a template")));
            }
        }
    }
    let specials = || Specials { bos: Some("<s>".into()), eos: Some("</s>".into()), tokens: Vec::new() };
    let template = |(name, source): (String, String)| {
        let template = Template::new(&source, specials()).expect("a template");
        (name, template)
    };
    sources.into_iter().map(template).collect()
}

fn tools() -> Vec<Json> {
    let tool = |name: &str| {
        let parameters = json!({ "type": "object", "properties": { "place": { "type": "string" } } });
        json!({ "type": "function", "function": { "name": name, "description": "Counts.", "parameters": parameters } })
    };
    ["count_otters", "count_newts"].map(tool).into()
}

/// An answer with these parts; arguments are as they were written.
fn answer(content: &str, reasoning: Option<&str>, arguments: &[&str]) -> Message {
    let call = |(number, arguments): (usize, &&str)| {
        let name = ["count_otters", "count_newts"][number % 2];
        json!({ "id": format!("call_{number}_abcdefghijkl"), "function": { "name": name, "arguments": arguments } })
    };
    let calls: Vec<Json> = arguments.iter().enumerate().map(call).collect();
    let message = json!({ "role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": calls });
    serde_json::from_value(message).expect("a message")
}

fn result(number: usize) -> Message {
    let id = Some(format!("call_{number}_abcdefghijkl"));
    Message { tool_call_id: id, ..Message::new("tool", format!("Result-{number}-is-here")) }
}

fn options(tools: Vec<Json>) -> Options {
    Options { tools, ..Options::default() }
}

/// Every shape of answer is accepted back, and its calls, the results and the next question are in the prompt.
#[test]
fn every_answer_can_be_sent_back() {
    let arguments: [&[&str]; 7] = [
        &[],
        &["{\"place\": \"Bath-0\"}"],
        &["{\"place\": \"Bath-0\"}", "{\"place\": \"Bath-1\"}"],
        &["{\"place\": \"Bath-0\"}", "{}", "{\"place\": \"Bath-2\"}"],
        &["{}"],
        &[""],
        // Cut by length.
        &["{\"place\": \"Bath-0"],
    ];
    for (name, template) in templates() {
        for (content, reasoning) in
            [("", None), ("I look.", None), ("", Some("Hm.")), ("I look.", Some("Hm."))]
        {
            for arguments in arguments {
                for given in [tools(), Vec::new()] {
                    let answer = answer(content, reasoning, arguments);
                    let mut messages = vec![Message::new("user", "First-question"), answer];
                    messages.extend((0..arguments.len()).map(result));
                    messages.push(Message::new("user", "Next-question"));
                    let what =
                        format!("{name}: {content:?} {reasoning:?} {arguments:?}, {} tools", given.len());
                    let prompt = template.render(&messages, &options(given));
                    let prompt = prompt.unwrap_or_else(|error| panic!("{what}: {error}")).to_string();
                    for (number, arguments) in arguments.iter().enumerate() {
                        let value = format!("Bath-{number}");
                        let has = prompt.contains(&value) || !arguments.contains(&value);
                        let is_called = prompt.contains(["count_otters", "count_newts"][number % 2]);
                        assert!(has && is_called, "{what}: no call {number} in {prompt}");
                        assert!(prompt.contains(&format!("Result-{number}-is-here")), "{what}: {prompt}");
                    }
                    for text in ["First-question", "Next-question"] {
                        assert!(prompt.contains(text), "{what}: {prompt}");
                    }
                }
            }
        }
    }
}

/// Roles that do not alternate, calls without results, results without calls: nothing that was said is missing.
#[test]
fn conversations_need_not_alternate() {
    let user = |text: &str| Message::new("user", text);
    let said = |text: &str| Message::new("assistant", text);
    let called = || answer("", None, &["{\"place\": \"Bath-0\"}"]);
    let conversations = [
        vec![user("Aa"), user("Bb")],
        vec![said("Aa"), user("Bb")],
        vec![Message::new("system", "Ss"), said("Aa"), user("Bb")],
        vec![user("Aa"), said("Bb"), said("Cc"), user("Dd")],
        vec![user("Aa"), said(""), user("Bb")],
        vec![user("Aa"), Message::new("system", "Ss"), user("Bb")],
        // An agent that was interrupted.
        vec![user("Aa"), called(), user("Bb")],
        vec![user("Aa"), called(), result(0), user("Bb")],
        vec![user("Aa"), called(), result(0), said("Bb"), user("Cc"), called(), result(0)],
        vec![user("Aa"), result(0), user("Bb")],
    ];
    for (name, template) in templates() {
        for messages in &conversations {
            let prompt = template.render(messages, &Options::default());
            let prompt = prompt.unwrap_or_else(|error| panic!("{name}: {error}: {messages:?}")).to_string();
            for message in messages {
                assert!(prompt.contains(&*message.text()), "{name}: no {:?} in {prompt}", message.text());
            }
        }
    }
}

/// A model whose template writes no tools gets them in the system message, and answers with lines of JSON.
#[test]
fn tools_are_a_text_where_the_template_writes_none() {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    let template = Template::new(source, Specials::default()).expect("a template");
    assert!(template.tool_format().is_generic());
    let messages = [
        Message::new("system", "Be brief."),
        Message::new("user", "q"),
        answer("", None, &["{\"place\": \"Bath-0\"}", "{}"]),
        result(1),
        result(0),
    ];
    let prompt = template.render(&messages, &options(tools())).expect("a prompt");
    let text = prompt.to_string();
    let (head, rest) = text.split_once("<user>q").expect("a question");
    assert!(head.starts_with("<system>Be brief.\n") && head.contains("\"name\":\"count_newts\""), "{head}");
    assert_eq!(
        rest,
        "<assistant>{\"name\":\"count_otters\",\"arguments\":{\"place\":\"Bath-0\"}}\n{\"name\":\"count_newts\",\"arguments\":{}}\
         <user>Result of count_newts:\nResult-1-is-here\n\nResult of count_otters:\nResult-0-is-here<assistant>"
    );
    // Valid lines are calls, other text is content.
    for (answer, content, calls) in [
        ("{\"name\": \"count_newts\", \"arguments\": {\"place\": \"Bath\"}}", "", 1),
        ("{\"name\": \"count_newts\"}\n{\"name\": \"count_otters\", \"arguments\": {}}\n", "", 2),
        ("{\"name\": \"count_bees\"}", "{\"name\": \"count_bees\"}", 0),
        ("There are 3.", "There are 3.", 0),
    ] {
        let read = read_all(|mode| prompt.parser(mode), answer);
        assert_eq!((&*read.content, read.tool_calls.len()), (content, calls), "{answer}");
    }
    let tools = prompt.tools().expect("tools");
    let grammar = prompt.grammar(tools, &Choice::Auto, true, None).expect("a grammar");
    assert!(
        grammar.triggers.iter().any(|trigger| trigger.text() == "{\"name\": \"count_newts\""),
        "{grammar:?}"
    );
    assert!(prompt.parser(Calls::Whole).push_text("a").len() == 1);
}
