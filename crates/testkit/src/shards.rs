//! Models that several backends compute together, compared with exact forward passes.

use backend::{Backend, Error, KvFormat};
use gguf::Gguf;
use models::Model;
use quant::Format;
use runner::{FileWeights, TensorParallel};

use crate::conformance::Make;
use crate::fixtures::{self, Fixture, Spec};
use crate::whole::{Whole, family_error};

/// A group of so many backends.
pub fn group(make: Make<'_>, ranks: usize) -> Box<dyn Backend> {
    Box::new(TensorParallel::new((0..ranks).map(|_| make()).collect()))
}

/// The NMSE of the logits of a group against exact ones over 300 tokens, in steps of `rows`, by model of each family; or why the
/// model is not split.
pub fn errors(make: Make<'_>, ranks: usize, rows: usize) -> Vec<(String, Result<f64, String>)> {
    let error = |model: Fixture| {
        let error = match refusal(&model.1.file(), make, ranks) {
            Some(why) => Err(why),
            None => Ok(family_error(&model, group(make, ranks), KvFormat::F32, rows)),
        };
        (model.0, error)
    };
    fixtures::families().into_iter().map(error).collect()
}

/// Quantised models whose heads are whole blocks, on two and four ranks. Their five blocks of hidden columns do not divide evenly.
pub fn quantized() -> Vec<Fixture> {
    let spec = |format| Spec {
        layers: 2,
        hidden: 512,
        heads: 16,
        kv_heads: 4,
        head_length: Some(64),
        ffn: 1280,
        ..Spec::new(format)
    };
    let dense = [Format::Q4_K, Format::Q6_K, Format::Q8_0, Format::Q4_0, Format::IQ4_XS, Format::IQ2_S];
    let dense = dense.map(|format| (format.to_string(), spec(format)));
    let experts = Spec { architecture: "qwen3moe", experts: Some([8, 3]), ..spec(Format::Q4_K) };
    let biased = Spec { architecture: "qwen2", biases: "attn_q attn_k attn_v", ..spec(Format::Q5_K) };
    let others = [("Q4_K-qwen3moe", experts), ("Q5_K-qwen2", biased)];
    dense.into_iter().chain(others.map(|(name, spec)| (name.to_owned(), spec))).collect()
}

/// The logits of `tokens` by a model of [`quantized`], in steps of `rows`.
pub fn logits(spec: &Spec, backend: Box<dyn Backend>, tokens: &[u32], rows: usize) -> Vec<f32> {
    Whole::new(spec.file(), backend, KvFormat::F32, tokens.len(), rows).logits(tokens, rows)
}

/// Why `file` is not split over a group; `None` if it is.
fn refusal(file: &[u8], make: Make<'_>, ranks: usize) -> Option<String> {
    let file = Gguf::from_bytes(file.to_vec().into()).expect("a good file");
    let Model { graph, .. } = Model::new(&file).expect("a good model");
    let kv_layout = backend::KvLayout::uniform(&graph, 1, KvFormat::F32);
    let group = group(make, ranks);
    match group.requirements(&graph, &FileWeights(&file), &kv_layout, &[], backend::Taps::None) {
        Err(Error::Shard(why)) => Some(why),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}
