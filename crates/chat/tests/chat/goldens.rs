//! The same text as Jinja2 in Hugging Face's environment, from `tools/goldens/chat.py`.

use std::path::{Path, PathBuf};

use chat::{Error, Message, Options, Specials, Template};
use serde_json::Value as Json;

fn goldens(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "goldens", name].iter().collect()
}

/// Renders every conversation with every template in `folder`.
fn check(name: &str, folder: &Path) {
    let json = std::fs::read_to_string(goldens(name)).expect("committed goldens");
    let json: Json = serde_json::from_str(&json).expect("JSON");
    let conversations: Vec<Vec<Message>> =
        serde_json::from_value(json["conversations"].clone()).expect("conversations");
    let now = "2024-07-26T09:05:03[UTC]".parse().expect("a time");
    let mut options = Options { now, ..Options::default() };

    let mut wrong = 0;
    for (file, cases) in json["results"].as_object().expect("results") {
        let source = std::fs::read_to_string(folder.join(file)).expect("the template");
        // Without special tokens: the rendering alone is compared.
        let specials = Specials { bos: Some("<s>".into()), eos: Some("</s>".into()), tokens: Vec::new() };
        let template = Template::new(&source, specials).expect(file);
        for case in cases.as_array().expect("cases") {
            let messages = &conversations[case[0].as_u64().expect("a number") as usize];
            options.add_generation_prompt = case[1] == true;
            let (found, expected) = (template.render(messages, &options), &case[2]);
            let same = match (&found, expected) {
                // The template refused the system message, or left it out.
                (Ok(prompt), _) if prompt.merged_system() => {
                    left_out(messages, expected)
                        && system(messages).all(|text| prompt.to_string().contains(text))
                }
                (Err(Error::SystemLeftOut), _) => left_out(messages, expected),
                (Ok(prompt), Json::String(text)) => prompt.to_string() == *text,
                (Err(Error::Raised { message, .. }), Json::Object(why)) => {
                    why.get("raised").is_some_and(|expected| expected == message)
                }
                (Err(Error::Render { .. }), Json::Object(why)) => why.contains_key("failed"),
                _ => false,
            };
            if !same {
                wrong += 1;
                let found = found.map(|prompt| prompt.to_string());
                eprintln!("{file} {case:.9}: {messages:?}\n found {found:?}\nexpect {expected:?}");
            }
        }
    }
    assert_eq!(wrong, 0, "renderings differ");
}

fn system(messages: &[Message]) -> impl Iterator<Item = &str> {
    messages.iter().filter(|message| message.role == "system").map(|message| message.content.as_str())
}

/// Whether Jinja2's rendering has no text of the system messages.
fn left_out(messages: &[Message], expected: &Json) -> bool {
    let expected = expected.as_str().unwrap_or_default();
    system(messages).any(|text| text.is_empty() || !expected.contains(text))
}

#[test]
fn templates_of_the_usual_styles() {
    check("own.json", &goldens("templates"));
}

#[test]
fn templates_of_real_models() {
    if let Some(folder) = testkit::shared("templates") {
        check("shared.json", &folder);
    }
}

/// Each line of `goldens/lines.jinja`, for one conversation.
#[test]
fn expressions_statements_and_white_space() {
    let json = std::fs::read_to_string(goldens("lines.json")).expect("committed goldens");
    let cases: Vec<(String, Json)> = serde_json::from_str(&json).expect("JSON");
    let now = "2024-07-26T09:05:03[UTC]".parse().expect("a time");
    let options = Options { now, ..Options::default() };
    let messages = ["Hello", "Hi!", "How are you?"].into_iter().zip(["user", "assistant", "user"]);
    let messages: Vec<_> = messages.map(|(content, role)| Message::new(role, content)).collect();
    let specials = || Specials { bos: Some("<s>".into()), eos: Some("</s>".into()), tokens: Vec::new() };
    let mut wrong = 0;
    for (source, expected) in &cases {
        let found =
            Template::new(source, specials()).and_then(|template| template.render(&messages, &options));
        let found = found.map(|prompt| prompt.to_string());
        let same = match (&found, expected) {
            (Ok(text), Json::String(expected)) => text == expected,
            (Err(Error::Raised { message, .. }), Json::Object(why)) => why["raised"] == *message,
            (Err(_), Json::Object(why)) => why.contains_key("failed"),
            _ => false,
        };
        if !same {
            wrong += 1;
            eprintln!("{source}\n found {found:?}\nexpect {expected:?}\n");
        }
    }
    assert_eq!(wrong, 0, "renderings differ");
}
