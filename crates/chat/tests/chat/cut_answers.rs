//! Answers that a limit or a stop sequence cuts.

use chat::{Answer, AnswerParser, Calls, Delta, ToolFormat};
use proptest::prelude::*;

use crate::tool_answers::{parser, parts, prompt_for};
use crate::tool_calls::{calls, prompt_of, read};

/// Formats whose calls may begin without a mark.
const UNMARKED: &[&str] = &["llama-json", "pythonic"];

/// What comes of an answer that is cut, and how many of its calls are complete.
fn read_cut(mut parser: AnswerParser, text: &str) -> (Answer, usize) {
    let mut answer = Answer::default();
    let mut complete = 0;
    let mut deltas = parser.push_text(text);
    deltas.extend(parser.cut());
    for delta in deltas {
        complete += usize::from(matches!(delta, Delta::ToolCallEnd { .. }));
        answer.push(delta);
    }
    (answer, complete)
}

/// A limit may cut an answer anywhere: marks are never content, and a call whose name is known is one.
#[test]
fn cut_answers_show_no_marks() {
    for (format, text, content, name, arguments) in [
        ("hermes", "Let me see.\n\n<tool_c", "Let me see.", "", ""),
        ("hermes", "<tool_call>\n{\"n", "", "", ""),
        ("hermes", "<tool_call>\n{\"name\": \"get_wea", "", "", ""),
        ("hermes", "<tool_call>\n{\"name\": \"get_weather\"", "", "get_weather", ""),
        (
            "hermes",
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa",
            "",
            "get_weather",
            "{\"city\": \"Pa",
        ),
        ("hermes", "<tool_call>{\"name\": \"get_time\", \"arguments\": {}", "", "get_time", "{}"),
        ("hermes", "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}\n</tool_", "", "get_time", "{}"),
        ("hermes", "<tool_call>{\"name\": \"get_time\"}</tool_call>\n<tool_ca", "", "get_time", "{}"),
        (
            "hermes",
            "<tool_call>{\"name\": \"get_time\"}</tool_call>\n<tool_call>\n{\"na",
            "",
            "get_time",
            "{}",
        ),
        ("mistral-list", "[TOOL_CALLS][{\"na", "", "", ""),
        (
            "mistral-list",
            "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\"",
            "",
            "get_weather",
            "{\"city\"",
        ),
        ("mistral-args", "[TOOL_CALLS]get_wea", "", "", ""),
        (
            "qwen-coder",
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nPa",
            "",
            "get_weather",
            "{\"city\":\"Pa",
        ),
        // Without a mark, it may be anything.
        ("llama-json", "{\"na", "{\"na", "", ""),
        ("llama-json", "{\"name\": \"get_weather\", \"par", "", "get_weather", ""),
        ("llama-json", "<|python_tag|>{\"na", "", "", ""),
        ("pythonic", "[get_wea", "[get_wea", "", ""),
        ("pythonic", "[get_weather(ci", "", "get_weather", ""),
        // What is no beginning of a mark is content, and so is white space.
        ("hermes", "a <tool> \n", "a <tool> \n", "", ""),
    ] {
        for mode in [Calls::Whole, Calls::Streamed] {
            let (found, _) = read_cut(parser(format, &prompt_of(""), mode), text);
            let calls: Vec<_> = found.tool_calls.iter().map(|call| call.function.clone()).collect();
            let call = chat::FunctionCall { name: name.into(), arguments: arguments.into() };
            let expected: Vec<_> = [call].into_iter().filter(|_| !name.is_empty()).collect();
            assert_eq!((&*found.content, calls), (content, expected), "{format}: {text:?}, {mode:?}");
        }
    }
}

proptest! {
    /// What is cut is the beginning of the whole, but for white space, and for a call that no mark precedes.
    #[test]
    fn cut_answers_begin_as_whole_ones(
        format in prop::sample::select(ToolFormat::names().filter(|name| !UNMARKED.contains(name)).collect::<Vec<_>>()),
        parts in prop::collection::vec(parts(), 0..14),
        at: prop::sample::Index,
        mode in prop::sample::select(vec![Calls::Whole, Calls::Streamed]),
    ) {
        let answer = parts.concat();
        let at = answer.floor_char_boundary(at.index(answer.len() + 1));
        let prompt = prompt_for(format);
        let whole = read(parser(format, &prompt, Calls::Whole), [&*answer]);
        let (cut, complete) = read_cut(parser(format, &prompt, mode), &answer[..at]);
        prop_assert!(whole.content.starts_with(cut.content.trim_end()), "{:?} of {:?}", cut.content, whole.content);
        let calls = calls(&whole);
        prop_assert!(complete <= calls.as_array().map_or(0, Vec::len));
        for (call, whole) in cut.tool_calls.iter().take(complete).zip(&whole.tool_calls) {
            prop_assert_eq!(&call.function, &whole.function);
        }
        prop_assert!(cut.tool_calls.len() - complete <= 1);
    }
}
