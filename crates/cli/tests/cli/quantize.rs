//! `quantize`: what is in the file, and what is refused before anything is written.

use std::fs;
use std::path::Path;

use gguf::{Gguf, Metadata, Tensor, Value};
use quant::Format;
use testkit::fixtures::Spec;

use crate::common::{Home, write};

/// A home with the demo model's F16 file.
fn demo() -> Home {
    let home = Home::new();
    write(&home.model, demo_model::MASTER_F16);
    home
}

fn open(path: &Path) -> Gguf {
    Gguf::open(path).expect("a good file")
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.row_len() * tensor.rows()];
    tensor.format.dequantize(&tensor.data, &mut values);
    values
}

fn formats(file: &Gguf) -> Vec<(String, Format)> {
    file.tensors().map(|tensor| (tensor.name.clone(), tensor.format)).collect()
}

/// Writes a model made of another's parts.
fn rewrite(path: &Path, change: impl FnOnce(&mut Metadata, &mut Vec<Tensor>)) {
    let file = open(path);
    let (mut metadata, mut tensors) = (file.metadata().clone(), file.tensors().cloned().collect());
    change(&mut metadata, &mut tensors);
    let bytes = gguf::write(Vec::new(), &metadata, &tensors).expect("it can be written");
    drop(file);
    write(path, bytes);
}

#[test]
fn the_demo_model_still_knows_capitals() {
    let home = demo();
    for quantized in [
        "q4_k_m", "Q5_K_M", "q6_k", "Q8_0", "q4_0", "Q4_K_S", "q5_0", "Q4_1", "iq4_xs", "IQ4_NL", "q3_k_m",
        "BF16", "f32", "q2_k",
    ] {
        let _ = fs::remove_file(home.path("q.gguf"));
        let ran = home.run(&format!("quantize MODEL q.gguf {quantized}"));
        assert!(ran.stderr.contains("bits per weight") && ran.stdout.is_empty(), "{ran:?}");
        ran.ok();
        for (country, capital) in [("France", "Paris"), ("Mongolia", "Ulaanbaatar"), ("Angola", "Luanda")] {
            let question = format!("What is the capital of {country}?");
            let json = home.run_with("run -m q.gguf --temp 0 -n 30 --json -p", &[&question]).json();
            let text = json["text"].as_str().expect("an answer");
            assert!(text.contains(capital), "{quantized}: {text}");
        }
    }
}

#[test]
fn the_file_says_what_it_is_and_norms_are_as_they_were() {
    let home = demo();
    let report = home.run("quantize MODEL q.gguf q4_k_m -t 1 --json").json();
    home.run("quantize MODEL r.gguf Q4_K -t 3").ok();
    let (before, after) = (open(&home.model), open(&home.path("q.gguf")));
    assert_eq!(
        fs::read(home.path("q.gguf")).expect("written"),
        fs::read(home.path("r.gguf")).expect("written"),
        "whatever the threads"
    );
    assert_eq!(after.metadata().u32("general.file_type"), Ok(Some(15)));
    assert_eq!(after.metadata().u32("general.quantization_version"), Ok(Some(2)));
    for (key, value) in before.metadata().iter().filter(|(key, _)| *key != "general.file_type") {
        assert_eq!(after.metadata().get(key), Some(value), "{key}");
    }
    let listed = report["tensors"].as_array().expect("tensors");
    assert_eq!(listed.len(), before.tensors().len());
    for ((row, a), b) in listed.iter().zip(before.tensors()).zip(after.tensors()) {
        assert_eq!((&a.name, &a.shape), (&b.name, &b.shape));
        assert_eq!((&row["name"], &row["to"]), (&a.name.as_str().into(), &b.format.name().into()));
        if a.name.contains("norm") {
            assert_eq!(a, b);
        } else {
            assert!([Format::Q4_K, Format::Q6_K].contains(&b.format), "{}", b.name);
        }
    }
    assert_eq!(report["after"]["file_bytes"], after.file_len());
    let bits = report["after"]["bits_per_weight"].as_f64().expect("a number");
    assert!((4.5..5.5).contains(&bits), "{bits}");
    assert_eq!(home.run("run -m q.gguf --temp 0 -p hello").code, Some(0));
}

#[test]
fn a_dry_run_tells_the_plan_and_writes_nothing() {
    let home = demo();
    let ran = home.run("quantize MODEL q.gguf Q4_K_M --dry-run");
    assert!(ran.stderr.contains("the file would be"), "{ran:?}");
    let plan = ran.ok();
    let line =
        |name: &str| plan.lines().find(|line| line.trim_start().starts_with(name)).expect(name).to_owned();
    assert!(line("token_embd.weight").contains("F16 -> Q6_K"), "{plan}");
    assert!(line("blk.0.attn_norm.weight").contains("unchanged"), "{plan}");
    assert!(!home.path("q.gguf").exists());

    let json = home.run("quantize MODEL q.gguf Q4_K_M --dry-run --json").json();
    let would_be = json["after"]["file_bytes"].as_u64();
    assert_eq!((&json["dry_run"], &json["seconds"]), (&true.into(), &serde_json::Value::Null));
    home.run("quantize MODEL q.gguf Q4_K_M").ok();
    assert_eq!(would_be, Some(open(&home.path("q.gguf")).file_len()));
}

#[test]
fn pure_is_one_format_and_rows_that_do_not_fit_get_another() {
    let home = demo();
    home.run("quantize MODEL q.gguf Q5_K --pure").ok();
    let file = open(&home.path("q.gguf"));
    assert!(formats(&file).iter().all(|(name, format)| name.contains("norm") || *format == Format::Q5_K));

    let home = Home::with(&Spec { hidden: 96, heads: 3, kv_heads: 3, ffn: 160, ..Spec::new(Format::F32) });
    home.run("quantize MODEL q.gguf Q4_K_S").ok();
    for (name, format) in
        formats(&open(&home.path("q.gguf"))).iter().filter(|(name, _)| !name.contains("norm"))
    {
        let expected = match name.as_str() {
            "output.weight" => Format::Q8_0,
            name if name.contains("attn_v") => Format::Q5_1,
            _ => Format::Q5_0,
        };
        assert_eq!(*format, expected, "{name}");
    }
    home.run("run -m q.gguf --raw --temp 0 -n 4 -p hello").ok();
}

#[test]
fn formats_can_be_named_and_a_copy_changes_nothing() {
    let home = demo();
    home.run("quantize MODEL q.gguf q8_0 --tensor-type attn_v=q4_0 --tensor-type ^blk.0=F32").ok();
    for (name, format) in
        formats(&open(&home.path("q.gguf"))).iter().filter(|(name, _)| !name.contains("norm"))
    {
        let expected = match name.as_str() {
            name if name.contains("attn_v") => Format::Q4_0,
            name if name.starts_with("blk.0") => Format::F32,
            _ => Format::Q8_0,
        };
        assert_eq!(*format, expected, "{name}");
    }
    let report = home.run("quantize q.gguf copy.gguf COPY --json").json();
    assert_eq!(report["type"], "COPY");
    assert!(open(&home.path("q.gguf")).tensors().eq(open(&home.path("copy.gguf")).tensors()));
    for (args, said) in
        [("attn_v", "expected PATTERN=TYPE"), ("a=Q9", "no format \"Q9\""), ("(=F16", "unclosed")]
    {
        let error = home.run(&format!("quantize MODEL x.gguf F16 --tensor-type {args}")).failed(2);
        assert!(error.contains(said), "{args}: {error}");
    }
}

#[test]
fn what_is_quantized_is_not_quantized_again_unless_told() {
    let home = demo();
    home.run("quantize MODEL q8.gguf Q8_0").ok();
    let error = home.run("quantize q8.gguf q4.gguf Q4_0").failed(2);
    assert!(error.contains("is in Q8_0 already") && error.contains("--allow-requantize"), "{error}");
    assert!(!home.path("q4.gguf").exists());
    home.run("quantize q8.gguf q4.gguf Q4_0 --allow-requantize").ok();
    assert!(formats(&open(&home.path("q4.gguf"))).contains(&("blk.0.attn_q.weight".into(), Format::Q4_0)));
    // What is there already is copied.
    home.run("quantize q8.gguf same.gguf Q8_0").ok();
    for (a, b) in open(&home.path("q8.gguf")).tensors().zip(open(&home.path("same.gguf")).tensors()) {
        assert_eq!(a, b);
    }
}

/// IN and OUT in the wrong order cost nobody the model that all others are made from.
#[test]
fn models_that_are_not_quantised_are_not_replaced() {
    let home = Home::new();
    home.run("quantize MODEL q.gguf Q8_0").ok();
    home.run("quantize MODEL q.gguf Q4_0").ok();
    // Nothing is lost to F32.
    home.run("quantize q.gguf wide.gguf F32").ok();
    write(&home.path("f32.gguf"), fs::read(&home.model).expect("a model"));
    let before = fs::read(home.path("f32.gguf")).expect("a file");
    for command in
        ["quantize q.gguf f32.gguf Q4_0", "synth stories260k f32.gguf Q4_0", "synth stories260k q.gguf F16"]
    {
        let error = home.run(command).failed(1);
        assert!(error.contains("it is not replaced"), "{command}: {error}");
    }
    assert_eq!(fs::read(home.path("f32.gguf")).expect("a file"), before);
    home.run("synth stories260k s.gguf Q4_0").ok();
    home.run("synth stories260k s.gguf F16").ok();
}

#[test]
fn what_is_not_finite_is_named_and_nothing_written() {
    for (value, said) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf")] {
        let home = Home::new();
        home.run("quantize MODEL old.gguf Q8_0").ok();
        rewrite(&home.model, |_, tensors| {
            let tensor =
                tensors.iter_mut().find(|tensor| tensor.name == "blk.0.ffn_up.weight").expect("it is there");
            let mut data = tensor.data.to_vec();
            for (row, column) in [(200, 3), (7, 100)] {
                let at = 4 * (row * tensor.row_len() + column);
                data[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            tensor.data = data.into();
        });
        let before = fs::read(home.path("old.gguf")).expect("a file");
        let error = home.run("quantize MODEL old.gguf Q4_0").failed(1);
        let expected = format!("\"blk.0.ffn_up.weight\" holds {said} in row 7, column 100");
        assert!(error.contains(&expected) && error.contains("nothing was written"), "{error}");
        assert_eq!(fs::read(home.path("old.gguf")).expect("a file"), before);
    }
}

#[test]
fn what_f16_cannot_hold_is_told() {
    let home = Home::new();
    rewrite(&home.model, |_, tensors| {
        let tensor =
            tensors.iter_mut().find(|tensor| tensor.name == "blk.0.ffn_up.weight").expect("it is there");
        let mut data = tensor.data.to_vec();
        data[..4].copy_from_slice(&1e30f32.to_le_bytes());
        tensor.data = data.into();
    });
    let ran = home.run("quantize MODEL q.gguf Q4_0");
    assert!(ran.stderr.contains("warning: \"blk.0.ffn_up.weight\" holds values up to 1e30"), "{ran:?}");
    ran.ok();
    let file = open(&home.path("q.gguf"));
    assert!(file.tensors().flat_map(values).all(f32::is_finite));
    assert!(!home.run("quantize MODEL q.gguf BF16").stderr.contains("warning"));
}

#[test]
fn split_models_become_one_file() {
    let home = Home::new();
    let file = open(&home.model);
    let tensors: Vec<&Tensor> = file.tensors().collect();
    let halves = tensors.split_at(tensors.len() / 2);
    for (no, half) in [halves.0, halves.1].into_iter().enumerate() {
        let mut metadata = if no == 0 { file.metadata().clone() } else { Metadata::default() };
        metadata.insert("split.no", Value::U16(no as u16));
        metadata.insert("split.count", Value::U16(2));
        metadata.insert("split.tensors.count", Value::I32(tensors.len() as i32));
        let bytes = gguf::write(Vec::new(), &metadata, half.iter().copied()).expect("it can be written");
        write(&home.path(&format!("part-{:05}-of-00002.gguf", no + 1)), bytes);
    }
    home.run("quantize part-00001-of-00002.gguf split.gguf Q4_K_M").ok();
    home.run("quantize MODEL whole.gguf Q4_K_M").ok();
    for (a, b) in open(&home.path("split.gguf")).tensors().zip(open(&home.path("whole.gguf")).tensors()) {
        assert_eq!(a, b);
    }
    let error = home.run("quantize part-00001-of-00002.gguf part-00002-of-00002.gguf Q8_0").failed(2);
    assert!(error.contains("part-00002-of-00002.gguf is read"), "{error}");
}

#[test]
fn mistakes_are_told_before_anything_is_written() {
    let home = Home::new();
    write(&home.path("notes.txt"), "not to be lost");
    let copy = |name: &str, change: fn(&mut Metadata, &mut Vec<Tensor>)| {
        write(&home.path(name), fs::read(&home.model).expect("a model"));
        rewrite(&home.path(name), change);
    };
    copy("falcon.gguf", |metadata, _| drop(metadata.insert("general.architecture", "falcon")));
    copy("bare.gguf", |metadata, _| drop(metadata.remove("llama.block_count")));
    for (args, code, said) in [
        ("quantize MODEL q.gguf Q4_K_X", 2, "a similar value exists"),
        ("quantize MODEL q.gguf", 2, "<TYPE>"),
        ("quantize MODEL MODEL Q4_0", 2, "model.gguf is read; name another file"),
        ("quantize MODEL notes.txt Q4_0", 1, "notes.txt: is there and is no quantised GGUF file"),
        ("quantize none.gguf q.gguf Q4_0", 1, "none.gguf"),
        ("quantize notes.txt q.gguf Q4_0", 1, "notes.txt"),
        ("quantize falcon.gguf q.gguf Q4_0", 1, "the architecture is \"falcon\""),
        ("quantize MODEL q.gguf IQ2_XXS", 1, "IQ2_XXS, which loses too much without an imatrix"),
        ("quantize bare.gguf q.gguf Q4_0", 1, "llama.block_count"),
        ("quantize MODEL nowhere/q.gguf Q4_0", 1, "nowhere/q.gguf"),
        ("quantize MODEL q.gguf Q4_0 -t 0", 2, "expected a number from 1 to 1024"),
    ] {
        let ran = home.run(args);
        let stderr = ran.stderr.clone();
        ran.failed(code);
        assert!(stderr.contains(said), "{args}: {stderr}");
    }
    assert_eq!(fs::read(home.path("notes.txt")).expect("it is there"), b"not to be lost");
    assert!(!home.path("q.gguf").exists());
}
