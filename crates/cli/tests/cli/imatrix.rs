//! `quantize --imatrix`: both kinds of file, and what is wrong with them.

use std::path::Path;

use bytes::Bytes;
use gguf::{Array, Gguf, Metadata, Tensor, Value};
use quant::Format;

use synth::Spec;

use crate::common::{Home, write};

/// Columns of the small model's tensors that count a hundred times as much as the others.
fn counts(column: usize) -> bool {
    column.is_multiple_of(8)
}

/// An entry for each matrix of the model but the embedding.
fn importance(model: &Path) -> Vec<(String, Vec<f32>)> {
    let file = Gguf::open(model).expect("a good file");
    let matrices = file.tensors().filter(|tensor| tensor.rows() > 1 && tensor.name != "token_embd.weight");
    let columns =
        |tensor: &Tensor| (0..tensor.row_len()).map(|i| if counts(i) { 100.0 } else { 1.0 }).collect();
    matrices.map(|tensor| (tensor.name.clone(), columns(tensor))).collect()
}

/// The older binary: 4 chunks.
fn dat(entries: &[(String, Vec<f32>)]) -> Vec<u8> {
    let mut bytes = (entries.len() as i32).to_le_bytes().to_vec();
    for (name, columns) in entries {
        bytes.extend((name.len() as i32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(4i32.to_le_bytes());
        bytes.extend((columns.len() as i32).to_le_bytes());
        bytes.extend(columns.iter().flat_map(|x| (x * 4.0).to_le_bytes()));
    }
    bytes.extend(4i32.to_le_bytes());
    bytes.extend(8i32.to_le_bytes());
    bytes.extend(b"made.txt");
    bytes
}

/// The same as a GGUF file: sums over 4 chunks of 8 tokens.
fn gguf_file(entries: &[(String, Vec<f32>)]) -> Vec<u8> {
    let mut metadata = Metadata::default();
    metadata.insert("general.type", "imatrix");
    metadata.insert("imatrix.datasets", Value::Array(Array::String(vec!["made.txt".into()])));
    metadata.insert("imatrix.chunk_count", 4u32);
    metadata.insert("imatrix.chunk_size", 8u32);
    let tensor = |name: String, values: Vec<f32>| Tensor {
        name,
        shape: vec![values.len(), 1],
        format: Format::F32,
        data: Bytes::from(values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()),
    };
    let tensors: Vec<Tensor> = entries
        .iter()
        .flat_map(|(name, columns)| {
            let sums = columns.iter().map(|x| x * 32.0).collect();
            [tensor(format!("{name}.in_sum2"), sums), tensor(format!("{name}.counts"), vec![32.0])]
        })
        .collect();
    gguf::write(Vec::new(), &metadata, &tensors).expect("it can be written")
}

/// The squared error of the columns that count, over that of all.
fn share(before: &Tensor, after: &Tensor) -> f64 {
    let values = |tensor: &Tensor| {
        let mut values = vec![0.0; tensor.row_len() * tensor.rows()];
        tensor.format.dequantize(&tensor.data, &mut values);
        values
    };
    let errors = values(before).into_iter().zip(values(after)).map(|(x, y)| f64::from(x - y).powi(2));
    let (mut counted, mut all) = (0.0, 0.0);
    for (i, error) in errors.enumerate() {
        counted += if counts(i % before.row_len()) { error } else { 0.0 };
        all += error;
    }
    counted / all
}

#[test]
fn both_kinds_of_file_move_the_error() {
    let home = Home::new();
    let entries = importance(&home.model);
    write(&home.path("i.dat"), dat(&entries));
    write(&home.path("i.gguf"), gguf_file(&entries));
    home.run("quantize MODEL none.gguf Q4_K").ok();
    for file in ["i.dat", "i.gguf"] {
        let ran = home.run(&format!("quantize MODEL {file}.out Q4_K --imatrix {file} --json"));
        assert!(ran.stderr.contains("has no entry for \"token_embd.weight\""), "{ran:?}");
        let report = ran.json();
        let rows = report["tensors"].as_array().expect("tensors");
        let known = rows.iter().filter(|row| row["importance"] == true).count();
        assert_eq!(known, entries.len());
    }
    let open = |name: &str| Gguf::open(home.path(name)).expect("a good file");
    let (model, none) = (Gguf::open(&home.model).expect("a good file"), open("none.gguf"));
    let (from_dat, from_gguf) = (open("i.dat.out"), open("i.gguf.out"));
    for ((a, b), before) in from_dat.tensors().zip(from_gguf.tensors()).zip(model.tensors()) {
        assert_eq!(a, b);
        if entries.iter().any(|entry| entry.0 == a.name) {
            let without = none.tensor(&a.name).expect("it is there");
            let (with, without) = (share(before, a), share(before, without));
            assert!(with < 0.75 * without, "{}: {with} and {without}", a.name);
        }
    }
    let metadata = from_gguf.metadata();
    assert_eq!(metadata.str("quantize.imatrix.file"), Ok(Some("i.gguf")));
    assert_eq!(metadata.str("quantize.imatrix.dataset"), Ok(Some("made.txt")));
    assert_eq!(metadata.u32("quantize.imatrix.entries_count"), Ok(Some(entries.len() as u32)));
    assert_eq!(metadata.u32("quantize.imatrix.chunks_count"), Ok(Some(4)));
}

#[test]
fn faults_are_told() {
    let home = Home::new();
    let good = importance(&home.model);
    let changed = |change: fn(&mut Vec<(String, Vec<f32>)>)| {
        let mut entries = good.clone();
        change(&mut entries);
        entries
    };
    let short = changed(|all| all[0].1.truncate(255));
    let negative = changed(|all| all[1].1[5] = -1.0);
    let infinite = changed(|all| all[1].1[5] = f32::INFINITY);
    let strange = changed(|all| all.iter_mut().for_each(|entry| entry.0.insert(0, 'x')));
    let twice = changed(|all| all.push(all[0].clone()));
    let mut no_name = dat(&good);
    no_name[8] = 0xFF;
    let mut many = dat(&good);
    many[..4].copy_from_slice(&i32::MAX.to_le_bytes());
    let mut long = dat(&good);
    long[4..8].copy_from_slice(&i32::MAX.to_le_bytes());
    let name = &good[0].0;
    for (file, said) in [
        (dat(&short), format!("it has 255 columns for \"{name}\", whose rows have 256")),
        (gguf_file(&short), format!("it has 255 columns for \"{name}\", whose rows have 256")),
        (dat(&negative), "column 5 has importance -1".to_owned()),
        (gguf_file(&infinite), "column 5 has importance inf".to_owned()),
        (dat(&strange), "it has none of this one's tensors".to_owned()),
        (dat(&twice), format!("\"{name}\" is there twice")),
        (dat(&[]), "it has no entries".to_owned()),
        (no_name, "is no text".to_owned()),
        (many, "it is no imatrix".to_owned()),
        (long, "would be 2147483647 bytes".to_owned()),
        (dat(&good)[..5000].to_vec(), "not a whole one".to_owned()),
        (b"some text, of all things".to_vec(), "it is no imatrix".to_owned()),
        (Vec::new(), "imatrix i: it is no imatrix, or not a whole one".to_owned()),
        (std::fs::read(&home.model).expect("a model"), "general.type is not \"imatrix\"".to_owned()),
        (gguf_file(&good)[..3000].to_vec(), "i: ".to_owned()),
    ] {
        write(&home.path("i"), file);
        let error = home.run("quantize MODEL q.gguf Q4_K_M --imatrix i").failed(1);
        assert!(error.contains(&said), "{said}: {error}");
        assert!(!home.path("q.gguf").exists());
    }
    let error = home.run("quantize MODEL q.gguf Q4_K_M --imatrix none").failed(1);
    assert!(error.contains("imatrix none"), "{error}");
    let error = home.run("quantize MODEL i Q4_K_M --imatrix i").failed(2);
    assert!(error.contains("i is read"), "{error}");
}

/// Entries of an imatrix for tensors that the model lacks are reported and ignored.
#[test]
fn strangers_among_the_entries_are_told() {
    let home = Home::new();
    let mut entries = importance(&home.model);
    entries.push(("blk.99.attn_q.weight".into(), vec![1.0; 7]));
    write(&home.path("i"), dat(&entries));
    let ran = home.run("quantize MODEL q.gguf Q4_K_M --imatrix i");
    assert!(ran.stderr.contains("this model lacks: \"blk.99.attn_q.weight\""), "{ran:?}");
    ran.ok();
}

/// An entry for a tensor of experts has columns for each of them.
#[test]
fn every_expert_has_its_own_importance() {
    let home = Home::with(&Spec { layers: 1, ffn: 256, experts: Some([4, 2]), ..Spec::new(Format::F32) });
    let model = Gguf::open(&home.model).expect("a good file");
    let matrices = model.tensors().filter(|tensor| tensor.shape.len() > 1);
    let entries = matrices.map(|tensor| {
        let experts = tensor.shape.get(2).copied().unwrap_or(1);
        let columns = (0..experts * tensor.row_len()).map(|i| if i % 7 == 0 { 100.0 } else { 1.0 });
        (tensor.name.clone(), columns.collect())
    });
    let entries: Vec<(String, Vec<f32>)> = entries.collect();
    write(&home.path("i"), dat(&entries));
    home.run("quantize MODEL q.gguf Q4_K --imatrix i --pure").ok();
    let quantised = Gguf::open(home.path("q.gguf")).expect("a good file");
    for (name, columns) in entries.iter().filter(|(name, _)| name.contains("_exps")) {
        let (before, after) = (model.tensor(name).expect("it is there"), quantised.tensor(name));
        let mut values = vec![0.0; before.row_len() * before.rows()];
        before.format.dequantize(&before.data, &mut values);
        let mut expected = vec![0; values.len() / 256 * Format::Q4_K.block_bytes()];
        let (of_values, of_bytes) = (values.len() / 4, expected.len() / 4);
        let experts = values.chunks(of_values).zip(columns.chunks(before.row_len()));
        for ((values, columns), out) in experts.zip(expected.chunks_mut(of_bytes)) {
            Format::Q4_K.quantize(values, Some(columns), out);
        }
        assert_eq!(after.expect("it is there").data, expected, "{name}");
    }
}
