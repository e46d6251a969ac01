//! The test models are identical everywhere, and the committed goldens belong to them.

use std::collections::HashSet;

use serde_json::Value;
use testkit::{VOCAB, fixtures, goldens};

fn summary() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/summary.json");
    serde_json::from_slice(&std::fs::read(path).expect(path)).expect(path)
}

#[test]
fn goldens_belong_to_the_test_models() {
    let summary = summary();
    for (name, spec) in fixtures::models() {
        let crc32 = crc32fast::hash(&spec.file());
        assert_eq!(Some(crc32.into()), summary["models"][&name]["crc32"].as_u64(), "CRC-32 of {name}");
    }
    for (name, spec) in fixtures::families() {
        let crc32 = crc32fast::hash(&spec.file());
        assert_eq!(Some(crc32.into()), summary["long"][&name]["crc32"].as_u64(), "CRC-32 of {name}");
    }
}

#[test]
fn goldens_belong_to_the_demo_model() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/demo.json");
    let demo: Value = serde_json::from_slice(&std::fs::read(path).expect(path)).expect(path);
    for (name, file) in [("f16", demo_model::MASTER_F16), ("q6_k", demo_model::EMBEDDED)] {
        let crc32 = crc32fast::hash(file);
        assert_eq!(Some(crc32.into()), demo["files"][name]["crc32"].as_u64(), "CRC-32 of {name}");
    }
}

#[test]
fn goldens_are_complete_and_match_the_summary() {
    let summary = summary();
    let tokens = goldens::tokens();
    assert_eq!(tokens.len(), goldens::SEQUENCES);
    assert!(tokens.iter().flatten().all(|token| (*token as usize) < VOCAB));
    for (name, _) in fixtures::models() {
        let llama_cpp = &summary["models"][&name]["llama_cpp"];
        let kl = goldens::llama_cpp_kl(&name);
        let mean = kl.iter().map(|kl| f64::from(*kl)).sum::<f64>() / kl.len() as f64;
        let recorded = llama_cpp["mean_kl"].as_f64().expect("a number");
        assert!((mean / recorded - 1.0).abs() < 1e-5, "{name}: mean KL {mean}, recorded {recorded}");
        assert!(kl.iter().all(|kl| *kl > -1e-6), "{name}: KL is never negative");

        // The models are meaningful: many different top tokens, and 8-bit activations cost little.
        let winners: HashSet<u32> = goldens::llama_cpp_top1(&name).into_iter().collect();
        assert!(winners.len() > VOCAB / 2 && winners.iter().all(|token| (*token as usize) < VOCAB));
        assert!(llama_cpp["nmse"].as_f64().expect("a number") < 5e-3, "{name}");

        let logits = goldens::exact_logits(&name);
        let square = logits.iter().flatten().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let deviation = (square / (logits.len() * goldens::COLUMNS) as f64).sqrt();
        assert!((2.0..3.0).contains(&deviation), "{name}: logits' deviation {deviation}");
    }
}

/// llama.cpp computes the same, with K and V in F16 as by default; its different rounding changes no choice of experts.
#[test]
fn llama_cpp_agrees_over_300_tokens_of_every_family() {
    let summary = summary();
    let tokens = goldens::long_tokens();
    assert!(tokens.len() == goldens::LONG && tokens.iter().all(|token| (*token as usize) < VOCAB));
    for (name, spec) in fixtures::families() {
        let facts = &summary["long"][&name];
        assert!(facts["llama_cpp"]["nmse"].as_f64().expect("a number") <= 1e-5, "{name}");
        let gap = facts["router_gap"].as_f64();
        assert_eq!(gap.is_some(), spec.experts.is_some(), "{name}");
        assert!(gap.is_none_or(|gap| gap > 2e-3), "{name}: {gap:?}");
        let deviation = facts["logits_deviation"].as_f64().expect("a number");
        assert!((2.0..3.0).contains(&deviation), "{name}: logits' deviation {deviation}");
        assert_eq!(goldens::long_exact_logits(&name).len(), goldens::LONG);
    }
}

#[test]
fn columns_cover_every_token_in_every_sequence() {
    for sequence in 0..goldens::SEQUENCES {
        let met: HashSet<usize> = (0..goldens::POSITIONS)
            .flat_map(|position| goldens::columns(sequence, position, VOCAB))
            .collect();
        assert_eq!(met, (0..VOCAB).collect());
    }
}

#[test]
fn every_merged_piece_is_reachable() {
    let metadata = fixtures::Spec::new(quant::Format::F32).metadata();
    let tokens = metadata.strings("tokenizer.ggml.tokens").expect("strings").expect("present");
    assert_eq!(tokens.iter().collect::<HashSet<_>>().len(), VOCAB, "tokens are unique");
    let mut reachable: HashSet<&str> =
        tokens.iter().filter(|piece| piece.chars().count() == 1).map(String::as_str).collect();
    for piece in tokens[259..].iter().filter(|piece| piece.chars().count() > 1) {
        let split = piece.char_indices().skip(1).any(|(i, _)| {
            let (left, right) = piece.split_at(i);
            reachable.contains(left) && reachable.contains(right)
        });
        assert!(split, "{piece} is not made of two pieces before it");
        reachable.insert(piece);
    }
}
