//! What may be called alike.

use std::num::NonZero;

use backend::{KvFormat, KvType};
use backend_reference::Reference;
use quant::Format;
use testkit::fixtures::Spec;
use trace::{Matrix, Meta, Method, Trace, Verdict};

use crate::common::{self, Bench, TOKENS, only};

/// A trace that names the reference as its backend is judged like any other.
#[test]
fn who_says_to_be_the_reference_is_judged() {
    let bench = Bench::new(Format::Q8_0);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let bad = bench.changed(&reference, only("Qcur-1", |_, _, x| x * 3.0));
    let first = bench.compare(&cpu, &bad).first.expect("a wrong value");
    assert_eq!((&*first.name, first.side, first.causes[0].kind), ("Qcur-1", Some("b"), "scaled"));
    let bad = bench.changed(&reference, only("Qcur-1", |r, c, x| if r + c == 9 { f32::NAN } else { x }));
    let first = bench.compare(&cpu, &bad).first.expect("a NaN");
    assert_eq!((&*first.name, first.side, first.causes[0].kind), ("Qcur-1", Some("b"), "not-finite"));
    assert!(bench.compare(&cpu, &bench.changed(&reference, |_, x| Some(x))).alike);
}

/// Values that were not judged are alike only if they are near.
#[test]
fn what_is_not_judged_must_be_near() {
    let bench = Bench::new(Format::Q8_0);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let other = Meta { model_digest: Some("00".into()), ..reference.meta().clone() };
    let report = bench.compare(&cpu, &bench.with_meta(&reference, other.clone()));
    assert!(
        report.alike && report.to_string().starts_with("alike as far as can be judged: 0 of "),
        "{report}"
    );
    let bad = bench.changed(&reference, only("result_norm", |_, _, x| -x));
    let report = bench.compare(&cpu, &bench.with_meta(&bad, other));
    assert!(report.to_string().starts_with("A and B first differ at result_norm, position 0"), "{report}");
}

#[test]
fn a_value_of_another_shape_is_not_alike() {
    let bench = Bench::new(Format::F32);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let half = |name: &str, x: Matrix| {
        Some(match name {
            "Vcur-1" => Matrix::from_fn(x.rows, x.cols / 2, |r, c| x.at(r, c)),
            _ => x,
        })
    };
    let bad = bench.changed(&cpu, half);
    for (a, b, side) in [(&bad, &reference, "a"), (&reference, &bad, "b"), (&cpu, &bad, "b")] {
        let report = bench.compare(a, b);
        let first = report.first.as_ref().expect("another shape");
        assert_eq!((&*first.name, first.side, first.causes[0].kind), ("Vcur-1", Some(side), "shape"));
        let text = report.to_string();
        let shapes = |side: &str, trace: &Trace| {
            format!("24 x {} in {side}", trace.value("Vcur-1").expect("a value").cols)
        };
        assert!(text.contains(&format!("{}, {}", shapes("A", a), shapes("B", b))), "{text}");
        let report = trace::compare(a, b, None).expect("a report");
        let first = report.first.as_ref().expect("another shape");
        assert_eq!((&*first.name, first.side, first.causes[0].kind), ("Vcur-1", None, "shape"));
    }
    // What is wrong before it comes first.
    let worse = bench
        .changed(&cpu, |name, x| half(name, x).map(|x| if name == "Qcur-0" { x.map(|x| -x) } else { x }));
    assert_eq!(bench.compare(&worse, &reference).first.expect("a wrong value").name, "Qcur-0");
    // More tokens than rows.
    let more = Meta { tokens: [cpu.meta().tokens.clone(), vec![7, 8]].concat(), ..cpu.meta().clone() };
    let long = bench.record("long", common::cpu(None), TOKENS + 2);
    let more = Meta { tokens: long.meta().tokens.clone(), ..more };
    let first = bench.compare(&bench.with_meta(&cpu, more), &long).first.expect("rows that are not there");
    assert_eq!((&*first.name, first.causes[0].kind), ("embd", "shape"));
}

/// What a cache rounds away is no error of attention, be K and V of one type or not, and heads of whole blocks or not; nor is it an
/// error of a whole model.
#[test]
fn caches_round_as_the_replay_does() {
    let narrow = Spec { layers: 1, hidden: 80, heads: 2, kv_heads: 1, ..Spec::new(Format::F32) };
    for spec in [Spec { layers: 1, ..Spec::new(Format::F32) }, narrow] {
        let mut bench = Bench::of(spec);
        let reference = bench.reference();
        for (k, v) in KvType::ALL.into_iter().flat_map(|k| KvType::ALL.map(|v| (k, v))) {
            bench.kv = KvFormat { k, v };
            let cpu = bench.cpu();
            let report = bench.compare(&cpu, &reference);
            assert!(report.alike, "{k:?}, {v:?}: {report}");
            let report = trace::compare(&cpu, &reference, None).expect("a report");
            assert!(report.alike, "{k:?}, {v:?}: {report}");
        }
    }
}

/// Keys and values that were not recorded are rounded after they were computed again, with an error of their own.
#[test]
fn caches_may_hold_what_was_not_recorded() {
    for (format, missing) in [(Format::F32, &["Kcur", "Vcur"][..]), (Format::Q8_0, &["Vcur"])] {
        let mut bench = Bench::new(format);
        let reference = bench.reference();
        for kind in KvType::ALL {
            bench.kv = KvFormat { k: kind, v: kind };
            let is_there = |name: &str| !missing.iter().any(|missing| name.starts_with(missing));
            let part = bench.changed(&bench.cpu(), |name, x| Some(x).filter(|_| is_there(name)));
            let report = bench.compare(&part, &reference);
            assert!(report.alike, "{format}, {kind:?}: {report}");
        }
    }
}

/// Keys that were computed again excuse what their own cache loses, not what that of the values does.
#[test]
fn a_cache_of_values_excuses_no_error_of_keys() {
    let mut bench = Bench::new(Format::F32);
    bench.kv = KvFormat { k: KvType::F32, v: KvType::Q4_0 };
    let reference = bench.reference();
    let part = bench.changed(&bench.cpu(), |name, x| match name {
        "Kcur-0" => None,
        "kqv_out-0" => Some(x.map(|x| 1.1 * x)),
        _ => Some(x),
    });
    assert_eq!(bench.compare(&part, &reference).first.expect("a wrong value").name, "kqv_out-0");
}

/// A value on the boundary of two quants may become either; others have one. One token sees its own values only, as the cache has
/// them.
#[test]
fn either_side_of_a_boundary_is_right() {
    for kind in [KvType::Q8_0, KvType::Q4_0] {
        let mut bench = Bench::new(Format::F32);
        bench.kv = KvFormat { k: KvType::F16, v: kind };
        let (cpu, reference) = (
            bench.record("cpu", common::cpu(None), 1),
            bench.record("reference", Box::new(Reference::new()), 1),
        );
        let values = cpu.read("Vcur-0").expect("a value");
        let shared = cpu.read("kqv_out-0").expect("a value").len() / values.len();
        let block = &values[..32];
        let extreme = block.iter().fold(0.0f32, |most, &x| if x.abs() > most.abs() { x } else { most });
        let scale = if kind == KvType::Q8_0 { extreme.abs() / 127.0 } else { extreme / -8.0 };
        let below = |c: usize| (block[c] / scale).floor();
        let far = |c: &usize| (block[*c] / scale - below(*c) - 0.5).abs();
        let near = (0..32).min_by(|a, b| far(a).total_cmp(&far(b))).expect("columns");
        let stored = half::f16::from_f32(scale).to_f32();
        let (right, wrong) = (Verdict::Right, Verdict::Wrong);
        // Where a value is between the two quants, what the cache holds, in steps from the lower one.
        for (place, steps, verdict) in [
            (0.5, 0.0, &right),
            (0.5, 1.0, &right),
            (0.5, 10.0, &wrong),
            (0.25, 0.0, &right),
            (0.25, 2.0, &wrong),
            (0.25, -2.0, &wrong),
        ] {
            let changed = bench.changed(&cpu, |name, mut x| {
                match name {
                    "Vcur-0" => x.data[near] = (below(near) + place) * scale,
                    "kqv_out-0" => {
                        (0..shared)
                            .for_each(|head| x.data[head * 32 + near] = (below(near) + steps) * stored);
                    }
                    _ => {}
                }
                Some(x)
            });
            let report = bench.compare(&changed, &reference);
            let found = report.values.iter().find(|value| value.name == "kqv_out-0").expect("a value");
            assert_eq!(&found.verdict, verdict, "{kind:?}, {place}, {steps}: {report}");
        }
    }
}

#[test]
fn what_a_cache_adds_to_accumulated_error_is_said() {
    let mut bench = Bench::of(Spec { layers: 1, ..Spec::new(Format::F32) });
    let reference = bench.reference();
    for (k, v, is_said) in [(KvType::F16, KvType::F16, false), (KvType::F16, KvType::Q8_0, true)] {
        bench.kv = KvFormat { k, v };
        let report = bench.compare(&bench.cpu(), &reference);
        let note = "A keeps K and V in f16/q8_0, B in f32; accumulated error includes that";
        assert_eq!(report.notes.iter().any(|said| said == note), is_said, "{report}");
    }
}

#[test]
fn threads_change_no_bit() {
    let bench = Bench::new(Format::Q4_K);
    let with = |n: usize| bench.record(&format!("t{n}"), common::cpu(NonZero::new(n)), TOKENS);
    let report = bench.compare(&with(1), &with(2));
    assert_eq!((report.alike, report.method), (true, Method::Bits), "{report}");
}

/// Every engine computes NaN then, and alike.
#[test]
fn nan_in_a_weight_is_reported() {
    let name = "blk.1.attn_q.weight";
    let bench = Bench::with_nan(Spec { layers: 2, ..Spec::new(Format::F32) }, name, 3 * 256 + 5);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    for (a, b) in [(&cpu, &reference), (&cpu, &cpu)] {
        let report = bench.compare(a, b);
        let first = report.first.as_ref().expect("NaN");
        assert_eq!((&*first.name, first.causes[0].kind), ("Qcur_pre-1", "weight-not-finite"), "{report}");
        assert_eq!((&first.region.cols[..], first.region.rows.len()), (&[3][..], TOKENS));
        assert!(first.causes[0].text.contains("`blk.1.attn_q.weight`"), "{report}");
        assert!(first.causes[0].text.contains("row 3, column 5"), "{report}");
    }
    let report = trace::compare(&cpu, &reference, None).expect("a report");
    assert!(report.alike && report.to_string().contains("`Qcur_pre-1` is the first with NaN"), "{report}");
    // What an engine makes wrong before is its own.
    let bad = bench.changed(&cpu, only("Qcur-0", |_, _, x| -x));
    assert_eq!(bench.compare(&bad, &reference).first.expect("a wrong value").name, "Qcur-0");
}
