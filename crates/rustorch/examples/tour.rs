// Chat, a batch of eight, log-probabilities and an own sampler.
use rustorch::{Model, Result};

fn main() -> Result<()> {
    let model = Model::demo()?; // or Model::open("model.gguf"), Model::pull("Qwen/Qwen3-0.6B-GGUF:Q8_0")
    for piece in model.chat().system("Be brief.").say("What is the capital of France?") {
        print!("{}", piece?);
    }
    let prompts = ["1 + 2 =", "2 + 3 =", "3 + 4 =", "4 + 5 =", "The cat", "The dog", "Red", "Blue"];
    println!("\n{:?}", model.batch(prompts).max_tokens(8).seed(42).texts()?);
    for token in model.generate("The capital of Spain is").temperature(0.0).max_tokens(3).logprobs(2) {
        let token = token?;
        println!("{:?} {:?} {:?}", token.text, token.logprob, token.top);
    }
    let only_short = |_: &[u32], logits: &mut [f32]| logits[200..].fill(f32::NEG_INFINITY);
    println!("{}", model.generate("Once upon a time").max_tokens(20).sampler(only_short).text()?);
    Ok(())
}
