//! Requests, streams and what they are made of.

use std::future::poll_fn;

use rustorch::{
    Choice, Completion, Conversation, DeltaKind, Error, Field, GrammarSource, Input, Message, Params, Part,
    PromptPiece, Request, Result, StopReason, TemplateUse,
};
use serde_json::json;

use crate::{demo, options};

fn greedy(input: impl Into<Input>) -> Request {
    let params = Params { temperature: 0.0, max_tokens: Some(30), ..Params::default() };
    Request { params, ..Request::new(input) }
}

fn question() -> Vec<Message> {
    vec![Message::new("user", "What is the capital of Italy?")]
}

#[test]
fn a_stream_has_tokens_then_parts_then_an_end() {
    let deltas: Vec<_> = demo()
        .submit(greedy(Conversation::new(question())))
        .expect("a request")
        .into_iter()
        .collect::<Result<_>>()
        .expect("an answer");
    let text: String = deltas.iter().map(ToString::to_string).collect();
    assert_eq!(text, "The capital of Italy is Rome.");
    assert!(matches!(deltas[0].kind, DeltaKind::Token { .. }));
    let (DeltaKind::End(end), others) = (&deltas.last().expect("an end").kind, &deltas[..deltas.len() - 1])
    else {
        panic!("{deltas:?}")
    };
    assert!(matches!(end.reason, StopReason::Eog(_)));
    let tokens = others.iter().filter(|delta| matches!(delta.kind, DeltaKind::Token { .. })).count();
    assert_eq!(tokens, end.usage.generated_tokens);
    assert!(others.iter().all(|delta| !matches!(delta.kind, DeltaKind::End(_))));
}

/// Polled by an async runtime, a stream has the pieces of the iterator.
#[test]
fn a_stream_is_async_too() {
    let blocking: Vec<_> = demo()
        .submit(greedy("1 + 2 ="))
        .expect("a request")
        .into_iter()
        .collect::<Result<_>>()
        .expect("a text");
    let mut stream = demo().submit(greedy("1 + 2 =")).expect("a request");
    let polled: Vec<_> = pollster::block_on(async {
        stream.accepted().await.expect("it is valid");
        let mut polled = Vec::new();
        while let Some(delta) = poll_fn(|context| stream.poll_delta(context)).await {
            polled.push(delta.expect("a piece"));
        }
        polled
    });
    let texts = |deltas: &[rustorch::Delta]| deltas.iter().map(ToString::to_string).collect::<String>();
    assert_eq!(texts(&polled), texts(&blocking));
    assert_eq!(polled.len(), blocking.len());
}

#[test]
fn an_invalid_request_is_refused_before_it_is_accepted() {
    let model = options().n_ctx(32).demo().expect("the demo model");
    let mut stream = model.submit(greedy("word ".repeat(40))).expect("a request");
    let error = pollster::block_on(stream.accepted()).expect_err("too long");
    assert!(error.to_string().contains("n_ctx"), "{error}");
    assert!(stream.wait().is_none());
}

#[test]
fn choices_are_numbered_and_have_seeds_that_follow_each_other() {
    let params = Params { n: 3, seed: Some(7), max_tokens: Some(12), temperature: 1.5, ..Params::default() };
    let mut texts = vec![String::new(); 3];
    for delta in demo().submit(Request { params: params.clone(), ..Request::new("Once") }).expect("a request")
    {
        let delta = delta.expect("a piece");
        texts[delta.choice] += delta.text().unwrap_or_default();
    }
    for (number, text) in (7..).zip(&texts) {
        let alone = Params { n: 1, seed: Some(number), ..params.clone() };
        assert_eq!(&demo().generate("Once").params(alone).text().expect("a text"), text);
    }
    assert_ne!(texts[0], texts[1]);
}

/// Requests that are submitted together are accepted together or not at all.
#[test]
fn a_bad_request_refuses_those_with_it() {
    let model = demo();
    let good = || model.prepare(greedy("One")).expect("a request");
    let bad = model.prepare(Request::new(Vec::new())).expect("a request");
    let mut stream = model.submit_all(vec![good(), bad]).expect("a stream");
    assert!(pollster::block_on(stream.accepted()).is_err());
    let stream = model.submit_all(vec![good(), good()]).expect("a stream");
    let mut texts = [String::new(), String::new()];
    for delta in stream {
        let delta = delta.expect("a piece");
        texts[delta.choice] += delta.text().unwrap_or_default();
    }
    assert!(texts[0] == texts[1] && !texts[0].is_empty());
}

#[test]
fn a_request_that_another_model_prepared_is_refused() {
    let other = options().demo().expect("the demo model");
    let request = other.prepare(greedy("One")).expect("a request");
    assert!(matches!(demo().submit_all(vec![request]), Err(rustorch::Error::OtherModel)));
}

#[test]
fn a_stopper_ends_an_answer_from_another_thread() {
    let mut stream = demo().submit(Request::new("Once upon a time")).expect("a request");
    stream.wait().expect("a token").expect("a token");
    let stopper = stream.stopper();
    std::thread::spawn(move || stopper.stop()).join().expect("no panic");
    let Some(Ok(DeltaKind::End(end))) = stream.into_iter().map(|delta| delta.map(|delta| delta.kind)).last()
    else {
        panic!("it has no end")
    };
    assert_eq!(end.reason, StopReason::Cancelled);
}

#[test]
fn messages_answers_and_usage_come_together() {
    let Completion { text, tokens, end, reasoning, tool_calls } =
        demo().answer(question()).temperature(0.0).complete().expect("an answer");
    assert_eq!(text, "The capital of Italy is Rome.");
    assert_eq!(end.usage.generated_tokens, tokens.len());
    assert!(end.usage.prompt_tokens > 5 && reasoning.is_empty() && tool_calls.is_empty());
    let mut chat = demo().chat().temperature(0.0).with_messages(question());
    assert_eq!(chat.answer().text().expect("an answer"), text);
    assert_eq!(chat.messages().len(), 2);
}

/// An answer that has begun is continued, by the rules of the template.
#[test]
fn an_answer_that_has_begun_is_continued() {
    let mut messages = question();
    messages.push(Message::new("assistant", "The capital of"));
    let text = demo().answer(messages).temperature(0.0).text().expect("an answer");
    assert_eq!(text, " Italy is Rome.");
    let only = vec![Message::new("assistant", "The")];
    let error = demo().answer(only).text().expect_err("no question");
    assert!(matches!(error, Error::Invalid { field: Field::Messages, .. }), "{error}");
    let error = demo().answer(Vec::new()).text().expect_err("no messages");
    assert!(matches!(error, Error::Invalid { field: Field::Messages, .. }), "{error}");
}

#[test]
fn pieces_of_a_prompt_are_joined() {
    let model = demo();
    let whole = model.prepare(Request::new("The capital of Spain is")).expect("a request").prompt().to_vec();
    let text = PromptPiece::Text { text: "The capital".into(), parse_special: false };
    let pieces = vec![text, PromptPiece::Tokens(model.tokenize(" of Spain is"))];
    let joined = model.prepare(Request::new(Input::Prompt(pieces))).expect("a request").prompt().to_vec();
    assert_eq!(model.detokenize(&joined), model.detokenize(&whole));
    assert_eq!(joined[0], whole[0]);
}

#[test]
fn a_conversation_without_template_is_plain_text() {
    let model = demo();
    let raw = Conversation { template: TemplateUse::Never, ..Conversation::new(question()) };
    let expected = model.prepare(Request::new("What is the capital of Italy?")).expect("a request");
    assert_eq!(model.prepare(Request::new(raw)).expect("a request").prompt(), expected.prompt());
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Colour {
    name: Name,
    red: u8,
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
enum Name {
    Red,
    Blue,
}

#[test]
fn answers_are_values_of_types() {
    for seed in 1..4 {
        let colour: Colour = demo().generate("A colour: ").seed(seed).json().expect("a colour");
        assert!(matches!(colour.name, Name::Red | Name::Blue) && u16::from(colour.red) < 256);
    }
    let name: Name = demo().chat().seed(3).ask("Red or blue?").expect("a name");
    assert!(matches!(name, Name::Red | Name::Blue));
    let cut = demo().generate("A colour: ").max_tokens(2).json::<Colour>().expect_err("it is cut");
    assert!(matches!(cut, Error::Json { .. }), "{cut}");
}

#[test]
fn formats_and_tools_name_the_field_at_fault() {
    let model = demo();
    let format = Some(GrammarSource::Regex("(".into()));
    let error = model.submit(Request { format, ..Request::new("A") }).expect_err("a broken expression");
    assert!(matches!(error, Error::Grammar { field: Field::Format, .. }), "{error}");
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } });
    let conversation = Conversation::new(question()).tools(vec![tool]);
    // The template of the demo model writes no tools: they are in the system message, and calls are lines of JSON.
    let prepared = model.prepare(Request::new(conversation.clone())).expect("a request");
    assert!(prepared.tool_format().is_some_and(|format| format.is_generic()));
    let required = Conversation { tool_choice: Some(Choice::Required), ..conversation.clone() };
    let deltas: Vec<_> = model
        .submit(greedy(required))
        .expect("a request")
        .into_iter()
        .collect::<Result<_>>()
        .expect("a call");
    let parts = deltas.into_iter().filter_map(|delta| match delta.kind {
        DeltaKind::Part(part) => Some(part),
        _ => None,
    });
    let answer = parts.collect::<chat::Answer>();
    assert_eq!(answer.tool_calls.len(), 1, "{answer:?}");
    assert_eq!((&*answer.tool_calls[0].function.name, &*answer.content), ("f", ""));
    let hidden = Conversation { tool_choice: None, ..conversation };
    assert!(model.submit(greedy(hidden)).is_ok());
}

/// The prompt's progress ends with the prompt, and its log-probabilities are those of its tokens.
#[test]
fn prompts_are_observed() {
    let model = demo();
    let request = Request { progress: true, prompt_logprobs: Some(1), ..greedy("The capital of France is") };
    let prompt = model.prepare(request.clone()).expect("a request").prompt().to_vec();
    let deltas: Vec<_> =
        model.submit(request).expect("a request").into_iter().collect::<Result<_>>().expect("a text");
    let ids = deltas.iter().filter_map(|delta| match &delta.kind {
        DeltaKind::PromptToken { id, logprobs } => {
            assert!(logprobs.token <= 0.0 && logprobs.top.len() == 1);
            Some(*id)
        }
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), prompt[1..]);
    let mut progress = deltas.iter().filter_map(|delta| match delta.kind {
        DeltaKind::Progress(progress) => Some(progress),
        _ => None,
    });
    let last = progress.next_back().expect("progress");
    assert_eq!((last.processed, last.total), (prompt.len(), prompt.len()));
    assert!(deltas.iter().any(|delta| matches!(&delta.kind, DeltaKind::Part(Part::Content(_)))));
}
