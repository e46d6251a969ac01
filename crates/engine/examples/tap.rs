//! `cargo run -p rustorch-engine --example tap`: how large the residual stream is after each layer, at every
//! step of an answer of the demo model.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use engine::{Engine, Event, Model, Options, Request};
use gguf::Gguf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = Gguf::from_bytes(Bytes::from_static(demo_model::EMBEDDED))?;
    let model = Arc::new(Model::new(file)?);
    let mut engine =
        Engine::new(Arc::clone(&model), Box::new(backend_cpu::Cpu::new(None)), Options::default())?;

    let names: Vec<String> = (0..model.config().block_count).map(|layer| format!("l_out-{layer}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    engine.observe(&names, |observed| {
        let x = observed.values; // [rows of the step, width], row after row
        let rms = (x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32).sqrt();
        println!("{} of {} rows: {rms:.2}", observed.name, observed.rows.len());
        ControlFlow::Continue(())
    })?;

    engine.submit(Request::new(model.encode_prompt("The capital of France", false)).max_tokens(3))?;
    while !engine.is_idle() {
        for event in engine.step()? {
            if let Event::Failed { error, .. } = event {
                return Err(error.into());
            }
        }
    }
    Ok(())
}
