//! How near are texts to a question?
use rustorch::{Model, Result};

fn main() -> Result<()> {
    let model = Model::demo()?; // better a model for embeddings, such as nomic-embed-text
    let texts = ["What is 3 + 4?", "What is the capital of France?", "The cat sleeps."];
    let question = &model.embed(&["What is the capital of Italy?"])?[0];
    for (text, embedding) in texts.iter().zip(model.embed(&texts)?) {
        let similarity: f32 = question.iter().zip(&embedding).map(|(a, b)| a * b).sum();
        println!("{similarity:.3}  {text}");
    }
    Ok(())
}
