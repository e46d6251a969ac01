//! The mixes beside llama.cpp's choices (`tools/oracle/quantize.py --goldens`).

use convert::quantize::{Override, Plan, Recipe};
use gguf::{Gguf, Metadata, Tensor};
use models::Family;
use quant::Format;
use quant::mix::{Facts, Mix, choose};
use serde_json::Value;
use synth::Spec;

#[test]
fn mixes_are_llama_cpps() {
    let goldens: Value = serde_json::from_str(include_str!("../goldens/mixes.json")).expect("JSON");
    let formats: Vec<&str> = strings(&goldens["formats"]).collect();
    let mut compared = 0;
    for (model, golden) in goldens["models"].as_object().expect("models") {
        let number = |key: &str| golden[key].as_u64().expect("a number") as usize;
        let tensors: Vec<(&str, Vec<usize>)> =
            golden["tensors"].as_array().expect("tensors").iter().map(tensor).collect();
        for (name, digits) in golden["types"].as_object().expect("types") {
            let mut words = name.split(' ');
            let mix: Mix = words.next().expect("a type").parse().expect("a type");
            let options: Vec<&str> = words.collect();
            if options.contains(&"overrides") {
                continue;
            }
            let architecture = golden["architecture"].as_str().and_then(Family::from_name);
            let facts = Facts {
                architecture: architecture.expect("an architecture that is built").name,
                layers: number("layers"),
                heads: number("heads"),
                kv_heads: number("kv_heads"),
                experts: number("experts"),
                tied: golden["tied"].as_bool().expect("a bool"),
                imatrix: options.contains(&"imatrix"),
                pure: options.contains(&"pure"),
            };
            let digits = digits.as_str().expect("digits");
            assert_eq!(digits.len(), tensors.len());
            for ((tensor, shape), digit) in tensors.iter().zip(digits.chars()) {
                let expected = formats[digit.to_digit(36).expect("a digit") as usize];
                // Routers stay as they are, in F32.
                let found = choose(mix, tensor, shape, &facts).map_or("F32", Format::name);
                assert_eq!(found, expected, "{model}, {name}: {tensor} {shape:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50_000, "{compared}");
}

/// The same for whole plans with formats by name, on files of the goldens' models.
#[test]
fn formats_by_name_are_llama_cpps() {
    let goldens: Value = serde_json::from_str(include_str!("../goldens/mixes.json")).expect("JSON");
    let formats: Vec<&str> = strings(&goldens["formats"]).collect();
    let overrides: Vec<Override> = goldens["overrides"]
        .as_array()
        .expect("pairs")
        .iter()
        .map(|pair| strings(pair).collect::<Vec<_>>().join("=").parse().expect("an override"))
        .collect();
    let mut compared = 0;
    for (model, golden) in goldens["models"].as_object().expect("models") {
        let number = |key: &str| golden[key].as_u64().expect("a number") as u32;
        let architecture = golden["architecture"].as_str().expect("a name");
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture", architecture);
        for (key, number) in [
            ("block_count", number("layers")),
            ("attention.head_count", number("heads")),
            ("attention.head_count_kv", number("kv_heads")),
            ("expert_count", number("experts")),
        ] {
            metadata.insert(format!("{architecture}.{key}"), number);
        }
        let listed: Vec<(&str, Vec<usize>)> =
            golden["tensors"].as_array().expect("tensors").iter().map(tensor).collect();
        let tensors: Vec<Tensor> = listed
            .iter()
            .map(|(name, shape)| Tensor {
                name: (*name).to_owned(),
                shape: shape.clone(),
                format: Format::F32,
                data: vec![0; 4 * shape.iter().product::<usize>()].into(),
            })
            .collect();
        let file = gguf::write(Vec::new(), &metadata, &tensors).expect("a file");
        let file = Gguf::from_bytes(file.into()).expect("a file");
        for (name, digits) in golden["types"].as_object().expect("types") {
            let Some(mix) = name.strip_suffix(" overrides") else { continue };
            let mix = Some(mix.parse().expect("a type"));
            let recipe = Recipe { mix, overrides: &overrides, pure: false, imatrix: None, requantize: false };
            let plan = Plan::new(&file, &recipe).expect("a plan");
            let digits = digits.as_str().expect("digits");
            for (planned, digit) in plan.tensors().iter().zip(digits.chars()) {
                let expected = formats[digit.to_digit(36).expect("a digit") as usize];
                assert_eq!(planned.format.name(), expected, "{model}, {name}: {}", planned.tensor.name);
                compared += 1;
            }
        }
    }
    assert!(compared > 3_000, "{compared}");
}

#[test]
fn a_copy_is_the_same_file() {
    let spec = Spec { layers: 1, ..Spec::new(Format::Q4_K) };
    let file = Gguf::from_bytes(spec.file().into()).expect("a file");
    let recipe = Recipe { mix: None, overrides: &[], pure: false, imatrix: None, requantize: false };
    let plan = Plan::new(&file, &recipe).expect("a plan");
    let mut copy = Vec::new();
    plan.write(&mut copy, 1.try_into().expect("one"), &|_| ()).expect("a vector takes all");
    assert!(copy == spec.file());
}

#[test]
fn norms_and_what_is_no_matrix_stay() {
    let facts = Facts {
        architecture: "llama",
        layers: 2,
        heads: 4,
        kv_heads: 2,
        experts: 8,
        tied: false,
        imatrix: false,
        pure: false,
    };
    for (name, shape) in [
        ("blk.0.attn_norm.weight", &[256][..]),
        ("output_norm.weight", &[256]),
        ("blk.0.attn_q_norm.weight", &[64, 2]),
        ("rope_freqs.weight", &[32]),
        ("blk.1.attn_q.bias", &[256]),
        ("blk.1.attn_q.bias", &[256, 2]),
        ("blk.1.ffn_gate_inp.weight", &[256, 8]),
    ] {
        for mix in Mix::all() {
            assert_eq!(choose(mix, name, shape, &facts), None, "{mix}: {name}");
        }
    }
}

#[test]
fn types_are_named_in_any_case_and_formats_stand_for_mixes() {
    for mix in Mix::all() {
        for name in [mix.name().to_owned(), mix.name().to_lowercase()] {
            assert_eq!(name.parse(), Ok(mix));
        }
    }
    // llama.cpp's IQ2_S is a mix of IQ2_XS with IQ3_S; the format is that of IQ2_M. Nothing quantises to NVFP4.
    let is_named = |format: &Format| ![Format::IQ2_S, Format::NVFP4].contains(format);
    for format in Format::ALL.into_iter().filter(is_named) {
        let mix = format.name().parse::<Mix>().expect("every format has a mix");
        assert_eq!(mix.format(), format);
    }
    assert_eq!("q4_k".parse(), Ok(Mix::Q4_K_M));
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().expect("a list").iter().map(|item| item.as_str().expect("a string"))
}

/// `[name, dimension, ..]`
fn tensor(listed: &Value) -> (&str, Vec<usize>) {
    let (name, shape) = listed.as_array().and_then(|all| all.split_first()).expect("a list");
    let shape = shape.iter().map(|dim| dim.as_u64().expect("a number") as usize).collect();
    (name.as_str().expect("a name"), shape)
}
