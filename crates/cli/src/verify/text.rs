//! The tokenizer and the chat template.

use anyhow::{Context, bail, ensure};
use engine::{Message, Model, NoTemplate};
use tokenizer::{Encode, Kind, Tokenizer};

/// Texts that every tokenizer must give back: scripts, white space, what takes several bytes.
const TEXTS: [&str; 8] = [
    "The quick brown fox doesn't jump: it's 3.14 metres, (or 2,718?) away!",
    " two  spaces   three, and one at the end ",
    "lines\nof\n\ntext\r\n\twith a tab",
    "fn main() { println!(\"{}\", x[0] += 1); } // 🙂🙃👩‍🚀",
    "Größe, garçon, Ελλάδα, Привет, שלום, مرحبا, नमस्ते",
    "你好，世界。こんにちは 안녕하세요 สวัสดี",
    "e\u{301} \u{a0} \u{200b} \u{feff} \u{10ffff} \u{7f}",
    "",
];

/// What a user says.
const QUESTION: &str = "What is the capital of France?";

/// That texts come back from their ids: some of many scripts, and the text of each token.
pub(super) fn round_trips(tokenizer: &Tokenizer) -> anyhow::Result<String> {
    let of_tokens = (0..tokenizer.vocab_size()).filter_map(|id| {
        let id = u32::try_from(id).ok().filter(|&id| tokenizer.kind(id) == Some(Kind::Normal))?;
        std::str::from_utf8(tokenizer.token_bytes(id)?).ok()
    });
    let (mut texts, mut ids) = (0, 0);
    for text in TEXTS.into_iter().chain(of_tokens) {
        let encoded = tokenizer.encode(text, Encode::default());
        // SentencePiece puts a space behind a token that is found in text, as llama.cpp does.
        if encoded.iter().any(|&id| tokenizer.kind(id) == Some(Kind::UserDefined)) {
            continue;
        }
        let decoded = tokenizer.decode(&encoded);
        ensure!(decoded == text, "{text:?} becomes the ids {encoded:?} and these become {decoded:?}");
        (texts, ids) = (texts + 1, ids + encoded.len());
    }
    let facts = tokenizer.facts();
    Ok(format!("{}: {texts} texts come back from their {ids} ids", facts.model))
}

/// That the template makes prompts of conversations, with what was said in them.
pub(super) fn template_renders(model: &Model) -> anyhow::Result<String> {
    let template = match model.template() {
        Ok(template) => template,
        Err(NoTemplate::Unusable(error)) => bail!("{error}"),
        Err(absent) => bail!("{absent}"),
    };
    let render = |messages: &[(&str, &str)]| {
        let messages: Vec<Message> = messages.iter().map(|&(role, said)| Message::new(role, said)).collect();
        let rendered = template.render(&messages, &Default::default())?.to_string();
        for Message { role, content } in &messages {
            ensure!(
                rendered.contains(content.as_str()),
                "what the {role} said is not in the prompt {rendered:?}"
            );
        }
        Ok(rendered)
    };
    let first = render(&[("user", QUESTION)]).context("one message")?;
    let more = [("user", QUESTION), ("assistant", "Paris."), ("user", "And of Italy?")];
    render(&more).context("a second turn")?;
    let system = match render(&[("system", "Answer briefly."), ("user", QUESTION)]) {
        Ok(_) => "with and without a system message",
        Err(_) => "but none with a system message",
    };
    let abbreviated = crate::output::abbreviated(&first, 60);
    Ok(format!("conversations become prompts, {system}: {abbreviated}"))
}
