//! The demo model's files, so that the program has something to run where no model is named.

/// The model as the program holds it: a GGUF file, its matrices in Q6_K, at a multiple of 64 bytes.
pub static EMBEDDED: &[u8] = {
    const FILE: &Aligned<[u8]> = &Aligned(*include_bytes!("../rustorch-demo-q6_k.gguf"));
    &FILE.0
};

/// The same model in F16, what [`EMBEDDED`] was made from: a GGUF file at a multiple of 64 bytes. It is
/// for tests; a program that does not name it does not hold it.
pub static MASTER_F16: &[u8] = {
    const FILE: &Aligned<[u8]> = &Aligned(*include_bytes!("../rustorch-demo-f16.gguf"));
    &FILE.0
};

/// Begins a line of the cache, so that tensors, which a file aligns to 32 bytes, are aligned in memory as
/// they would be in a mapping.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gguf::Gguf;

    use super::*;

    fn open(bytes: &'static [u8]) -> Gguf {
        Gguf::from_bytes(Bytes::from_static(bytes)).expect("a good file")
    }

    #[test]
    fn tensors_are_aligned_in_memory() {
        for file in [EMBEDDED, MASTER_F16] {
            assert!(file.as_ptr().addr().is_multiple_of(64));
            for tensor in open(file).tensors() {
                assert!(tensor.data.as_ptr().addr().is_multiple_of(32), "{}", tensor.name);
            }
        }
    }

    #[test]
    fn both_files_are_one_model() {
        let shapes = |file: &Gguf| {
            let shapes = file.tensors().map(|tensor| (tensor.name.clone(), tensor.shape.clone()));
            shapes.collect::<std::collections::BTreeMap<_, _>>()
        };
        let (embedded, master) = (open(EMBEDDED), open(MASTER_F16));
        assert_eq!(shapes(&embedded), shapes(&master));
        for key in ["tokenizer.ggml.tokens", "tokenizer.chat_template", "llama.context_length"] {
            assert_eq!(embedded.metadata().get(key), master.metadata().get(key), "{key}");
        }
        let values =
            |file: &Gguf| file.tensors().map(|tensor| tensor.row_len() * tensor.rows()).sum::<usize>();
        assert!(EMBEDDED.len() < MASTER_F16.len() && values(&embedded) * 2 <= MASTER_F16.len());
    }
}
