//! A conversation, whose answers appear as they are generated.
use std::io::{Write, stdout};

use rustorch::{Model, Result};

fn main() -> Result<()> {
    let model = Model::demo()?;
    let mut chat = model.chat().temperature(0.0);
    for question in ["Hello! Who are you?", "What is the capital of Italy?", "What did I ask first?"] {
        println!("> {question}");
        let mut answer = chat.say(question);
        for piece in &mut answer {
            print!("{}", piece?);
            stdout().flush().ok();
        }
        let usage = answer.end().map(|end| end.usage).unwrap_or_default();
        println!("\n[{} of {} tokens reused]", usage.reused_tokens, usage.prompt_tokens);
    }
    Ok(())
}
