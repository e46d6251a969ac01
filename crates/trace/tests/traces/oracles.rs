//! The small models' values as llama.cpp and transformers compute them (`tools/oracle/README.md` says
//! how these traces are made), against ours.

use std::path::Path;

use backend::KvFormat;
use gguf::Gguf;
use models::Model;
use tempfile::TempDir;
use testkit::conformance::random::nmse;
use testkit::fixtures::{Spec, small, small_qwen2};
use trace::{Trace, digest};

use crate::common::{cpu, everything, reference};

/// Names that only our graph has.
const OURS: [&str; 3] = ["l_inp_outputs", "kqv_out_outputs", "result_output.tapped"];

/// Compares the golden trace of this name, which lacks the values whose names begin with `unnamed`, with what the
/// reference and the CPU backend compute of the same model, value by value, each with its limit.
fn compare(name: &str, spec: &Spec, kv: KvFormat, unnamed: Option<&str>, limits: [f64; 2]) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join(format!("{name}.safetensors"));
    let golden = Trace::open(golden).expect("a trace");
    let folder = TempDir::new().expect("a folder");
    let [model, path] = ["small.gguf", "ours.safetensors"].map(|name| folder.path().join(name));
    spec.write_to(&model).expect("the model is written");
    let file = Gguf::open(&model).expect("a good file");
    assert_eq!(Some(digest(&file)), golden.meta().model_digest, "the golden's model");
    assert_eq!((golden.meta().n_layer, golden.meta().kv), (2, kv));

    let model = Model::new(&file).expect("a good model");
    for (backend, limit) in [reference(), cpu()].into_iter().zip(limits) {
        everything(&file, &model, &golden.meta().tokens).run(backend, Some(&path)).expect("a good run");
        let ours = Trace::open(&path).expect("a trace");
        assert_eq!(ours.meta().model_digest, golden.meta().model_digest);
        let names = ours
            .values()
            .map(|value| &*value.name)
            .filter(|name| !OURS.contains(name) && !unnamed.is_some_and(|of| name.starts_with(of)));
        let mut names: Vec<&str> = names.collect();
        for &value in &names {
            assert_eq!(golden.value(value), ours.value(value));
            let [theirs, ours] = [&golden, &ours].map(|trace| trace.read(value).expect("a value"));
            let error = nmse(&theirs, &ours);
            assert!(error <= limit, "{value}: NMSE {error:e} between {name} and ours");
        }
        let mut theirs: Vec<&str> = golden.values().map(|value| &*value.name).collect();
        names.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(theirs, names, "every value of {name} has a counterpart");
    }
}

/// It rounds keys, values, queries and the weights of attention to 16 bits, and our CPU backend the first
/// two of them; the reference backend none. Errors of all values are below 1.4e-7.
#[test]
fn llama_cpp_computes_the_same_values() {
    compare("llama_cpp", &small(), KvFormat::F16, None, [1e-6, 1e-6]);
}

/// The same of architecture `qwen2`, where llama.cpp gives one product no name.
#[test]
fn llama_cpp_computes_the_same_values_of_qwen2() {
    compare("llama_cpp-qwen2", &small_qwen2(), KvFormat::F16, Some("attn_out-"), [1e-6, 1e-6]);
}

/// It computes in 32 bits as the reference backend does between operations; the CPU backend rounds keys
/// and values to 16.
#[test]
fn transformers_computes_the_same_values() {
    compare("transformers", &small(), KvFormat::F32, None, [1e-11, 1e-6]);
}
