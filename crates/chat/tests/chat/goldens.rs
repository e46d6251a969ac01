//! The same text as Jinja2 in Hugging Face's environment, from `tools/goldens/chat.py`.

use std::path::{Path, PathBuf};

use chat::{Error, Message, Options, Prompt, Specials, Template};
use serde::Deserialize;
use serde_json::Value as Json;

fn goldens(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "goldens", name].iter().collect()
}

/// What a template is given.
#[derive(Debug, Deserialize)]
struct Conversation {
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<Json>,
    #[serde(default)]
    variables: serde_json::Map<String, Json>,
}

/// Without special tokens: the rendering alone is compared.
fn specials() -> Specials {
    Specials { bos: Some("<s>".into()), eos: Some("</s>".into()), tokens: Vec::new() }
}

/// Renders every conversation with every template in `folder`, and compares with the goldens in the file `expected`.
fn check(expected: &Path, folder: &Path) {
    let json = std::fs::read_to_string(expected).expect("goldens");
    let json: Json = serde_json::from_str(&json).expect("JSON");
    let conversations: Vec<Conversation> =
        serde_json::from_value(json["conversations"].clone()).expect("conversations");
    let mut wrong = 0;
    for (file, cases) in json["results"].as_object().expect("results") {
        let source = std::fs::read_to_string(folder.join(file)).expect("the template");
        let template = Template::new(&source, specials()).expect(file);
        for case in cases.as_array().expect("cases") {
            let conversation = &conversations[case[0].as_u64().expect("a number") as usize];
            let options = Options {
                add_generation_prompt: case[1] == true,
                now: "2024-07-26T09:05:03[UTC]".parse().expect("a time"),
                tools: conversation.tools.clone(),
                variables: conversation.variables.clone(),
                adapt: false,
                ..Options::default()
            };
            let (found, expected) = (template.render(&conversation.messages, &options), &case[2]);
            if !is_same(&found, expected) {
                wrong += 1;
                let found = found.map_or_else(|error| error.to_string(), |prompt| prompt.to_string());
                let expected = expected.as_str().map_or_else(|| expected.to_string(), str::to_owned);
                let same = found.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
                let near =
                    |text: &str| text.chars().skip(same.saturating_sub(40)).take(120).collect::<String>();
                let place = format!("{file}, conversation {}, {}, character {same}", case[0], case[1]);
                eprintln!("{place}:\n found {:?}\nexpect {:?}", near(&found), near(&expected));
            }
        }
    }
    assert_eq!(wrong, 0, "renderings differ");
}

fn is_same(found: &Result<Prompt, Error>, expected: &Json) -> bool {
    match (found, expected) {
        (Ok(prompt), Json::String(text)) => prompt.to_string() == *text,
        (Ok(prompt), Json::Object(long)) => {
            let text = prompt.to_string();
            long.get("bytes") == Some(&text.len().into()) && long["fnv"] == format!("{:016x}", fnv(&text))
        }
        (Err(Error::Raised { message, .. }), Json::Object(why)) => {
            why.get("raised").is_some_and(|expected| expected == message)
        }
        (Err(Error::Render { .. }), Json::Object(why)) => why.contains_key("failed"),
        (Err(Error::SystemLeftOut), Json::Object(why)) => why.contains_key("left_out"),
        _ => false,
    }
}

/// The 64-bit FNV-1a hash.
fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn templates_of_the_usual_styles() {
    check(&goldens("own.json"), &goldens("templates"));
}

#[test]
fn templates_of_real_models() {
    if let Some(folder) = testkit::shared("templates") {
        check(&goldens("shared.json"), &folder);
    }
}

/// The templates of another folder: see `tools/checks/templates.py`.
#[test]
fn templates_of_a_folder() {
    let [folder, expected] = ["RUSTORCH_TEMPLATES", "RUSTORCH_TEMPLATES_EXPECTED"].map(std::env::var_os);
    match folder.zip(expected) {
        Some((folder, expected)) => check(expected.as_ref(), folder.as_ref()),
        None => eprintln!("skipped: RUSTORCH_TEMPLATES names no folder"),
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
