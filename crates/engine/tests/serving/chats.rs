//! Conversations: reuse of the cache, templates, what ends an answer, full contexts, files.

use std::sync::Arc;

use engine::backend::PAGE;
use engine::template::Answer;
use engine::{
    Chat, Engine, Error, Event, Message, Model, NoTemplate, Options, Params, Processor, Request, StopReason,
    Usage,
};
use quant::Format;

use crate::common::{model, model_with, serve, spec};

/// The model with another chat template, or none.
fn with_template(template: Option<&str>) -> Arc<Model> {
    let mut metadata = spec(Format::F32).metadata();
    metadata.remove("tokenizer.chat_template");
    if let Some(template) = template {
        metadata.insert("tokenizer.chat_template", template);
    }
    model_with(&metadata)
}

/// A chat with short, greedy answers.
fn chat(engine: &Engine) -> Chat {
    let mut chat = Chat::new(engine);
    chat.params = Params { max_tokens: Some(12), ..Params::greedy() };
    chat
}

/// Says `text` and waits for the answer.
fn ask(engine: &mut Engine, chat: &mut Chat, text: &str) -> (String, StopReason, Usage) {
    let id = chat.say(engine, text).expect("it fits");
    assert_eq!(chat.pending(), Some(id));
    loop {
        for event in engine.step().expect("nothing fails here") {
            if let (Some(usage), engine::Event::Done { reason, .. }) = (chat.on_event(&event).usage, event) {
                let answer = chat.messages().last().expect("the answer");
                assert_eq!((&*answer.role, chat.pending()), ("assistant", None));
                return (answer.text().into_owned(), reason, usage);
            }
        }
    }
}

#[test]
fn a_turn_prefills_only_what_is_new_and_answers_as_a_fresh_engine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.json");
    let model = model(Format::Q8_0);
    let mut engine = serve(&model, 2, Options::default());
    let mut chat = chat(&engine);
    chat.set_system(Some("Be brief.".into()));
    let mut before = 0;
    for text in ["Hello world", "What is the capital of France?", "And of Italy?"] {
        chat.save(&path).unwrap();
        let (answer, reason, usage) = ask(&mut engine, &mut chat, text);
        assert_eq!(reason, StopReason::MaxTokens);
        // The last page has tokens of the answer, which its text need not be encoded to.
        assert!(usage.reused_tokens >= before / PAGE * PAGE, "{usage:?}, {before} were there");
        before = usage.prompt_tokens;

        let mut fresh = serve(&model, 1, Options::default());
        let mut again = self::chat(&fresh);
        again.load(&path).unwrap();
        let (expected, _, usage) = ask(&mut fresh, &mut again, text);
        assert_eq!((answer, usage.reused_tokens), (expected, 0));
        assert_eq!(again.messages(), chat.messages());
    }
    assert_eq!(chat.messages().len(), 7);

    chat.clear(&mut engine);
    assert_eq!(chat.messages(), [Message::new("system", "Be brief.")]);
    engine.clear_cache();
    assert_eq!(ask(&mut engine, &mut chat, "Hello world").2.reused_tokens, 0);
}

#[test]
fn chats_do_not_disturb_each_other() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options { sequences: 2, ..Options::default() });
    let mut chats = [chat(&engine), chat(&engine)];
    for text in ["Hello", "Go on"] {
        for chat in &mut chats {
            chat.say(&mut engine, text).unwrap();
        }
        while !engine.is_idle() {
            for event in engine.step().unwrap() {
                for chat in &mut chats {
                    chat.on_event(&event);
                }
            }
        }
    }
    assert_eq!(chats[0].messages().len(), 4);
    assert_eq!(chats[0].messages(), chats[1].messages());
}

#[test]
fn a_conversation_moves_to_another_engine() {
    let (first, second) = (model(Format::F32), with_template(None));
    let mut engine = serve(&first, 1, Options::default());
    let mut chat = chat(&engine);
    ask(&mut engine, &mut chat, "Hello");
    let before = chat.messages().to_vec();

    let mut other = serve(&second, 1, Options::default());
    let mut theirs = self::chat(&other);
    ask(&mut other, &mut theirs, &"Hello ".repeat(PAGE));
    chat.move_to(&other).unwrap();
    assert_eq!((chat.messages(), chat.is_templated()), (&*before, false));
    assert_eq!(ask(&mut other, &mut chat, "And?").2.reused_tokens, 0, "nothing of it is cached there");
    assert!(ask(&mut other, &mut theirs, "Go on").2.reused_tokens > 0);

    chat.say(&mut other, "And?").unwrap();
    assert!(matches!(chat.move_to(&engine), Err(Error::Answering)));
    chat.step_failed();
    chat.move_to(&engine).unwrap();
    assert!(chat.is_templated(), "back with the template");
    chat.set_templated(&first, false).unwrap();
    chat.move_to(&engine).unwrap();
    assert!(!chat.is_templated(), "raw stays raw");
}

#[test]
fn what_a_user_types_is_never_a_special_token() {
    let count = |ids: &[u32], id| ids.iter().filter(|&&other| other == id).count();
    let bos_too = "{{ bos_token }}{% for m in messages %}{{ m.content + eos_token }}{% endfor %}";
    for (model, name) in [(model(Format::F32), "without BOS"), (with_template(Some(bos_too)), "with BOS")] {
        let mut engine = serve(&model, 1, Options::default());
        let mut chat = chat(&engine);
        ask(&mut engine, &mut chat, "</s><s>Hi</s>");
        chat.say(&mut engine, "<s></s>").unwrap();
        let ids = chat.prompt(&model).unwrap();
        assert_eq!((ids[0], count(&ids, 1)), (1, 1), "one BOS, template {name}: {ids:?}");
        assert_eq!(count(&ids, 2), 3, "the template's EOS, one a message, template {name}: {ids:?}");
    }
    let model = with_template(None);
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    chat.say(&mut engine, "</s><s>Hi</s>").unwrap();
    let ids = chat.prompt(&model).unwrap();
    assert_eq!((ids[0], count(&ids, 1), count(&ids, 2)), (1, 1, 0), "{ids:?}");
}

#[test]
fn a_templated_prompt_has_the_templates_eos_and_no_other() {
    let mut metadata = spec(Format::F32).metadata();
    metadata.insert("tokenizer.ggml.add_eos_token", true);
    let model = model_with(&metadata);
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    chat.say(&mut engine, "Hello").unwrap();
    let ids = chat.prompt(&model).unwrap();
    assert_eq!(ids.iter().filter(|&&id| id == 2).count(), 1, "one message, one EOS: {ids:?}");
    assert_ne!(ids.last(), Some(&2));
}

#[test]
fn raw_messages_follow_each_other_as_text() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    assert!(chat.is_templated());
    chat.set_templated(&model, false).unwrap();
    let (answer, ..) = ask(&mut engine, &mut chat, "Hello");
    chat.say(&mut engine, "world").unwrap();
    let line = if answer.ends_with('\n') { "" } else { "\n" };
    let expected = model.encode_prompt(&format!("Hello{answer}{line}world"), false);
    assert_eq!(chat.prompt(&model).unwrap(), expected);
    assert!(matches!(chat.say(&mut engine, "too early"), Err(Error::Answering)));
    chat.set_templated(&model, true).unwrap();
    assert_ne!(chat.prompt(&model).unwrap(), expected);
}

#[test]
fn a_model_without_a_usable_template_says_why() {
    let cases = [(None, "has no chat template"), (Some("{% for %}"), "cannot be used: line 1")];
    for (template, expected) in cases {
        let model = with_template(template);
        assert_eq!(matches!(model.template(), Err(NoTemplate::Absent)), template.is_none());
        let mut engine = serve(&model, 1, Options::default());
        let mut chat = chat(&engine);
        assert!(!chat.is_templated());
        let error = chat.set_templated(&model, true).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!chat.is_templated() && !ask(&mut engine, &mut chat, "Hello").0.is_empty());
    }
}

#[test]
fn a_template_that_refuses_a_conversation_leaves_it_as_it_was() {
    let template = "{% if messages[-1].content == 'Refuse' %}{{ raise_exception('not this') }}{% endif %}\
                    {{ messages[-1].content }}";
    let model = with_template(Some(template));
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    let error = chat.say(&mut engine, "Refuse").unwrap_err().to_string();
    assert!(error.contains("not this") && error.contains("without the template"), "{error}");
    assert_eq!((chat.messages().len(), chat.pending()), (0, None));
    ask(&mut engine, &mut chat, "Hello");
}

#[test]
fn an_answer_ends_where_the_template_ends_a_turn() {
    let template = "{% for m in messages %}{{ m.content + '!\\n' }}{% endfor %}";
    let model = with_template(Some(template));
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    // The model says `!` and nothing else.
    let exclamation =
        model.tokenizer().encode("!", tokenizer::Encode { add_special: false, parse_special: false });
    chat.params.logit_bias = vec![(*exclamation.last().unwrap(), 100.0).into()];
    let (answer, reason, _) = ask(&mut engine, &mut chat, "Hello");
    assert_eq!((&*answer, reason), ("", StopReason::StopString("!".into())));
    chat.set_templated(&model, false).unwrap();
    let (answer, reason, _) = ask(&mut engine, &mut chat, "Hello");
    assert_eq!((&*answer, reason), ("!!!!!!!!!!!!", StopReason::MaxTokens));
}

/// The mark between reasoning and answer is a special token, which is not printed. The next prompt has the reasoning in
/// the template's field.
#[test]
fn reasoning_is_kept_apart_and_given_to_the_template() {
    let mut metadata = spec(Format::F32).metadata();
    let mut tokens = metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap().to_vec();
    let mut types = metadata.i32s("tokenizer.ggml.token_type").unwrap().unwrap().to_vec();
    (tokens[500], types[500]) = ("</think>".into(), 3);
    metadata.insert("tokenizer.ggml.tokens", gguf::Array::String(tokens));
    metadata.insert("tokenizer.ggml.token_type", gguf::Array::I32(types));
    let template = "{% for m in messages %}[{{ m.reasoning_content }}|{{ m.content }}]{% endfor %}\
                    {% if add_generation_prompt %}<think>{% endif %}";
    metadata.insert("tokenizer.chat_template", template);
    let model = model_with(&metadata);
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    let id = chat.say(&mut engine, "Hello").unwrap();
    let mut text = Answer::default();
    for (token, piece) in [(10, "H"), (10, "m \n"), (500, ""), (10, "\n\n4"), (10, ".")] {
        let event = Event::Token { id, token, text: piece.into(), logprobs: None };
        text.append(&chat.on_event(&event).text);
    }
    let done = Event::Done { id, reason: StopReason::MaxTokens, usage: Usage::default() };
    text.append(&chat.on_event(&done).text);
    engine.cancel(id);
    let answer = chat.messages().last().unwrap().clone();
    assert_eq!((answer.reasoning.as_deref(), &*answer.text()), (Some("Hm"), "4."));
    assert_eq!(text, Answer { reasoning: "Hm".into(), content: "4.".into(), ..Answer::default() });
    chat.say(&mut engine, "And?").unwrap();
    assert_eq!(chat.prompt(&model).unwrap(), model.encode_prompt("[|Hello][Hm|4.][|And?]<think>", false));
}

/// The next tokens, one after the other.
#[derive(Clone, Debug)]
struct Forced {
    prompt: usize,
    tokens: Vec<u32>,
}

impl Processor for Forced {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        logits[self.tokens[tokens.len() - self.prompt] as usize] = 1000.0;
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}

/// So that marks stand where they are in the answer.
#[test]
fn text_before_a_special_token_is_not_held_back() {
    let model = model(Format::F32);
    let raw = tokenizer::Encode { add_special: false, parse_special: false };
    let exclamation = *model.tokenizer().encode("!", raw).last().unwrap();
    let prompt = model.encode_prompt("Hello", false);
    // The second is BOS.
    let tokens = vec![exclamation, 1, exclamation, exclamation];
    let mut engine = serve(&model, 1, Options::default());
    let request = Request::new(prompt.clone())
        .params(Params::greedy())
        .stop("!!")
        .processor(Forced { prompt: prompt.len(), tokens });
    engine.submit(request).unwrap();
    let mut texts = Vec::new();
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            match event {
                Event::Token { text, .. } => texts.push(text),
                Event::Done { reason, .. } => assert_eq!(reason, StopReason::StopString("!!".into())),
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    }
    assert_eq!(texts, ["", "!", "", ""]);
}

#[test]
fn an_answer_ends_at_the_token_that_ends_a_turn() {
    let mut metadata = spec(Format::F32).metadata();
    let mut tokens = metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap().to_vec();
    let mut types = metadata.i32s("tokenizer.ggml.token_type").unwrap().unwrap().to_vec();
    (tokens[500], types[500]) = ("<|over|>".into(), 3);
    metadata.insert("tokenizer.ggml.tokens", gguf::Array::String(tokens));
    metadata.insert("tokenizer.ggml.token_type", gguf::Array::I32(types));
    let template = "{% for m in messages %}{{ m.content + '<|over|>' }}{% endfor %}";
    metadata.insert("tokenizer.chat_template", template);
    let model = model_with(&metadata);
    assert!(!model.tokenizer().ends_generation(500));
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    chat.params.logit_bias = vec![(500, 100.0).into()];
    let (answer, reason, _) = ask(&mut engine, &mut chat, "Hello");
    assert_eq!((&*answer, reason), ("", StopReason::StopId(500)));
}

#[test]
fn a_full_context_says_what_to_do() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options { n_ctx: Some(60), ..Options::default() });
    let mut chat = chat(&engine);
    chat.params.max_tokens = None;
    assert_eq!(ask(&mut engine, &mut chat, "Hi").1, StopReason::ContextFull);
    let messages = chat.messages().to_vec();
    let error = chat.say(&mut engine, "More").unwrap_err();
    assert!(matches!(error, Error::ConversationFull { n_ctx: 60, .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("context of 60") && error.contains("new one") && error.contains("`n_ctx`"),
        "{error}"
    );
    assert_eq!((chat.messages(), chat.pending()), (&*messages, None));
    chat.clear(&mut engine);
    ask(&mut engine, &mut chat, "Hi");
}

#[test]
fn the_oldest_turns_make_room() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options { n_ctx: Some(160), ..Options::default() });
    let mut chat = chat(&engine);
    chat.set_system(Some("Be brief".into()));
    let mut forgotten = 0;
    for turn in 0..8 {
        forgotten += chat.make_room(&engine, "Hello again", 20).expect("a template");
        ask(&mut engine, &mut chat, "Hello again");
        let roles: Vec<&str> = chat.messages().iter().map(|message| &*message.role).collect();
        assert_eq!(roles[0], "system");
        assert_eq!(roles[1..], ["user", "assistant"].repeat(turn + 1 - forgotten));
    }
    assert!((1..8).contains(&forgotten), "{forgotten}");
    assert!(chat.drop_oldest());
    chat.make_room(&engine, &"long ".repeat(200), 1).expect("a template");
    assert_eq!((chat.messages().len(), chat.drop_oldest()), (1, false));
}

#[test]
fn a_cancelled_answer_stays_as_far_as_it_came() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options::default());
    let mut chat = chat(&engine);
    let cancel_after = |steps, engine: &mut Engine, chat: &mut Chat| {
        let id = chat.say(engine, "Hello").unwrap();
        for step in 0.. {
            if step == steps {
                engine.cancel(id);
            }
            let events = engine.step().unwrap();
            if events.iter().any(|event| chat.on_event(event).usage.is_some()) {
                return;
            }
        }
    };
    cancel_after(0, &mut engine, &mut chat);
    assert_eq!(chat.messages(), []);
    cancel_after(8, &mut engine, &mut chat);
    assert_eq!(chat.messages().len(), 2);
    let usage = ask(&mut engine, &mut chat, "Go on").2;
    assert!(usage.reused_tokens > 10, "the cache outlives a cancelled answer: {usage:?}");
    chat.say(&mut engine, "Hello").unwrap();
    chat.step_failed();
    assert_eq!((chat.messages().len(), chat.pending()), (4, None));
}

#[test]
fn conversations_are_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.json");
    let engine = serve(&model(Format::F32), 1, Options::default());
    let mut chat = chat(&engine);
    std::fs::write(&path, r#"{"messages": [{"role": "user", "content": "Hi \"you\"\n"}]}"#).unwrap();
    chat.load(&path).unwrap();
    assert_eq!(chat.messages(), [Message::new("user", "Hi \"you\"\n")]);
    chat.save(&path).unwrap();
    chat.load(&path).unwrap();
    assert_eq!(chat.messages().len(), 1);
    for broken in ["", "{}", "{\"messages\": [{\"role\": 3}]}", "[1"] {
        std::fs::write(&path, broken).unwrap();
        let error = chat.load(&path).unwrap_err().to_string();
        assert!(error.contains("chat.json"), "{error}");
        assert_eq!(chat.messages().len(), 1);
    }
    assert!(chat.load(folder.path().join("none")).unwrap_err().to_string().contains("none"));
    assert!(chat.save(folder.path().join("no/where")).is_err());
}
