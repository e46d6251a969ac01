//! Dequantisation agrees bit for bit with the gguf package (`tools/goldens/quant.py`).

use quant::Format;

#[test]
fn dequantize_is_bit_exact() {
    for format in Format::ALL {
        let path = format!("{}/goldens/{format}.bin", env!("CARGO_MANIFEST_DIR"));
        let golden = std::fs::read(&path).expect(&path);
        let blocks = golden.len() / (format.block_bytes() + 4 * format.block_len());
        assert!(blocks >= 16, "{format}: only {blocks} blocks");
        let (raw, expected) = golden.split_at(blocks * format.block_bytes());

        let mut out = vec![0.0; blocks * format.block_len()];
        format.dequantize(raw, &mut out);

        let (expected, rest) = expected.as_chunks();
        assert!(rest.is_empty() && expected.len() == out.len());
        for (i, (&got, &want)) in out.iter().zip(expected).enumerate() {
            let want = f32::from_le_bytes(want);
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{format}: value {} of block {} is {got:e}, expected {want:e}",
                i % format.block_len(),
                i / format.block_len(),
            );
        }
    }
}

#[test]
fn blocks_are_read_at_any_alignment() {
    let mut bytes = vec![0; 3 * Format::Q8_0.block_bytes() + 1];
    bytes[1 + 34..1 + 36].copy_from_slice(&[0x00, 0x3C]);
    bytes[1 + 36] = 0xFF;
    let mut out = [0.0; 96];
    Format::Q8_0.dequantize(&bytes[1..], &mut out);
    assert_eq!(out[32], -1.0);
    assert_eq!(out.iter().filter(|x| **x != 0.0).count(), 1);
}

#[test]
#[should_panic(expected = "bytes given for 32 values of Q4_0")]
fn a_short_row_is_refused() {
    Format::Q4_0.dequantize(&[0; 17], &mut [0.0; 32]);
}

#[test]
#[should_panic(expected = "bytes given for 31 values of Q4_0")]
fn part_of_a_block_is_refused() {
    Format::Q4_0.dequantize(&[0; 18], &mut [0.0; 31]);
}
