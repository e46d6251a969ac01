//! Small checkpoints of every class, beside what llama.cpp's converter makes of them (`tools/goldens/checkpoints.py`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use convert::{Checkpoint, Error, Options, Plan};
use gguf::{Gguf, Value};
use quant::Mix;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens")
}

fn cases() -> Vec<Json> {
    let text = fs::read_to_string(goldens().join("checkpoints.jsonl")).expect("the goldens are there");
    text.lines().map(|line| serde_json::from_str(line).expect("a golden is JSON")).collect()
}

fn case(name: &str) -> Json {
    cases().into_iter().find(|case| case["case"] == name).expect("the case is known")
}

/// `fill` of the script: 32 bits of a linear congruential sequence, of which the highest 8 count.
fn fill(name: &str, kind: &str, count: usize) -> Vec<u8> {
    let start = crc32fast::hash(name.as_bytes());
    let high = (0..count as u32).map(|i| (start.wrapping_add(i.wrapping_mul(2_654_435_761)) >> 24) as u8);
    let value = |byte: u8| (f32::from(byte) - 128.0) / 64.0;
    match kind {
        "U8" => high.collect(),
        "F8_E4M3" => high.map(|byte| byte & 0xFE).collect(),
        "BF16" => high.flat_map(|byte| half::bf16::from_f32(value(byte)).to_le_bytes()).collect(),
        "F32" => high.flat_map(|byte| value(byte).to_le_bytes()).collect(),
        other => panic!("unknown type {other}"),
    }
}

/// Makes the checkpoint of a case in `folder`, in two shards.
fn make(folder: &Path, case: &Json) {
    copy(&goldens().join("others").join(case["others"].as_str().expect("a name")), folder);
    fs::write(folder.join("config.json"), case["config"].to_string()).expect("writable");
    let tensors = case["tensors"].as_object().expect("an object");
    let mut shards = [BTreeMap::new(), BTreeMap::new()];
    for (number, (name, of)) in tensors.iter().enumerate() {
        let shape: Vec<usize> = serde_json::from_value(of[1].clone()).expect("a shape");
        let kind = of[0].as_str().expect("a type");
        let dtype = serde_json::from_value(of[0].clone()).expect("a type of safetensors");
        shards[number % 2].insert(name.clone(), (dtype, fill(name, kind, shape.iter().product()), shape));
    }
    for (number, shard) in shards.iter().enumerate() {
        let views = shard.iter().map(|(name, (dtype, data, shape))| {
            (name, safetensors::tensor::TensorView::new(*dtype, shape.clone(), data).expect("sizes agree"))
        });
        let path = folder.join(format!("model-0000{}-of-00002.safetensors", number + 1));
        safetensors::serialize_to_file(views, None, &path).expect("writable");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("writable");
    for entry in fs::read_dir(from).expect("the golden's files are there") {
        let path = entry.expect("readable").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() { copy(&path, &to) } else { assert!(fs::copy(&path, &to).is_ok()) }
    }
}

/// The pre-tokenizers of random vocabularies have no known hash.
fn options(file_type: Mix) -> Options {
    Options { file_type: Some(file_type), pre_tokenizer: Some("gpt-2".to_owned()), ..Options::default() }
}

fn converted(folder: &Path, file_type: Mix) -> Result<Gguf, Error> {
    let checkpoint = Checkpoint::open(folder)?;
    let bytes = Plan::new(&checkpoint, &options(file_type))?.write(Vec::new(), &|_| ())?;
    Ok(Gguf::from_bytes(bytes.into())?)
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A value as the golden has it: type and content.
fn described(value: &Value) -> Json {
    match value {
        Value::Array(array) => {
            let values: Vec<Json> = array.values().map(|value| described(&value)[1].clone()).collect();
            serde_json::json!([format!("[{}]", name(array.element_type().name())), values])
        }
        Value::F32(number) => serde_json::json!(["FLOAT32", f64::from(*number)]),
        Value::Bool(value) => serde_json::json!(["BOOL", value]),
        Value::String(text) => serde_json::json!(["STRING", text]),
        other => {
            serde_json::json!([name(other.value_type().name()), other.integer().map(|number| number as i64)])
        }
    }
}

/// The gguf package's name of a type.
fn name(ours: &str) -> String {
    let upper = ours.to_uppercase();
    match upper.as_str() {
        "F32" => "FLOAT32".into(),
        "STRING" | "BOOL" => upper,
        _ if upper.starts_with('U') => upper.replacen('U', "UINT", 1),
        _ => upper.replacen('I', "INT", 1),
    }
}

#[test]
fn keys_and_tensors_are_those_of_llama_cpp() {
    let mut wrong = Vec::new();
    for case in cases() {
        let folder = tempfile::tempdir().expect("a folder");
        make(folder.path(), &case);
        for (file_type, of) in [(Mix::F32, "f32"), (Mix::BF16, "bf16")] {
            let file = match converted(folder.path(), file_type) {
                Ok(file) => file,
                Err(error) => {
                    wrong.push(format!("{} {of}: {error}", case["case"]));
                    continue;
                }
            };
            let prefix = format!("{}.", case["architecture"].as_str().expect("a name"));
            let keys = file.metadata().iter().filter(|(key, _)| key.starts_with(&prefix));
            // What differs from llama.cpp on purpose.
            let meant =
                |name: &str| case["meant"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
            let keys = keys.filter(|(key, _)| !meant(key));
            let keys: BTreeMap<&str, Json> = keys.map(|(key, value)| (key, described(value))).collect();
            let expected = case["keys"].as_object().expect("an object").iter().filter(|(key, _)| !meant(key));
            let expected: BTreeMap<&str, Json> =
                expected.map(|(key, value)| (key.as_str(), value.clone())).collect();
            if keys != expected {
                wrong.push(format!("{} {of}: keys {keys:?}, expected {expected:?}", case["case"]));
            }
            let tensors = file.tensors().map(|tensor| {
                let content = serde_json::json!([tensor.format.name(), tensor.shape, digest(&tensor.data)]);
                (tensor.name.clone(), content)
            });
            let tensors: serde_json::Map<String, Json> = tensors.collect();
            for (name, expected) in case["files"][of].as_object().expect("an object") {
                if !meant(name) && tensors.get(name) != Some(expected) {
                    wrong.push(format!(
                        "{} {of} {name}: {:?}, expected {expected}",
                        case["case"],
                        tensors.get(name)
                    ));
                }
            }
            let more =
                tensors.keys().find(|name| !meant(name) && case["files"][of].get(name.as_str()).is_none());
            wrong.extend(more.map(|name| format!("{} {of}: {name} is too much", case["case"])));
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
}

/// The message of the error of a checkpoint that `spoil` has changed.
fn refused(name: &str, spoil: impl FnOnce(&Path, &mut Json)) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let case = case(name);
    make(folder.path(), &case);
    let mut config = case["config"].clone();
    spoil(folder.path(), &mut config);
    fs::write(folder.path().join("config.json"), config.to_string()).expect("writable");
    converted(folder.path(), Mix::F16).expect_err("the checkpoint is spoilt").to_string()
}

#[test]
fn what_is_wrong_with_a_checkpoint_is_said() {
    let says = |message: String, parts: &[&str]| {
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    };
    let message =
        refused("llama", |_, config| config["architectures"] = serde_json::json!(["GPTNeoForCausalLM"]));
    says(message, &["config.json", "GPTNeoForCausalLM", "LlamaForCausalLM", "Qwen3ForCausalLM"]);
    let message = refused("llama", |_, config| config["num_attention_heads"] = 5.into());
    says(message, &["self_attn.q_proj.weight", "does not divide"]);
    let message = refused("llama", |_, config| config["num_attention_heads"] = 0.into());
    says(message, &["num_attention_heads", "0"]);
    let message = refused("llama", |_, config| config["num_hidden_layers"] = "three".into());
    says(message, &["num_hidden_layers", "three", "count"]);
    let message = refused("qwen3", |_, config| {
        config["quantization_config"] = serde_json::json!({"quant_method": "gptq", "bits": 4});
    });
    says(message, &["gptq", "not quantised"]);
    let message = refused("qwen3", |folder, _| {
        fs::remove_file(folder.join("tokenizer.json")).expect("it is there");
    });
    says(message, &["tokenizer"]);
    let message =
        refused("mixtral", |_, config| config["architectures"] = serde_json::json!(["Qwen2ForCausalLM"]));
    says(message, &["block_sparse_moe", "qwen2"]);
}

#[test]
fn damaged_shards_are_refused() {
    let shard = "model-00001-of-00002.safetensors";
    let changed = |change: fn(&mut Vec<u8>)| {
        refused("llama", |folder, _| {
            let mut bytes = fs::read(folder.join(shard)).expect("it is there");
            change(&mut bytes);
            fs::write(folder.join(shard), bytes).expect("writable");
        })
    };
    for message in [
        changed(|bytes| bytes.truncate(bytes.len() - 1)),
        changed(|bytes| bytes.truncate(7)),
        changed(Vec::clear),
        changed(|bytes| bytes[..8].fill(0xFF)),
        changed(|bytes| bytes[9] = b'!'),
    ] {
        assert!(message.contains(shard), "{message}");
    }
    let message = refused("mixtral", |folder, _| {
        fs::remove_file(folder.join("model-00002-of-00002.safetensors")).expect("it is there");
    });
    assert!(message.contains("expert") || message.contains("missing"), "{message}");
}

#[test]
fn what_to_do_about_damage_is_said() {
    let says = |message: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let shard = "model-00001-of-00002.safetensors";
    // The first line of a pointer, as in git-lfs's specification.
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    for name in [shard, "tokenizer.json"] {
        let message = refused("llama", |folder, _| fs::write(folder.join(name), pointer).expect("writable"));
        says(message, &[name, "git lfs pull"]);
    }
    let message = refused("llama", |folder, _| {
        let bytes = fs::read(folder.join(shard)).expect("it is there");
        fs::write(folder.join(shard), &bytes[..bytes.len() - 1]).expect("writable");
    });
    says(message, &[shard, "download it again"]);
    let folder = tempfile::tempdir().expect("a folder");
    let message = Checkpoint::open(folder.path()).expect_err("it is empty").to_string();
    says(message, &["there is no config.json", "no checkpoint"]);
}

#[test]
fn a_list_that_names_a_missing_shard_is_refused() {
    let message = refused("llama", |folder, _| {
        let index = r#"{"weight_map": {"model.norm.weight": "model-00003-of-00003.safetensors"}}"#;
        fs::write(folder.join("model.safetensors.index.json"), index).expect("writable");
    });
    assert!(message.contains("model-00003-of-00003.safetensors"), "{message}");
    let message = refused("llama", |folder, _| {
        let index = r#"{"weight_map": {"model.norm.weight": "../model.safetensors"}}"#;
        fs::write(folder.join("model.safetensors.index.json"), index).expect("writable");
    });
    assert!(message.contains("no file name"), "{message}");
}

/// The result for a case whose tensors and configuration `change` has changed.
fn changed(name: &str, change: impl FnOnce(&mut Json)) -> Result<Gguf, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut case = case(name);
    change(&mut case);
    make(folder.path(), &case);
    converted(folder.path(), Mix::F16)
}

#[test]
fn layers_that_predict_further_tokens_are_left_out_of_deepseek() {
    let further = |case: &mut Json| {
        case["tensors"]["model.layers.3.eh_proj.weight"] = serde_json::json!(["BF16", [64, 128]])
    };
    let file = changed("deepseek-v3", |case| {
        case["config"]["num_nextn_predict_layers"] = 1.into();
        further(case);
    });
    assert!(file.expect("it is converted").tensors().all(|tensor| !tensor.name.starts_with("blk.3.")));
    let error = changed("deepseek-v3", |case| {
        case["config"]["num_nextn_predict_layers"] = 0.into();
        further(case);
    });
    assert!(error.expect_err("a layer too many").to_string().contains("layers.3.eh_proj"));
}

/// What a file says of a key.
fn key(file: &Gguf, key: &str) -> Json {
    file.metadata().get(key).map_or(Json::Null, |value| described(value)[1].clone())
}

#[test]
fn positions_of_falcon_h1_are_scaled() {
    let file = changed("falcon-h1-yarn", |_| {}).expect("it is converted");
    let scaling = ["type", "factor", "original_context_length"];
    let scaling = scaling.map(|name| key(&file, &format!("falcon-h1.rope.scaling.{name}")));
    assert_eq!(scaling, [Json::from("yarn"), 4.0.into(), 128.into()]);
    let file = changed("falcon-h1-linear", |_| {}).expect("it is converted");
    assert_eq!(key(&file, "falcon-h1.rope.scaling.type"), "linear");
    assert_eq!(key(&file, "falcon-h1.rope.scaling.factor"), 2.0);
}

#[test]
fn glm_4_7_flash_needs_no_key_for_its_experts() {
    let file = changed("glm4-moe-lite-types", |_| {}).expect("it is converted");
    assert_eq!(key(&file, "deepseek2.expert_gating_func"), 2);
    assert_eq!(key(&file, "deepseek2.leading_dense_block_count"), 2);
    // transformers has one dense layer where no key says otherwise.
    let file = changed("glm4-moe-lite", |case| {
        let config = case["config"].as_object_mut().expect("an object");
        config.retain(|key, _| !["mlp_layer_types", "first_k_dense_replace"].contains(&key.as_str()));
    });
    assert_eq!(key(&file.expect("it is converted"), "deepseek2.leading_dense_block_count"), 1);
    let message = refused("glm4-moe-lite-types", |_, config| {
        config["mlp_layer_types"] = serde_json::json!(["dense", "sparse", "dense", "sparse"]);
    });
    assert!(message.contains("mlp_layer_types") && message.contains("before"), "{message}");
}

#[test]
fn blocks_that_the_configuration_does_not_announce_are_refused() {
    for case in ["glm4-moe-lite", "glm4-moe"] {
        let error = changed(case, |case| {
            case["config"]["num_nextn_predict_layers"] = 0.into();
            case["tensors"]["model.layers.3.enorm.weight"] = serde_json::json!(["BF16", [64]]);
        });
        let message = error.map(drop).expect_err("a layer too many").to_string();
        assert!(message.contains("blk.3") && message.contains("3 layers"), "{case}: {message}");
    }
}

#[test]
fn parts_for_images_are_left_out_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let case = case("qwen3-vl");
    make(folder.path(), &case);
    let checkpoint = Checkpoint::open(folder.path()).expect("it is complete");
    let plan = Plan::new(&checkpoint, &options(Mix::F16)).expect("it can be converted");
    let of_images = case["tensors"].as_object().expect("an object").keys();
    let of_images = of_images.filter(|name| name.starts_with("model.visual.")).count();
    assert!(of_images > 10);
    assert!(matches!(plan.warnings(), [warning] if warning.starts_with(&format!("{of_images} tensors"))));
    // Without keys, transformers' values.
    let file = changed("qwen3-vl", |case| {
        case["config"]["vision_config"] = serde_json::json!({});
        case["config"]["text_config"]["rope_parameters"] = serde_json::json!({"rope_theta": 5e6});
    });
    let file = file.expect("it is converted");
    assert_eq!(key(&file, "qwen3vl.n_deepstack_layers"), 3);
    assert_eq!(key(&file, "qwen3vl.rope.dimension_sections"), serde_json::json!([24, 20, 20, 0]));
    let message =
        refused("qwen3-vl", |_, config| config["_name_or_path"] = "Qwen/Qwen3-VL-Reranker-2B".into());
    assert!(message.contains("reranker"), "{message}");
}

/// `norm_topk_prob` of each class in transformers, and the default of its configuration.
#[test]
fn weights_of_experts_that_the_file_cannot_express_are_refused() {
    let normalised = |name: &str, key: &str, value: Option<bool>| {
        changed(name, |case| {
            let config = &mut case["config"];
            let config = if config["text_config"].is_object() { &mut config["text_config"] } else { config };
            let config = config.as_object_mut().expect("an object");
            match value {
                Some(value) => config.insert(key.to_owned(), value.into()),
                None => config.remove(key),
            };
        })
    };
    for (name, is_normalised, default) in [
        ("qwen2-moe", false, Some(false)),
        ("qwen3-moe", true, Some(false)),
        ("qwen3-next", true, Some(true)),
        ("qwen3.5-moe", true, None),
        ("qwen3.5-moe-vision", true, None),
        ("lfm2-moe", true, Some(true)),
        ("minimax-m2", true, None),
        ("hunyuan-moe", true, None),
        ("gpt-oss", true, None),
        ("mixtral", true, None),
        ("granite-moe", true, None),
        ("gemma4-moe", true, None),
        ("llama4", false, None),
    ] {
        let key = "norm_topk_prob";
        assert!(normalised(name, key, Some(is_normalised)).is_ok(), "{name}");
        let message = normalised(name, key, Some(!is_normalised)).map(drop).expect_err(name).to_string();
        for part in ["config.json", key, &format!("{}, expected {is_normalised}", !is_normalised)] {
            assert!(message.contains(part), "{name}: {message}");
        }
        let without = normalised(name, key, None);
        match default {
            Some(default) if default != is_normalised => {
                let message = without.map(drop).expect_err(name).to_string();
                assert!(message.contains("transformers' default"), "{name}: {message}");
            }
            _ => assert!(without.is_ok(), "{name}"),
        }
    }
    let message = normalised("nomic-bert-moe", "moe_normalize_expert_weights", Some(true));
    assert!(message.map(drop).expect_err("normalised").to_string().contains("moe_normalize_expert_weights"));
    // A key of these files says it.
    for (name, key) in [
        ("deepseek-v3", "deepseek2.expert_weights_norm"),
        ("glm4-moe-lite", "deepseek2.expert_weights_norm"),
        ("glm4-moe", "glm4moe.expert_weights_norm"),
        ("nemotron-h-moe", "nemotron_h_moe.expert_weights_norm"),
    ] {
        for value in [true, false] {
            let file = normalised(name, "norm_topk_prob", Some(value)).expect(name);
            assert_eq!(file.metadata().get(key) == Some(&Value::Bool(true)), value, "{name}");
        }
    }
}

#[test]
fn a_scalar_in_place_of_a_vector_is_refused() {
    let error = changed("mamba2", |case| {
        let tensors = case["tensors"].as_object_mut().expect("an object");
        let name = tensors.keys().find(|name| name.ends_with("A_log")).expect("a decay").clone();
        tensors.insert(name, serde_json::json!(["F32", []]));
    });
    assert!(error.expect_err("a scalar").to_string().contains("A_log"));
}

#[test]
fn scaling_that_the_file_cannot_express_is_refused() {
    for rope in [
        serde_json::json!({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
        serde_json::json!({"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0}),
        serde_json::json!({"rope_type": "yarn", "rope_theta": 1e4}),
        serde_json::json!({"rope_type": "longrope", "rope_theta": 1e4, "long_factor": [1.5], "short_factor": [1.0]}),
    ] {
        let kind = rope["rope_type"].as_str().expect("a kind");
        for name in ["qwen3", "falcon-h1"] {
            let error = changed(name, |case| case["config"]["rope_parameters"] = rope.clone());
            let error = error.map(drop).expect_err("unknown scaling").to_string();
            assert!(error.contains(kind), "{name}: {error}");
        }
    }
    let huge = changed("llama-3", |case| case["config"]["head_dim"] = 4_294_967_295u32.into());
    assert!(huge.expect_err("a head too long").to_string().contains("head_dim"));
}
