//! Adapters of PEFT: what `tools/checks/convert/adapters.py` compares with llama.cpp, by hand.

use std::fs;
use std::path::Path;

use convert::{Adapter, Error};
use gguf::Gguf;
use safetensors::tensor::{Dtype, TensorView};

const BASE: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 8, "vocab_size": 8}"#;
const LORA: &str = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8"#;
const Q: &str = "base_model.model.model.layers.0.self_attn.q_proj";

/// Writes the configurations and tensors of the given shapes, whose values count from 0.
fn make(folder: &Path, more: &str, tensors: &[(String, [usize; 2])]) {
    fs::write(folder.join("config.json"), BASE).expect("writable");
    fs::write(folder.join("adapter_config.json"), format!("{LORA}{more}}}")).expect("writable");
    let data: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, shape)| (0..shape[0] * shape[1]).flat_map(|i| (i as f32).to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&data).map(|((name, shape), data)| {
        (name, TensorView::new(Dtype::F32, shape.to_vec(), data).expect("sizes agree"))
    });
    safetensors::serialize_to_file(views, None, &folder.join("adapter_model.safetensors")).expect("writable");
}

fn factors() -> Vec<(String, [usize; 2])> {
    vec![(format!("{Q}.lora_A.weight"), [4, 4]), (format!("{Q}.lora_B.weight"), [4, 4])]
}

fn written(folder: &Path) -> Result<Gguf, Error> {
    let path = folder.join("adapter.gguf");
    let adapter = Adapter::open(folder, folder)?;
    adapter.plan(Some("x"), None)?.write(fs::File::create(&path).expect("writable"), &|_| ())?;
    Ok(Gguf::open(&path).expect("the file is valid"))
}

fn refused(more: &str, tensors: &[(String, [usize; 2])]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), more, tensors);
    written(folder.path()).expect_err("it cannot be converted").to_string()
}

#[test]
fn factors_get_the_names_and_the_order_of_their_matrix() -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), "", &factors());
    let file = written(folder.path())?;
    let values = |name: &str| {
        let tensor = file.tensor(name).expect("the tensor is there");
        tensor
            .data
            .chunks(4)
            .map(|word| f32::from_le_bytes(word.try_into().expect("4 bytes")))
            .collect::<Vec<f32>>()
    };
    assert_eq!(values("blk.0.attn_q.weight.lora_a"), (0..16).map(|i| i as f32).collect::<Vec<f32>>());
    // Rows 0 and 2, then 1 and 3: llama.cpp rotates neighbours.
    let rows = [0, 2, 1, 3].into_iter().flat_map(|row| (0..4).map(move |i| (row * 4 + i) as f32));
    assert_eq!(values("blk.0.attn_q.weight.lora_b"), rows.collect::<Vec<f32>>());
    let metadata = file.metadata();
    assert_eq!(metadata.get("adapter.lora.alpha"), Some(&gguf::Value::F32(8.0)));
    assert_eq!(metadata.str("general.type").ok().flatten(), Some("adapter"));
    assert_eq!(metadata.str("adapter.type").ok().flatten(), Some("lora"));
    Ok(())
}

#[test]
fn alpha_is_for_a_division_by_the_rank() -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), r#", "use_rslora": true"#, &factors());
    // 8 / sqrt(4) is 16 / 4.
    assert_eq!(written(folder.path())?.metadata().get("adapter.lora.alpha"), Some(&gguf::Value::F32(16.0)));
    Ok(())
}

#[test]
fn what_a_file_cannot_express_is_refused() {
    assert!(refused(r#", "use_dora": true"#, &factors()).contains("use_dora"));
    assert!(refused(r#", "alpha_pattern": {"q_proj": 3}"#, &factors()).contains("alpha_pattern"));
    let whole = [("base_model.model.lm_head.weight".to_owned(), [8, 4])];
    assert!(refused("", &whole).contains("merge_and_unload"));
    assert!(refused("", &factors()[..1]).contains("missing"));
    let other = [("base_model.model.model.layers.0.x.lora_A.weight".to_owned(), [4, 4])];
    let both = [other[0].clone(), (other[0].0.replace("lora_A", "lora_B"), [4, 4])];
    assert!(refused("", &both).contains("has no tensor"));
}
