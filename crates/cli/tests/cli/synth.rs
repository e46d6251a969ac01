//! `synth`: files of random weights that everything else takes for real ones.

use gguf::Gguf;

use crate::common::{Home, write};

#[test]
fn a_made_model_loads_tokenises_and_generates() {
    let home = Home::new();
    for (shape, mix, parameters) in [("stories260k", "q8_0", 260_032), ("stories15m", "Q4_K_M", 15_191_712)] {
        let made = home.run(&format!("synth {shape} made.gguf {mix}"));
        assert!(made.stderr.contains("parameters of random weights"), "{made:?}");
        assert_eq!(made.ok(), "");
        let file = Gguf::open(home.path("made.gguf")).expect("a file");
        let found: usize = file.tensors().map(|tensor| tensor.row_len() * tensor.rows()).sum();
        assert_eq!(found, parameters, "{shape}");
        let model = models::Model::new(&file).expect("a model");
        assert_eq!(model.config.architecture, "llama");
        let text = "Grüße aus 世界 🙂";
        let ids = home.run_with("tokenize -m made.gguf --no-bos --ids", &[text]).quiet();
        assert_eq!(home.run_with("detokenize -m made.gguf", &[ids.trim()]).quiet().trim(), text);
        let answer = home.run("run -m made.gguf -p Hello -n 3 --temp 0 --ignore-eos --json").json();
        assert_eq!(answer["ids"].as_array().map(Vec::len), Some(3), "{answer}");
        let again = home.run(&format!("synth {shape} again.gguf {mix}"));
        again.ok();
        let bytes = |name| std::fs::read(home.path(name)).expect("a file");
        assert!(bytes("made.gguf") == bytes("again.gguf"), "the same bytes each time");
    }
}

/// By hand: of 15,191,712 parameters, 9,216,288 are those of the embedding (32,000 by 288) and of the last norm; a layer has a
/// sixth of the rest. The weights that stay are the same.
#[test]
fn layers_are_left_out_from_the_end() {
    let home = Home::new();
    home.run("synth stories15m whole.gguf q8_0").ok();
    home.run("synth stories15m cut.gguf q8_0 --layers 2").ok();
    let [whole, cut] = ["whole.gguf", "cut.gguf"].map(|name| Gguf::open(home.path(name)).expect("a file"));
    let found: usize = cut.tensors().map(|tensor| tensor.row_len() * tensor.rows()).sum();
    assert_eq!(found, 9_216_288 + 2 * (15_191_712 - 9_216_288) / 6);
    for tensor in cut.tensors() {
        let same = whole.tensor(&tensor.name).expect("it is there");
        assert!(tensor.data == same.data, "{}", tensor.name);
    }
    home.run("run -m cut.gguf -p Hello -n 3").ok();
    assert_eq!(home.run("synth stories15m none.gguf q8_0 --layers 0").code, Some(2));
}

#[test]
fn bench_makes_a_model_and_removes_it() {
    let home = Home::new();
    let folder = home.path("tmp");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command =
        home.command("bench --synth stories260k:q8_0 -p 4 -n 2 -t 1 -r 1 --no-ceilings -o json");
    let ran = command.env("TMPDIR", &folder).env("RUSTORCH_MODEL", "another.gguf").output();
    let ran = ran.expect("the program starts");
    let rows = crate::common::Ran::from(ran).json();
    assert_eq!((&rows[0]["model"], &rows[0]["type"]), (&"stories260k".into(), &"Q8_0".into()), "{rows}");
    assert_eq!(rows[0]["parameters"], 260_032, "{rows}");
    assert!(rows[0]["ceiling"].is_null() && rows[0]["machine"].is_null(), "{rows}");
    if cfg!(unix) {
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "nothing is left");
    }
}

#[test]
fn mistakes_name_the_choices() {
    let home = Home::new();
    for (args, said) in [
        ("synth llama out.gguf Q8_0", "no shape \"llama\"; there are stories260k, stories15m, qwen2.5-0.5b"),
        ("synth tinyllama out.gguf Q9", "possible values: F32, F16, BF16, Q4_0"),
        ("synth tinyllama out.gguf", "<TYPE>"),
        ("bench --synth tinyllama", "expected SHAPE:TYPE, such as llama-3.2-1b:Q8_0"),
        ("bench --synth llama:Q8_0", "there are stories260k"),
        ("bench -m some.gguf --synth tinyllama:Q8_0", "'--model <MODEL>' cannot be used with '--synth"),
        ("bench --synth tinyllama:Q9", "no type \"Q9\"; there are F32, F16"),
    ] {
        let error = home.run(args).failed(2);
        assert!(error.contains(said), "{args}: {error}");
    }
    write(&home.path("notes.txt"), "mine");
    let error = home.run("synth stories260k notes.txt Q8_0").failed(1);
    assert!(error.contains("notes.txt"), "{error}");
    assert_eq!(std::fs::read_to_string(home.path("notes.txt")).expect("it is there"), "mine");
}
