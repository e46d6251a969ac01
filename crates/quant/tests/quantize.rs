//! Quantisation: what comes back is near, whatever goes in.

use quant::Format;

#[test]
fn what_comes_back_is_near() {
    let mut state = 1u64;
    let x: Vec<f32> = (0..4096)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect();
    for format in Format::ALL {
        let mut bytes = vec![0; format.bytes_for(x.len() as u64).expect("whole blocks") as usize];
        let mut y = vec![0.0; x.len()];
        format.quantize(&x, None, &mut bytes);
        format.dequantize(&bytes, &mut y);
        let error: f32 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
        let energy: f32 = x.iter().map(|x| x * x).sum();
        assert!(error <= 0.1 * energy, "{format}: {}", error / energy);
    }
}
