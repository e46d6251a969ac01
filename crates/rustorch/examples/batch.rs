//! Several texts at once: first whole, then token by token.
use rustorch::{Model, Result, Tokens};

fn main() -> Result<()> {
    let model = Model::demo()?;
    let prompts = ["France", "Italy", "Spain", "Japan", "China", "Egypt", "Peru", "Cuba"]
        .map(|country| format!("The capital of {country} is"));
    for (prompt, text) in prompts.iter().zip(model.batch(&prompts).temperature(0.0).max_tokens(6).texts()?) {
        println!("{prompt}{text}");
    }
    let mut texts: Vec<Tokens> = model.batch(["One", "Two"]).max_tokens(5).seed(1).into_iter().collect();
    while let [Some(one), Some(two)] = [texts[0].next(), texts[1].next()] {
        println!("{:?} {:?}", one?.text, two?.text);
    }
    Ok(())
}
