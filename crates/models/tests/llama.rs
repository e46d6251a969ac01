//! Architecture `llama`: hyper-parameters and graph.

use gguf::{Gguf, Value};
use graph::{Op, Rope};
use models::{Error, Model};
use quant::Format;
use testkit::llama::Spec;

/// The model of `spec` with metadata changed by `change`; `None` removes a key.
fn model(spec: &Spec, change: &[(&str, Option<Value>)]) -> Result<Model, Error> {
    let mut metadata = spec.metadata();
    for (key, value) in change {
        match value {
            Some(value) => drop(metadata.insert(*key, value.clone())),
            None => drop(metadata.remove(key)),
        }
    }
    let file = gguf::write(Vec::new(), &metadata, &spec.tensors()).expect("a vector takes everything");
    Model::new(&Gguf::from_bytes(file.into()).expect("a good file"))
}

/// The RoPE parameters of queries, per layer.
fn ropes(model: &Model) -> Vec<Rope> {
    let rope = |op: &Op| if let Op::Rope { rope, .. } = op { Some(*rope) } else { None };
    model.graph.values().filter_map(|(_, value)| rope(&value.op)).step_by(2).collect()
}

fn f32_spec() -> Spec {
    Spec::new(Format::F32)
}

#[test]
fn values_have_the_names_of_llama_cpp() {
    let model = model(&f32_spec(), &[]).expect("a good model");
    let names: Vec<&str> = model.graph.values().map(|(_, value)| value.name.as_str()).collect();
    assert_eq!(
        names[..17],
        [
            "embd",
            "attn_norm-0",
            "Qcur_pre-0",
            "Kcur_pre-0",
            "Vcur-0",
            "Qcur-0",
            "Kcur-0",
            "kqv_out-0",
            "attn_out-0",
            "ffn_inp-0",
            "ffn_norm-0",
            "ffn_gate-0",
            "ffn_up-0",
            "ffn_swiglu-0",
            "ffn_out-0",
            "l_out-0",
            "attn_norm-1",
        ]
    );
    assert_eq!(names[names.len() - 3..], ["l_out-2", "result_norm", "result_output"]);
}

/// The defaults of llama.cpp for keys that some real files lack.
#[test]
fn absent_keys_have_defaults() {
    let all = Spec { kv_heads: 8, ..f32_spec() };
    let absent = [
        "llama.rope.freq_base",
        "llama.rope.dimension_count",
        "llama.attention.head_count_kv",
        "llama.vocab_size",
    ];
    let change: Vec<_> = absent.iter().map(|key| (*key, None)).collect();
    let model = model(&all, &change).expect("a good model");
    let rope = ropes(&model)[0];
    assert_eq!((rope.theta, rope.dims, rope.scale), (10_000.0, 32, 1.0));
    let (_, store) = model.graph.stores().next().expect("a store");
    assert_eq!((store.heads, store.k_dim, store.v_dim), (8, 32, 32));
    assert_eq!(model.config.vocab_size, testkit::VOCAB);
    let reported = |key: &str| {
        let found = model.config.hyper_parameters.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| value.to_string())
    };
    assert_eq!(reported("rope.freq_base").as_deref(), Some("f32 10000"));
    assert_eq!(reported("attention.head_count_kv").as_deref(), Some("u32 8"));
    assert_eq!(reported("rope.scaling.type").as_deref(), Some("string \"none\""));
}

/// Linear unless the type says otherwise; the legacy key is used if the current one is absent.
#[test]
fn rope_scaling_is_read_as_in_llama_cpp() {
    let key = |name: &'static str, value: Value| (name, Some(value));
    let four = || Value::F32(4.0);
    let kind = |kind: &str| key("llama.rope.scaling.type", Value::String(kind.into()));
    for (change, expected) in [
        (vec![key("llama.rope.scaling.factor", four())], 0.25),
        (vec![key("llama.rope.scale_linear", four())], 0.25),
        (vec![kind("linear"), key("llama.rope.scaling.factor", four())], 0.25),
        (vec![kind("none"), key("llama.rope.scaling.factor", four())], 1.0),
        (vec![kind("linear")], 1.0),
    ] {
        let model = model(&f32_spec(), &change).expect("a good model");
        assert!(ropes(&model).iter().all(|rope| rope.scale == expected), "{change:?}");
    }
    let error = model(&f32_spec(), &[kind("yarn")]).expect_err("not supported").to_string();
    assert!(error.contains("llama.rope.scaling.type") && error.contains("yarn"), "{error}");
}

#[test]
fn tied_embeddings_are_the_output_matrix() {
    for tied in [false, true] {
        let model = model(&Spec { tied, ..f32_spec() }, &[]).expect("a good model");
        let output = model.graph.value(model.graph.output());
        let Op::Linear { weight, .. } = output.op else { panic!("{:?}", output.op) };
        let expected = if tied { "token_embd.weight" } else { "output.weight" };
        assert_eq!(model.graph.weight(weight).name, expected);
    }
}

/// Unsupported features are refused by name, unless the key has its neutral value.
#[test]
fn unsupported_features_are_refused_by_name() {
    for (key, neutral, other) in [
        ("llama.expert_used_count", Value::U32(0), Value::U32(2)),
        ("llama.expert_group_count", Value::U32(0), Value::U32(4)),
        ("llama.attention.sliding_window", Value::U32(0), Value::U32(4096)),
        ("llama.logit_scale", Value::F32(1.0), Value::F32(0.5)),
        ("llama.attention.causal", Value::Bool(true), Value::Bool(false)),
        ("llama.rope.scaling.attn_factor", Value::F32(1.0), Value::F32(1.2)),
    ] {
        assert!(model(&f32_spec(), &[(key, Some(neutral))]).is_ok(), "{key}");
        let error = model(&f32_spec(), &[(key, Some(other))]).expect_err(key).to_string();
        assert!(error.contains(key), "{error}");
    }
}

/// Linear layers may have biases, as in InternLM and Granite models that were converted to `llama`. If one layer has a
/// bias, all must.
#[test]
fn optional_biases_are_added() {
    let spec = testkit::llama::small();
    let mut tensors = spec.tensors();
    let bias = |name: &str, len: usize| gguf::Tensor {
        name: name.to_owned(),
        format: Format::F32,
        shape: vec![len],
        data: vec![0; 4 * len].into(),
    };
    let opened = |tensors: &[gguf::Tensor]| {
        let file = gguf::write(Vec::new(), &spec.metadata(), tensors).expect("a vector takes everything");
        Model::new(&Gguf::from_bytes(file.into()).expect("a good file"))
    };
    tensors.push(bias("blk.0.attn_output.bias", 64));
    tensors.push(bias("blk.0.ffn_up.bias", 96));
    let error = opened(&tensors).expect_err("the other layer has none").to_string();
    assert!(error.contains("`blk.1.attn_output.bias` of shape [64] is missing"), "{error}");
    tensors.push(bias("blk.1.attn_output.bias", 64));
    tensors.push(bias("blk.1.ffn_up.bias", 96));
    let printed = opened(&tensors).expect("a good model").graph.to_string();
    for line in [
        "attn_out_mm-1 = linear(kqv_out_outputs, blk.1.attn_output.weight)",
        "attn_out-1 = add_bias(attn_out_mm-1, blk.1.attn_output.bias)",
        "ffn_up_b-0 = add_bias(ffn_up-0, blk.0.ffn_up.bias)",
        "ffn_swiglu-0 = gate(ffn_gate-0, ffn_up_b-0, silu)",
    ] {
        assert!(printed.lines().any(|found| found.starts_with(line)), "{line}\n{printed}");
    }
}
