//! What the fuzz target `chat_template` does with bytes, and a test of the chat crate with many of them.

use std::time::{Duration, Instant};

use chat::{MAX_OUTPUT_BYTES, Message, Options, Prompt, Segment, Specials, Template};

/// Far beyond the ten seconds of a rendering and the steps that it is made of, on a loaded machine.
const MAX_TIME: Duration = Duration::from_secs(60);

/// A template and a conversation, separated by zeros: source, then role and content of each message.
pub(crate) fn render(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let source = parts.next().unwrap_or_default();
    let mut messages = Vec::new();
    while let (Some(role), Some(content)) = (parts.next(), parts.next()) {
        messages.push(Message::new(role, content));
    }
    let tokens = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "|>x<|"];
    let specials = Specials {
        bos: Some("<s>".to_owned()),
        eos: Some("</s>".to_owned()),
        tokens: (0..).zip(tokens.map(str::to_owned)).collect(),
    };
    let started = Instant::now();
    let template = match Template::new(source, specials) {
        Ok(template) => template,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    match template.render(&messages, &Options::default()) {
        Ok(prompt) => check(&prompt),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    template.turn_end();
    assert!(started.elapsed() < MAX_TIME, "{:?}", started.elapsed());
}

/// No text is empty or follows another, and all is within bounds.
fn check(prompt: &Prompt) {
    let is_text = |segment: &Segment| matches!(segment, Segment::Text(_));
    assert!(!prompt.segments().windows(2).any(|pair| pair.iter().all(is_text)));
    assert!(!prompt.segments().contains(&Segment::Text(String::new())));
    assert!(prompt.to_string().len() <= MAX_OUTPUT_BYTES);
}
