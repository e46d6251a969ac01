//! The reader of imatrix files on mutated and random bytes, as `fuzz/fuzz_targets/imatrix.rs` runs it.

use std::time::{Duration, Instant};

use convert::imatrix::Imatrix;
use gguf::{Metadata, Tensor};
use quant::Format;
use synth::Random;

fn older() -> Vec<u8> {
    let mut bytes = 1i32.to_le_bytes().to_vec();
    bytes.extend([&3i32.to_le_bytes()[..], b"abc", &2i32.to_le_bytes(), &4i32.to_le_bytes()].concat());
    bytes.extend([1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()));
    bytes.extend([&2i32.to_le_bytes()[..], &1i32.to_le_bytes(), b"t"].concat());
    bytes
}

fn gguf_file() -> Vec<u8> {
    let metadata: Metadata = [("general.type", "imatrix")].into_iter().collect();
    let tensor = |name: &str, values: &[f32]| Tensor {
        name: name.into(),
        shape: vec![values.len()],
        format: Format::F32,
        data: values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into(),
    };
    let tensors = [tensor("a.in_sum2", &[4.0, 8.0]), tensor("a.counts", &[4.0])];
    gguf::write(Vec::new(), &metadata, &tensors).expect("a file")
}

#[test]
fn any_bytes_are_weights_or_an_error() {
    let (begin, mut read) = (Instant::now(), [0; 2]);
    let files = [older(), gguf_file()];
    assert_eq!(Imatrix::from_bytes(&files[0]).expect("a file").get("abc"), Some(&[0.5, 1.0, 1.5, 2.0][..]));
    assert_eq!(Imatrix::from_bytes(&files[1]).expect("a file").get("a"), Some(&[1.0, 2.0][..]));
    for round in 0.. {
        if begin.elapsed() > Duration::from_secs(2) {
            break;
        }
        let random = Random::new(round, "imatrix");
        let mut bytes = files[round as usize % 2].clone();
        for i in 0..1 + random.word(0) % 4 {
            let at = random.word(3 * i + 1) as usize % bytes.len();
            match random.word(3 * i + 2) % 3 {
                0 => bytes[at] = random.word(3 * i + 3) as u8,
                1 => bytes[at] ^= 1 << (random.word(3 * i + 3) % 8),
                _ => bytes.truncate(at.max(1)),
            }
        }
        match Imatrix::from_bytes(&bytes) {
            Ok(imatrix) => {
                read[0] += 1;
                for columns in imatrix.names().filter_map(|name| imatrix.get(name)) {
                    assert!(columns.iter().all(|weight| weight.is_finite() && *weight >= 0.0), "{bytes:?}");
                }
            }
            Err(why) => {
                read[1] += 1;
                assert!(!why.is_empty());
            }
        }
    }
    assert!(read.iter().all(|count| *count > 100), "both happen: {read:?}");
}
