//! `template`, the choice of a template, and reasoning.

use serde_json::{Value, json};
use testkit::fixtures::Spec;

use crate::common::{Home, write};

/// Opens reasoning in the prompt unless it is turned off; has a variant for tools.
const THINKING: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ m.reasoning_content }}{% endfor %}{{ note }}\
    {% if add_generation_prompt %}{{ '<think></think>' if enable_thinking is false else '<think>' }}{% endif %}";

fn thinking_home() -> Home {
    let home = Home::new();
    let spec = Spec { layers: 1, ..Spec::new(quant::Format::F32) };
    let mut metadata = spec.metadata();
    metadata.insert("tokenizer.chat_template", THINKING);
    metadata.insert("tokenizer.chat_template.tool_use", "{{ tools | tojson }}{{ messages[0].content }}</s>");
    let file = gguf::write(Vec::new(), &metadata, &spec.tensors()).expect("a good model");
    write(&home.model, file);
    home
}

#[test]
fn a_prompt_is_printed() {
    let home = thinking_home();
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"type": "text", "text": "Ho</s>"}]}]);
    let file = write(&home.path("messages.json"), messages.to_string());
    let file = file.to_str().expect("UTF-8");
    let expected = "[user]Hi[assistant]Ho</s><think>";
    assert_eq!(home.run_with("template -m MODEL", &[file]).quiet(), expected);
    assert_eq!(home.pipe("template -m MODEL", messages.to_string()).quiet(), expected);
    assert_eq!(
        home.pipe("template -m MODEL - --no-generation-prompt", messages.to_string()).quiet(),
        &expected[..expected.len() - 7]
    );
    let kwargs = ["--chat-template-kwargs", r#"{"note": " ü", "enable_thinking": false}"#];
    let mut command = home.command("template -m MODEL");
    let off = command.args(kwargs).arg(file).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&off.stdout), "[user]Hi[assistant]Ho</s> ü<think></think>");

    let found = home.run_with("template -m MODEL --json", &[file]).json();
    let by_hand = home.run_with("tokenize -m MODEL --json", &[expected]).json();
    assert_eq!(found, json!({"text": expected, "ids": by_hand["ids"]}), "the user's </s> is text");

    let tools = json!([{"type": "function", "function": {"name": "f</s>"}}]);
    let path = write(&home.path("tools.json"), tools.to_string());
    let args = [file, "--tools", path.to_str().expect("UTF-8")];
    let printed = home.run_with("template -m MODEL", &args);
    // The model's template writes no tools.
    let with_tools = printed.stdout.clone();
    assert!(
        with_tools.starts_with("[system]") && with_tools.contains("{\"name\":\"f</s>\"}"),
        "{with_tools}"
    );
    assert!(printed.stderr.contains("no known format of tool calls"), "as the server: {}", printed.stderr);
    let request = json!({"messages": messages, "tools": tools, "model": "x"});
    assert_eq!(home.pipe("template -m MODEL", request.to_string()).ok(), with_tools);
    let ids = home.pipe("template -m MODEL --json", request.to_string()).json()["ids"].clone();
    let ends = ids.as_array().expect("ids").iter().filter(|id| **id == 2).count();
    assert_eq!(ends, 0, "those of messages and tools are text");
}

#[test]
fn another_template_is_used() {
    let home = thinking_home();
    let messages = json!([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]).to_string();
    let with =
        |template: &str| home.pipe(&format!("template -m MODEL --chat-template {template}"), &messages);
    assert_eq!(
        with("llama3").quiet(),
        "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>\
        <|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    );
    assert_eq!(with("tool_use").ok(), "nullS</s>");
    write(&home.path("own.jinja"), "{{ messages | length }}");
    let error = with("own.jinja").failed(1);
    assert!(error.contains("leaves out the system message"), "{error}");
    let merged = with("yandex");
    assert!(
        merged.stdout == " Пользователь: S\nHi\n\n Ассистент:[SEP]"
            && merged.stderr.contains("does not write all system messages"),
        "{merged:?}"
    );
}

/// Templates that know no developers would drop the text.
#[test]
fn a_developers_message_is_a_system_message() {
    let home = Home::new();
    let messages = |first: &str, second: &str| {
        json!([{"role": first, "content": "S"}, {"role": second, "content": "D"}, {"role": "user", "content": "U"}])
            .to_string()
    };
    for template in ["chatml", "llama3", "phi3", "gemma"] {
        let prompt = |first: &str, second: &str| {
            let args = format!("template -m MODEL --chat-template {template}");
            home.pipe(&args, messages(first, second)).ok()
        };
        let by_system = prompt("system", "system");
        assert!(by_system.contains('D') && by_system.contains('S'), "{template}: {by_system}");
        for (first, second) in [("developer", "developer"), ("system", "developer")] {
            assert_eq!(prompt(first, second), by_system, "{template}");
        }
    }
}

#[test]
fn what_is_wrong_with_messages_is_said() {
    let home = Home::new();
    for (input, why) in [
        ("", "EOF"),
        ("[{\"role\": \"user\"", "EOF"),
        ("[{\"content\": \"a\"}]", "`role`"),
        ("{\"tools\": []}", "`messages`"),
        ("[{\"role\": \"user\", \"content\": 7}]", "a text or a list of parts"),
    ] {
        let error = home.pipe("template -m MODEL", input).failed(1);
        assert!(error.contains(why) && error.contains("the messages in stdin"), "{error}");
    }
    let error = home.run_with("run -m MODEL -p a --chat-template-kwargs", &["[1]"]).failed(2);
    assert!(error.contains("a JSON object"), "{error}");
}

#[test]
fn reasoning_is_shown_hidden_or_turned_off() {
    let home = thinking_home();
    let run = |args: &str| home.run(&format!("run -m MODEL -p Hi -n 6 --temp 0 {args}"));
    let shown = run("--json").json();
    let text = |answer: &Value, name: &str| answer[name].as_str().expect("a text").to_owned();
    assert_eq!(
        (text(&shown, "reasoning"), text(&shown, "content")),
        (text(&shown, "text").trim().to_owned(), String::new())
    );
    assert!(run("").quiet().contains(text(&shown, "reasoning").trim()));
    assert_eq!(run("--reasoning hide").quiet(), "");
    assert_eq!(run("--reasoning hide --json").json()["reasoning"], shown["reasoning"]);

    let off = run("--reasoning off --json").json();
    assert_eq!(
        (text(&off, "reasoning"), text(&off, "content")),
        (String::new(), text(&off, "text").trim_start().to_owned())
    );
    assert_ne!(off["prompt_ids"], shown["prompt_ids"]);
    let kwargs = home.run_with(
        "run -m MODEL -p Hi -n 6 --temp 0 --json --chat-template-kwargs",
        &[r#"{"enable_thinking": false}"#],
    );
    assert_eq!(kwargs.json()["prompt_ids"], off["prompt_ids"]);

    let lines = "/reasoning hide\nHi\n/reasoning off\n/set reasoning show\n/reasoning\n/reasoning maybe\n";
    let chat = home.pipe("chat -m MODEL -n 6 --temp 0", lines);
    assert_eq!((chat.code, chat.stdout.trim()), (Some(1), ""));
    assert!(
        chat.stderr.starts_with("reasoning: hide\nreasoning: off\nreasoning: show\nreasoning: show\n"),
        "{chat:?}"
    );
    assert!(chat.stderr.contains("show, hide, off"), "{chat:?}");

    let cannot = home.run("run -m MODEL -p Hi -n 2 --reasoning off --chat-template chatml");
    assert_eq!(cannot.stderr, "the chat template knows no reasoning\n");
    let cannot = home.run_with(
        "run -m MODEL -p Hi -n 2 --reasoning off --chat-template",
        &["{{ messages[0].content }}<think>"],
    );
    assert_eq!(
        (&*cannot.stdout, &*cannot.stderr),
        ("", "the chat template cannot turn reasoning off: it is hidden\n")
    );
}
