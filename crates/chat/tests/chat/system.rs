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
    let found = render(ALTERNATING, &[("system", "a"), ("user", "b"), ("user", "c")]);
    assert!(matches!(&found, Err(Error::Raised { .. })), "{found:?}");
}
