//! The same text as Jinja2 in Hugging Face's environment, from `tools/goldens/chat.py`.

use std::path::{Path, PathBuf};

use chat::{Error, Message, Options, Specials, Template};
use serde_json::Value as Json;

fn goldens(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "goldens", name].iter().collect()
}

/// Renders every conversation with every template; the templates lie in `folder`.
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
