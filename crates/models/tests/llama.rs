//! Architecture `llama`: hyper-parameters and graph.

use gguf::{Gguf, Value};
use graph::{Op, Rope};
use models::{Error, Model};
use quant::Format;
use testkit::fixtures::{RopeScaling, Spec};

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
    let error = model(&f32_spec(), &[kind("su")]).expect_err("unknown").to_string();
    assert!(error.contains("llama.rope.scaling.type") && error.contains("su"), "{error}");
    let factor = [key("llama.rope.scaling.attn_factor", Value::F32(1.2))];
    let model = model(&f32_spec(), &factor).expect("it holds without scaling, too");
    assert!(ropes(&model).iter().all(|rope| rope.magnitude == 1.2));
}

/// `rope_yarn_corr_dims` of ggml and `yarn_attn_factor` of llama.cpp by hand, for heads of 32 columns: the pair of wavelength
/// 4096 / r is 32 ln(4096 / 2 pi r) / (2 ln 10^4), which is 5.23 for 32 rotations, 7.64 for 8, and 11.26 for 1; ln 4 is 1.386.
#[test]
fn yarn_scales_the_pairs_between_its_bounds() {
    let key = |name: &'static str, value: Value| (name, Some(value));
    let float = |name: &'static str, value: f32| key(name, Value::F32(value));
    let base = || {
        vec![
            key("llama.rope.scaling.type", Value::String("yarn".into())),
            float("llama.rope.scaling.factor", 4.0),
            key("llama.rope.scaling.original_context_length", Value::U32(4096)),
        ]
    };
    let rope = |more: &[(&'static str, Option<Value>)]| {
        let rope = ropes(&model(&f32_spec(), &[&base(), more].concat()).expect("a good model"))[0];
        let yarn = rope.yarn.expect("yarn");
        (rope.scale, yarn.low, yarn.high, yarn.ext_factor, (rope.magnitude * 1e4).round() / 1e4)
    };
    assert_eq!(rope(&[]), (0.25, 5.0, 12.0, 1.0, 1.1386));
    let betas =
        [float("llama.rope.scaling.yarn_beta_fast", 8.0), float("llama.rope.scaling.yarn_beta_slow", 8.0)];
    assert_eq!(rope(&betas), (0.25, 7.0, 8.0, 1.0, 1.1386));
    assert_eq!(rope(&[float("llama.rope.scaling.attn_factor", 2.0)]).4, 2.2773);
    assert_eq!(rope(&[float("llama.rope.scaling.yarn_log_multiplier", 1.0)]).4, 1.0);
    assert_eq!(rope(&[float("llama.rope.scaling.yarn_ext_factor", 0.0)]), (0.25, 5.0, 12.0, 0.0, 1.0));
    assert_eq!(rope(&[float("llama.rope.scaling.factor", 0.5)]).4, 1.0);
    // Without a key of its own, the context is that of the model.
    let context = "llama.rope.scaling.original_context_length";
    assert_eq!(rope(&[(context, None)]), rope(&[key(context, Value::U32(f32_spec().context))]));
    for (name, wrong) in [
        ("llama.rope.scaling.yarn_ext_factor", 1.5),
        ("llama.rope.scaling.yarn_ext_factor", f32::NAN),
        ("llama.rope.scaling.yarn_beta_fast", 0.0),
        ("llama.rope.scaling.yarn_beta_slow", f32::INFINITY),
        ("llama.rope.scaling.yarn_log_multiplier", -1.0),
        ("llama.rope.scaling.yarn_attn_factor", 1.5),
        ("llama.rope.scaling.attn_factor", 0.0),
        ("llama.rope.scaling.factor", -4.0),
    ] {
        let change = [&base()[..], &[float(name, wrong)]].concat();
        let error = model(&f32_spec(), &change).expect_err(name).to_string();
        assert!(error.contains(name), "{error}");
    }
}

/// As in `llama.cpp`: there are two tensors of factors, and `rope_freqs.weight` is none of them.
#[test]
fn longrope_needs_its_factors() {
    let spec = Spec { rope_scaling: Some(RopeScaling::LongRope(64)), ..f32_spec() };
    let rope = ropes(&model(&spec, &[]).expect("a good model"))[0];
    let long = rope.long_factors.expect("longrope");
    assert_eq!((long.original_context, rope.magnitude), (64, 1.19));
    assert_eq!((rope.factors_for(64), rope.factors_for(65)), (rope.factors, Some(long.factors)));
    for name in ["rope_factors_short.weight", "rope_factors_long.weight"] {
        let tensors: Vec<_> = spec.tensors().into_iter().filter(|tensor| tensor.name != name).collect();
        let file = gguf::write(Vec::new(), &spec.metadata(), &tensors).expect("a vector takes everything");
        let error = Model::new(&Gguf::from_bytes(file.into()).expect("a good file")).expect_err("missing");
        assert_eq!(error, Error::MissingTensor { name: name.into(), expected: vec![16] });
    }
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
        ("llama.rope.scaling.yarn_beta_fast", Value::F32(32.0), Value::F32(16.0)),
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
    let spec = testkit::fixtures::small();
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
