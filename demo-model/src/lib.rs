//! The files of the demo model, which runs if no model is given.

/// The embedded model: a GGUF file with Q6_K matrices, aligned to 64 bytes.
pub static EMBEDDED: &[u8] = {
    const FILE: &Aligned<[u8]> = &Aligned(*include_bytes!("../rustorch-demo-q6_k.gguf"));
    &FILE.0
};

/// The same model in F16, from which [`EMBEDDED`] was quantised: a GGUF file, aligned to 64 bytes. For tests; only
/// programs that refer to it contain it.
pub static MASTER_F16: &[u8] = {
    const FILE: &Aligned<[u8]> = &Aligned(*include_bytes!("../rustorch-demo-f16.gguf"));
    &FILE.0
};

/// Aligns the file to a cache line, so that tensors, which have an alignment of 32 bytes in the file, are aligned in
/// memory as in a mapped file.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use gguf::{Gguf, Tensor, Value};

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

    /// The files differ only in the storage of matrices, recorded in two keys.
    #[test]
    fn both_files_have_the_same_model() {
        fn keys(file: &Gguf) -> BTreeMap<&str, &Value> {
            let storage = ["general.file_type", "general.quantization_version"];
            file.metadata().iter().filter(|(key, _)| !storage.contains(key)).collect()
        }
        fn shapes(file: &Gguf) -> BTreeMap<&str, &[usize]> {
            file.tensors().map(|tensor| (&*tensor.name, &*tensor.shape)).collect()
        }
        let (embedded, master) = (open(EMBEDDED), open(MASTER_F16));
        assert_eq!(keys(&embedded), keys(&master));
        assert_eq!(shapes(&embedded), shapes(&master));
        for (a, b) in
            master.tensors().map(|a| (a, embedded.tensor(&a.name).expect("a tensor of the same name")))
        {
            let (a, b) = (values(a), values(b));
            let square = |x: f32| f64::from(x).powi(2);
            let error = a.iter().zip(&b).map(|(a, b)| square(a - b)).sum::<f64>();
            let size = a.iter().map(|&a| square(a)).sum::<f64>();
            assert!(error <= 1e-3 * size, "NMSE {:.1e}", error / size);
        }
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        let mut values = vec![0.0; tensor.row_len() * tensor.rows()];
        tensor.format.dequantize(&tensor.data, &mut values);
        values
    }
}
