//! The built-in templates give what llama.cpp's do: `tools/goldens/builtin_templates.py`.

use std::collections::BTreeSet;

use chat::{Message, Options, Specials, Template, builtin, builtin_names};
use serde::Deserialize;

#[derive(Deserialize)]
struct Goldens {
    conversations: Vec<Vec<Message>>,
    cases: Vec<(String, usize, bool, String)>,
}

#[test]
fn built_in_templates_are_those_of_llama_cpp() {
    let Goldens { conversations, cases } =
        serde_json::from_str(include_str!("../../goldens/builtin.json")).expect("goldens");
    let ours: BTreeSet<&str> = builtin_names().collect();
    assert_eq!(ours, cases.iter().map(|case| &*case.0).collect());
    let mut wrong = 0;
    for (name, conversation, add_generation_prompt, expected) in &cases {
        let messages = &conversations[*conversation];
        let source = builtin(name).expect("there is one");
        let template = Template::new(&source, Specials::default()).expect(name);
        let options =
            Options { add_generation_prompt: *add_generation_prompt, adapt: false, ..Options::default() };
        let prompt = template.render(messages, &options).expect("a prompt");
        // llama.cpp's leave out some system messages without a word.
        let has_all = |text: &str| messages.iter().all(|message| text.contains(message.text().trim()));
        if prompt.to_string() != *expected && (has_all(expected) || !has_all(&prompt.to_string())) {
            wrong += 1;
            eprintln!(
                "{name} {conversation} {add_generation_prompt}:\n found {:?}\nexpect {expected:?}",
                prompt.to_string()
            );
        }
    }
    assert_eq!(wrong, 0, "renderings differ");
    assert_eq!(builtin("chat"), None);
}
