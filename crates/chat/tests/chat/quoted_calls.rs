//! Calls in reasoning that is not closed, and headers of what is no call.

use chat::{Answer, Calls, Specials, Template};
use serde_json::json;

use crate::tool_answers::{THINK, tools};
use crate::tool_calls::{calls, prompt_of, read_all};
use crate::tool_grammars::HARMONY;

/// Reasoning that is not closed ends with its calls; what is quoted there is none.
#[test]
fn a_call_ends_open_reasoning() {
    let template = Template::new(THINK, Specials::default()).expect("a template");
    let format = template.tool_format();
    let call = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>";
    let cut = &call[..call.len() - 15];
    let one = json!([["get_time", {}]]);
    let two = json!([["get_time", {}], ["get_time", {}]]);
    for (answer, reasoning, content, found) in [
        (format!("I need it.\n{call}"), "I need it.".to_owned(), "", &one),
        (format!("I need it.\n{call}\n{call}\n"), "I need it.".to_owned(), "", &two),
        (call.to_owned(), String::new(), "", &one),
        // Quoted: behind a quotation mark, in reasoning that goes on, in reasoning that is closed.
        (format!("As `{call}`."), format!("As `{call}`."), "", &json!([])),
        (format!("As {call} it is.</think>No."), format!("As {call} it is."), "No.", &json!([])),
        (format!("As\n{call}\n</think>\n\nNo.\n{call}"), format!("As\n{call}"), "No.", &one),
        // No call.
        (format!("A <tool_call> or so.</think>{call}"), "A <tool_call> or so.".to_owned(), "", &one),
        ("Hm <tool_call>".to_owned(), "Hm <tool_call>".to_owned(), "", &json!([])),
    ] {
        let read = read_all(|mode| format.parser(&prompt_of("<think>"), tools(), mode), &answer);
        assert_eq!((&*read.reasoning, &*read.content), (&*reasoning, content), "{answer:?}");
        assert_eq!(calls(&read), *found, "{answer:?}");
    }
    // One that is cut is a call.
    let mut parser = format.parser(&prompt_of("<think>"), tools(), Calls::Whole);
    let deltas = parser.push_text(&format!("Hm.\n{cut}")).into_iter().chain(parser.cut());
    let read = Answer::from_iter(deltas.collect::<Vec<_>>());
    assert_eq!((&*read.reasoning, read.tool_calls.len()), ("Hm.", 1));
}

/// A call of a tool that there is not, in a header of Harmony, is its text alone.
#[test]
fn no_header_of_harmony_is_content() {
    let template = Template::new(HARMONY, Specials::default()).expect("a template");
    let format = template.tool_format();
    let unknown = "<|channel|>commentary to=functions.no <|constrain|>json<|message|>{\"a\": 1}<|call|>";
    let broken = unknown.replace("functions.no", "functions.get_time").replace("1}", "1]");
    for (answer, content) in [(unknown, "{\"a\": 1}"), (&*broken, "{\"a\": 1]")] {
        let read = read_all(|mode| format.parser(&prompt_of("<|start|>assistant"), tools(), mode), answer);
        assert_eq!((&*read.content, &*read.reasoning, read.tool_calls.len()), (content, "", 0), "{answer:?}");
    }
}
