//! Which causes are believed: those that say more than zero, a factor or chance would.

use quant::Format;
use testkit::fixtures::Spec;
use trace::{First, Matrix};

use crate::common::{Bench, TOKENS, cpu, only};

/// What is found where `name` is made of what it was.
fn first(bench: &Bench, name: &'static str, change: impl Fn(&Matrix) -> Matrix) -> First {
    let bad = bench.changed(&bench.cpu(), |value, x| Some(if value == name { change(&x) } else { x }));
    let report = bench.compare(&bad, &bench.reference());
    let first = report.first.expect("a wrong value");
    assert_eq!(first.name, name);
    first
}

/// Arbitrary elements, of about `size` times the RMS of `x`.
fn noise(x: &Matrix, size: f32) -> Matrix {
    let rms = (x.data.iter().map(|x| x * x).sum::<f32>() / x.data.len() as f32).sqrt();
    let random = |i: usize| ((i as f32 * 12.9898).sin() * 43758.547).fract() * 1.7;
    Matrix::from_fn(x.rows, x.cols, |r, c| size * rms * random(r * x.cols + c))
}

/// Nothing is as near to zero as zero, whatever rounding the product would have cost.
#[test]
fn zero_is_zero() {
    for format in [Format::Q6_K, Format::Q4_K, Format::Q3_K, Format::Q8_0] {
        let bench = Bench::new(format);
        for name in ["attn_out-1", "result_output.tapped"] {
            let bad = bench.changed(&bench.cpu(), only(name, |_, _, _| 0.0));
            let first = bench.compare(&bad, &bench.reference()).first.expect("zeros");
            assert_eq!((first.causes[0].kind, first.causes[0].likely), ("zero", true), "{:?}", first.causes);
            assert!(first.causes[1..].iter().all(|cause| !cause.likely), "{:?}", first.causes);
        }
        let part = first(&bench, "ffn_out-1", |x| {
            Matrix::from_fn(x.rows, x.cols, |r, c| {
                if (5..9).contains(&r) && (64..96).contains(&c) { 0.0 } else { x.at(r, c) }
            })
        });
        assert_eq!((part.causes[0].kind, part.causes[0].likely), ("zero", true), "{:?}", part.causes);
    }
}

/// A hypothesis that shrinks a value is closer to small noise, but not its cause.
#[test]
fn noise_has_no_cause() {
    for format in [Format::Q6_K, Format::Q4_K] {
        let bench = Bench::of(Spec { layers: 3, ..Spec::new(format) });
        let reversed = |x: &Matrix| Matrix::from_fn(x.rows, x.cols, |r, c| 0.5 * x.at(r, x.cols - 1 - c));
        assert_eq!(first(&bench, "ffn_up-2", reversed).causes, []);
        assert_eq!(first(&bench, "ffn_gate-1", |x| noise(x, 0.2)).causes, []);
        assert_eq!(first(&bench, "kqv_out-1", |x| noise(x, 0.3)).causes, []);
    }
}

/// As many wrong elements as fitted parameters explain nothing, and among many values one is near by chance.
#[test]
fn one_number_has_no_cause() {
    let bench = Bench::of(Spec { layers: 4, ..Spec::new(Format::Q8_0) });
    for tokens in [1, TOKENS] {
        let (on_cpu, reference) = (
            bench.record("cpu", cpu(None), tokens),
            bench.record("reference", Box::new(backend_reference::Reference::new()), tokens),
        );
        for add in [1.0, -3.0] {
            for col in [3, 100] {
                let one = only("ffn_out-1", move |r, c, x| if (r, c) == (0, col) { x + add } else { x });
                let first =
                    bench.compare(&bench.changed(&on_cpu, one), &reference).first.expect("a wrong number");
                assert_eq!((&*first.name, &first.causes[..]), ("ffn_out-1", &[][..]));
            }
        }
    }
}

/// An offset of a column is a bias, not blocks that are lost.
#[test]
fn one_column_may_have_a_bias() {
    for format in [Format::F32, Format::Q8_0, Format::Q6_K] {
        let bench = Bench::new(format);
        let first = first(&bench, "Kcur_pre-1", |x| {
            Matrix::from_fn(x.rows, x.cols, |r, c| x.at(r, c) + if c == 40 { 1.0 } else { 0.0 })
        });
        assert_eq!((first.causes[0].kind, first.causes[0].likely), ("bias", true), "{:?}", first.causes);
        assert!(first.causes.iter().all(|cause| !cause.text.contains("lost")), "{:?}", first.causes);
    }
}

#[test]
fn one_head_may_be_rotated_otherwise() {
    let bench = Bench::new(Format::F32);
    let input = bench.cpu().read("Qcur_pre-1").expect("a value");
    // The rotation of neighbouring pairs, 32 columns a head, base 10000.
    let rotated = |r: usize, head: usize, position: usize| -> Vec<f32> {
        let turn = |(i, x): (usize, &[f32])| {
            let angle = position as f64 * 10000f64.powf(-2.0 * i as f64 / 32.0);
            let (a, b) = (f64::from(x[0]), f64::from(x[1]));
            [(a * angle.cos() - b * angle.sin()) as f32, (a * angle.sin() + b * angle.cos()) as f32]
        };
        input[r * 256 + head * 32..][..32].chunks(2).enumerate().flat_map(turn).collect()
    };
    let with = |head: usize, position: &dyn Fn(usize) -> usize| {
        first(&bench, "Qcur-1", |x| {
            let of_head: Vec<Vec<f32>> = (0..x.rows).map(|r| rotated(r, head, position(r))).collect();
            Matrix::from_fn(
                x.rows,
                x.cols,
                |r, c| if c / 32 == head { of_head[r][c % 32] } else { x.at(r, c) },
            )
        })
    };
    let later = with(2, &|r| r + 1);
    assert_eq!(
        (later.causes[0].kind, later.causes[0].likely),
        ("wrong-position", true),
        "{:?}",
        later.causes
    );
    assert!(later.causes[0].text.contains("too large by 1"), "{:?}", later.causes);
    let not_at_all = with(1, &|_| 0);
    let causes = &not_at_all.causes;
    assert_eq!((causes[0].kind, causes[0].likely, causes.len()), ("unchanged", true, 1), "{causes:?}");
}
