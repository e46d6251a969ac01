//! Tests of all families, and of the specifics of each.

use gguf::{Array, Gguf, Metadata, Tensor, Value};
use graph::{Graph, Hidden, Mask, Op, Score};
use models::{Error, Family, Model};
use quant::Format;
use testkit::fixtures::{self, Spec};

/// Small models of all families.
fn specs() -> Vec<Spec> {
    let small = [fixtures::small(), fixtures::small_qwen2()];
    let models = fixtures::families().into_iter().chain(testkit::fixtures::encoders());
    small.into_iter().chain(models.map(|(_, spec)| spec)).collect()
}

fn opened(metadata: &Metadata, tensors: &[Tensor]) -> Result<Model, Error> {
    let file = gguf::write(Vec::new(), metadata, tensors).expect("a vector takes everything");
    Model::new(&Gguf::from_bytes(file.into()).expect("a good file"))
}

/// The model of `spec` with changed keys of its architecture.
fn with(spec: &Spec, change: &[(&str, Value)]) -> Result<Model, Error> {
    let mut metadata = spec.metadata();
    for (key, value) in change {
        metadata.insert(format!("{}.{key}", spec.architecture), value.clone());
    }
    opened(&metadata, &spec.tensors())
}

#[track_caller]
fn refused(spec: &Spec, key: &str, value: Value) -> String {
    let error = with(spec, &[(key, value)]).expect_err(key).to_string();
    assert!(error.contains(&format!("{}.{key}", spec.architecture)), "{error}");
    error
}

#[track_caller]
fn assert_lines(graph: &Graph, lines: &[&str]) {
    let printed = graph.to_string();
    for line in lines {
        assert!(printed.lines().any(|found| found.starts_with(line)), "{line}\n{printed}");
    }
}

#[test]
fn every_family_is_tested_here() {
    for family in Family::all() {
        assert!(specs().iter().any(|spec| spec.architecture == family.name), "{family}");
    }
}

/// An unread key could change the computation.
#[test]
fn unknown_keys_are_refused_and_harmless_ones_accepted() {
    for spec in specs() {
        assert!(with(&spec, &[]).is_ok(), "{spec:?}");
        for value in [Value::U32(1), Value::Bool(false), Value::String("x".into())] {
            let text = refused(&spec, "something_new", value);
            assert!(text.contains("is not supported for architecture"), "{text}");
        }
        refused(&spec, "attention.something_new", Value::F32(0.0));
        let escape = with(&spec, &[("\x1b[2J", Value::U32(1))]).expect_err("unknown").to_string();
        assert!(!escape.contains('\x1b'), "{escape:?}");

        let family = Family::from_name(spec.architecture).expect("a known family");
        for key in family.harmless {
            assert!(with(&spec, &[(key, Value::U32(3))]).is_ok(), "{family}.{key}");
        }
    }
}

/// A key that one family reads is refused in others, unless it has the neutral value.
#[test]
fn keys_of_other_families_are_refused_unless_neutral() {
    let dense = [fixtures::small_qwen2(), fixtures::qwen3(Format::F32), fixtures::gemma3(Format::F32)];
    for spec in &dense {
        refused(spec, "expert_count", Value::U32(8));
        assert!(with(spec, &[("expert_count", Value::U32(0))]).is_ok());
    }
    let have_windows = [
        "cohere2",
        "gemma-embedding",
        "gemma2",
        "gemma3",
        "gemma4",
        "gpt-oss",
        "lfm2",
        "llama4",
        "modern-bert",
        "olmo2",
        "phi3",
    ];
    for spec in specs().iter().filter(|spec| !have_windows.contains(&spec.architecture)) {
        refused(spec, "attention.sliding_window", Value::U32(4096));
        assert!(with(spec, &[("attention.sliding_window", Value::U32(0))]).is_ok());
        refused(spec, "attention.sliding_window_pattern", Value::U32(6));
        refused(spec, "rope.freq_base_swa", Value::F32(1e4));
    }
    refused(&fixtures::gemma3(Format::F32), "attn_logit_softcapping", Value::F32(50.0));
    refused(&fixtures::qwen3moe(Format::F32), "expert_gating_func", Value::U32(2));
    refused(&fixtures::mixtral(Format::F32), "expert_feed_forward_length", Value::U32(160));
}

/// As in `qwen3.cpp`: each head is normed before RoPE.
#[test]
fn heads_of_qwen3_are_normed_before_rope() {
    let graph = with(&fixtures::qwen3(Format::F32), &[]).expect("a good model").graph;
    assert_lines(
        &graph,
        &[
            "Qcur_pre-0 = linear(attn_norm-0, blk.0.attn_q.weight)  // [rows, 192]",
            "Qcur_normed-0 = rms_norm(Qcur_pre-0, blk.0.attn_q_norm.weight, eps 1e-6)",
            "Qcur-0 = rope(Qcur_normed-0, Halves, 48 of 48, theta 1000000)",
            "Kcur-0 = rope(Kcur_normed-0, Halves, 48 of 48, theta 1000000)",
            "kqv_out-0 = attention(Qcur-0, Kcur-0, Vcur-0, store 0, 4 heads, scale 0.14433756)",
            "attn_out-0 = linear(kqv_out-0, blk.0.attn_output.weight)  // [rows, 128]",
        ],
    );
}

/// As in llama.cpp's `build_moe_ffn`, with one operation for routing and one for the experts.
#[test]
fn experts_are_routed_and_mixed() {
    for (spec, experts) in [(fixtures::mixtral(Format::F32), 2), (fixtures::qwen3moe(Format::F32), 3)] {
        let graph = with(&spec, &[]).expect("a good model").graph;
        let route = format!("ffn_moe_routes-1 = route(ffn_moe_logits-1, {experts} used)  // [rows, 8]");
        assert_lines(
            &graph,
            &[
                "ffn_moe_logits-0 = linear(ffn_norm-0, blk.0.ffn_gate_inp.weight)  // [rows, 8]",
                "ffn_moe_out-0 = experts(ffn_norm-0, ffn_moe_routes-0, blk.0.ffn_gate_exps.weight, \
                 blk.0.ffn_up_exps.weight, blk.0.ffn_down_exps.weight, silu)",
                "l_out-0 = add(ffn_moe_out-0, ffn_inp-0)",
            ],
        );
        let route = route.replace("[rows", if graph.layers() == 2 { "[outputs" } else { "[rows" });
        assert_lines(&graph, &[&route]);
        let down = graph.weights().find(|(_, weight)| weight.name == "blk.0.ffn_down_exps.weight");
        let shape = [spec.ffn as usize, spec.hidden as usize, 8];
        assert_eq!(down.expect("it is there").1.tensor_shape(), shape);

        refused(&spec, "expert_used_count", Value::U32(9));
        refused(&spec, "expert_used_count", Value::U32(0));
        refused(&spec, "expert_count", Value::U32(u32::MAX));
        let error = with(&spec, &[("expert_count", Value::U32(9))]).expect_err("there are 8").to_string();
        assert!(error.contains("blk.0.ffn_gate_inp.weight") && error.contains("9]"), "{error}");
    }
    let mut metadata = fixtures::qwen3moe(Format::F32).metadata();
    metadata.remove("qwen3moe.expert_count");
    let error = opened(&metadata, &fixtures::qwen3moe(Format::F32).tensors()).expect_err("none").to_string();
    assert!(error.contains("`qwen3moe.expert_count` is missing"), "{error}");
}

/// Without its own key, the hidden size of an expert is a share of `feed_forward_length`.
#[test]
fn the_hidden_size_of_experts_has_a_default() {
    let spec = fixtures::qwen3moe(Format::F32);
    let mut metadata = spec.metadata();
    metadata.remove("qwen3moe.expert_feed_forward_length");
    metadata.insert("qwen3moe.feed_forward_length", Value::U32(3 * spec.ffn));
    assert!(opened(&metadata, &spec.tensors()).is_ok());
    metadata.remove("qwen3moe.feed_forward_length");
    let error = opened(&metadata, &spec.tensors()).expect_err("neither").to_string();
    assert!(error.contains("qwen3moe.expert_feed_forward_length"), "{error}");
}

fn encoder(architecture: &str) -> Spec {
    specs().into_iter().find(|spec| spec.architecture == architecture).expect("an encoder")
}

/// As in `bert.cpp`: with an interval of 2, layers 1 and 3 have experts, which have no gates.
#[test]
fn some_layers_of_nomic_bert_have_experts() {
    let spec = encoder("nomic-bert-moe");
    let model = with(&spec, &[]).expect("a good model");
    let mixtures: Vec<&str> = (model.graph.values())
        .filter(|(_, value)| matches!(value.op, Op::Experts { hidden: Hidden::Plain { .. }, .. }))
        .map(|(_, value)| value.name.as_str())
        .collect();
    assert_eq!(mixtures, ["ffn_moe_out-1", "ffn_moe_out-3"]);
    let error = with(&spec, &[("moe_every_n_layers", Value::U32(3))]).expect_err("other tensors").to_string();
    assert!(error.contains("blk.3.ffn_up"), "{error}");
    let error = with(&spec, &[("expert_count", Value::U32(0))]).expect_err("no experts").to_string();
    assert!(error.contains("nomic-bert-moe.expert_count"), "{error}");
}

/// By the name of the activation or of the unit.
#[test]
fn gates_of_modern_bert_have_a_named_activation() {
    let spec = encoder("modern-bert");
    let with_name = |name: &str| with(&spec, &[("hidden_activation", Value::String(name.into()))]);
    for (names, act) in [
        (&["gelu", "geglu"][..], "gelu_tanh"),
        (&["silu", "swish", "swiglu"], "silu"),
        (&["relu", "reglu"], "relu"),
    ] {
        for name in names {
            let model = with_name(name).expect("a good name");
            let gate = model.graph.find("ffn_swiglu-0").expect("a gate");
            assert_eq!(model.graph.value(gate).op.parameters().as_deref(), Some(act), "{name}");
        }
    }
    refused(&spec, "hidden_activation", Value::String("tanh".into()));
}

/// The first Mixtral files have one tensor per expert.
#[test]
fn split_expert_tensors_are_refused_by_name() {
    let spec = fixtures::mixtral(Format::F32);
    let mut tensors = spec.tensors();
    for tensor in &mut tensors {
        if tensor.name == "blk.0.ffn_gate_exps.weight" {
            tensor.name = "blk.0.ffn_gate.0.weight".into();
        }
    }
    let error = opened(&spec.metadata(), &tensors).expect_err("not supported");
    assert_eq!(error, Error::SplitExperts { name: "blk.0.ffn_gate.0.weight".into() });
}

/// Per layer of Gemma 3: mask, RoPE base, RoPE scale and score scale.
fn attention_layers(model: &Model) -> Vec<(Mask, f32, f32, f32)> {
    let graph = &model.graph;
    let mut layers = Vec::new();
    for (_, value) in graph.values() {
        if let Op::Attention { q, store, score: Score { scale, .. }, .. } = value.op {
            let Op::Rope { rope, .. } = graph.value(q).op else { panic!("queries are roped") };
            layers.push((graph.store(store).mask, rope.theta, rope.scale, scale));
        }
    }
    layers
}

/// As in `gemma3.cpp`: five local layers, then a global one, unless the file has another pattern.
#[test]
fn local_layers_of_gemma3_have_their_own_window_and_rope() {
    let spec = fixtures::gemma3(Format::F32);
    let scale = 1.0 / 48f32.sqrt();
    let (local, global) = ((Mask::Window(40), 1e4, 1.0, scale), (Mask::Causal, 1e6, 0.125, scale));
    let layers = |change: &[(&str, Value)]| attention_layers(&with(&spec, change).expect("a good model"));
    let pattern = "attention.sliding_window_pattern";
    assert_eq!(layers(&[]), [local, local, local, local, local, global, local]);
    assert_eq!(layers(&[(pattern, Value::U32(2))]), [local, global, local, global, local, global, local]);
    assert_eq!(layers(&[(pattern, Value::U32(1))]), [global; 7]);
    assert_eq!(layers(&[(pattern, Value::U32(0))]), [local; 7]);
    let flags = vec![false, true, true, false, true, true, true];
    let expected = [global, local, local, global, local, local, local];
    assert_eq!(layers(&[(pattern, Value::Array(Array::Bool(flags)))]), expected);
    let numbers = vec![0, 1, 1, 0, 1, 2, 1];
    assert_eq!(layers(&[(pattern, Value::Array(Array::I32(numbers)))]), expected);
    assert_eq!(layers(&[("attention.sliding_window", Value::U32(0))]), [global; 7]);
    assert_eq!(layers(&[("rope.freq_base_swa", Value::F32(5e3))])[0], (Mask::Window(40), 5e3, 1.0, scale));
    assert_eq!(layers(&[("rope.local.freq_base", Value::F32(2e4))])[0], (Mask::Window(40), 2e4, 1.0, scale));
    assert_eq!(layers(&[("rope.global.freq_base", Value::F32(2e4))])[5], global);
    let mut metadata = spec.metadata();
    metadata.remove("gemma3.rope.freq_base");
    metadata.insert("gemma3.rope.global.freq_base", Value::F32(1e6));
    assert_eq!(attention_layers(&opened(&metadata, &spec.tensors()).expect("ollama's"))[5], global);

    let short = Value::Array(Array::Bool(vec![true; 6]));
    let text = refused(&spec, pattern, short);
    assert!(text.contains("array of 6 bool") && text.contains("7 layers"), "{text}");
    refused(&spec, pattern, Value::String("lg".into()));
    refused(&spec, "rope.freq_base_swa", Value::F32(f32::NAN));
}

#[test]
fn outputs_of_gemma3_blocks_are_normed_before_they_are_added() {
    let graph = with(&fixtures::gemma3(Format::F32), &[]).expect("a good model").graph;
    assert_lines(
        &graph,
        &[
            "inp_scaled = scale(embd, 11.313708)",
            "Qcur-0 = rope(Qcur_normed-0, Halves, 48 of 48, theta 10000)",
            "attn_post_norm-0 = rms_norm(attn_out-0, blk.0.post_attention_norm.weight, eps 1e-6)",
            "sa_out-0 = add(attn_post_norm-0, inp_scaled)",
            "ffn_norm-0 = rms_norm(sa_out-0, blk.0.ffn_norm.weight, eps 1e-6)",
            "ffn_geglu-0 = gate(ffn_gate-0, ffn_up-0, gelu_tanh)",
            "ffn_post_norm-0 = rms_norm(ffn_out-0, blk.0.post_ffw_norm.weight, eps 1e-6)",
            "l_out-0 = add(ffn_post_norm-0, sa_out-0)",
        ],
    );
}

/// Gemma 3 27B is recognised by its 62 layers: the score scale is `1 / sqrt(embedding_length / head_count)`.
#[test]
fn gemma3_27b_has_another_score_scale() {
    let spec =
        Spec { layers: 62, hidden: 32, heads: 2, kv_heads: 1, ffn: 32, ..fixtures::gemma3(Format::F32) };
    for (layers, expected) in [(61, 1.0 / 48f32.sqrt()), (62, 0.25)] {
        let model = with(&Spec { layers, ..spec.clone() }, &[]).expect("a good model");
        assert!(attention_layers(&model).iter().all(|layer| layer.3 == expected), "{layers} layers");
    }
}

/// Sizes that differ between layers are arrays.
#[test]
fn sizes_may_differ_between_layers() {
    let spec = fixtures::small();
    let sizes = |sizes: [u32; 2]| Value::Array(Array::U32(sizes.into()));
    assert!(with(&spec, &[("feed_forward_length", sizes([96, 96]))]).is_ok());
    let error = with(&spec, &[("feed_forward_length", sizes([96, 64]))]).expect_err("a tensor is wider");
    let (name, found, expected) = ("blk.1.ffn_gate.weight".into(), vec![64, 96], vec![64, 64]);
    assert_eq!(error, Error::TensorShape { name, found, expected });
    let error = with(&spec, &[("attention.head_count_kv", sizes([2, 1]))]).expect_err("a tensor is wider");
    assert!(error.to_string().contains("blk.1.attn_k.weight"), "{error}");
    refused(&spec, "attention.head_count_kv", sizes([2, 3]));
    refused(&spec, "attention.head_count", sizes([4, 0]));
    refused(&spec, "feed_forward_length", Value::Array(Array::U32(vec![96; 3])));
    refused(&spec, "feed_forward_length", Value::Array(Array::U32(vec![])));
    let text = with(&spec, &[("feed_forward_length", Value::Array(Array::F32(vec![96.0; 2])))]);
    assert!(text.expect_err("floats").to_string().contains("llama.feed_forward_length"));
}

/// Any value of a key gives a model or an error, without a panic or an allocation proportional to the value.
#[test]
fn extreme_values_never_panic() {
    for spec in specs() {
        let (metadata, tensors) = (spec.metadata(), spec.tensors());
        let names: std::collections::HashSet<&str> = tensors.iter().map(|tensor| &*tensor.name).collect();
        let prefix = format!("{}.", spec.architecture);
        let keys: Vec<String> = metadata.iter().map(|(key, _)| key.to_owned()).collect();
        for key in keys.iter().filter(|key| key.starts_with(&prefix)) {
            let numbers = [0, 1, 2, 3, 5, 48, 1 << 24, (1 << 24) + 1, u32::MAX].map(Value::U32);
            let floats = [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE].map(Value::F32);
            let arrays = [vec![], vec![0; 7], vec![1; spec.layers as usize], vec![u32::MAX; 7]];
            let arrays = arrays.map(|array| Value::Array(Array::U32(array)));
            for value in numbers.into_iter().chain(floats).chain(arrays) {
                let mut metadata = metadata.clone();
                metadata.insert(key.as_str(), value);
                let _ = Model::from_metadata(&metadata, &|name| names.contains(name));
            }
            let mut metadata = metadata.clone();
            metadata.remove(key);
            let _ = Model::from_metadata(&metadata, &|name| names.contains(name));
        }
    }
}

/// Encoders of pictures and sound beside the model of text, in files such as ollama's: not used, and no reason to refuse.
#[test]
fn other_modalities_may_be_in_the_file() {
    for spec in specs() {
        let mut metadata = spec.metadata();
        for key in ["vision.block_count", "vision.image_size", "audio.block_count", "mm.tokens_per_image"] {
            metadata.insert(format!("{}.{key}", spec.architecture), Value::U32(64));
        }
        let mut tensors = spec.tensors();
        let names = ["v.blk.0.ln1.weight", "a.blk.0.ln1.weight", "mm.input_projection.weight"];
        tensors.extend(names.map(|name| f32_tensor(name, vec![8])));
        assert!(opened(&metadata, &tensors).is_ok(), "{}", spec.architecture);
        assert!(names.iter().all(|name| models::is_other_modality(name)));
        tensors.push(f32_tensor("blk.0.new.weight", vec![8]));
        let error = opened(&metadata, &tensors).expect_err("a tensor without a use").to_string();
        assert!(error.contains("`blk.0.new.weight`"), "{error}");
    }
}

fn f32_tensor(name: &str, shape: Vec<usize>) -> Tensor {
    let data = vec![0; 4 * shape.iter().product::<usize>()];
    Tensor { name: name.to_owned(), format: Format::F32, shape, data: data.into() }
}

fn spec(architecture: &str) -> Spec {
    specs().into_iter().find(|spec| spec.architecture == architecture).expect("a family")
}

/// llama.cpp's converter writes these.
#[test]
fn keys_may_state_what_a_family_does_anyway() {
    let nemotron = spec("nemotron_h_moe");
    assert!(with(&nemotron, &[("expert_gating_func", Value::U32(2))]).is_ok());
    refused(&nemotron, "expert_gating_func", Value::U32(3));
    let jina = spec("jina-bert-v2");
    assert!(with(&jina, &[("attention.max_alibi_bias", Value::F32(8.0))]).is_ok());
    refused(&jina, "attention.max_alibi_bias", Value::F32(4.0));
}

/// Files of Gemma 4 may hold keys and values of layers that read those of another one.
#[test]
fn layers_that_share_keys_and_values_may_have_some() {
    let spec = specs().into_iter().find(|spec| {
        let key = format!("{}.attention.shared_kv_layers", spec.architecture);
        spec.metadata().u32(&key).ok().flatten().is_some_and(|layers| layers > 0)
    });
    let spec = spec.expect("a model with shared layers");
    let layers = spec
        .metadata()
        .u32(&format!("{}.block_count", spec.architecture))
        .expect("a number")
        .expect("layers");
    let mut tensors = spec.tensors();
    for name in ["attn_k.weight", "attn_v.weight", "attn_k_norm.weight"] {
        tensors.push(f32_tensor(&format!("blk.{}.{name}", layers - 1), vec![8]));
    }
    assert!(opened(&spec.metadata(), &tensors).is_ok());
}

#[test]
fn gemma_3_has_an_epsilon_of_its_own() {
    let spec = spec("gemma3");
    let mut metadata = Metadata::default();
    for (key, value) in spec.metadata().iter().filter(|(key, _)| !key.ends_with("layer_norm_rms_epsilon")) {
        metadata.insert(key.to_owned(), value.clone());
    }
    let graph = opened(&metadata, &spec.tensors()).expect("a model").graph.to_string();
    assert!(graph.contains("0.000001") || graph.contains("1e-6"), "{graph}");
}

/// What belongs to a model is named as what it is.
#[test]
fn other_files_are_named() {
    for (key, value, what) in [
        ("general.type", "adapter", "LoRA adapter"),
        ("general.type", "imatrix", "importance matrix"),
        ("general.type", "mmproj", "projector"),
        ("general.architecture", "clip", "projector"),
        ("general.architecture", "controlvector", "control vector"),
    ] {
        let mut metadata = fixtures::small().metadata();
        metadata.insert(key, Value::String(value.into()));
        let error = opened(&metadata, &fixtures::small().tensors()).expect_err(value).to_string();
        assert!(error.contains(what), "{error}");
    }
}
