//! Architecture `qwen2`: keys, biases, NeoX RoPE.

use gguf::{Gguf, Tensor, Value};
use graph::{Op, Pairing};
use models::{Error, Model};
use testkit::fixtures::{RopeFreqs, Spec, small, small_qwen2};

/// The small model with changed tensors.
fn model(change: impl FnOnce(&mut Vec<Tensor>)) -> Result<Model, Error> {
    let spec = small_qwen2();
    let mut tensors = spec.tensors();
    change(&mut tensors);
    opened(&spec, &tensors)
}

fn opened(spec: &Spec, tensors: &[Tensor]) -> Result<Model, Error> {
    let file = gguf::write(Vec::new(), &spec.metadata(), tensors).expect("a vector takes everything");
    Model::new(&Gguf::from_bytes(file.into()).expect("a good file"))
}

/// As in `qwen2.cpp`: biases are added before RoPE, which pairs the halves of a head.
#[test]
fn biases_are_added_before_neox_rope() {
    let Model { config, graph } = model(|_| {}).expect("a good model");
    assert_eq!((config.architecture, config.block_count), ("qwen2", 2));
    let printed = graph.to_string();
    let layer: Vec<&str> =
        printed.lines().skip(1).take(11).map(|line| line.split("  //").next().unwrap()).collect();
    assert_eq!(
        layer,
        [
            "attn_norm-0 = rms_norm(embd, blk.0.attn_norm.weight, eps 1e-6)",
            "Qcur_mm-0 = linear(attn_norm-0, blk.0.attn_q.weight)",
            "Qcur_pre-0 = add_bias(Qcur_mm-0, blk.0.attn_q.bias)",
            "Kcur_mm-0 = linear(attn_norm-0, blk.0.attn_k.weight)",
            "Kcur_pre-0 = add_bias(Kcur_mm-0, blk.0.attn_k.bias)",
            "Vcur_mm-0 = linear(attn_norm-0, blk.0.attn_v.weight)",
            "Vcur-0 = add_bias(Vcur_mm-0, blk.0.attn_v.bias)",
            "Qcur-0 = rope(Qcur_pre-0, Halves, 16 of 16, theta 1000000)",
            "Kcur-0 = rope(Kcur_pre-0, Halves, 16 of 16, theta 1000000)",
            "kqv_out-0 = attention(Qcur-0, Kcur-0, Vcur-0, store 0, 4 heads, scale 0.25)",
            "attn_out-0 = linear(kqv_out-0, blk.0.attn_output.weight)",
        ]
    );
    let pairing = |op: &Op| if let Op::Rope { rope, .. } = op { Some(rope.pairing) } else { None };
    assert!(graph.values().filter_map(|(_, value)| pairing(&value.op)).eq([Pairing::Halves; 4]));
}

#[test]
fn missing_or_misshapen_biases_are_refused_by_name() {
    let name = "blk.1.attn_k.bias";
    let missing = model(|tensors| tensors.retain(|tensor| tensor.name != name)).expect_err("missing");
    assert_eq!(missing, Error::MissingTensor { name: name.into(), expected: vec![32] });

    let of = |tensors: &[Tensor]| tensors.iter().position(|tensor| tensor.name == name).expect("it is there");
    let misshapen = model(|tensors| {
        let at = of(tensors);
        tensors[at].data = vec![0; 4 * 64].into();
        tensors[at].shape = vec![64];
    });
    let expected = Error::TensorShape { name: name.into(), found: vec![64], expected: vec![32] };
    assert_eq!(misshapen.expect_err("misshapen"), expected);
}

/// A file is computed as the architecture that it names, or refused.
#[test]
fn the_architecture_key_decides() {
    let llama = Spec { architecture: "llama", ..small_qwen2() };
    let graph = opened(&llama, &small_qwen2().tensors()).expect("biases are optional there").graph;
    assert!(graph.to_string().contains("Interleaved") && graph.find("Qcur_mm-0").is_some());

    let qwen2 = Spec { architecture: "qwen2", rope_freqs: RopeFreqs::None, ..small() };
    let graph = opened(&qwen2, &Spec { architecture: "llama", ..qwen2.clone() }.tensors());
    let graph = graph.expect("biases are optional here, too").graph;
    assert!(graph.to_string().contains("Halves") && graph.find("Qcur_mm-0").is_none());

    for name in ["qwen2vl", "qwen"] {
        let text = opened(&Spec { architecture: name, ..qwen2.clone() }, &qwen2.tensors());
        let text = text.expect_err("not supported").to_string();
        assert!(text.contains(name) && text.contains("supported: llama, mistral3, "), "{text}");
    }
}

/// Keys of the family; keys of other architectures have no effect.
#[test]
fn unsupported_features_are_refused_by_name() {
    let (spec, tensors) = (small_qwen2(), small_qwen2().tensors());
    let with = |key: &str, value: Value| {
        let mut metadata = spec.metadata();
        metadata.insert(key, value);
        let file = gguf::write(Vec::new(), &metadata, &tensors).expect("a vector takes everything");
        Model::new(&Gguf::from_bytes(file.into()).expect("a good file"))
    };
    for (key, value) in [
        ("qwen2.rope.scaling.type", Value::String("longrope".into())),
        ("qwen2.attention.causal", Value::Bool(false)),
        ("qwen2.expert_count", Value::U32(60)),
        ("qwen2.attention.sliding_window", Value::U32(32768)),
    ] {
        let text = with(key, value).expect_err(key).to_string();
        assert!(text.contains(key) && text.contains("not supported for architecture qwen2"), "{text}");
    }
    let text = with("qwen2.block_count", Value::U32(3)).expect_err("there are 2").to_string();
    assert!(text.contains("qwen2.block_count"), "{text}");
    assert!(with("llama.expert_count", Value::U32(8)).is_ok());
}
