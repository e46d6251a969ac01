//! Conversations: reuse of the cache, templates, what ends an answer, full contexts, files.

use std::num::NonZero;
use std::sync::Arc;

use quant::Format;
use rustorch::engine::backend::KV_BLOCK;
use rustorch::engine::tokenizer::Encode;
use rustorch::engine::{self, NoTemplate};
use rustorch::gguf::{self, Array, Gguf, Metadata};
use rustorch::{
    Chat, End, Engine, Error, Message, Model, Params, Piece, Result, StopReason, Stopper, Stream,
};
use testkit::fixtures::Spec;

use crate::{demo, options};

const QUESTIONS: [&str; 3] =
    ["Hello! Who are you?", "What is the capital of Italy?", "And what is two plus three?"];

/// A random model of two layers and 512 tokens.
fn spec(format: Format) -> Spec {
    Spec { layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, context: 256, ..Spec::new(format) }
}

/// That model on the CPU.
fn random(format: Format) -> Model {
    serve(engine::Model::new(file(spec(format).file())).expect("a model"), engine::Options::default())
}

/// That model with other metadata.
fn with_metadata(metadata: &Metadata) -> Model {
    let tensors = spec(Format::F32).tensors();
    let file = file(gguf::write(Vec::new(), metadata, &tensors).expect("valid tensors"));
    serve(engine::Model::new(file).expect("a model"), engine::Options::default())
}

/// That model with another chat template, or none.
fn with_template(template: Option<&str>) -> Model {
    let mut metadata = spec(Format::F32).metadata();
    metadata.remove("tokenizer.chat_template");
    if let Some(template) = template {
        metadata.insert("tokenizer.chat_template", template);
    }
    with_metadata(&metadata)
}

/// That model with another chat template, and with `name` as the special token 500.
fn with_special_token(name: &str, template: &str) -> Model {
    let mut metadata = spec(Format::F32).metadata();
    let mut tokens =
        metadata.strings("tokenizer.ggml.tokens").expect("an array").expect("it is there").to_vec();
    let mut types =
        metadata.i32s("tokenizer.ggml.token_type").expect("an array").expect("it is there").to_vec();
    (tokens[500], types[500]) = (name.into(), 3);
    metadata.insert("tokenizer.ggml.tokens", Array::String(tokens));
    metadata.insert("tokenizer.ggml.token_type", Array::I32(types));
    metadata.insert("tokenizer.chat_template", template);
    with_metadata(&metadata)
}

fn with_context(n_ctx: usize) -> Model {
    let model = engine::Model::new(file(spec(Format::F32).file())).expect("a model");
    serve(model, engine::Options { n_ctx: Some(n_ctx), ..engine::Options::default() })
}

fn file(bytes: Vec<u8>) -> Gguf {
    Gguf::from_bytes(bytes.into()).expect("a file")
}

fn serve(model: engine::Model, options: engine::Options) -> Model {
    let cpu = Box::new(backend_cpu::Cpu::new(NonZero::new(1)));
    let engine = Engine::new(Arc::new(model), cpu, options).expect("the CPU computes the model");
    Model::from_engine(engine, None).expect("a thread")
}

/// A chat with short, greedy answers.
fn chat(model: &Model) -> Chat {
    model.chat().params(Params { max_tokens: Some(12), ..Params::greedy() })
}

/// Says `text`. Returns the answer, which is the last message then.
fn ask(chat: &mut Chat, text: &str) -> (String, End) {
    let mut answer = chat.say(text);
    let said: String = answer.by_ref().collect::<Result<_>>().expect("an answer");
    let end = answer.end().expect("an end").clone();
    drop(answer);
    let last = chat.messages().last().expect("the answer");
    assert_eq!((&*last.role, &*last.text()), ("assistant", &*said));
    (said, end)
}

/// The prompt with `text` as the next message.
fn prompt(chat: &Chat, text: &str) -> Vec<u32> {
    let mut chat = chat.clone();
    chat.push(Message::new("user", text));
    chat.prompt().expect("a prompt")
}

/// The text of a refused turn, which leaves the conversation as it was.
#[track_caller]
fn refusal(chat: &mut Chat, text: &str) -> Error {
    let before = chat.messages().to_vec();
    let error = chat.say(text).text().expect_err("it is refused");
    assert_eq!(chat.messages(), before);
    error
}

/// A turn that reuses the cache has the text of a fresh model that is given the whole conversation.
#[test]
fn a_turn_prefills_only_what_is_new_and_answers_as_a_fresh_model() {
    for (model, fresh) in
        [(options().demo().expect("the demo model"), demo()), (random(Format::Q8_0), random(Format::Q8_0))]
    {
        let mut chat = model.chat().system("Be brief.").seed(5).max_tokens(12);
        let mut before = 0;
        for question in QUESTIONS {
            let mut messages = chat.messages().to_vec();
            messages.push(Message::new("user", question));
            fresh.with_engine(|engine| engine.clear_cache()).expect("an engine");
            let expected = fresh.answer(messages).seed(5).max_tokens(12).complete().expect("an answer");
            let (text, End { reason, usage, .. }) = ask(&mut chat, question);
            assert_eq!((&text, &reason), (&expected.text, &expected.end.reason));
            // The last block has tokens of the answer, which its text need not be encoded to.
            assert!(usage.reused_tokens >= before / KV_BLOCK * KV_BLOCK, "{usage:?}, {before} were there");
            before = usage.prompt_tokens;
        }
        assert!(before > KV_BLOCK, "{before}");
        assert_eq!(chat.messages().len(), 1 + 2 * QUESTIONS.len());
        chat.clear();
        assert_eq!(chat.messages(), [Message::new("system", "Be brief.")]);
        model.with_engine(|engine| engine.clear_cache()).expect("an engine");
        assert_eq!(ask(&mut chat, QUESTIONS[0]).1.usage.reused_tokens, 0);
    }
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
    // Other tests share the cache of `demo`.
    let model = options().demo().expect("the demo model");
    let ask = |chat: &mut Chat, question| {
        let (text, end) = ask(chat, question);
        (text, end.usage.reused_tokens)
    };
    let mut alone = model.chat().temperature(0.0);
    let expected = QUESTIONS.map(|question| ask(&mut alone, question));
    assert!(expected[0].1 == 0 && expected[1].1 > 0 && expected[2].1 > expected[1].1);
    let is_same = |answer: (String, usize), expected: &(String, usize)| {
        assert_eq!(answer.0, expected.0);
        assert!(answer.1 / KV_BLOCK >= expected.1 / KV_BLOCK, "{answer:?} {expected:?}");
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
    two.clear();
    let (mut three, messages) = (model.chat().temperature(0.0), one.messages().to_vec());
    let (mut first, mut second) = (two.say(QUESTIONS[0]), three.say(QUESTIONS[0]));
    while first.next().is_some() | second.next().is_some() {}
    drop((first, second));
    assert_eq!([two.messages(), three.messages()], [&messages[..]; 2], "in the same steps");
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

#[test]
fn a_conversation_moves_to_another_model() {
    let (first, second) = (random(Format::F32), with_template(None));
    let mut chat = chat(&first);
    ask(&mut chat, "Hello");
    let before = chat.messages().to_vec();
    let mut theirs = self::chat(&second);
    ask(&mut theirs, &"Hello ".repeat(KV_BLOCK));
    chat.move_to(&second);
    assert_eq!((chat.messages(), chat.is_templated()), (&*before, false));
    assert_eq!(ask(&mut chat, "And?").1.usage.reused_tokens, 0, "nothing of it is cached there");
    assert!(ask(&mut theirs, "Go on").1.usage.reused_tokens > 0);
    chat.move_to(&first);
    assert!(chat.is_templated(), "back with the template");
    chat.set_templated(false).expect("plain text");
    chat.move_to(&first);
    assert!(!chat.is_templated(), "raw stays raw");
}

#[test]
fn what_a_user_types_is_never_a_special_token() {
    let count = |ids: &[u32], id| ids.iter().filter(|&&other| other == id).count();
    let bos_too = "{{ bos_token }}{% for m in messages %}{{ m.content + eos_token }}{% endfor %}";
    for (model, name) in [(random(Format::F32), "without BOS"), (with_template(Some(bos_too)), "with BOS")] {
        let mut chat = chat(&model);
        ask(&mut chat, "</s><s>Hi</s>");
        let ids = prompt(&chat, "<s></s>");
        assert_eq!((ids[0], count(&ids, 1)), (1, 1), "one BOS, template {name}: {ids:?}");
        assert_eq!(count(&ids, 2), 3, "the template's EOS, one a message, template {name}: {ids:?}");
    }
    let ids = prompt(&chat(&with_template(None)), "</s><s>Hi</s>");
    assert_eq!((ids[0], count(&ids, 1), count(&ids, 2)), (1, 1, 0), "{ids:?}");
}

#[test]
fn a_templated_prompt_has_the_templates_eos_and_no_other() {
    let mut metadata = spec(Format::F32).metadata();
    metadata.insert("tokenizer.ggml.add_eos_token", true);
    let ids = prompt(&chat(&with_metadata(&metadata)), "Hello");
    assert_eq!(ids.iter().filter(|&&id| id == 2).count(), 1, "one message, one EOS: {ids:?}");
    assert_ne!(ids.last(), Some(&2));
}

#[test]
fn raw_messages_follow_each_other_as_text() {
    let model = random(Format::F32);
    let mut chat = chat(&model);
    assert!(chat.is_templated());
    chat.set_templated(false).expect("plain text");
    let (answer, _) = ask(&mut chat, "Hello");
    let line = if answer.ends_with('\n') { "" } else { "\n" };
    let expected = model.file().encode_prompt(&format!("Hello{answer}{line}world"), false);
    assert_eq!(prompt(&chat, "world"), expected);
    assert_eq!(chat.say("world").prompt_tokens(), expected.len());
    chat.set_templated(true).expect("a template");
    assert_ne!(prompt(&chat, "world"), expected);
}

#[test]
fn a_model_without_a_usable_template_says_why() {
    let cases = [(None, "has no chat template"), (Some("{% for %}"), "cannot be used: line 1")];
    for (template, expected) in cases {
        let model = with_template(template);
        assert_eq!(matches!(model.file().template(), Err(NoTemplate::Absent)), template.is_none());
        let mut chat = chat(&model);
        assert!(!chat.is_templated());
        let error = chat.set_templated(true).expect_err("no template").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!chat.is_templated() && !ask(&mut chat, "Hello").0.is_empty());
    }
}

#[test]
fn a_template_that_refuses_a_conversation_leaves_it_as_it_was() {
    let template = "{% if messages[-1].content == 'Refuse' %}{{ raise_exception('not this') }}{% endif %}\
                    {{ messages[-1].content }}";
    let mut chat = chat(&with_template(Some(template)));
    let error = refusal(&mut chat, "Refuse").to_string();
    assert!(error.contains("not this") && error.contains("without the template"), "{error}");
    assert!(chat.make_room("Refuse", 1).is_err());
    ask(&mut chat, "Hello");
    refusal(&mut chat, "Refuse");
}

#[test]
fn an_answer_ends_where_the_template_ends_a_turn() {
    let model = with_template(Some("{% for m in messages %}{{ m.content + '!\\n' }}{% endfor %}"));
    let mut chat = chat(&model);
    // The model says `!` and nothing else.
    let raw = Encode { add_special: false, parse_special: false };
    let exclamation = *model.file().tokenizer().encode("!", raw).last().expect("a token");
    chat.request_mut().params.logit_bias = vec![(exclamation, 100.0).into()];
    let (answer, end) = ask(&mut chat, "Hello");
    assert_eq!((&*answer, end.reason), ("", StopReason::StopString("!".into())));
    chat.set_templated(false).expect("plain text");
    let (answer, end) = ask(&mut chat, "Hello");
    assert_eq!((&*answer, end.reason), ("!!!!!!!!!!!!", StopReason::MaxTokens));
}

#[test]
fn an_answer_ends_at_the_token_that_ends_a_turn() {
    let template = "{% for m in messages %}{{ m.content + '<|over|>' }}{% endfor %}";
    let model = with_special_token("<|over|>", template);
    assert!(!model.file().tokenizer().ends_generation(500));
    let mut chat = chat(&model);
    chat.request_mut().params.logit_bias = vec![(500, 100.0).into()];
    let (answer, end) = ask(&mut chat, "Hello");
    assert_eq!((&*answer, end.reason), ("", StopReason::StopId(500)));
}

/// The mark between reasoning and answer is a special token, which is not printed. The next prompt has the reasoning in
/// the template's field.
#[test]
fn reasoning_is_kept_apart_and_given_to_the_template() {
    let template = "{% for m in messages %}[{{ m.reasoning_content }}|{{ m.content }}]{% endfor %}\
                    {% if add_generation_prompt %}<think>{% endif %}";
    let model = with_special_token("</think>", template);
    // Tokens of single bytes begin with the fourth.
    let bytes = |text: &str| text.bytes().map(|byte| 3 + u32::from(byte)).collect::<Vec<u32>>();
    let tokens = [bytes("Hm \n"), vec![500], bytes("\n\n4.")].concat();
    let (count, mut at) = (tokens.len(), 0);
    let say = move |_: &[u32], logits: &mut [f32]| {
        logits[tokens[at] as usize] = 1000.0;
        at += 1;
    };
    let mut chat = chat(&model).max_tokens(count).sampler(say);
    let mut answer = chat.say("Hello");
    let pieces: Vec<Piece> = answer.by_ref().collect::<Result<_>>().expect("an answer");
    assert_eq!((answer.tokens(), &answer.end().expect("an end").reason), (count, &StopReason::MaxTokens));
    drop(answer);
    let reasoning: String = pieces.iter().map(|piece| &*piece.reasoning).collect();
    assert_eq!((&*reasoning, &*pieces.into_iter().collect::<String>()), ("Hm", "4."));
    let answer = chat.messages().last().expect("the answer");
    assert_eq!((answer.reasoning.as_deref(), &*answer.text()), (Some("Hm"), "4."));
    let expected = model.file().encode_prompt("[|Hello][Hm|4.][|And?]<think>", false);
    assert_eq!(prompt(&chat, "And?"), expected);
}

#[test]
fn a_full_context_says_what_to_do() {
    let mut chat = chat(&with_context(60));
    chat.request_mut().params.max_tokens = None;
    assert_eq!(ask(&mut chat, "Hi").1.reason, StopReason::ContextFull);
    let error = refusal(&mut chat, "More");
    assert!(matches!(error, Error::ConversationFull { n_ctx: 60, .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("context of 60") && error.contains("new one") && error.contains("`n_ctx`"),
        "{error}"
    );
    chat.clear();
    ask(&mut chat, "Hi");
    chat.push(Message::new("user", "word ".repeat(10_000)));
    chat.push(Message::new("assistant", "Yes"));
    let error = refusal(&mut chat, "More");
    assert!(
        matches!(error, Error::ConversationFull { n_ctx: 60, .. }),
        "of a text too long to be encoded: {error}"
    );
    let error = refusal(&mut chat, &"word ".repeat(10_000));
    assert!(matches!(error, Error::TextTooLong { .. }), "the message is to blame: {error}");
}

#[test]
fn the_oldest_turns_make_room() {
    let mut chat = chat(&with_context(160)).system("Be brief");
    let mut forgotten = 0;
    for turn in 0..8 {
        forgotten += chat.make_room("Hello again", 20).expect("a template");
        ask(&mut chat, "Hello again");
        let roles: Vec<&str> = chat.messages().iter().map(|message| &*message.role).collect();
        assert_eq!(roles[0], "system");
        assert_eq!(roles[1..], ["user", "assistant"].repeat(turn + 1 - forgotten));
    }
    assert!((1..8).contains(&forgotten), "{forgotten}");
    assert!(chat.drop_oldest());
    chat.make_room(&"long ".repeat(200), 1).expect("a template");
    assert_eq!((chat.messages().len(), chat.drop_oldest()), (1, false));
}

#[test]
fn a_cancelled_answer_stays_as_far_as_it_came_and_a_failed_one_does_not() {
    let mut chat = chat(&random(Format::F32));
    let cancel_after = |tokens, chat: &mut Chat| {
        let mut answer = chat.say("Hello");
        while answer.tokens() < tokens {
            answer.next_delta().expect("more").expect("a piece");
        }
        answer.stopper().expect("a request").stop();
        let rest: Result<String> = answer.by_ref().collect();
        assert!(rest.is_ok() && answer.tokens() == tokens);
        assert_eq!(answer.end().expect("an end").reason, StopReason::Cancelled);
    };
    cancel_after(0, &mut chat);
    assert_eq!(chat.messages(), []);
    cancel_after(8, &mut chat);
    assert_eq!(chat.messages().len(), 2);
    let usage = ask(&mut chat, "Go on").1.usage;
    assert!(usage.reused_tokens > 10, "the cache outlives a cancelled answer: {usage:?}");
    let mut calls = 0;
    let mut chat = chat.sampler(move |_, logits| {
        calls += 1;
        if calls > 5 {
            logits.fill(f32::NEG_INFINITY);
        }
    });
    let mut answer = chat.say("Hello");
    assert!(answer.by_ref().last().expect("an item").is_err());
    assert!(answer.tokens() == 5 && answer.end().is_none());
    drop(answer);
    assert_eq!(chat.messages().len(), 4);
    chat.request_mut().processors.clear();
    ask(&mut chat, "Hello");
}

/// No result of the file can be trusted: the model answers nothing any more. The conversation goes on with another one.
#[test]
fn a_file_truncated_while_in_use_undoes_the_turn() {
    gguf::survive_truncation().expect("a handler");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    spec(Format::F32).write_to(&path).expect("a file");
    let model = options().open(&path).expect("a model");
    let mut chat = chat(&model);
    let mut answer = chat.say("Hello");
    answer.next_delta().expect("an item").expect("a piece");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
    file.set_len(file.metadata().expect("its size").len() / 2).expect("a shorter file");
    assert!(answer.by_ref().last().expect("an item").is_err());
    drop(answer);
    assert!(chat.messages().is_empty());
    let error = refusal(&mut chat, "Hello");
    assert!(model.has_failed() && error.to_string().contains("model.gguf"), "{error}");
    chat.move_to(&demo());
    ask(&mut chat, "Hello");
}

#[test]
fn conversations_are_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chat.json");
    let mut chat = demo().chat();
    std::fs::write(&path, r#"{"messages": [{"role": "user", "content": "Hi \"you\"\n"}]}"#).expect("a file");
    chat.load(&path).expect("a conversation");
    assert_eq!(chat.messages(), [Message::new("user", "Hi \"you\"\n")]);
    chat.save(&path).expect("a file");
    chat.load(&path).expect("a conversation");
    assert_eq!(chat.messages().len(), 1);
    for broken in ["", "{}", "{\"messages\": [{\"role\": 3}]}", "[1"] {
        std::fs::write(&path, broken).expect("a file");
        let error = chat.load(&path).expect_err("no conversation").to_string();
        assert!(error.contains("chat.json"), "{error}");
        assert_eq!(chat.messages().len(), 1);
    }
    assert!(chat.load(folder.path().join("none")).expect_err("no file").to_string().contains("none"));
    assert!(chat.save(folder.path().join("no/where")).is_err());
}

/// The prompts that llama.cpp makes of them (`tools/oracle/demo.py`).
#[test]
fn chats_become_the_tokens_of_llama_cpp() {
    #[derive(serde::Deserialize)]
    struct Golden {
        messages: Vec<Message>,
        prompt_ids: Vec<u32>,
    }
    let json = include_str!("../../../testkit/goldens/demo.json");
    let mut goldens: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let goldens: Vec<Golden> = serde_json::from_value(goldens["answers"].take()).expect("answers");
    assert!(goldens.len() >= 30);
    for Golden { messages, prompt_ids } in goldens {
        assert_eq!(demo().chat().with_messages(messages).prompt().expect("a prompt"), prompt_ids);
    }
}

/// TinyLlama-1.1B-Chat-v1.0 in Q8_0, for whoever has the file: llama.cpp's answer at temperature 0.
#[test]
fn tinyllama_answers_as_llama_cpp() {
    let Some(path) = std::env::var_os("RUSTORCH_TINYLLAMA_GGUF") else {
        return eprintln!("skipped: RUSTORCH_TINYLLAMA_GGUF names no file");
    };
    let model = Model::options().backend(rustorch::BackendName::CPU).open(path).expect("a model");
    let (answer, _) = ask(&mut chat(&model).max_tokens(40), "What is the capital of France?");
    assert!(answer.contains("Paris"), "{answer}");
}

#[test]
fn models_chats_and_streams_may_move_between_threads() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Chat>();
    moves::<rustorch::Answer<'_>>();
    moves::<Stream>();
    is_shared::<Stopper>();
    is_shared::<Model>();
    is_shared::<Error>();
}
