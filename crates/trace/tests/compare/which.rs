//! Which value is found, and in which trace.

use backend_reference::Reference;
use quant::Format;
use testkit::fixtures::Spec;
use trace::{Meta, Method, Report, Trace, Verdict};

use crate::common::{Bench, TOKENS, cpu, only};

#[test]
fn error_that_accumulates_is_no_fault() {
    for format in [Format::F32, Format::Q4_K] {
        let bench = Bench::new(format);
        let report = bench.compare(&bench.cpu(), &bench.reference());
        assert!(report.alike, "{format}: {report}");
        assert_eq!(report.method, Method::Replay);
        assert!(report.values.iter().all(|value| value.verdict == Verdict::Right), "{report}");
        let far =
            report.values.iter().filter_map(|value| value.accumulated).map(|m| m.nmse).fold(0.0, f64::max);
        assert!(format == Format::F32 || far > 1e-5, "{far}");
    }
}

#[test]
fn one_wrong_number_is_found_with_its_place() {
    let bench = Bench::new(Format::Q8_0);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let bad = bench.changed(&cpu, only("Vcur-1", |r, c, x| if (r, c) == (7, 3) { x + 3.0 } else { x }));
    let first = bench.compare(&bad, &reference).first.expect("a wrong number");
    assert_eq!((&*first.name, first.side, first.position), ("Vcur-1", Some("a"), 7));
    assert_eq!((&first.region.rows[..], &first.region.cols[..]), (&[7][..], &[3][..]));
    assert!(first.causes.iter().all(|cause| !cause.likely), "{:?}", first.causes);
    // The other side is judged when the first is right.
    let first = bench.compare(&cpu, &bad).first.expect("a wrong number");
    assert_eq!((&*first.name, first.side), ("Vcur-1", Some("b")));
}

/// Who is right is not known when another program made one of the traces.
#[test]
fn another_programs_operations_are_judged_by_our_model() {
    let bench = Bench::new(Format::F32);
    let cpu = bench.cpu();
    let bad = bench.changed(&cpu, only("Vcur-1", |_, _, x| -x));
    let note = "if you trust B";
    assert!(!bench.compare(&cpu, &bad).to_string().contains(note));
    let meta = Meta { producer: "llama.cpp".into(), ..bad.meta().clone() };
    let meta = Meta { backend: "llama.cpp".into(), ..meta };
    let report = bench.compare(&cpu, &bench.with_meta(&bad, meta));
    assert_eq!(report.first.as_ref().and_then(|first| first.side), Some("b"));
    assert!(report.to_string().contains(note), "{report}");
}

#[test]
fn what_comes_from_another_model_is_not_judged() {
    let bench = Bench::new(Format::F32);
    let cpu = bench.cpu();
    let bad = bench.changed(&cpu, only("Vcur-1", |_, _, x| -x));
    let with = |digest: Option<&str>| Meta {
        model_digest: digest.map(str::to_owned),
        backend: "other".into(),
        ..bad.meta().clone()
    };
    let other = bench.with_meta(&bad, with(Some("00")));
    let report = bench.compare(&cpu, &other);
    assert!(report.to_string().contains("B comes from another model file"), "{report}");
    assert!(!report.alike && report.to_string().starts_with("A and B first differ at Vcur-1"), "{report}");
    let report = bench.compare(&other, &cpu);
    assert!(report.to_string().contains("A comes from another model file"), "{report}");
    assert!(report.values.iter().all(|value| matches!(value.verdict, Verdict::NotJudged(_))), "{report}");
    let report = bench.compare(&cpu, &bench.with_meta(&bad, with(None)));
    assert!(report.to_string().contains("B does not say which model file it comes from"), "{report}");
    assert_eq!(report.first.as_ref().map(|first| &*first.name), Some("Vcur-1"));
}

/// What was recorded without its inputs is measured, and what is far apart is never alike.
#[test]
fn what_cannot_be_judged_is_not_called_right() {
    let bench = Bench::new(Format::F32);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let layers = |bad: bool| {
        bench.changed(&cpu, move |name, x| {
            let x = if bad && name == "l_out-1" { x.map(|x| -x) } else { x };
            name.starts_with("l_out").then_some(x)
        })
    };
    let report = bench.compare(&layers(false), &reference);
    let text = report.to_string();
    assert!(report.alike && text.starts_with("alike as far as can be judged: 0 of 2 values"), "{text}");
    assert!(!text.contains("every operation"), "{text}");
    let bad = layers(true);
    // Another backend's, or all bits would have to be equal.
    let other = bench.with_meta(&bad, Meta { backend: "other".into(), ..bad.meta().clone() });
    for (a, b, side) in [(&bad, &reference, "A"), (&cpu, &other, "B")] {
        let report = bench.compare(a, b);
        let text = report.to_string();
        assert!(!report.alike && text.starts_with("A and B first differ at l_out-1, position 0"), "{text}");
        assert!(text.contains(&format!("apart, cannot be judged: `l_out-1` of {side}")), "{text}");
    }
}

#[test]
fn the_untapped_program_is_judged_too() {
    let bench = Bench::new(Format::F32);
    let bad = bench.changed(&bench.cpu(), only("result_output", |_, _, x| x * 1.01));
    let first = bench.compare(&bad, &bench.reference()).first.expect("another output");
    assert_eq!((&*first.name, first.causes[0].kind), ("result_output", "untapped"));
    let bad = bench.changed(&bench.cpu(), only("result_output.tapped", |_, _, x| x * 1.01));
    let first = bench.compare(&bad, &bench.reference()).first.expect("a wrong output");
    assert_eq!((&*first.name, first.causes[0].kind), ("result_output", "scaled"));
}

#[test]
fn what_is_missing_is_computed_or_said() {
    let bench = Bench::new(Format::F32);
    let reference = bench.reference();
    let lacks = |names: &'static [&'static str]| {
        bench.changed(&bench.cpu(), |name, x| (!names.contains(&name)).then_some(x))
    };
    let report = bench.compare(&lacks(&["Qcur_pre-0", "Kcur_pre-0"]), &reference);
    let verdict = |report: &Report, name: &str| {
        report.values.iter().find(|value| value.name == name).map(|value| value.verdict.clone())
    };
    assert_eq!(verdict(&report, "Qcur-0"), Some(Verdict::Right));
    assert!(report.alike);
    let layer = &[
        "embd",
        "attn_norm-0",
        "Qcur_pre-0",
        "Qcur-0",
        "Kcur_pre-0",
        "Kcur-0",
        "Vcur-0",
        "kqv_out-0",
        "attn_out-0",
        "ffn_inp-0",
        "ffn_norm-0",
        "ffn_gate-0",
        "ffn_up-0",
        "ffn_swiglu-0",
        "ffn_out-0",
    ];
    let report = bench.compare(&lacks(layer), &reference);
    assert!(
        matches!(verdict(&report, "l_out-0"), Some(Verdict::NotJudged(why)) if why.contains("was not recorded"))
    );
    assert_eq!(verdict(&report, "attn_norm-1"), Some(Verdict::Right));
}

#[test]
fn two_runs_of_one_backend_have_the_same_bits() {
    let bench = Bench::new(Format::F32);
    let (a, again) = (bench.cpu(), bench.record("again", cpu(None), TOKENS));
    let report = bench.compare(&a, &again);
    assert_eq!((report.alike, report.method), (true, Method::Bits));
    let next = |x: f32| f32::from_bits(x.to_bits() ^ 1);
    let bad = bench.changed(&a, only("Kcur-1", |r, c, x| if (r, c) == (5, 6) { next(x) } else { x }));
    let first = bench.compare(&bad, &a).first.expect("another bit");
    assert_eq!((&*first.name, first.position, &first.region.cols[..]), ("Kcur-1", 5, &[6][..]));
}

#[test]
fn without_a_model_only_accumulated_error_is_known() {
    let bench = Bench::new(Format::F32);
    let (a, b) = (bench.cpu(), bench.reference());
    let report = trace::compare(&a, &b, None).expect("a report");
    assert_eq!((report.alike, report.method), (true, Method::Accumulated));
    assert!(report.notes.iter().any(|note| note.contains("without the model")));
    let bad = bench.changed(&a, only("Qcur-0", |_, _, x| x * 1.5));
    let report = trace::compare(&bad, &b, None).expect("a report");
    let first = report.first.as_ref().expect("far apart");
    assert_eq!((&*first.name, first.side), ("Qcur-0", None), "nobody is to blame");
    assert!(report.to_string().starts_with("A and B first differ at Qcur-0"), "{report}");
    assert!(report.html().contains("A and B first differ at"));
}

#[test]
fn sequences_are_aligned_as_far_as_they_are_the_same() {
    let bench = Bench::new(Format::F32);
    let (a, b) = (bench.cpu(), bench.record("short", Box::new(Reference::new()), 10));
    let report = bench.compare(&a, &b);
    assert_eq!((report.alike, report.positions), (true, 10));
    assert!(report.notes.iter().any(|note| note.contains("the first 10 are the same")), "{:?}", report.notes);
}

#[test]
fn the_block_stands_alone() {
    let bench = Bench::new(Format::F32);
    let bad = bench.changed(&bench.cpu(), only("ffn_up-1", |_, _, x| -x));
    let report = bench.compare(&bad, &bench.reference());
    let block = report.html();
    for part in [
        "<code>ffn_up-1</code>",
        "id=\"first-divergence\"",
        "first wrong: ffn_up-1",
        "the result is scaled by −1",
    ] {
        assert!(block.contains(part), "{part}");
    }
    for outside in ["http://", "https://", "src=", "href=", "@import", "url("] {
        assert!(!block.contains(outside), "{outside}");
    }
    assert_eq!(block.matches("<tr class=").count(), report.values.len());
}

/// The table says of B what it says of A.
#[test]
fn the_side_at_fault_has_its_errors_in_the_table() {
    let bench = Bench::new(Format::F32);
    let cpu = bench.cpu();
    let bad = bench.changed(&cpu, only("Vcur-1", |_, _, x| x * 2.0));
    let other = bench.with_meta(&bad, Meta { backend: "other".into(), ..bad.meta().clone() });
    let report = bench.compare(&cpu, &other);
    assert_eq!(report.first.as_ref().and_then(|first| first.side), Some("b"));
    let value = report.values.iter().find(|value| value.name == "Vcur-1").expect("a value");
    let of_b = value.b.as_ref().expect("B was judged");
    assert_eq!((&value.verdict, &of_b.verdict), (&Verdict::Right, &Verdict::Wrong));
    assert!(of_b.metrics.is_some_and(|metrics| (metrics.nmse - 1.0).abs() < 1e-3), "{of_b:?}");
    let text = report.to_string();
    assert!(text.contains("own error A  own error B"), "{text}");
    let line = text.lines().find(|line| line.starts_with("! Vcur-1 ")).expect("a marked line");
    assert_eq!(line.split_whitespace().nth(3), Some("1.0e0"), "{line}");
    let block = report.html();
    assert!(block.contains("class=\"wrong first\"") && block.contains("first wrong: Vcur-1"), "{block}");
    // There is no column for B where only A was judged.
    assert!(!bench.compare(&other, &cpu).to_string().contains("own error B"));
}

#[test]
fn other_widths_are_other_models() {
    let (wide, narrow) =
        (Bench::new(Format::F32), Bench::of(Spec { hidden: 128, heads: 4, ..Spec::new(Format::F32) }));
    let select = |trace: &Trace, bench: &Bench| {
        bench.changed(trace, |name, x| name.starts_with("attn_norm").then_some(x))
    };
    let (a, b) = (select(&wide.cpu(), &wide), select(&narrow.cpu(), &narrow));
    let error = trace::compare(&a, &b, None).expect_err("nothing in common").to_string();
    assert!(error.contains("`attn_norm-0` has 256 columns in A, 128 in B: other models"), "{error}");
    // What has the same width is compared.
    let report = trace::compare(&wide.cpu(), &narrow.cpu(), None).expect("a report");
    let embd = report.values.iter().find(|value| value.name == "embd").expect("a value");
    assert!(embd.accumulated.is_none());
    assert!(report.values.iter().any(|value| value.accumulated.is_some()), "{report}");
}
