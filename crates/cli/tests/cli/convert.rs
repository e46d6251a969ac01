//! Checkpoints of Hugging Face and back, with the demo model.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gguf::Gguf;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use testkit::hub::Hub;

use crate::common::{Home, Ran};

const HEADS: usize = 8;
const KV_HEADS: usize = 4;

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo-model/rustorch-demo-f16.gguf")
}

/// transformers' name of a tensor.
fn name(of_file: &str) -> String {
    let names = [
        ("token_embd", "model.embed_tokens"),
        ("output_norm", "model.norm"),
        ("blk.", "model.layers."),
        ("attn_norm", "input_layernorm"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.o_proj"),
        ("ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ];
    let exact = names.iter().find(|(from, _)| of_file.split('.').any(|part| part == *from));
    let renamed = exact.map_or(of_file.to_owned(), |(from, to)| of_file.replacen(from, to, 1));
    let renamed = renamed.replacen("blk.", "model.layers.", 1);
    if renamed.starts_with("output.") { renamed.replacen("output", "lm_head", 1) } else { renamed }
}

/// Rows 2i and 2i + 1 of each head become rows i and i + half, as transformers has them.
fn halves(rows: &[u8], heads: usize, row: usize) -> Vec<u8> {
    let rows: Vec<&[u8]> = rows.chunks(row).collect();
    let len = rows.len() / heads;
    let of_head = |head: &[&[u8]]| {
        let even = head.iter().step_by(2);
        even.chain(head.iter().skip(1).step_by(2)).copied().collect::<Vec<_>>().concat()
    };
    rows.chunks(len).flat_map(of_head).collect()
}

/// The demo model as a checkpoint in `folder`: its tokenizer by `export-tokenizer`, its weights in F16.
pub(crate) fn checkpoint(home: &Home, folder: &Path) {
    let (model, to) = (demo().display().to_string(), folder.display().to_string());
    home.run_with("export-tokenizer", &[&model, &to]).ok();
    let file = Gguf::open(demo()).expect("the demo model");
    let tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> = file
        .tensors()
        .map(|tensor| {
            let heads = match tensor.name.rsplit('.').nth(1) {
                Some("attn_q") => Some(HEADS),
                Some("attn_k") => Some(KV_HEADS),
                _ => None,
            };
            let data = match heads {
                Some(heads) => halves(&tensor.data, heads, tensor.row_bytes()),
                None => tensor.data.to_vec(),
            };
            let dtype = if tensor.format == quant::Format::F16 { Dtype::F16 } else { Dtype::F32 };
            let shape = tensor.shape.iter().rev().copied().collect();
            (name(&tensor.name), (dtype, shape, data))
        })
        .collect();
    let views = tensors.iter().map(|(name, (dtype, shape, data))| {
        (name, TensorView::new(*dtype, shape.clone(), data).expect("sizes agree"))
    });
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).expect("writable");
}

/// Both files have the same keys of architecture and tokenizer, and the same tensors.
fn assert_same(ours: &Path) {
    let (ours, original) = (Gguf::open(ours).expect("a file"), Gguf::open(demo()).expect("the demo model"));
    for (key, value) in original.metadata().iter().filter(|(key, _)| !key.starts_with("general.")) {
        assert_eq!(ours.metadata().get(key), Some(value), "{key}");
    }
    for tensor in original.tensors() {
        let found = ours.tensor(&tensor.name).unwrap_or_else(|| panic!("{} is missing", tensor.name));
        assert!(found == tensor, "{}", tensor.name);
    }
    assert_eq!(ours.tensors().len(), original.tensors().len());
}

#[test]
fn the_demo_model_comes_back_from_a_checkpoint() {
    let home = Home::new();
    checkpoint(&home, &home.path("Demo-1M"));
    let report = home.run("convert Demo-1M . --json").json();
    assert_eq!((&report["architecture"], &report["type"]), (&"llama".into(), &"f16".into()));
    let output = home.path("Demo-1M-F16.gguf");
    assert_eq!(report["bytes"], fs::metadata(&output).expect("it is there").len());
    assert_same(&output);
    // A model is replaced by itself, not by another one.
    home.run("convert Demo-1M Demo-1M-F16.gguf").ok();
    let refused = home.run("convert Demo-1M model.gguf").failed(1);
    assert!(refused.contains("model.gguf") && refused.contains("GGUF file of this model"), "{refused}");
    let answer = |model: &str| home.run(&format!("run -m {model} -p Hello -n 8 --temp 0")).ok();
    let original = demo().display().to_string();
    assert_eq!(answer("Demo-1M-F16.gguf"), home.run_with("run -p Hello -n 8 --temp 0 -m", &[&original]).ok());
}

#[test]
fn a_dry_run_writes_nothing() {
    let home = Home::new();
    checkpoint(&home, &home.path("demo"));
    let ran = home.run("convert demo out.gguf --type q8_0 --dry-run");
    assert_eq!((ran.code, &*ran.stdout), (Some(0), ""), "{ran:?}");
    assert!(ran.stderr.contains("would be Demo, llama") && ran.stderr.contains("q8_0"), "{ran:?}");
    assert!(!home.path("out.gguf").exists());
}

#[test]
fn a_repository_is_downloaded_and_converted() {
    let (home, hub) = (Home::new(), Hub::start());
    let folder = home.path("demo");
    checkpoint(&home, &folder);
    for entry in fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        hub.add("user/Demo", &name, fs::read(&path).expect("readable"));
    }
    hub.add("user/Demo", "pytorch_model.bin", "not wanted");
    hub.add("user/Demo", "onnx/model.safetensors", "not wanted");
    let run = |args: &str| {
        let mut command = home.command(args);
        command
            .env("HF_HOME", home.path("hf"))
            .env("HF_ENDPOINT", &hub.endpoint)
            .env("NO_PROXY", "127.0.0.1");
        Ran::from(command.output().expect("the program starts"))
    };
    // Nothing is downloaded for an option that changes nothing.
    let base = run("convert user/Demo out.gguf --base user/Other").failed(1);
    assert!(base.contains("user/Demo is no LoRA adapter") && base.contains("--base"), "{base}");
    let offline = run("convert user/Demo out.gguf --offline").failed(1);
    assert!(offline.contains("user/Demo is not here"), "{offline}");
    let ran = run("convert user/Demo out.gguf");
    assert!(ran.code == Some(0) && ran.stderr.contains("user/Demo: 5 files"), "{ran:?}");
    assert_same(&home.path("out.gguf"));
    run("convert user/Demo again.gguf --offline").ok();
    assert_same(&home.path("again.gguf"));
}

#[test]
fn mistakes_are_said() {
    let home = Home::new();
    for folder in ["empty", "adapter"] {
        fs::create_dir(home.path(folder)).expect("writable");
    }
    fs::write(home.path("adapter/adapter_config.json"), "{}").expect("writable");
    for (args, said) in [
        ("convert adapter out.gguf --pre-tokenizer qwen2", "adapter is a LoRA adapter"),
        ("convert empty out.gguf --base adapter", "empty is no LoRA adapter"),
        ("convert nowhere out.gguf", "there is no folder nowhere"),
        ("convert empty out.gguf", "config.json"),
        ("convert model.gguf out.gguf", "no folder"),
    ] {
        let message = home.run(args).failed(1);
        assert!(message.contains(said), "{args}: {message}");
    }
    let usage = home.run("convert empty out.gguf --type q4_k_m");
    assert_eq!(usage.code, Some(2), "{usage:?}");
    assert!(usage.stderr.contains("q8_0"), "{usage:?}");
    let usage = home.run("convert empty out.gguf --base adapter --pre-tokenizer qwen2");
    assert_eq!(usage.code, Some(2), "{usage:?}");
    assert!(usage.stderr.contains("--pre-tokenizer") && usage.stderr.contains("--base"), "{usage:?}");
}
