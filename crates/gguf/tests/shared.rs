//! Real files, if available.

use gguf::{Array, Gguf};

#[test]
fn version_1_and_3_of_a_model_are_equal() {
    let (Some(old), Some(new)) =
        (testkit::shared("models/stories260k-v1.gguf"), testkit::shared("models/stories260k.gguf"))
    else {
        return;
    };
    let (old, new) = (Gguf::open(old).unwrap(), Gguf::open(new).unwrap());
    assert_eq!((old.version(), new.version()), (1, 3));
    assert_eq!(old.tensors().len(), 48);
    assert_eq!(new.tensors().len(), 48);
    for tensor in old.tensors() {
        assert_eq!(Some(tensor), new.tensor(&tensor.name));
    }
    assert_eq!(new.metadata().str("general.architecture").unwrap(), Some("llama"));
    assert_eq!(new.metadata().strings("tokenizer.ggml.tokens").unwrap().map(<[_]>::len), Some(512));
    assert_eq!(old.metadata(), new.metadata());
    // Shape [64, 512]: 512 rows of 64.
    let embedding = new.tensor("token_embd.weight").unwrap();
    assert_eq!((embedding.rows(), embedding.row_len()), (512, 64));
    assert_eq!(embedding.data.len(), 512 * 64 * 4);
    new.check_intact().unwrap();
}

#[test]
fn vocabularies_are_complete() {
    for (name, tokens) in [
        ("deepseek-coder", 32256),
        ("gpt-2", 50257),
        ("llama-bpe", 128256),
        ("llama-spm", 32000),
        ("phi-3", 32064),
        ("qwen2", 151936),
    ] {
        let Some(path) = testkit::shared(&format!("vocab/ggml-vocab-{name}.gguf")) else { return };
        let gguf = Gguf::open(path).unwrap();
        assert_eq!(gguf.tensors().len(), 0);
        let Ok(Some(Array::String(found))) = gguf.metadata().array("tokenizer.ggml.tokens") else {
            panic!("{name} has no tokens")
        };
        assert_eq!(found.len(), tokens, "{name}");
    }
}
