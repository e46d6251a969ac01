//! Quantisation: error compared with llama.cpp's, and edge cases.

use quant::Format;
use serde_json::Value;

const ROWS: usize = 64;
const COLUMNS: usize = 1024;

/// Formats that llama.cpp quantises to only with an imatrix.
const NEEDS_IMPORTANCE: [Format; 4] = [Format::IQ2_XXS, Format::IQ2_XS, Format::IQ1_S, Format::IQ1_M];

/// SplitMix64, as in `tools/oracle/quantize_goldens.py`.
fn words(count: usize, seed: u64) -> impl Iterator<Item = u64> {
    (1..=count as u64).map(move |i| {
        let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

/// Approximately normal: sums of 12 uniform 16-bit integers.
fn normal(count: usize, seed: u64) -> Vec<f32> {
    let words: Vec<u64> = words(3 * count, seed).collect();
    let sum = |three: &[u64]| -> i64 {
        three.iter().flat_map(|word| (0..4).map(move |i| (word >> (16 * i) & 0xFFFF) as i64)).sum()
    };
    words.chunks(3).map(|three| (sum(three) - 6 * 65536) as f32 / 65536.0).collect()
}

/// Powers of two from 1 to 128.
fn importance() -> Vec<f32> {
    words(COLUMNS, 2).map(|word| f32::exp2((word & 7) as f32)).collect()
}

fn quantized() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|format| format.block_len() > 1)
}

/// Quantises and dequantises `x`.
fn round_trip(format: Format, x: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let mut bytes = vec![0xA5; format.bytes_for(x.len() as u64).expect("whole blocks") as usize];
    format.quantize(x, importance, &mut bytes);
    let mut y = vec![f32::NAN; x.len()];
    format.dequantize(&bytes, &mut y);
    y
}

fn mean_square(x: &[f32]) -> f64 {
    x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / x.len() as f64
}

/// Squared error over the columns selected by `is_counted`, relative to their sum of squares.
fn error(x: &[f32], y: &[f32], is_counted: impl Fn(usize) -> bool) -> f64 {
    let counted = x.iter().zip(y).enumerate().filter(|(i, _)| is_counted(i % COLUMNS));
    let (mut error, mut energy) = (0.0, 0.0);
    for (_, (&x, &y)) in counted {
        error += (f64::from(x) - f64::from(y)).powi(2);
        energy += f64::from(x).powi(2);
    }
    error / energy
}

/// Error weights of llama.cpp's quantisers, as in `tools/oracle/squared_error.py`.
fn weights(format: Format, row: &[f32], importance: Option<&[f32]>) -> Vec<f64> {
    use Format::*;
    if matches!(format, MXFP4 | NVFP4 | TQ1_0 | TQ2_0) {
        return vec![1.0; row.len()];
    }
    let spread = |group: usize, factor: f64| -> Vec<f64> {
        row.chunks(group).flat_map(|x| vec![factor * mean_square(x); x.len()]).collect()
    };
    let Some(importance) = importance else {
        let rms = spread(32, 1.0);
        return row
            .iter()
            .zip(rms)
            .map(|(&x, mean)| match format {
                Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 => 1.0,
                Q2_K => f64::from(x.abs()),
                Q4_K | Q5_K => mean.sqrt() + f64::from(x.abs()),
                _ => f64::from(x).powi(2),
            })
            .collect();
    };
    let spread = match format {
        Q4_0 | Q4_1 | Q5_0 | Q5_1 => spread(row.len(), 1.0),
        IQ4_NL => spread(32, 2.0),
        Q2_K | IQ2_XXS | IQ2_XS => spread(256, 1.0),
        Q6_K | Q8_0 => return importance.iter().map(|&x| f64::from(x)).collect(),
        _ => spread(256, 2.0),
    };
    let by_magnitude = row.iter().zip(spread).map(|(&x, spread)| (spread + f64::from(x).powi(2)).sqrt());
    by_magnitude.zip(importance).map(|(weight, &importance)| weight * f64::from(importance)).collect()
}

/// Weighted and unweighted mean squared error.
fn errors(format: Format, x: &[f32], y: &[f32], importance: Option<&[f32]>) -> (f64, f64) {
    let (mut weighted, mut weight, mut plain) = (0.0, 0.0, 0.0);
    for (x, y) in x.chunks(COLUMNS).zip(y.chunks(COLUMNS)) {
        for ((x, y), w) in x.iter().zip(y).zip(weights(format, x, importance)) {
            let square = (f64::from(*x) - f64::from(*y)).powi(2);
            weighted += w * square;
            weight += w;
            plain += square;
        }
    }
    (weighted / weight, plain / x.len() as f64)
}

#[test]
fn error_is_at_most_llama_cpps() {
    use Format::*;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/quantize.json");
    let goldens: Value = serde_json::from_str(&std::fs::read_to_string(path).expect(path)).expect("JSON");
    let x = normal(ROWS * COLUMNS, 1);
    let outliers: Vec<f32> = x.iter().map(|x| x * x.abs() * 0.01).collect();
    let known = importance();
    for (case, x) in [("normal", x), ("outliers", outliers)] {
        for (kind, importance) in [("alone", None), ("importance", Some(&*known))] {
            for format in quantized() {
                let golden = &goldens[case][kind][format.name()];
                // llama.cpp needs an imatrix for some formats.
                if golden.is_null() {
                    assert!(kind == "alone" && NEEDS_IMPORTANCE.contains(&format), "{format}");
                    continue;
                }
                let (weighted, plain) = errors(format, &x, &round_trip(format, &x, importance), importance);
                for (what, ours) in [("weighted", weighted), ("plain", plain)] {
                    let theirs = golden[what].as_f64().expect("a number");
                    // Refining the integer scales by the error they cause must gain at least this much.
                    let most = match (what, kind, format) {
                        ("weighted", "alone", Format::Q5_K) => 0.92,
                        ("weighted", "importance", Format::Q2_K) => 0.99,
                        // Exact search of grids.
                        ("weighted", _, IQ3_XXS | IQ3_S | IQ2_XXS | IQ2_XS | IQ2_S | IQ1_S | IQ1_M) => 0.91,
                        // They minimise the weighted error.
                        ("plain", "importance", IQ3_XXS | IQ3_S | IQ2_S) => 1.07,
                        (.., TQ1_0 | TQ2_0) => 0.5,
                        _ => 1.01,
                    };
                    assert!(
                        ours <= most * theirs,
                        "{case}, {kind}, {format}: {what} {:.4} times theirs",
                        ours / theirs
                    );
                }
            }
        }
    }
}

#[test]
fn floats_are_rounded_to_nearest() {
    let x = normal(1024, 3);
    assert_eq!(round_trip(Format::F32, &x, None), x);
    for (format, bits) in [(Format::F16, 11), (Format::BF16, 8)] {
        for (x, y) in x.iter().zip(round_trip(format, &x, None)) {
            assert!((x - y).abs() <= x.abs() * f32::exp2(-bits as f32) + 1e-7, "{format}: {x} became {y}");
        }
        assert_eq!(round_trip(format, &[1.0, -2.5, 0.0, 40000.0], None)[..3], [1.0, -2.5, 0.0]);
        let y = round_trip(format, &[f32::MAX, f32::MIN, 1e-45], None);
        assert!(y[0].is_finite() && y[0] > 65000.0 && y[1] == -y[0] && y[2] == 0.0, "{format}: {y:?}");
    }
}

#[test]
fn zeros_stay_zero() {
    for format in Format::ALL {
        for importance in [None, Some(&[1.0; 256][..]), Some(&[0.0; 256])] {
            assert!(round_trip(format, &[0.0; 512], importance).iter().all(|&y| y == 0.0), "{format}");
        }
        // A block of zeros next to a non-zero one.
        let mut x = normal(512, 4);
        x[256..].fill(0.0);
        assert!(round_trip(format, &x, None)[256..].iter().all(|&y| y == 0.0), "{format}");
    }
}

#[test]
fn constant_blocks_are_preserved() {
    for format in quantized() {
        for value in [1.0, -1.0, 0.3, -0.07, 1234.5] {
            for (i, y) in round_trip(format, &[value; 256], None).into_iter().enumerate() {
                let most = match format {
                    // A power of two as its scale; one of three bits.
                    Format::MXFP4 => 0.2,
                    Format::NVFP4 => 0.0625,
                    _ => 1.5e-3,
                };
                assert!((y / value - 1.0).abs() <= most, "{format}: value {i} of {value} became {y}");
            }
        }
    }
}

#[test]
fn requantization_loses_next_to_nothing() {
    for format in Format::ALL {
        let first = round_trip(format, &normal(COLUMNS * 16, 5), None);
        let second = round_trip(format, &first, None);
        let lost = error(&first, &second, |_| true);
        // The integer scales may be found under a different F16 scale.
        let most = if format.block_len() == 256 { 2e-4 } else { 1e-7 };
        assert!(lost <= most, "{format}: {lost:e}");
    }
}

/// The error of the other values of the block is bounded by a quantisation step, which the outlier determines.
#[test]
fn an_outlier_is_preserved_and_affects_only_its_block() {
    for format in quantized() {
        let mut x = normal(1024, 6);
        let block = format.block_len();
        let alone = round_trip(format, &x, None);
        x[300] = 1000.0;
        let y = round_trip(format, &x, None);
        assert!((y[300] / 1000.0 - 1.0).abs() < 0.16, "{format}: became {}", y[300]);
        let at = 300 / block * block..(300 / block + 1) * block;
        for (i, (a, b)) in alone.iter().zip(&y).enumerate().filter(|(i, _)| !at.contains(i)) {
            assert_eq!(a, b, "{format}: value {i}");
        }
        for (i, (x, y)) in x.iter().zip(&y).enumerate() {
            assert!((x - y).abs() <= 1000.0 / 3.0, "{format}: value {i}, {x} became {y}");
        }
    }
}

#[test]
fn importance_moves_error_to_unimportant_columns() {
    let x = normal(ROWS * COLUMNS, 7);
    let importance: Vec<f32> = (0..COLUMNS).map(|i| if i % 8 == 3 { 1000.0 } else { 1.0 }).collect();
    // Little can be moved with a power of two as the scale, or one scale for 256 ternary values.
    let fixed = [Format::Q8_0, Format::MXFP4, Format::TQ1_0, Format::TQ2_0];
    for format in quantized().filter(|format| !fixed.contains(format)) {
        let (alone, known) = (round_trip(format, &x, None), round_trip(format, &x, Some(&importance)));
        let of = |y: &[f32], counts: bool| error(&x, y, |column| (column % 8 == 3) == counts);
        assert!(
            of(&known, true) < 0.75 * of(&alone, true),
            "{format}: {} {}",
            of(&known, true),
            of(&alone, true)
        );
        assert!(of(&known, false) > of(&alone, false), "{format}");
    }
}

/// Importance is per column: each row is quantised independently.
#[test]
fn rows_are_independent() {
    let (x, importance) = (normal(3 * 512, 8), normal(512, 9).iter().map(|x| x.abs()).collect::<Vec<_>>());
    for format in Format::ALL {
        let together = round_trip(format, &x, Some(&importance));
        for (row, together) in x.chunks(512).zip(together.chunks(512)) {
            assert_eq!(round_trip(format, row, Some(&importance)), together, "{format}");
        }
    }
}

#[test]
fn importance_is_scale_invariant() {
    let x = normal(1024, 10);
    let importance: Vec<f32> = normal(1024, 11).iter().map(|x| x * x).collect();
    for format in Format::ALL {
        let expected = round_trip(format, &x, Some(&importance));
        for factor in [f32::exp2(100.0), f32::exp2(-90.0)] {
            let scaled: Vec<f32> = importance.iter().map(|x| x * factor).collect();
            assert_eq!(round_trip(format, &x, Some(&scaled)), expected, "{format}, {factor:e}");
        }
        let nothing = round_trip(format, &x, Some(&[0.0; 1024]));
        assert!(error(&x, &nothing, |_| true) < 0.2, "{format}");
    }
}

/// A power-of-two factor changes only the scales, as long as F16 can represent them.
#[test]
fn quantization_is_scale_invariant() {
    let x = normal(1024, 12);
    for format in Format::ALL {
        let expected = round_trip(format, &x, None);
        for factor in [f32::exp2(5.0), f32::exp2(-3.0)] {
            let scaled: Vec<f32> = x.iter().map(|x| x * factor).collect();
            for (expected, y) in expected.iter().zip(round_trip(format, &scaled, None)) {
                assert!(
                    (expected - y / factor).abs() <= 2e-3,
                    "{format}, {factor}: {expected} and {}",
                    y / factor
                );
            }
        }
    }
}

/// Finite inputs give finite outputs without a panic.
#[test]
fn extreme_values_stay_finite() {
    let finite = |word: u64| {
        let x = f32::from_bits(word as u32);
        if x.is_finite() { x } else { 1.0 }
    };
    let any: Vec<f32> = words(8192, 13).map(finite).collect();
    let tiny: Vec<f32> = words(1024, 14).map(|word| f32::from_bits(word as u32 & 0x807F_FFFF)).collect();
    let small: Vec<f32> = normal(1024, 15).iter().map(|x| x * 1e-7).collect();
    let large: Vec<f32> = normal(1024, 16).iter().map(|x| x * 1e30).collect();
    let mut mixed = normal(1024, 17);
    (mixed[5], mixed[70], mixed[600]) = (1e30, -1e-40, f32::MIN);
    let importance: Vec<f32> = words(1024, 18).map(|word| finite(word).abs()).collect();
    for x in [any, tiny, small, large, mixed, vec![f32::MAX; 1024], vec![f32::MIN_POSITIVE; 1024]] {
        for format in Format::ALL {
            for importance in [None, Some(&*importance)] {
                for (x, y) in x.iter().zip(round_trip(format, &x, importance)) {
                    assert!(y.is_finite(), "{format}: {x:e} became {y:e}");
                }
            }
        }
    }
}

#[test]
fn values_beyond_f16_scales_saturate() {
    for format in Format::ALL {
        for (value, y) in
            [f32::MAX, f32::MIN].into_iter().map(|x| (x, round_trip(format, &[x; 256], None)[0]))
        {
            // The scales of NVFP4 are smaller floats.
            let least = if format == Format::NVFP4 { 2687.0 } else { 65000.0 };
            assert!(y.is_finite() && y * value.signum() > least, "{format}: {value:e} became {y:e}");
        }
    }
}

/// Callers reject these first; this test only rules out panics and damage to other blocks.
#[test]
fn non_finite_values_affect_only_their_block() {
    let mut x = normal(1024, 19);
    (x[3], x[300], x[700]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    for format in Format::ALL {
        let y = round_trip(format, &x, None);
        assert!(y[512..700 / 256 * 256].iter().all(|y| y.is_finite()), "{format}");
        round_trip(format, &normal(1024, 20), Some(&x.iter().map(|x| x.abs()).collect::<Vec<_>>()));
    }
}

#[test]
#[should_panic(expected = "bytes given for 32 values of Q4_0")]
fn a_short_row_is_refused() {
    Format::Q4_0.quantize(&[0.0; 32], None, &mut [0; 17]);
}

#[test]
#[should_panic(expected = "importance of 64 columns given for 96 values of Q4_0")]
fn importance_of_another_row_length_is_refused() {
    Format::Q4_0.quantize(&[0.0; 96], Some(&[1.0; 64]), &mut [0; 54]);
}
