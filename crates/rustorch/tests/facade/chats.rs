//! Conversations.

use rustorch::engine::backend::PAGE;
use rustorch::engine::{Chat, Event};
use rustorch::{Params, Piece, Result};

use crate::{demo, options};

const QUESTIONS: [&str; 3] =
    ["Hello! Who are you?", "What is the capital of Italy?", "And what is two plus three?"];

/// The engine's chat, step by step.
#[test]
fn answers_are_those_of_the_engines_chat() {
    let mut engine = options().engine(crate::errors::demo_file()).expect("loads");
    let mut expected = Chat::new(&engine);
    expected.set_system(Some("Be kind.".into()));
    expected.params = Params { seed: Some(5), ..Params::default() };
    let mut chat = demo().chat().system("Be kind.").seed(5);
    for question in QUESTIONS {
        let mut answer = chat.say(question);
        let text: String = answer.by_ref().collect::<Result<_>>().expect("an answer");
        let end = answer.end().expect("an end").clone();
        drop(answer);
        expected.say(&mut engine, question).expect("a question");
        while expected.pending().is_some() {
            for event in engine.step().expect("a step") {
                expected.on_event(&event);
                if let Event::Done { reason, usage, .. } = event {
                    assert_eq!((&end.reason, end.usage.reused_tokens), (&reason, usage.reused_tokens));
                }
            }
        }
        assert_eq!(chat.messages(), expected.messages());
        assert_eq!(chat.messages().last().expect("an answer").text(), text);
    }
    assert_eq!(chat.messages().len(), 1 + 2 * QUESTIONS.len());
}

/// Chats take turns in any order, and find what all of them have computed.
#[test]
fn chats_do_not_disturb_each_other() {
    let ask = |chat: &mut rustorch::Chat, question| {
        let mut answer = chat.say(question);
        let text: String = answer.by_ref().collect::<Result<_>>().expect("an answer");
        (text, answer.end().expect("an end").usage.reused_tokens)
    };
    let model = demo();
    let mut alone = model.chat().temperature(0.0);
    let expected = QUESTIONS.map(|question| ask(&mut alone, question));
    assert!(expected[0].1 == 0 && expected[1].1 > 0 && expected[2].1 > expected[1].1);
    let is_same = |answer: (String, usize), expected: &(String, usize)| {
        assert_eq!(answer.0, expected.0);
        assert!(answer.1 / PAGE >= expected.1 / PAGE, "{answer:?} {expected:?}");
    };
    let expected_first = expected[0].clone();
    let [mut one, mut two] = [model.chat().temperature(0.0), model.chat().temperature(0.0)];
    for (question, expected) in QUESTIONS.iter().zip(expected) {
        is_same(ask(&mut one, *question), &expected);
        is_same(ask(&mut two, *question), &expected);
    }
    one.clear().expect("an empty chat");
    assert!(one.messages().is_empty());
    is_same(ask(&mut one, QUESTIONS[0]), &expected_first);
}

#[test]
fn a_dropped_answer_ends_where_it_was_read() {
    let model = demo();
    let mut chat = model.chat().temperature(0.0);
    let whole = chat.say(QUESTIONS[0]).text().expect("an answer");
    chat.clear().expect("an empty chat");
    let pieces: Vec<Piece> = chat.say(QUESTIONS[0]).take(5).collect::<Result<_>>().expect("an answer");
    let read: String = pieces.into_iter().collect();
    assert!(!read.is_empty() && read.len() < whole.len() && whole.starts_with(&read));
    assert_eq!(chat.messages()[1].text(), read);
    drop(chat.say("Nobody listens."));
    assert_eq!(chat.messages().len(), 2, "a turn without an answer is undone");
    assert_eq!(chat.say(QUESTIONS[1]).text().expect("an answer"), "The capital of Italy is Rome.");
    assert_eq!(chat.messages().len(), 4);
}

#[test]
fn hooks_and_limits_hold_in_chats() {
    let model = demo();
    let plain = model.chat().temperature(0.0).say(QUESTIONS[1]).text().expect("an answer");
    let forbidden = model.tokenize("The")[0] as usize;
    let forbid = move |_: &[u32], logits: &mut [f32]| logits[forbidden] = f32::NEG_INFINITY;
    let mut chat = model.chat().temperature(0.0).max_tokens(4).sampler(forbid);
    for _ in 0..2 {
        let answer = chat.say(QUESTIONS[1]).text().expect("an answer");
        assert!(plain.starts_with("The") && !answer.contains("The"), "{plain} {answer}");
        chat.clear().expect("an empty chat");
    }
}
