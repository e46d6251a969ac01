//! The tokenizer and the chat template.

use engine::{Message, Model};
use tokenizer::{Encode, Kind, Tokenizer};

use super::Failure;

/// Scripts, white space and characters of several bytes.
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

/// Decodes what was encoded: [`TEXTS`], and the text of every token.
pub(super) fn round_trips(tokenizer: &Tokenizer) -> Result<String, Failure> {
    let of_tokens = (0..tokenizer.vocab_size()).filter_map(|id| {
        let id = u32::try_from(id).ok().filter(|&id| tokenizer.kind(id) == Some(Kind::Normal))?;
        std::str::from_utf8(tokenizer.token_bytes(id)?).ok()
    });
    let (mut texts, mut ids) = (0, 0);
    for text in TEXTS.into_iter().chain(of_tokens) {
        let encoded = tokenizer.encode(text, Encode::default());
        // SentencePiece adds a space after a user-defined token, as in llama.cpp.
        if encoded.iter().any(|&id| tokenizer.kind(id) == Some(Kind::UserDefined)) {
            continue;
        }
        let decoded = tokenizer.decode(&encoded);
        if tokenizer.facts().normalizes {
            // Some characters are lost. What is left is encoded alike.
            let again = tokenizer.encode(&decoded, Encode::default());
            let has_unknown = encoded.iter().any(|&id| tokenizer.kind(id) == Some(Kind::Unknown));
            if again != encoded && !has_unknown {
                return Err(
                    format!("{encoded:?} decodes to {decoded:?}, which is encoded as {again:?}").into()
                );
            }
        } else if decoded != text {
            return Err(format!("{text:?} is encoded as {encoded:?}, which decodes to {decoded:?}").into());
        }
        (texts, ids) = (texts + 1, ids + encoded.len());
    }
    Ok(format!("{}: {texts} texts of {ids} tokens are the same after decoding", tokenizer.facts().model))
}

/// Renders conversations and looks for each message in the prompt.
pub(super) fn template_renders(model: &Model) -> Result<String, Failure> {
    const USER: (&str, &str) = ("user", "What is the capital of France?");
    let template = model.template().map_err(ToString::to_string)?;
    let render = |what: &str, messages: &[(&str, &str)]| {
        let messages: Vec<Message> = messages.iter().map(|&(role, text)| Message::new(role, text)).collect();
        let prompt = template.render(&messages, &Default::default());
        let prompt = prompt.map_err(|error| format!("{what}: {error}"))?.to_string();
        match messages.iter().find(|message| !prompt.contains(&*message.text())) {
            Some(Message { role, .. }) => {
                Err(format!("{what}: the {role}'s message is not in the prompt {prompt:?}"))
            }
            None => Ok(()),
        }
    };
    render("one message", &[USER])?;
    render("two turns", &[USER, ("assistant", "Paris."), ("user", "And of Italy?")])?;
    let takes_system = render("system", &[("system", "Answer briefly."), USER]).is_ok();
    let system = if takes_system { "with" } else { "but not with" };
    Ok(format!("renders one message and two turns, {system} a system message"))
}
