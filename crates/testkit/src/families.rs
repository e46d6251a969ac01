//! A model of each family on a backend, compared with an exact forward pass over 300 tokens.

use backend::{Backend, KvFormat};

use crate::conformance::random::nmse;
use crate::whole::Whole;
use crate::{goldens, llama};

/// The NMSE of a backend's logits against exact ones, by model; prefill in steps of `rows`.
pub fn errors(backend: impl Fn() -> Box<dyn Backend>, kv: KvFormat, rows: usize) -> Vec<(String, f64)> {
    let tokens = goldens::long_tokens();
    let error = |(name, spec): (String, llama::Spec)| {
        let mut model = Whole::new(spec.file(), backend(), kv, tokens.len(), rows);
        let logits = model.logits(&tokens, rows);
        let columns = |(position, row): (usize, &[f32])| {
            goldens::columns(0, position, model.n_vocab).map(|column| row[column])
        };
        let found: Vec<f32> = logits.chunks_exact(model.n_vocab).enumerate().flat_map(columns).collect();
        let error = nmse(goldens::long_exact_logits(&name).as_flattened(), &found);
        (name, error)
    };
    llama::families().into_iter().map(error).collect()
}
