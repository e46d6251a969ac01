//! Models that several CPU backends compute together.

use backend::Backend;
use backend_cpu::Cpu;
use backend_reference::Reference;
use testkit::conformance::random::nmse;
use testkit::{goldens, shards};

fn cpu() -> Box<dyn Backend> {
    Box::new(Cpu::new(1.try_into().ok()))
}

fn f32_cpu() -> Box<dyn Backend> {
    Box::new(Cpu::new(1.try_into().ok()).with_f32_activations())
}

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

/// Why models of these families are not split over two ranks.
const REFUSED: [(&str, &str); 13] = [
    ("deepseek2", "1 key and value heads"),
    ("gemma4-e", "1 key and value heads"),
    ("gemma4-experts", "1 key and value heads"),
    ("qwen35", "recurrent"),
    ("qwen35moe", "recurrent"),
    ("qwen3next", "recurrent"),
    ("lfm2moe", "recurrent"),
    ("nemotron_h_moe", "recurrent"),
    ("lfm2", "recurrent"),
    ("mamba2", "recurrent"),
    ("granitehybrid", "recurrent"),
    ("falcon-h1", "recurrent"),
    ("nemotron_h", "recurrent"),
];

/// 300 tokens in one step, and in steps of 37, beside an exact forward pass.
#[test]
fn families_are_exact_on_two_ranks() {
    for rows in [300, 37] {
        for (name, result) in shards::errors(&cpu, 2, rows) {
            let refused = REFUSED.iter().find(|(family, _)| name == format!("F32-{family}"));
            match (result, refused) {
                (Ok(error), None) => assert!(error <= 1e-9, "{name}, {rows} rows: NMSE {error:e}"),
                (Err(why), Some((_, expected))) => assert!(why.contains(expected), "{name}: {why}"),
                (result, _) => panic!("{name}: {result:?}"),
            }
        }
    }
}

/// On the reference and with f32 activations, several ranks differ from one by rounding alone. With 8-bit activations, which round
/// at other places after a sum, they are as far from the exact logits as one.
#[test]
fn quantized_models_are_as_exact_as_on_one_rank() {
    let tokens = &goldens::long_tokens()[..60];
    for (name, spec) in shards::quantized() {
        let exact = shards::logits(&spec, reference(), tokens, 60);
        let alone = nmse(&exact, &shards::logits(&spec, cpu(), tokens, 60));
        for (ranks, rows) in [(2, 60), (4, 13)] {
            let error = |make| nmse(&exact, &shards::logits(&spec, shards::group(make, ranks), tokens, rows));
            let (of_reference, of_f32, found) = (error(&reference), error(&f32_cpu), error(&cpu));
            assert!(of_reference <= 1e-12, "{name}, {ranks} ranks: NMSE {of_reference:e}");
            assert!(of_f32 <= 1e-9, "{name}, {ranks} ranks with f32 activations: NMSE {of_f32:e}");
            assert!(found <= 1.5 * alone, "{name}, {ranks} ranks: NMSE {found:e}, alone {alone:e}");
        }
    }
}
