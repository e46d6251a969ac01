//! System messages where the template knows none.

use chat::{Error, Message, Options, Prompt, Specials, Template};

/// As the template of Mistral 7B Instruct v0.2, which insists that roles alternate.
const ALTERNATING: &str = "{{ bos_token }}{% for m in messages %}\
    {% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}\
    {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}\
    {% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}\
    {% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token }}\
    {% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}";

/// Leaves out the messages of roles that it does not know, as the first template of Phi-3 does.
const SILENT: &str = "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}\
    {{ '<|user|>\n' + m['content'] + '<|end|>\n<|assistant|>\n' }}\
    {% elif m['role'] == 'assistant' %}{{ m['content'] + '<|end|>\n' }}{% endif %}{% endfor %}";

const CHATML: &str =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}";

fn render(source: &str, messages: &[(&str, &str)]) -> Result<Prompt, Error> {
    let specials = Specials { bos: Some("<s>".into()), eos: Some("</s>".into()), tokens: Vec::new() };
    let messages: Vec<_> = messages.iter().map(|&(role, content)| Message::new(role, content)).collect();
    Template::new(source, specials)?.render(&messages, &Options::default())
}

#[test]
fn the_system_text_is_put_before_the_next_user_message() {
    let messages = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi!"), ("user", "Bye")];
    let prompt = render(ALTERNATING, &messages).expect("a prompt");
    assert_eq!(prompt.to_string(), "<s>[INST] Be brief.\nHello [/INST]Hi!</s>[INST] Bye [/INST]");
    assert!(prompt.merged_system());
    let prompt = render(SILENT, &messages[..2]).expect("a prompt");
    assert_eq!(prompt.to_string(), "<s><|user|>\nBe brief.\nHello<|end|>\n<|assistant|>\n");
    assert!(prompt.merged_system());

    let gemma = testkit::shared("templates/google-gemma-2-2b-it.jinja");
    let phi = testkit::shared("templates/microsoft-Phi-3.5-mini-instruct.jinja");
    if let (Some(gemma), Some(phi)) = (gemma, phi) {
        let prompt =
            render(&std::fs::read_to_string(gemma).expect("a file"), &messages[..2]).expect("a prompt");
        assert_eq!(
            prompt.to_string(),
            "<s><start_of_turn>user\nBe brief.\nHello<end_of_turn>\n<start_of_turn>model\n"
        );
        let prompt =
            render(&std::fs::read_to_string(phi).expect("a file"), &messages[..2]).expect("a prompt");
        assert!(!prompt.merged_system() && prompt.to_string().contains("<|system|>\nBe brief."), "{prompt}");
    }
}

#[test]
fn several_and_late_system_messages_are_merged_too() {
    let messages = [("system", "a"), ("system", "b"), ("user", "c"), ("assistant", "d"), ("system", "e")];
    let prompt = render(SILENT, &messages).expect("a prompt").to_string();
    assert_eq!(
        prompt,
        "<s><|user|>\na\nb\nc<|end|>\n<|assistant|>\nd<|end|>\n<|user|>\ne<|end|>\n<|assistant|>\n"
    );
}

/// Results of tools, too, may be left out by a template.
#[test]
fn a_system_text_is_not_lost_with_a_result_that_is_left_out() {
    let messages = [("system", "a"), ("user", "b"), ("assistant", "c"), ("tool", "d"), ("system", "e")];
    let said = "<s><|user|>\na\nb<|end|>\n<|assistant|>\nc<|end|>\n<|user|>\nResult of a tool:\nd\ne<|end|>\n<|assistant|>\n";
    assert_eq!(render(SILENT, &messages).expect("a prompt").to_string(), said);
    let raises = SILENT.replace(
        "{% if m['role'] == 'user' %}",
        "{% if m['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}{% if m['role'] == 'user' %}",
    );
    assert_eq!(render(&raises, &messages).expect("a prompt").to_string(), said);
    let found = render("nothing of it", &[("user", "Hello"), ("system", "Be brief.")]);
    assert!(matches!(found, Err(Error::SystemLeftOut)), "{found:?}");
}

#[test]
fn a_template_that_knows_system_messages_gets_them() {
    let prompt = render(CHATML, &[("system", "a"), ("user", "a")]).expect("a prompt");
    assert_eq!(prompt.to_string(), "<|im_start|>system\na<|im_end|>\n<|im_start|>user\na<|im_end|>\n");
    assert!(!prompt.merged_system());
    // It may change them, as SmolLM3's does.
    let changes = "{{ messages[0].content.replace('/think', '') }}";
    let prompt = render(changes, &[("system", "Be brief. /think"), ("user", "x")]).expect("a prompt");
    assert!(!prompt.merged_system() && prompt.to_string() == "Be brief. ", "{prompt}");
}

#[test]
fn a_system_text_is_never_dropped() {
    // The user says the same, so the text alone would prove nothing.
    let prompt = render(SILENT, &[("system", "a"), ("user", "a")]).expect("a prompt");
    assert_eq!(prompt.to_string(), "<s><|user|>\na\na<|end|>\n<|assistant|>\n");
    let found = render("nothing of it", &[("system", "Be brief."), ("user", "Hello")]);
    assert!(matches!(found, Err(Error::SystemLeftOut)), "{found:?}");
    // The template's own words where it refuses the conversation for another reason.
    let found = render(ALTERNATING, &[("system", "a"), ("user", "b"), ("critic", "c")]);
    assert!(matches!(&found, Err(Error::Raised { .. })), "{found:?}");
}

/// Wants at most one system message, at the beginning, as Qwen 3.5's template does.
const LEADING: &str = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}\
    {{ raise_exception('System message must be at the beginning.') }}{% endif %}\
    {{ '<' + m.role + '>' + m.content }}{% endfor %}";

/// Agents send several system messages, and some in the middle. The first ones keep their place, and what follows does not change
/// as the conversation goes on, so that its prefix is found in the cache.
#[test]
fn later_system_messages_stay_where_they_are() {
    let messages = [
        ("system", "a"),
        ("system", "b"),
        ("user", "c"),
        ("system", "d"),
        ("assistant", "e"),
        ("tool", "f"),
        ("system", "g"),
        ("assistant", "h"),
        ("user", "i"),
    ];
    let whole = "<system>a\nb<user>c\nd<assistant>e<tool>f\ng<assistant>h<user>i";
    let prompt = render(LEADING, &messages).expect("a prompt");
    assert_eq!(prompt.to_string(), whole);
    assert!(prompt.merged_system());
    for length in [2, 4, 5, 7, 8] {
        let prompt = render(LEADING, &messages[..length]).expect("a prompt").to_string();
        assert!(whole.starts_with(&prompt), "{prompt}");
    }
    let prompt = render(LEADING, &messages[..3]).expect("a prompt");
    assert!(!prompt.merged_system(), "no system message is in another one");
    let prompt = render(ALTERNATING, &messages[..5]).expect("a prompt");
    assert_eq!(prompt.to_string(), "<s>[INST] a\nb\nc\nd [/INST]e</s>");
    let prompt = render(LEADING, &[("user", "a"), ("assistant", "b"), ("system", "c")]).expect("a prompt");
    assert_eq!(prompt.to_string(), "<user>a<assistant>b<user>c");
}

/// Codex sends its instructions in two messages, and says where it runs before the question.
#[test]
fn messages_of_the_user_are_one_where_system_messages_are_merged() {
    let messages = [("system", "a"), ("system", "b"), ("user", "c"), ("user", "d"), ("assistant", "e")];
    let prompt = render(ALTERNATING, &messages).expect("a prompt");
    assert_eq!(prompt.to_string(), "<s>[INST] a\nb\nc\nd [/INST]e</s>");
    let prompt = render(ALTERNATING, &messages[2..]).expect("a prompt");
    assert_eq!(prompt.to_string(), "<s>[INST] c\nd [/INST]e</s>");
}
