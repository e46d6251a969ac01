//! What is reported of a wrong value: where in it, and why.

use quant::Format;
use testkit::fixtures::Spec;
use trace::Matrix;

use crate::common::{Bench, TOKENS, only};

#[test]
fn nan_is_reported() {
    let bench = Bench::new(Format::F32);
    let bad = bench.changed(&bench.cpu(), only("ffn_swiglu-0", |r, _, x| if r > 9 { f32::NAN } else { x }));
    let first = bench.compare(&bad, &bench.reference()).first.expect("NaN");
    assert_eq!((&*first.name, first.position, first.causes[0].kind), ("ffn_swiglu-0", 10, "not-finite"));
}

#[test]
fn causes_hold_where_they_hold() {
    let bench = Bench::new(Format::F32);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let bad = bench.changed(&cpu, only("attn_out-0", |r, _, x| if r >= 20 { x / 8.0 } else { x }));
    let report = bench.compare(&bad, &reference);
    let first = report.first.as_ref().expect("a wrong value");
    assert_eq!(
        (&*first.name, first.position, first.causes[0].kind),
        ("attn_out-0", 20, "scaled"),
        "{report}"
    );
    assert!(first.causes[0].text.contains("1/8 (only positions from 20)"), "{}", first.causes[0].text);
    assert!(first.causes[0].likely);
    // What follows no mistake has no likely cause.
    let bad = bench.changed(&cpu, only("attn_out-0", |r, c, x| x + ((r * 31 + c * 17) as f32).sin()));
    let first = bench.compare(&bad, &reference).first.expect("a wrong value");
    assert!(first.causes.iter().all(|cause| !cause.likely), "{:?}", first.causes);
}

/// One element fits anything, and a NaN among many wrong elements does not account for them.
#[test]
fn few_numbers_bear_out_nothing() {
    let bench = Bench::new(Format::F32);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let value = cpu.read("ffn_out-0").expect("a value");
    let mut sizes: Vec<f32> = value.iter().map(|x| x.abs()).collect();
    sizes.sort_by(f32::total_cmp);
    let (second, most) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
    let cut = |x: f32| if x.abs() == most { x.signum() * f32::midpoint(second, most) } else { x };
    let bad = bench.changed(&cpu, only("ffn_out-0", |_, _, x| cut(x)));
    let first = bench.compare(&bad, &reference).first.expect("a wrong number");
    assert!(first.causes.iter().all(|cause| !cause.likely), "{:?}", first.causes);

    let bad = bench.changed(
        &cpu,
        only("ffn_up-0", |r, c, x| match (r, c) {
            (9, 3) => f32::NAN,
            (4.., _) => -x,
            _ => x,
        }),
    );
    let first = bench.compare(&bad, &reference).first.expect("wrong numbers");
    let cause = &first.causes[0];
    assert!(
        cause.text.starts_with("1 value is NaN") && cause.text.contains("position 9, column 3"),
        "{cause:?}"
    );
    assert!(!cause.likely && cause.explained < 0.01, "{cause:?}");
}

/// Far within what rounding to 8 bits may cost, and no rounding: it has a direction.
#[test]
fn a_small_gain_is_no_rounding() {
    for format in [Format::Q4_K, Format::Q8_0] {
        let bench = Bench::new(format);
        let (cpu, reference) = (bench.cpu(), bench.reference());
        let first = |change: &dyn Fn(usize, usize, f32) -> f32| {
            let bad = bench.changed(&cpu, |name, x| {
                Some(match name == "ffn_up-1" {
                    true => Matrix::from_fn(x.rows, x.cols, |r, c| change(r, c, x.at(r, c))),
                    false => x,
                })
            });
            bench.compare(&bad, &reference).first.expect("a wrong value")
        };
        let whole = first(&|_, _, x| x * 0.985);
        assert!(whole.nmse < 5e-4, "{}", whole.nmse);
        assert_eq!((&*whole.name, whole.position, &*whole.place), ("ffn_up-1", 0, "everywhere"));
        assert_eq!((whole.causes[0].kind, whole.causes[0].likely), ("scaled", true), "{:?}", whole.causes);
        assert!(whole.causes[0].text.contains("0.98"), "{:?}", whole.causes);
        // However little it is, it is not a part of the sum, or of the weights, that is wrong.
        let little = first(&|_, _, x| x * 0.993);
        assert_eq!((&*little.name, little.causes[0].kind), ("ffn_up-1", "scaled"), "{:?}", little.causes);
        let later = first(&|r, _, x| if r >= 12 { x * 0.985 } else { x });
        assert_eq!((&*later.name, &*later.place), ("ffn_up-1", "positions from 12"));
        let column = first(&|_, c, x| if c == 40 { x * 0.97 } else { x });
        assert_eq!((&*column.name, &*column.place), ("ffn_up-1", "column 40"));
        let offset = first(&|_, c, x| if c == 40 { x + 0.02 } else { x });
        assert_eq!((&*offset.name, &*offset.place), ("ffn_up-1", "column 40"));
    }
}

/// What an operation reads may not be what was recorded: then it is not blamed with confidence.
#[test]
fn who_reads_something_else_is_not_surely_wrong() {
    let bench = Bench::new(Format::Q4_K);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    // Too little to be seen in the product itself.
    let bad = bench.changed(&cpu, only("ffn_up-1", |_, _, x| x * 0.9985));
    let first = bench.compare(&bad, &reference).first.expect("a wrong value");
    assert_eq!((&*first.name, first.causes[0].kind), ("ffn_swiglu-1", "input-differs"));
    assert!(first.causes[0].text.contains("`ffn_up-1`"), "{:?}", first.causes);
    assert!(first.causes.iter().all(|cause| !cause.likely), "{:?}", first.causes);
    // The same from the operation itself is its own fault.
    let bad = bench.changed(&cpu, only("ffn_swiglu-1", |_, _, x| x * 1.0015));
    let first = bench.compare(&bad, &reference).first.expect("a wrong value");
    assert_eq!((&*first.name, first.causes[0].kind), ("ffn_swiglu-1", "scaled"));
    assert!(first.causes[0].likely, "{:?}", first.causes);
}

#[test]
fn every_second_row_is_reported_so() {
    for format in [Format::F32, Format::Q8_0] {
        let bench = Bench::new(format);
        let (cpu, reference) = (bench.cpu(), bench.reference());
        let bad = bench.changed(&cpu, only("attn_out-0", |r, _, x| if r % 2 == 1 { x * 1.5 } else { x }));
        let report = bench.compare(&bad, &reference);
        let first = report.first.as_ref().expect("wrong rows");
        assert_eq!((&*first.name, &*first.place), ("attn_out-0", "every 2nd position from 1"));
        assert_eq!(first.region.rows, (0..TOKENS / 2).map(|i| 2 * i + 1).collect::<Vec<_>>());
        assert!(first.causes[0].text.contains("(only every 2nd position from 1)"), "{report}");
    }
}

/// What a mistake did is read from the rows that are wrong, whatever their number.
#[test]
fn steps_of_any_size_are_found() {
    let bench = Bench::new(Format::F32);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let input = cpu.read("Qcur_pre-0").expect("a value");
    // The rotation of neighbouring pairs, 32 columns a head, base 10000.
    let rotated = |row: usize, position: usize| -> Vec<f32> {
        let turn = |(i, x): (usize, &[f32])| {
            let angle = position as f64 * 10000f64.powf(-2.0 * (i % 16) as f64 / 32.0);
            let (a, b) = (f64::from(x[0]), f64::from(x[1]));
            [(a * angle.cos() - b * angle.sin()) as f32, (a * angle.sin() + b * angle.cos()) as f32]
        };
        input[row * 256..][..256].chunks(2).enumerate().flat_map(turn).collect()
    };
    for (position, expected) in [
        (&(|r: usize| r % 7) as &dyn Fn(usize) -> usize, "positions begin at 0 again in every step of 7"),
        (&|r| if r < 5 { r } else { r - 5 }, "positions begin at 0 again at row 5"),
        (&|r| r + 3, "positions are too large by 3"),
        (&|r| if r < 9 { r } else { r - 4 }, "positions are too small by 4"),
        (&|r| if r == 6 { 11 } else { r }, "positions are too large by 5"),
    ] {
        let bad = bench.changed(&cpu, |name, x| {
            let rows = (0..x.rows).flat_map(|r| rotated(r, position(r)));
            Some(if name == "Qcur-0" { Matrix::new(256, rows.collect()) } else { x })
        });
        let first = bench.compare(&bad, &reference).first.expect("wrong positions");
        let cause = &first.causes[0];
        assert_eq!((&*first.name, cause.kind, cause.likely), ("Qcur-0", "wrong-position", true), "{cause:?}");
        assert!(cause.text.starts_with(expected), "{expected}: {cause:?}");
    }
}

/// So wide that not all rows are looked at together.
#[test]
fn wide_values_are_judged_in_parts() {
    let small = Spec { layers: 1, hidden: 64, heads: 4, kv_heads: 2, ..Spec::new(Format::Q8_0) };
    let bench = Bench::of(Spec { ffn: 1 << 17, ..small });
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let report = bench.compare(&cpu, &reference);
    assert!(report.alike, "{report}");
    let bad = bench.changed(&cpu, only("ffn_up-0", |r, _, x| if r >= 20 { x * 0.5 } else { x }));
    let first = bench.compare(&bad, &reference).first.expect("wrong rows");
    assert_eq!((&*first.name, first.position, &*first.place), ("ffn_up-0", 20, "positions from 20"));
    assert_eq!(first.causes[0].text, "the result is scaled by 1/2 (only positions from 20)");
    assert!(first.causes[0].likely);
    let nan = only("ffn_up-0", |r, c, x| if (r, c) == (22, 9) { f32::NAN } else { x });
    let first = bench.compare(&bench.changed(&cpu, nan), &reference).first.expect("a NaN");
    assert!(first.causes[0].text.contains("position 22, column 9"), "{:?}", first.causes);
}

/// Columns of the product stand for heads, as those of the sum do.
#[test]
fn biases_that_are_left_out_or_wrong_are_reported() {
    let bench = Bench::of(Spec {
        architecture: "qwen2",
        biases: "attn_q attn_k attn_v",
        layers: 2,
        ..Spec::new(Format::Q8_0)
    });
    let (cpu, reference) = (bench.cpu(), bench.reference());
    assert!(bench.compare(&cpu, &reference).alike);
    let product = Matrix::new(64, cpu.read("Kcur_mm-1").expect("a value"));
    let other = Matrix::new(64, cpu.read("Kcur_pre-1").expect("a value"));
    let values = [cpu.read("Vcur-1"), cpu.read("Vcur_mm-1")].map(|value| value.expect("a value"));
    let of_values = |r: usize, c: usize| values[0][r * 64 + c] - values[1][r * 64 + c];
    let said = |made: &dyn Fn(usize, usize) -> f32| {
        let bad = bench.changed(&cpu, |name, x| {
            Some(if name == "Kcur_pre-1" { Matrix::from_fn(x.rows, x.cols, made) } else { x })
        });
        let first = bench.compare(&bad, &reference).first.expect("a wrong sum");
        assert_eq!((&*first.name, first.causes[0].likely), ("Kcur_pre-1", true), "{:?}", first.causes);
        (first.causes[0].kind, first.causes[0].text.clone())
    };
    assert_eq!(said(&|r, c| product.at(r, c)).0, "unchanged");
    assert_eq!(said(&|r, c| 2.0 * product.at(r, c) - other.at(r, c)).0, "weight-sign");
    assert_eq!(said(&|r, c| 2.0 * other.at(r, c) - product.at(r, c)).0, "weight-twice");
    let (kind, text) = said(&|r, c| product.at(r, c) + of_values(r, c));
    assert!(
        kind == "wrong-weight" && text.contains("`blk.1.attn_v.bias` in place of `blk.1.attn_k.bias`"),
        "{text}"
    );
    let head = bench.changed(&cpu, |name, x| {
        Some(if name == "Kcur_mm-1" {
            Matrix::from_fn(x.rows, x.cols, |r, c| x.at(r, c) * if c < 32 { -1.0 } else { 1.0 })
        } else {
            x
        })
    });
    let first = bench.compare(&head, &reference).first.expect("a wrong head");
    assert_eq!((&*first.name, &*first.place), ("Kcur_mm-1", "head 0"));
}
