//! Chat, a batch of eight, log-probabilities, and an own sampler.
use rustorch::{Model, Result};

fn main() -> Result<()> {
    let model = Model::demo()?; // or Model::open("model.gguf"), Model::pull("Qwen/Qwen3-0.6B-GGUF:Q8_0")
    for piece in model.chat().temperature(0.0).say("What is the capital of France?") {
        print!("{}", piece?);
    }
    let prompts = ["1 + 2 =", "2 + 3 =", "3 + 4 =", "4 + 5 =", "A cat", "A dog", "A bird", "A fish"];
    println!("\n{:?}", model.batch(prompts).max_tokens(5).seed(42).texts()?);
    for token in model.generate("The capital of Spain is").max_tokens(3).logprobs(2) {
        println!("{:?}", token?);
    }
    let paris = model.tokenize(" Paris")[0] as usize;
    let forbid = move |_: &[u32], logits: &mut [f32]| logits[paris] = f32::NEG_INFINITY;
    println!("{}", model.generate("The capital of France is").max_tokens(8).sampler(forbid).text()?);
    Ok(())
}
