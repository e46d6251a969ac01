//! `trace`, and the tables that RUSTORCH_DEBUG prints.

use trace::Trace;

use crate::common::{Home, Ran, write};

#[test]
fn the_table_lists_every_value() {
    let home = Home::new();
    let table = home.run("trace -m MODEL --tokens 1,300,7 -o t.safetensors").quiet();
    let trace = Trace::open(home.path("t.safetensors")).expect("a trace");
    let names: Vec<&str> = trace.values().map(|value| &*value.name).collect();
    let mut lines = table.lines();
    assert!(lines.next().expect("a heading").starts_with("value "), "{table}");
    let listed: Vec<&str> = lines.map(|line| line.split(' ').next().expect("a name")).collect();
    assert_eq!(listed, names);
    for name in ["embd", "Qcur_pre-0", "Qcur-0", "kqv_out-0", "l_out-0", "result_output"] {
        assert!(names.contains(&name), "{name}");
    }
    let meta = trace.meta();
    assert_eq!((&*meta.tokens, meta.n_layer), (&[1, 300, 7][..], 1));
    assert_eq!((&*meta.backend, &*meta.model), ("cpu", home.model.to_str().expect("UTF-8")));
    assert!(meta.producer.starts_with("rustorch ") && meta.model_digest.is_some());
    home.run("trace -m MODEL --tokens 1 --backend reference -o t.safetensors").quiet();
    let meta = Trace::open(home.path("t.safetensors")).expect("a trace").meta().clone();
    assert_eq!((&*meta.backend, &*meta.tokens), ("reference", &[1][..]));
}

/// The values are those that `logits` writes.
#[test]
fn json_says_the_same() {
    let home = Home::new();
    let report = home.run("trace -m MODEL --tokens 1,300,7 --filter ^result_output$ --json").json();
    assert_eq!(report["tokens"].to_string(), "[1,300,7]");
    let [tapped, value] = &report["values"].as_array().expect("values")[..] else { panic!("{report}") };
    assert_eq!(tapped["name"], "result_output.tapped");
    assert_eq!((&value["name"], value["shape"].to_string()), (&"result_output".into(), "[3,512]".to_owned()));
    assert_eq!((&value["nan"], value["first"].as_array().map(Vec::len)), (&0.into(), Some(5)));

    home.run("logits -m MODEL --tokens 1,300,7 -o l.npy").quiet();
    let file = std::fs::read(home.path("l.npy")).expect("the logits");
    let (logits, _) = file[file.len() - 3 * 512 * 4..].as_chunks();
    let logits: Vec<f32> = logits.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let max = logits.iter().copied().fold(f32::MIN, f32::max);
    assert_eq!(value["max"].to_string(), max.to_string());
    let squares: f64 = logits.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let rms = (squares / logits.len() as f64).sqrt();
    assert!((value["rms"].as_f64().expect("a number") / rms - 1.0).abs() < 1e-12);
}

#[test]
fn values_can_be_chosen() {
    let home = Home::with(&testkit::fixtures::small());
    let names = |args: &str| -> Vec<String> {
        let table = home.run(&format!("trace -m MODEL --tokens 1 {args}")).quiet();
        table.lines().skip(1).map(|line| line.split(' ').next().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("--filter cur-"), ["Vcur-0", "Qcur-0", "Kcur-0", "Vcur-1", "Qcur-1", "Kcur-1"]);
    assert_eq!(names("--filter cur- --layers 1"), ["Vcur-1", "Qcur-1", "Kcur-1"]);
    let both = names("--layers 0-1");
    assert_eq!((both.len(), both[0].as_str()), (30, "attn_norm-0"));
    assert_eq!(names("--filter result"), ["result_norm", "result_output.tapped", "result_output"]);
}

#[test]
fn text_is_what_tokenize_makes_of_it() {
    let home = Home::new();
    let ids = home.run("tokenize -m MODEL --ids Hello").quiet();
    write(&home.path("text"), "Hello\n");
    for args in ["trace -m MODEL --filter embd", "logits -m MODEL"] {
        for text in ["-p Hello", "-f text"] {
            let report = home.run(&format!("{args} {text} --json")).json();
            assert_eq!(report["tokens"].to_string(), ids.trim(), "{args} {text}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    let home = Home::new();
    write(&home.path("page.html"), "<!doctype html>");
    for (args, said) in [
        ("trace -m MODEL", "required arguments were not provided"),
        ("trace -m MODEL -p a --tokens 1", "cannot be used with"),
        ("trace -m MODEL --tokens 1 --layers 3-1", "such as 5 or 0-3"),
        ("trace -m MODEL --tokens 1 --filter (", "unclosed group"),
        ("trace -m MODEL --tokens 1 -c 5", "unexpected argument '-c'"),
        ("trace -m MODEL --tokens 1 -o MODEL", "model.gguf is read; name another file"),
    ] {
        let error = home.run(args).failed(2);
        assert!(error.contains(said), "{args}: {error}");
    }
    for (args, said) in [
        ("trace -m MODEL --tokens []", "there are no tokens"),
        ("trace -m MODEL --tokens 512", "token 512 is outside the vocabulary of 512"),
        ("trace -m MODEL --tokens 1 --layers 7", "no value of the model is selected"),
        ("trace -m MODEL --tokens 1 -o page.html", "page.html: is there and is no trace"),
        ("trace -m MODEL --tokens 1 -o no/t.safetensors", "no/t.safetensors: cannot create it"),
    ] {
        let error = home.run(args).failed(1);
        assert!(error.contains(said), "{args}: {error}");
    }
}

#[test]
fn debug_prints_a_table_a_step() {
    let home = Home::new();
    let args = "run -m MODEL --raw --tokens 1,300,7 -n 3 --ignore-eos --temp 0";
    let text = home.run(args).quiet();
    let mut command = home.command(args);
    let ran = Ran::from(command.env("RUSTORCH_DEBUG", "1").output().expect("the program starts"));
    assert_eq!(ran.stdout, text, "the answer is the same");
    let steps = ran.stderr.lines().filter(|line| line.starts_with("step of ")).collect::<Vec<_>>();
    assert_eq!(steps.len(), 3, "{}", ran.stderr);
    assert_eq!(steps[0], "step of 1@0 300@1 7@2 (token@position)");
    assert!(steps[1].ends_with("@3 (token@position)") && steps[2].ends_with("@4 (token@position)"));
    assert_eq!(ran.stderr.lines().filter(|line| line.starts_with("Qcur-0 ")).count(), 3);
    let logits = home.run("logits -m MODEL --tokens 1,7 --debug");
    assert!(logits.stderr.starts_with("step of 1@0 7@1 (token@position)\nvalue "), "{}", logits.stderr);
}
