//! `verify`: good models are good, and each kind of damage is seen.

use gguf::{Array, Metadata, Tensor, Value};
use quant::Format;
use serde_json::Value as Json;
use testkit::fixtures::Spec;

use crate::common::{Home, write};

fn spec(format: Format) -> Spec {
    Spec { layers: 1, ..Spec::new(format) }
}

/// A home whose model was changed.
fn with(spec: &Spec, change: impl FnOnce(&mut Metadata, &mut Vec<Tensor>)) -> Home {
    let home = Home::with(spec);
    let (mut metadata, mut tensors) = (spec.metadata(), spec.tensors());
    change(&mut metadata, &mut tensors);
    write(&home.model, gguf::write(Vec::new(), &metadata, &tensors).expect("it can be written"));
    home
}

/// The checks of a run that ended with `code`, as JSON.
#[track_caller]
fn checks(home: &Home, args: &str, code: i32) -> Vec<Json> {
    let ran = home.run(&format!("verify -m MODEL --json {args}"));
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let json: Json = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(json["good"], code == 0, "{json}");
    json["checks"].as_array().expect("an array").clone()
}

fn named<'a>(checks: &'a [Json], outcome: &str) -> Vec<&'a str> {
    let found = checks.iter().filter(|check| check["outcome"] == outcome);
    found.filter_map(|check| check["name"].as_str()).collect()
}

/// The check `name` is bad, says `detail`, and the command that it names shows more.
#[track_caller]
fn is_bad(home: &Home, name: &str, detail: &str) -> Vec<Json> {
    let checks = checks(home, "--backend cpu", 1);
    let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{checks:#?}"));
    assert_eq!(check["outcome"], "bad", "{check}");
    assert!(check["detail"].as_str().is_some_and(|text| text.contains(detail)), "{check}");
    let more = check["more"].as_str().and_then(|more| more.strip_prefix("rustorch ")).expect("a command");
    let is_number = ["kernels", "products", "logits"].iter().any(|what| name.ends_with(&format!(": {what}")));
    assert!(!is_number || more.starts_with("compare "), "{more} names the first wrong value");
    // As a shell takes it apart: what is between quotes is one word.
    let words = more.split('\'').enumerate().flat_map(|(i, part)| match i % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let ran = home.run_with("", &words.collect::<Vec<_>>());
    assert_ne!(ran.code, Some(2), "{more}: {ran:?}");
    let printed = home.run("verify -m MODEL --backend cpu");
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(
        printed.stdout.contains(&format!("FAIL  {name}")) && printed.stdout.contains("      more: rustorch ")
    );
    assert!(printed.stdout.ends_with("checks failed\n"), "{printed:?}");
    checks
}

#[test]
fn good_models_are_good() {
    for format in [Format::F32, Format::Q8_0, Format::Q4_K] {
        let home = Home::with(&spec(format));
        let printed = home.run("verify -m MODEL").quiet();
        let good = printed.lines().filter(|line| line.starts_with("ok  ")).count();
        assert!(good >= 11, "{printed}");
        assert!(printed.ends_with(&format!("all {good} checks are good\n")), "{printed}");
        assert!(!printed.contains('\u{1b}'), "no colours in a pipe");
    }
    let home = Home::with(&spec(Format::F16));
    let all = checks(&home, "", 0);
    assert!(named(&all, "skipped").is_empty(), "{all:?}");
    let names = named(&all, "good");
    for name in [
        "file",
        "weights",
        "model",
        "tokenizer",
        "chat template",
        "reference: logits",
        "cpu (scalar): logits",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let reference = checks(&home, "--backend reference", 0);
    assert!(!named(&reference, "good").iter().any(|name| name.starts_with("cpu")), "{reference:?}");
    assert!(named(&reference, "good").contains(&"reference: steps"), "{reference:?}");
}

#[test]
fn the_embedded_model_is_good() {
    let home = Home::new();
    let ran = home.run("verify --json");
    assert!(ran.stderr.starts_with("rustorch: the embedded demo model"), "{ran:?}");
    let json = ran.json();
    assert_eq!((&json["model"], &json["good"]), (&"embedded model".into(), &true.into()));
}

#[test]
fn a_weight_that_is_no_number_is_named() {
    let row = 256 * size_of::<f32>();
    let home = with(&spec(Format::F32), |_, tensors| {
        let tensor =
            tensors.iter_mut().find(|tensor| tensor.name == "blk.0.ffn_up.weight").expect("it is there");
        let mut data = tensor.data.to_vec();
        data[3 * row + 4 * 5..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
        data[400 * row..][..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
        tensor.data = data.into();
    });
    let said = "2 weights are not finite; the first is NaN in `blk.0.ffn_up.weight` (F32), row 3, column 5";
    let checks = is_bad(&home, "weights", said);
    assert!(named(&checks, "good").contains(&"tokenizer"), "what is good is still said to be");
    only_weights_are_bad(&checks);

    // The scale of a block makes all of its values infinite.
    let home = with(&spec(Format::Q8_0), |_, tensors| {
        let tensor =
            tensors.iter_mut().find(|tensor| tensor.name == "token_embd.weight").expect("it is there");
        let mut data = tensor.data.to_vec();
        data[34..36].copy_from_slice(&0x7c00u16.to_le_bytes());
        tensor.data = data.into();
    });
    only_weights_are_bad(&is_bad(&home, "weights", "in `token_embd.weight` (Q8_0), row 0, column 3"));
}

/// Nothing else is blamed for what weights did: kernels are good, and what a model makes of such weights
/// is not looked at.
#[track_caller]
fn only_weights_are_bad(checks: &[Json]) {
    assert_eq!(named(checks, "bad"), ["weights"], "{checks:#?}");
    assert!(named(checks, "good").iter().any(|name| name.ends_with(": products")), "{checks:#?}");
    let whole = checks.iter().find(|check| check["name"] == "whole model").expect("it is said");
    assert_eq!(whole["outcome"], "skipped");
}

#[test]
fn a_damaged_file_is_bad() {
    let home = Home::with(&spec(Format::F32));
    let file = std::fs::read(&home.model).expect("it is there");
    write(&home.model, &file[..file.len() - 100]);
    let checks = is_bad(&home, "file", "model.gguf");
    assert_eq!(checks.len(), 1);

    let home = with(&spec(Format::F32), |_, tensors| {
        tensors.retain(|tensor| tensor.name != "blk.0.attn_q.weight");
    });
    let checks = is_bad(&home, "model", "blk.0.attn_q.weight");
    assert_eq!(named(&checks, "skipped"), ["numbers"]);
    assert_eq!(named(&checks, "good"), ["file", "weights", "tokenizer"]);
}

#[test]
fn a_template_that_makes_no_prompts_is_bad() {
    for (template, said) in [
        ("{% for message in messages %}{{ message.content }}", "expected"),
        ("{{ raise_exception('no') }}", "no"),
        ("Say something: {{ messages[0].role }}", "the user's message is not in the prompt"),
        ("{{ messages[0].content }}", "two turns: the assistant's message is not in the prompt"),
    ] {
        let home = with(&spec(Format::F32), |metadata, _| {
            metadata.insert("tokenizer.chat_template", Value::String(template.into()));
        });
        let checks = is_bad(&home, "chat template", said);
        assert_eq!(named(&checks, "bad"), ["chat template"], "{template}");
    }
    let home = with(&spec(Format::F32), |metadata, _| {
        metadata.remove("tokenizer.chat_template");
    });
    assert!(named(&checks(&home, "--backend cpu", 0), "skipped").contains(&"chat template"));
}

#[test]
fn a_tokenizer_that_loses_text_is_bad() {
    // The token of a byte says that it is another's, which has its own: no token stands for the byte.
    let home = with(&spec(Format::F32), |metadata, _| {
        let Some(Value::Array(Array::String(tokens))) = metadata.get("tokenizer.ggml.tokens") else {
            panic!("tokens are strings")
        };
        let mut tokens = tokens.clone();
        let token = tokens.iter_mut().find(|token| *token == "<0xF0>").expect("a byte");
        *token = "<0xE2>".into();
        metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)));
    });
    is_bad(&home, "tokenizer", "which decodes to");
}

#[test]
fn the_command_line_is_checked() {
    let home = Home::new();
    for args in [
        "verify --backend gpu",
        "verify --backend hybrid-f32",
        "verify --backend auto",
        "verify -t 0",
        "verify here there",
        "verify MODEL -m MODEL",
        "verify MODEL --hf-repo user/repo",
        "inspect MODEL -m MODEL",
        "verify -c 5",
    ] {
        home.run(args).failed(2);
    }
    for args in ["verify -m no/such.gguf", "verify no/such.gguf"] {
        let ran = home.run(args);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stdout.starts_with("FAIL  file ") && ran.stdout.contains("no/such.gguf"), "{ran:?}");
        assert_eq!(ran.stdout.matches("os error").count(), 1, "{ran:?}");
    }
    let spaced = home.path("a model's.gguf");
    write(&spaced, b"GGUF");
    let ran = home.run_with("verify -m", &[&spaced.display().to_string()]);
    assert!(ran.stdout.contains(r"a model'\''s.gguf'"), "{ran:?}");
}

/// Layers with states, and rows that see later ones.
#[test]
fn recurrent_models_and_encoders_are_checked() {
    let recurrent = testkit::fixtures::families().into_iter().find(|(name, _)| name == "F32-qwen35");
    let encoder = testkit::fixtures::encoders().into_iter().find(|(name, _)| name == "F32-bert");
    for (spec, skipped) in [(recurrent, false), (encoder, true)] {
        let (name, spec) = spec.expect("a model of this name");
        let checks = checks(&Home::with(&spec), "--backend cpu", 0);
        let steps = named(&checks, "skipped").iter().any(|check| check.ends_with("steps"));
        assert_eq!(steps, skipped, "{name}: {checks:?}");
    }
}
