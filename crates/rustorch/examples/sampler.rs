//! Own samplers: one forbids a word, one takes the second best token.
use rustorch::{Model, Result};

fn main() -> Result<()> {
    let model = Model::demo()?;
    let prompt = "The capital of France is";
    let text = |hook: fn(&[u32], &mut [f32])| {
        model.generate(prompt).temperature(0.0).max_tokens(8).sampler(hook).text()
    };
    println!("best:        {prompt}{}", text(|_, _| {})?);
    println!("second best: {prompt}{}", text(|_, logits| logits[best(logits)] = f32::NEG_INFINITY)?);

    let forbidden = model.tokenize(" Paris")[0];
    let forbid = move |_: &[u32], logits: &mut [f32]| logits[forbidden as usize] = f32::NEG_INFINITY;
    let text = model.generate(prompt).temperature(0.0).max_tokens(8).sampler(forbid).text()?;
    println!("not Paris:   {prompt}{text}");
    Ok(())
}

fn best(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
}
