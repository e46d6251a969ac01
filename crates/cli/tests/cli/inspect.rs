//! `inspect`, `devices` and `completions`.

use gguf::{Metadata, Value};
use testkit::llama::Spec;

use crate::common::{Home, write};

#[test]
fn everything_is_in_the_json() {
    let home = Home::new();
    let json = home.run("inspect MODEL --json -c 64").json();
    assert_eq!(json["version"], 3);
    assert_eq!(json["metadata"]["llama.block_count"]["value"], 1);
    assert_eq!(json["metadata"]["llama.block_count"]["type"], "u32");
    assert_eq!(json["metadata"]["tokenizer.ggml.tokens"]["value"].as_array().map(Vec::len), Some(512));
    assert_eq!(json["hyper_parameters"]["attention.head_count_kv"], 2);
    assert_eq!(json["tokenizer"]["add_bos"]["value"], true);
    assert_eq!(json["tokenizer"]["stop"][0]["id"], 2);
    let tensors = json["tensors"].as_array().expect("tensors");
    let bytes: u64 = tensors.iter().filter_map(|tensor| tensor["bytes"].as_u64()).sum();
    assert_eq!(json["total"]["bytes"], bytes);
    assert_eq!(json["formats"]["F32"]["tensors"], tensors.len());
    let q = tensors.iter().find(|tensor| tensor["name"] == "blk.0.attn_k.weight").expect("there");
    assert_eq!(q["shape"], serde_json::json!([256, 64]));
    // One layer, 64 positions, two heads, keys and values of 32 F16 values each.
    assert_eq!(json["memory"]["kv_cache"], 64 * 2 * (32 + 32) * 2);
    assert_eq!(json["memory"]["n_ctx"], 64);
    // Matrices are packed for vector kernels; norms and embeddings are used in the file.
    let (mapped, copied) = (&json["memory"]["weights_mapped"], &json["memory"]["weights_copied"]);
    assert!(mapped.as_u64().is_some_and(|mapped| mapped < bytes / 2), "{mapped} of {bytes}");
    assert!(copied.as_u64().is_some_and(|copied| copied >= bytes / 2), "{copied} of {bytes}");
    let json = home.run("inspect MODEL --json -c 64 --no-repack").json();
    assert_eq!(json["memory"]["weights_mapped"], bytes);
    assert_eq!(json["memory"]["weights_copied"], 0);
}

#[test]
fn people_see_one_line_a_thing() {
    let home = Home::new();
    let text = home.run("inspect MODEL").quiet();
    for part in [
        "llama.block_count",
        "blk.0.ffn_down.weight",
        "[512, 256]",
        "KV cache",
        "SentencePiece",
        "yes, the file says",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(home.run("inspect -m MODEL").quiet(), text);
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn what_cannot_be_run_can_be_seen() {
    let home = Home::new();
    let spec = Spec { layers: 1, ..Spec::new(quant::Format::F32) };
    let file = |name: &str, metadata: &Metadata, tensors: &[gguf::Tensor]| {
        write(&home.path(name), gguf::write(Vec::new(), metadata, tensors).expect("a file"));
    };
    let mut metadata = spec.metadata();
    metadata.insert("general.architecture", Value::from("quux\u{1b}[31m"));
    file("arch.gguf", &metadata, &spec.tensors());
    let text = home.run("inspect arch.gguf").quiet();
    assert!(text.contains("Cannot be run") && text.contains("blk.0.attn_q.weight"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let error = home.run("run -m arch.gguf -p x").failed(1);
    assert!(error.contains("quux") && !error.contains('\u{1b}'), "{error:?}");

    let mut metadata = spec.metadata();
    metadata.insert("llama.\u{1b}[31mred", Value::from("\u{1b}[2J"));
    file("key.gguf", &metadata, &spec.tensors());
    let error = home.run("run -m key.gguf --raw -p x -n 1").failed(1);
    assert!(error.contains("[31mred") && !error.contains('\u{1b}'), "{error:?}");

    file("vocab.gguf", &spec.metadata(), &[]);
    assert!(home.run("inspect vocab.gguf").quiet().contains("only a vocabulary"));
    assert!(home.run("tokenize -m vocab.gguf hi").quiet().contains("\"<s>\""));
    let json = home.run("inspect vocab.gguf --json").json();
    assert!(json["memory"]["error"].is_string(), "{}", json["memory"]);

    let mut metadata = spec.metadata();
    metadata.insert("tokenizer.ggml.model", Value::from("bert"));
    file("tokenizer.gguf", &metadata, &spec.tensors());
    let text = home.run("inspect tokenizer.gguf").quiet();
    assert!(text.contains("cannot be used: tokenizer model \"bert\""), "{text}");
}

/// Between the CPU and the reference are graphics processors, where there are any.
#[test]
fn devices_names_backends_and_kernels() {
    let home = Home::new();
    let json = home.run("devices --json -t 1").json();
    let devices = json.as_array().expect("devices");
    let names: Vec<_> = devices.iter().filter_map(|device| device["backend"].as_str()).collect();
    assert!(names.first() == Some(&"cpu") && names.last() == Some(&"reference"), "{names:?}");
    assert_eq!(devices.iter().filter(|device| device["auto"] == true).count(), 1, "{json}");
    assert_eq!(json[0]["facts"]["threads"], "1");
    assert!(json[0]["facts"]["kernels"].is_string());
    for graphics in &devices[1..devices.len() - 1] {
        assert!(["vulkan", "metal"].contains(&graphics["backend"].as_str().expect("a name")), "{graphics}");
        for fact in ["kind", "driver", "memory", "largest buffer", "subgroups", "matrix units", "weights"] {
            assert!(graphics["facts"][fact].is_string(), "{fact}: {graphics}");
        }
        assert!(graphics["memory"].is_object(), "{graphics}");
    }
    let text = home.run("devices").ok();
    assert!(text.contains("kernels") && text.matches("(backend auto takes it)").count() == 1, "{text}");
}

#[test]
fn completions_know_the_commands() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(home.run(&format!("completions {shell}")).quiet().contains("detokenize"), "{shell}");
    }
}
