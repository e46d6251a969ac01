//! `imatrix`: sums of `tools/oracle/imatrix.py` (exact activations and NumPy), both formats, and what is refused.

use convert::imatrix::Imatrix;
use gguf::Gguf;
use quant::Format;
use synth::Spec;
use testkit::fixtures;

use crate::common::{Home, write};

const TEXT: &[u8] = include_bytes!("../../../eval/goldens/perplexity/text.txt");

fn home(model: &str) -> Home {
    let models = fixtures::models().into_iter().chain(fixtures::families());
    let spec = models.into_iter().find(|(name, _)| name == model).expect("a test model").1;
    let home = Home::with(&spec);
    write(&home.path("text.txt"), TEXT);
    home
}

/// The command for six chunks of 24 tokens, as the goldens have.
const COMMAND: &str = "imatrix -m MODEL -f text.txt -c 24 --chunks 6 --cache-type f32";

fn golden(name: &str) -> Gguf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../eval/goldens/imatrix");
    Gguf::open(format!("{folder}/{name}.gguf")).expect("a golden")
}

/// The same metadata, tensors, shapes and counts; sums to five digits.
fn agree(found: &Gguf, expected: &Gguf, what: &str) {
    let keys = ["general.type", "imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"];
    for key in keys {
        assert_eq!(found.metadata().get(key), expected.metadata().get(key), "{what}: {key}");
    }
    let values = |tensor: &gguf::Tensor| {
        let mut values = vec![0.0; tensor.row_len() * tensor.rows()];
        tensor.format.dequantize(&tensor.data, &mut values);
        values
    };
    let names = |file: &Gguf| file.tensors().map(|tensor| tensor.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{what}");
    for (found, expected) in found.tensors().zip(expected.tensors()) {
        assert_eq!(found.shape, expected.shape, "{what}: {}", found.name);
        for (a, b) in values(found).into_iter().zip(values(expected)) {
            assert!((a - b).abs() <= 2e-5 * b.abs(), "{what}: {}: {a}, expected {b}", found.name);
        }
    }
}

#[test]
fn sums_are_those_of_exact_activations() {
    // Dense; experts; experts with biases and limited gates; fused matrices.
    for model in ["F32", "F32-mixtral", "F32-gpt-oss", "F32-phi3"] {
        let home = home(model);
        for backend in ["reference", "cpu -b 7 -t 2"] {
            home.run(&format!("{COMMAND} -o out.gguf --backend {backend}")).ok();
            let found = Gguf::open(home.path("out.gguf")).expect("it was written");
            agree(&found, &golden(model), &format!("{model} on {backend}"));
        }
    }
}

/// As `llama-imatrix`, the output's matrix only counts on request.
#[test]
fn the_output_is_summed_on_request() {
    let home = home("F32-phi3");
    home.run(&format!("{COMMAND} -o out.gguf --process-output")).ok();
    let found = Imatrix::open(home.path("out.gguf")).expect("an imatrix");
    let expected = golden("output");
    let expected = Imatrix::open(expected.file()).expect("an imatrix");
    let [found, expected] = [&found, &expected].map(|file| file.get("output.weight").expect("an entry"));
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 2e-5 * b), "{found:?}\n{expected:?}");
}

#[test]
fn both_formats_quantise_alike() {
    let spec = Spec { layers: 1, ffn: 256, experts: Some([4, 2]), ..Spec::new(Format::F32) };
    let home = Home::with(&spec);
    write(&home.path("text.txt"), TEXT);
    let report = home.run(&format!("{COMMAND} -o i.gguf --json")).json();
    let rows = report["tensors"].as_array().expect("tensors").clone();
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row").clone();
    assert_eq!((&report["chunks"], &report["chunk_size"]), (&6.into(), &24.into()));
    assert_eq!(of("blk.0.attn_q.weight")["counts"], serde_json::json!([144]));
    let counts = of("blk.0.ffn_down_exps.weight")["counts"].clone();
    let total: u64 = counts.as_array().expect("counts").iter().filter_map(|count| count.as_u64()).sum();
    assert_eq!((counts.as_array().map(Vec::len), total), (Some(4), 2 * 144), "each row chooses two");

    home.run(&format!("{COMMAND} -o i.dat --output-format dat")).ok();
    let [from_gguf, from_dat] = ["i.gguf", "i.dat"].map(|file| {
        home.run(&format!("quantize MODEL {file}.out IQ2_XS --imatrix {file}")).ok();
        Imatrix::open(home.path(file)).expect("an imatrix")
    });
    assert_eq!(from_gguf.names().collect::<Vec<_>>(), from_dat.names().collect::<Vec<_>>());
    assert_eq!((from_dat.chunks, &*from_dat.dataset.clone().expect("a name")), (Some(6), "text.txt"));
    for name in from_gguf.names() {
        for (a, b) in from_gguf.get(name).expect("it").iter().zip(from_dat.get(name).expect("it")) {
            assert!((a - b).abs() <= 1e-6 * a, "{name}: {a} and {b}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = home("F32-mixtral");
    for (args, status, said) in [
        ("", 2, "required arguments were not provided"),
        ("-f text.txt -c 2", 2, "a window of 2 tokens has none"),
        ("-f text.txt --chunks 0", 2, "expected a number from 1"),
        ("-f text.txt -c 24 -o text.txt", 2, "text.txt is read; name another file"),
        ("-f text.txt -c 24 -o MODEL", 2, "model.gguf is read"),
        ("-f none.txt", 1, "none.txt"),
        ("-f text.txt -c 400", 1, "it has 709 tokens, and 800 are needed"),
        ("-f text.txt -c 24 -o no/where.gguf", 1, "no/where.gguf: cannot create it"),
    ] {
        let error = home.run(&format!("imatrix -m MODEL {args}")).failed(status);
        assert!(error.contains(said), "{args}: {error}");
    }
    write(&home.path("other.gguf"), "a text");
    let error = home.run("imatrix -m MODEL -f text.txt -c 24 -o other.gguf").failed(1);
    assert!(error.contains("is there and is no imatrix"), "{error}");
}

/// Inputs that are no numbers have no sums: which matrix is named, and nothing is written.
#[test]
fn inputs_that_are_no_numbers_are_refused() {
    let spec = Spec { layers: 1, ..Spec::new(Format::F32) };
    let home = Home::with(&spec);
    write(&home.path("text.txt"), TEXT);
    let mut tensors = spec.tensors();
    let norm = tensors.iter_mut().find(|tensor| tensor.name == "blk.0.ffn_norm.weight").expect("a norm");
    let mut data = norm.data.to_vec();
    data[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
    norm.data = data.into();
    let file = gguf::write(Vec::new(), &spec.metadata(), &tensors).expect("a good file");
    write(&home.model, file);
    let error = home.run(&format!("{COMMAND} -o out.gguf")).failed(1);
    assert!(
        error.contains("column 1 of the inputs of \"blk.0.ffn_gate.weight\" has sum of squares NaN"),
        "{error}"
    );
    assert!(!home.path("out.gguf").exists());
}
