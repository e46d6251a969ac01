//! `inspect`, `devices` and `completions`.

use gguf::{Metadata, Value};
use quant::Format;
use testkit::fixtures::Spec;

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
    // The last line has the memory that is available at this moment.
    let lines =
        |text: &str| text.lines().filter(|line| !line.contains("available")).map(str::to_owned).collect();
    let [named, positional]: [Vec<String>; 2] = [lines(&home.run("inspect -m MODEL").quiet()), lines(&text)];
    assert_eq!(named, positional);
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
    metadata.insert("tokenizer.ggml.model", Value::from("rwkv"));
    file("tokenizer.gguf", &metadata, &spec.tensors());
    let text = home.run("inspect tokenizer.gguf").quiet();
    assert!(text.contains("cannot be used: tokenizer model \"rwkv\""), "{text}");
}

#[test]
fn a_tensor_of_an_unknown_type_is_listed_and_not_computed() {
    let home = Home::new();
    let mut file = std::fs::read(&home.model).expect("it is there");
    // After the name: the number of dimensions, two dimensions, the type.
    let name = b"blk.0.attn_k.weight";
    let at = file.windows(name.len()).position(|bytes| bytes == name).expect("it is there");
    file[at + name.len() + 4 + 2 * 8..][..4].copy_from_slice(&99u32.to_le_bytes());
    write(&home.path("unknown.gguf"), file);

    let text = home.run("inspect unknown.gguf").quiet();
    let line = text.lines().find(|line| line.contains("blk.0.attn_k.weight")).expect("it is listed");
    assert!(line.contains("type 99 (unknown)") && line.ends_with("size unknown"), "{line}");
    assert!(text.contains("Cannot be run"), "{text}");

    let (json, whole) =
        (home.run("inspect unknown.gguf --json").json(), home.run("inspect MODEL --json").json());
    let names = |json: &serde_json::Value| {
        let tensors = json["tensors"].as_array().expect("tensors").iter();
        tensors.map(|tensor| tensor["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&json), names(&whole), "in the order of the file");
    let tensor = json["tensors"].as_array().expect("tensors").iter().find(|tensor| tensor["bytes"].is_null());
    let expected = serde_json::json!({
        "name": "blk.0.attn_k.weight", "format": "type 99 (unknown)", "shape": [256, 64], "bytes": null
    });
    assert_eq!(tensor, Some(&expected));
    assert_eq!(json["total"]["values"], whole["total"]["values"]);
    assert!(json["total"]["bytes"].is_null() && json["formats"]["F32"]["bytes"].is_u64(), "{json}");

    for command in [
        "run -m unknown.gguf -p x",
        "logits -m unknown.gguf --tokens 1",
        "trace -m unknown.gguf --tokens 1",
        "perplexity -m unknown.gguf -f MODEL",
        "quantize unknown.gguf out.gguf Q8_0",
        "bench -m unknown.gguf",
        "verify -m unknown.gguf",
    ] {
        let ran = home.run(command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.code, Some(1), "{command}: {said}");
        assert!(said.contains("blk.0.attn_k.weight") && said.contains("type 99"), "{command}: {said}");
    }
}

/// GPUs are listed between the CPU and the reference.
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

/// Blocks of multi-token prediction are left out, which commands say once.
#[test]
fn blocks_that_are_left_out_are_reported() {
    let keys = &["nextn_predict_layers=1"];
    let home = Home::with(&Spec { layers: 2, keys, ..Spec::new(Format::F32) });
    let said = "1 block for multi-token prediction, which would only speed up generation: not used";
    for command in ["inspect MODEL", "run -m MODEL --raw -p a -n 1"] {
        let ran = home.run(command);
        assert_eq!(ran.stderr.matches(said).count(), 1, "{ran:?}");
    }
}
