//! The probability of each token, and of those that the model could have written instead.
use rustorch::{Model, Result};

fn main() -> Result<()> {
    let model = Model::demo()?;
    for token in model.generate("The capital of France is").temperature(0.0).max_tokens(6).logprobs(3) {
        let token = token?;
        let top = token.top.iter().map(|other| format!("{:?} {:.3}", other.text, other.logprob.exp()));
        println!("{:10} {}", format!("{:?}", token.text), top.collect::<Vec<_>>().join("  "));
    }
    Ok(())
}
