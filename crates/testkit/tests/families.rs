//! The reference backend on every family: compared with an independent exact forward pass (`tools/oracle/exact.py`), and
//! with files that store the same weights differently.

use backend::KvFormat;
use backend_reference::Reference;
use gguf::Tensor;
use testkit::fixtures::{self, Spec};
use testkit::goldens;
use testkit::whole::{Whole, family_errors};

#[test]
fn logits_are_exact_over_300_tokens() {
    for (name, error) in family_errors(|| Box::new(Reference::new()), KvFormat::F32, 100) {
        println!("{name}: NMSE {error:.2e}");
        assert!(error <= 1e-9, "{name}: NMSE {error:e}");
    }
}

fn logits(spec: &Spec, tensors: &[Tensor]) -> Vec<f32> {
    let file = gguf::write(Vec::new(), &spec.metadata(), tensors).expect("a vector takes everything");
    let mut model = Whole::new(file, Box::new(Reference::new()), KvFormat::F32, 64, 64);
    model.logits(&goldens::long_tokens()[..64], 64)
}

/// Converters may fuse queries, keys and values into one matrix.
#[test]
fn a_fused_qkv_matrix_is_equivalent() {
    for spec in [fixtures::small(), fixtures::small_qwen2(), fixtures::gemma3(quant::Format::Q8_0)] {
        let apart = spec.tensors();
        let mut fused: Vec<Tensor> = Vec::new();
        for tensor in &apart {
            match tensor.name.rsplit_once(".attn_") {
                Some((block, "q.weight")) => {
                    let name = format!("{block}.attn_qkv.weight");
                    fused.push(Tensor { name, ..tensor.clone() });
                }
                Some((_, "k.weight" | "v.weight")) => {
                    let whole = fused.iter_mut().rfind(|whole| whole.name.ends_with("attn_qkv.weight"));
                    let whole = whole.expect("queries come first");
                    whole.data = [&*whole.data, &*tensor.data].concat().into();
                    whole.shape[1] += tensor.shape[1];
                }
                _ => fused.push(tensor.clone()),
            }
        }
        assert!(logits(&spec, &apart) == logits(&spec, &fused), "{}", spec.architecture);
    }
}
