//! `perplexity`: figures of `tools/oracle/perplexity.py` (exact logits and NumPy), and what is refused.

use std::path::PathBuf;

use gguf::Tensor;
use quant::Format;
use serde_json::Value;
use testkit::fixtures::Spec;

use crate::common::{Home, write};

const TEXT: &[u8] = include_bytes!("../../../eval/goldens/perplexity/text.txt");
const BASE: &[u8] = include_bytes!("../../../eval/goldens/perplexity/base.bin");
const FIGURES: &str = include_str!("../../../eval/goldens/perplexity/figures.json");

/// What the figures were made with.
const N_CTX: usize = 24;
const POSITIONS: usize = 11;

/// A home with the goldens' model, text and base.
struct Goldens {
    home: Home,
    text: PathBuf,
    base: PathBuf,
}

impl Goldens {
    fn new() -> Goldens {
        let home = Home::with(&Spec::new(Format::F32));
        let (text, base) = (write(&home.path("text.txt"), TEXT), write(&home.path("base.bin"), BASE));
        Goldens { home, text, base }
    }

    fn json(&self, args: &str) -> Value {
        self.home.run(&format!("perplexity -m MODEL --json --cache-type f32 {args}")).json()
    }

    /// The base with other bytes at `at`, or only as long as that when there are none.
    fn damaged(&self, at: usize, bytes: &[u8]) -> PathBuf {
        let mut base = BASE.to_vec();
        match bytes {
            [] => base.truncate(at),
            bytes => base[at..at + bytes.len()].copy_from_slice(bytes),
        }
        write(&self.home.path("damaged.bin"), base)
    }
}

fn figures() -> Value {
    serde_json::from_str(FIGURES).expect("JSON")
}

/// Every number of `expected` is in `found`, to five digits.
#[track_caller]
fn agree(found: &Value, expected: &Value, name: &str) {
    match expected {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, expected)| agree(&found[key], expected, &format!("{name}.{key}")));
        }
        expected => {
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{name}: {value}"));
            let (found, expected) = (number(found), number(expected));
            assert!(
                (found - expected).abs() <= 1e-5 * expected.abs() + 1e-7,
                "{name}: {found}, expected {expected}"
            );
        }
    }
}

/// Checks a printed line: the words, and numbers to five digits with as many decimals.
fn reads_like(found: &str, expected: &str) {
    let (found_words, words) = (found.split_whitespace(), expected.split_whitespace());
    let decimals = |word: &str| word.split_once('.').map(|(_, decimals)| decimals.len());
    let alike = |(a, b): (&str, &str)| match (
        a.trim_end_matches('%').parse::<f64>(),
        b.trim_end_matches('%').parse::<f64>(),
    ) {
        (Ok(x), Ok(y)) => (x - y).abs() <= 1e-5 * y.abs() + 2e-6 && decimals(a) == decimals(b),
        _ => a == b,
    };
    assert_eq!(found_words.clone().count(), words.clone().count(), "{found}\n{expected}");
    assert!(found_words.zip(words).all(alike), "{found}\n{expected}");
}

#[test]
fn a_text_is_as_perplexing_as_exact_logits_say() {
    let goldens = Goldens::new();
    for backend in ["cpu", "cpu -b 5", "reference"] {
        let found = goldens.json(&format!("-f text.txt -c {N_CTX} --backend {backend}"));
        agree(&found, &figures()["whole"], backend);
        let windows = figures()["tokens"].as_u64().expect("a number") / N_CTX as u64;
        assert_eq!((&found["windows"], &found["n_ctx"]), (&windows.into(), &N_CTX.into()));
        let each = found["token_nll"].as_array().expect("an array");
        let mean = each.iter().filter_map(Value::as_f64).sum::<f64>() / each.len() as f64;
        agree(&found["nll"]["value"], &mean.into(), "mean of the tokens");
    }
    let printed = goldens.home.run("perplexity -m MODEL -f text.txt -c 24 --cache-type f32").quiet();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    reads_like(lines[0], "29 windows of 24 tokens, 319 tokens scored");
    reads_like(lines[1], "Final estimate: PPL = 11750.7177 +/- 1654.14486");
}

#[test]
fn a_base_by_another_program_is_compared_as_numpy_does_it() {
    let goldens = Goldens::new();
    for args in ["", "-f text.txt", "-c 24", "--backend reference"] {
        let found = goldens.json(&format!("--kl-base base.bin {args}"));
        agree(&found["divergence"], &figures()["divergence"], args);
        assert_eq!(found["scored_tokens"], 66);
    }
    let printed = goldens.home.run("perplexity -m MODEL --kl-base base.bin --cache-type f32").quiet();
    for line in [
        "Mean PPL(base)                : 6369.367332 ± 1820.584824",
        "Cor(ln(PPL(Q)), ln(PPL(base))):  97.08%",
        "Mean ln(PPL(Q)/PPL(base))     :   1.080983 ±   0.098733",
        "Mean    KLD:   0.220286 ±   0.011354",
        "Median  KLD:   0.193560",
        " 5.0%   KLD:   0.132436",
        "RMS Δp    :  0.255 ± 0.088 %",
        "Same top p: 75.758 ± 5.316 %",
    ] {
        let label = line.split(':').next().expect("a label");
        let found = printed.lines().find(|found| found.split(':').next() == Some(label));
        reads_like(found.unwrap_or_else(|| panic!("{label} in {printed}")), line);
    }
    let one = goldens.home.run("perplexity -m MODEL --kl-base base.bin --chunks 1").quiet();
    assert!(one.starts_with("1 window of 24 tokens, 11 tokens scored\n"), "{one}");
    let two = goldens.json("--kl-base base.bin --chunks 2");
    assert_eq!((&two["windows"], &two["scored_tokens"]), (&2.into(), &(2 * POSITIONS).into()));
    assert_ne!(two["divergence"], goldens.json("--kl-base base.bin")["divergence"]);
}

#[test]
fn a_saved_base_is_the_models_own() {
    let goldens = Goldens::new();
    let saved = goldens.json("-f text.txt -c 24 --chunks 6 --save-logits saved.bin");
    let file = std::fs::read(goldens.home.path("saved.bin")).expect("it was saved");
    // Magic, sizes and token ids are those of the other program's file, and so is the length.
    let head = 20 + 4 * 6 * N_CTX;
    assert_eq!(file[..head], BASE[..head]);
    assert_eq!(file.len(), BASE.len());

    let found = goldens.json("--kl-base saved.bin");
    assert_eq!(found["perplexity"], saved["perplexity"]);
    let divergence = &found["divergence"];
    let is_small = |name: &str, most: f64| {
        let value = divergence[name]["value"].as_f64().expect("a number");
        assert!(value.abs() < most, "{name}: {value}");
    };
    // What 16 bits lose.
    is_small("kl", 1e-4);
    is_small("log_ratio", 1e-3);
    is_small("p_diff_rms", 1e-4);
    assert_eq!(divergence["same_top"]["value"], 1.0);
}

#[test]
fn the_windows_are_this_commands_own() {
    let goldens = Goldens::new();
    write(&goldens.home.path(".config/rustorch/config.toml"), "ctx-size = 64\ncache-type = 'f32'\n");
    let mut command = goldens.home.command("perplexity -m MODEL -f text.txt -c 24 --json");
    let ran = command.env("RUSTORCH_CTX_SIZE", "48").output().expect("the program starts");
    agree(&crate::common::Ran::from(ran).json(), &figures()["whole"], "settings of chats");
    let ran = goldens.home.run("perplexity -m MODEL -f text.txt").failed(1);
    assert!(ran.contains("it has 709 tokens, and 1024 are needed, two windows of 512"), "{ran}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let goldens = Goldens::new();
    let model = std::fs::read(&goldens.home.model).expect("it is there");
    for (args, said) in [
        ("", "required arguments were not provided"),
        ("-f text.txt -c 2", "a window of 2 tokens has none"),
        ("-f text.txt --kl-base base.bin --save-logits x", "cannot be used with"),
        ("-f text.txt --chunks 0", "expected a number from 1"),
        ("--kl-base base.bin --save-logits base.bin", "cannot be used with"),
        (
            "-f text.txt -c 24 --save-logits ./text.txt",
            "--save-logits would write to ./text.txt, but text.txt is",
        ),
        ("-f text.txt -c 24 --save-logits MODEL", "model.gguf is read; name another file"),
    ] {
        let error = goldens.home.run(&format!("perplexity -m MODEL {args}")).failed(2);
        assert!(error.contains(said), "{args}: {error}");
    }
    write(&goldens.home.path("other.txt"), [b"Another ", TEXT].concat());
    for (args, said) in [
        ("-f no.txt", "no.txt"),
        ("-f text.txt -c 400", "it has 709 tokens, and 800 are needed, two windows of 400"),
        ("--kl-base base.bin -c 25", "base base.bin: it has windows of 24 tokens, not 25"),
        ("--kl-base base.bin -f other.txt", "base base.bin: it is of another text: token 1 is the first"),
        ("--kl-base no.bin", "base no.bin: cannot read it"),
        ("--kl-base text.txt", "text.txt: no file of log-probabilities: it does not begin"),
        ("--kl-base .", ".: no file of log-probabilities: it is no regular file"),
        ("-f text.txt -c 24 --save-logits no/where.bin", "no/where.bin: cannot create it"),
        ("-f text.txt -c 24 --save-logits other.txt", "other.txt: is there and is no base"),
        ("-f text.txt -c 24 --save-logits .", "is there and is no base"),
    ] {
        let error = goldens.home.run(&format!("perplexity -m MODEL {args}")).failed(1);
        assert!(error.contains(said), "{args}: {error}");
    }
    assert_eq!(std::fs::read(&goldens.home.model).unwrap(), model);
    assert_eq!(std::fs::read(&goldens.text).unwrap(), TEXT);
    assert_eq!(std::fs::read(&goldens.base).unwrap(), BASE);
}

#[test]
fn a_damaged_base_is_refused() {
    let goldens = Goldens::new();
    let row = 20 + 4 * 6 * N_CTX;
    for (at, bytes, said) in [
        (0, &b"_Logits_"[..], "it does not begin with `_logits_`"),
        (4, &[], "it does not begin with `_logits_`"),
        (15, &[], "has 15 bytes, but"),
        (BASE.len() - 1, &[], "cut short or is damaged"),
        (8, &2u32.to_le_bytes(), "n_ctx is 2, expected at least 3"),
        (8, &u32::MAX.to_le_bytes(), "windows of 4294967295 tokens"),
        (12, &0u32.to_le_bytes(), "n_vocab is 0, expected at least 1"),
        (12, &i32::MAX.to_le_bytes(), "a vocabulary of 2147483647"),
        (16, &(-1i32).to_le_bytes(), "n_chunk is -1, expected at least 1"),
        (16, &i32::MAX.to_le_bytes(), "2147483647 windows"),
        (20, &512u32.to_le_bytes(), "token 0 is 512, but its vocabulary has 512 tokens"),
        (row, &f32::NAN.to_le_bytes(), "row 0 has scale NaN"),
        (row + 4, &f32::INFINITY.to_le_bytes(), "minimum inf"),
        (row + 4, &100f32.to_le_bytes(), "minimum 100, expected log-probabilities"),
    ] {
        goldens.damaged(at, bytes);
        let error = goldens.home.run("perplexity -m MODEL --kl-base damaged.bin").failed(1);
        assert!(error.contains(said), "{said}: {error}");
    }
    // A file that fits together, but is of another model.
    let mut other = Vec::from(&b"_logits_"[..]);
    for number in [3, 5, 1, 0, 0, 0] {
        other.extend(i32::to_le_bytes(number));
    }
    other.extend([0; 8 + 12]);
    write(&goldens.home.path("other.bin"), other);
    let error = goldens.home.run("perplexity -m MODEL --kl-base other.bin").failed(1);
    assert!(
        error.contains("other.bin: it is of a model with 5 tokens, this one's vocabulary has 512"),
        "{error}"
    );
}

#[test]
fn logits_that_are_no_numbers_have_no_perplexity() {
    let goldens = Goldens::new();
    let spec = Spec { layers: 1, ..Spec::new(Format::F32) };
    let mut tensors = spec.tensors();
    let norm = tensors.iter_mut().find(|tensor| tensor.name == "output_norm.weight");
    let norm: &mut Tensor = norm.expect("every model has one");
    let mut data = norm.data.to_vec();
    data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    norm.data = data.into();
    let file = gguf::write(Vec::new(), &spec.metadata(), &tensors).expect("a good file");
    write(&goldens.home.model, file);
    let error = goldens.home.run("perplexity -m MODEL -f text.txt -c 24 --save-logits nan.bin").failed(1);
    assert!(error.contains("window 1, position 12: the logit of token 0 is NaN"), "{error}");
    assert!(!goldens.home.path("nan.bin").exists());
}
