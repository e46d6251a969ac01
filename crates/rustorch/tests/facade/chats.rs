//! Conversations.

use rustorch::engine::backend::PAGE;
use rustorch::{Message, Piece, Result};

use crate::{demo, options};

const QUESTIONS: [&str; 3] =
    ["Hello! Who are you?", "What is the capital of Italy?", "And what is two plus three?"];

/// A turn that reuses the cache has the text of a fresh model that is given the whole conversation.
#[test]
fn answers_are_those_of_a_fresh_model() {
    let fresh = options().demo().expect("the demo model");
    let mut chat = demo().chat().system("Be kind.").seed(5);
    let mut reused = Vec::new();
    for question in QUESTIONS {
        let mut messages = chat.messages().to_vec();
        messages.push(Message::new("user", question));
        let expected = fresh.answer(messages).seed(5).complete().expect("an answer");
        let mut answer = chat.say(question);
        let text: String = answer.by_ref().collect::<Result<_>>().expect("an answer");
        let end = answer.end().expect("an end").clone();
        drop(answer);
        assert_eq!((&text, &end.reason), (&expected.text, &expected.end.reason));
        assert_eq!(chat.messages().last().expect("an answer").text(), text);
        fresh.with_engine(|engine| engine.clear_cache()).expect("an engine");
        reused.push(end.usage.reused_tokens);
    }
    assert!(reused[1] > 0 && reused[2] > reused[1], "{reused:?}");
    assert_eq!(chat.messages().len(), 1 + 2 * QUESTIONS.len());
}

#[test]
fn conversations_are_saved_and_dropped_turn_by_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, other) = (folder.path().join("chat.json"), folder.path().join("other.txt"));
    let model = demo();
    let mut chat = model.chat().system("Be kind.").temperature(0.0);
    for question in QUESTIONS {
        chat.say(question).text().expect("an answer");
    }
    chat.save(&path).expect("a file");
    chat.save(&path).expect("the same file");
    std::fs::write(&other, "text of somebody else").expect("a file");
    assert!(chat.save(&other).is_err() && chat.load(&other).is_err());
    let mut loaded = model.chat();
    loaded.load(&path).expect("a conversation");
    assert_eq!(loaded.messages(), chat.messages());
    assert!(loaded.drop_oldest());
    assert_eq!(loaded.messages().len(), 5);
    assert_eq!(loaded.messages()[1].text(), QUESTIONS[1]);
    let n_ctx = model.n_ctx().expect("a context");
    assert_eq!(loaded.make_room("Hello", 1).expect("room"), 0);
    assert_eq!(loaded.make_room("Hello", n_ctx).expect("as much room as there is"), 2);
    assert_eq!(loaded.messages().len(), 1);
    assert!(!loaded.drop_oldest());
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
    one.clear();
    assert!(one.messages().is_empty());
    is_same(ask(&mut one, QUESTIONS[0]), &expected_first);
}

#[test]
fn a_dropped_answer_ends_where_it_was_read() {
    let model = demo();
    let mut chat = model.chat().temperature(0.0);
    let whole = chat.say(QUESTIONS[0]).text().expect("an answer");
    chat.clear();
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
        chat.clear();
    }
}
