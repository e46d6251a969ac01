//! `compare`: its sides, its exit status and what it prints.

use std::process::Stdio;

use trace::{Trace, Writer};

use crate::common::Home;

/// Copies the trace `from` with every number of `value` changed.
fn changed(home: &Home, from: &str, to: &str, value: &str, change: impl Fn(f32) -> f32) {
    let trace = Trace::open(home.path(from)).expect("a trace");
    let mut writer = Writer::create(home.path(to), trace.meta(), trace.values().cloned()).expect("a file");
    for shape in trace.values() {
        let mut data = trace.read(&shape.name).expect("a value");
        if shape.name == value {
            data.iter_mut().for_each(|x| *x = change(*x));
        }
        writer.write(&shape.name, 0, &data).expect("a value");
    }
    writer.finish().expect("a whole file");
}

#[test]
fn backends_are_alike() {
    let home = Home::new();
    let text = home.run("compare -m MODEL --a cpu --b reference --tokens 1,300,7").quiet();
    assert!(text.starts_with("alike: every operation is right on its own"), "{text}");
    home.run("trace -m MODEL --tokens 1,300,7 -o a.safetensors").quiet();
    let report = home.run("compare a.safetensors -m MODEL --json").json();
    assert_eq!((&report["alike"], &report["method"]), (&true.into(), &"replay".into()));
    assert!(report["first"].is_null());
    let names: Vec<&str> = report["values"]
        .as_array()
        .expect("values")
        .iter()
        .filter_map(|value| value["name"].as_str())
        .collect();
    assert!(names.contains(&"Qcur-0") && names.contains(&"result_output"), "{names:?}");
    let report = home.run("compare a.safetensors --a cpu -m MODEL --json").json();
    assert_eq!((&report["alike"], &report["method"]), (&true.into(), &"bits".into()));
}

#[test]
fn a_wrong_value_is_named_first() {
    let home = Home::new();
    home.run("trace -m MODEL --tokens 1,300,7 -o a.safetensors").quiet();
    changed(&home, "a.safetensors", "bad.safetensors", "ffn_up-0", |x| x * 0.5);
    let ran = home.run("compare bad.safetensors -m MODEL --html page.html");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let mut lines = ran.stdout.lines();
    let verdict = lines.next().unwrap_or_default();
    assert!(verdict.starts_with("A first goes wrong at ffn_up-0, position 0: own error"), "{}", ran.stdout);
    assert!(ran.stdout.contains("likely cause: the result is scaled by 1/2"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n! ffn_up-0 "), "{}", ran.stdout);
    let page = std::fs::read_to_string(home.path("page.html")).expect("a page");
    assert!(page.contains("first wrong: ffn_up-0"));
    let ran = home.run("compare bad.safetensors -m MODEL --json");
    assert_eq!(ran.code, Some(1));
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let first = &report["first"];
    assert_eq!(
        (&report["alike"], &first["name"], &first["position"]),
        (&false.into(), &"ffn_up-0".into(), &0.into())
    );
    assert_eq!(first["causes"][0]["kind"], "scaled");
    assert!(first["nmse"].as_f64().is_some_and(|nmse| (nmse - 0.25).abs() < 1e-6), "{first}");
    // Without the model, only how far they are apart is known.
    let ran = home.run("compare bad.safetensors a.safetensors");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("ffn_up-0"), "{}", ran.stdout);
}

#[test]
fn trouble_is_neither() {
    let home = Home::new();
    home.run("trace -m MODEL --tokens 1,300,7 -o a.safetensors").quiet();
    home.run("trace -m MODEL --tokens 2,300,7 -o other.safetensors").quiet();
    home.run("trace --tokens 1,300,7 -o demo.safetensors").ok();
    home.run("trace --tokens 1,600 -o large.safetensors").ok();
    for (args, said) in [
        ("compare", "nothing to compare"),
        ("compare none.safetensors -m MODEL", "none.safetensors: cannot open it"),
        ("compare -m MODEL --a cpu", "no tokens:"),
        ("compare a.safetensors other.safetensors", "they begin with other tokens"),
        ("compare a.safetensors other.safetensors --a cpu", "three sides"),
        ("compare a.safetensors -m MODEL --tokens 1", "the tokens are those of the trace"),
        ("compare a.safetensors", "was recorded from another model file"),
        ("compare demo.safetensors -m MODEL", "was recorded from another model file"),
        ("compare large.safetensors -m MODEL", "was recorded from another model file"),
        ("compare a.safetensors -m MODEL --html no/page.html", "no/page.html: cannot create it"),
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, Some(2), "{args}: {ran:?}");
        assert!(ran.stderr.contains(said), "{args}: {}", ran.stderr);
    }
}

/// B may be of another file: it is measured, not judged, and is not alike when it is far.
#[test]
fn only_what_comes_from_the_model_is_judged() {
    let home = Home::new();
    home.run("trace -m MODEL --tokens 1,300,7 -o a.safetensors").quiet();
    let other = Home::with(&testkit::fixtures::Spec {
        layers: 1,
        ..testkit::fixtures::Spec::new(quant::Format::Q8_0)
    });
    let b = other.path("b.safetensors");
    other.run("trace -m MODEL --tokens 1,300,7 -o b.safetensors").quiet();
    let ran = home.run_with("compare -m MODEL a.safetensors", &[b.to_str().expect("UTF-8")]);
    let text = &ran.stdout;
    assert_eq!((ran.code, &*ran.stderr), (Some(1), ""), "{text}");
    assert!(text.starts_with("A and B first differ at embd"), "{text}");
    assert!(text.contains("note: B comes from another model file than the one given"), "{text}");
}

/// A reader that leaves does not change the verdict, and a page that cannot be written not the report.
#[test]
fn the_verdict_is_the_exit_status() {
    let home = Home::new();
    home.run("trace -m MODEL --tokens 1,300,7 -o a.safetensors").quiet();
    changed(&home, "a.safetensors", "bad.safetensors", "ffn_up-0", |x| x * 0.5);
    for (args, code) in
        [("compare a.safetensors -m MODEL", 0), ("compare bad.safetensors -m MODEL --json", 1)]
    {
        let mut command = home.command(args);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "{args}");
    }
    let ran = home.run("compare bad.safetensors -m MODEL --html no/page.html");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.starts_with("A first goes wrong at ffn_up-0"), "{}", ran.stdout);
}

#[test]
fn what_is_not_a_number_is_found() {
    let home = Home::new();
    home.run("trace -m MODEL --tokens 1,300,7 -o a.safetensors").quiet();
    changed(&home, "a.safetensors", "bad.safetensors", "ffn_norm-0", |_| f32::NAN);
    let ran = home.run("compare bad.safetensors -m MODEL --json");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let first = &report["first"];
    assert_eq!(
        (ran.code, &first["name"], &first["nmse"]),
        (Some(1), &"ffn_norm-0".into(), &serde_json::Value::Null)
    );
    assert_eq!(first["causes"][0]["kind"], "not-finite");
    assert!(home.run("compare --help").quiet().contains("null"));
}

#[test]
fn one_position_is_no_plural() {
    let home = Home::new();
    let text = home.run("compare -m MODEL --a cpu --b cpu --tokens 1").quiet();
    assert!(
        text.starts_with("alike: all bits of ") && text.contains(" values at 1 position are equal\n"),
        "{text}"
    );
}

/// Which of two traces of the embedded model is right, the program knows: the model is in it.
#[test]
fn the_embedded_model_judges_its_traces() {
    let home = Home::new();
    home.run("trace --tokens 1,300,7 -o a.safetensors").ok();
    changed(&home, "a.safetensors", "bad.safetensors", "ffn_up-0", |x| x * 0.5);
    for (args, side) in [("bad.safetensors a.safetensors", "A"), ("a.safetensors bad.safetensors", "B")] {
        let ran = home.run(&format!("compare {args}"));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let verdict = format!("{side} first goes wrong at ffn_up-0, position 0");
        assert!(ran.stdout.starts_with(&verdict), "{}", ran.stdout);
        assert!(ran.stdout.contains("likely cause: the result is scaled by 1/2"), "{}", ran.stdout);
    }
}

/// The terminal and the page show the same figures under the same names, and both explain them.
#[test]
fn the_page_says_what_the_terminal_says() {
    let home = Home::new();
    home.run("trace -m MODEL --tokens 1,300,7 -o a.safetensors").quiet();
    changed(&home, "a.safetensors", "bad.safetensors", "ffn_up-0", |x| x * 0.5);
    let text = home.run("compare bad.safetensors -m MODEL --html page.html").stdout;
    let page = std::fs::read_to_string(home.path("page.html")).expect("a page").replace("&#x2f;", "/");
    for term in ["own error", "accumulated", "limit", "1 − cosine", "max |a − b|", "NMSE, Σ(a − b)² / Σa²"]
    {
        assert!(text.contains(term) && page.contains(term), "{term}: {text}");
    }
    let line = text.lines().find(|line| line.starts_with("! ffn_up-0 ")).expect("the failing value");
    let row = page.lines().find(|line| line.contains("<code>ffn_up-0</code></td>")).expect("its row");
    for number in line.split_whitespace().skip(2).take(5) {
        assert!(row.contains(&format!(">{number}</td>")), "{number}: {row}");
    }
}
