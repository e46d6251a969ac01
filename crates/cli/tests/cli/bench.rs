//! `bench`: what is said of how fast a model runs. No number is held against a clock.

use crate::common::Home;

#[test]
fn every_row_says_all() {
    let home = Home::new();
    let ran = home.run("bench -m MODEL -p 8,40 -n 3 -d 0,33 -t 1 -r 2 -b 16 -o json --isa scalar");
    let said = ran.stderr.clone();
    assert!(said.starts_with("scalar on 1 thread: ? multiply-adds") && said.contains("GB/s"), "{said}");
    let rows = ran.json();
    let rows = rows.as_array().expect("an array");
    let tests: Vec<&str> = rows.iter().filter_map(|row| row["test"].as_str()).collect();
    assert_eq!(tests, ["pp8", "pp40", "tg3", "pp8 @ d33", "pp40 @ d33", "tg3 @ d33"]);
    for row in rows {
        assert_eq!((&row["model"], &row["type"]), (&"model.gguf".into(), &"F32".into()), "{row}");
        assert_eq!((&row["threads"], &row["isa"]), (&1.into(), &"scalar".into()), "{row}");
        // By hand: a layer of 2 * 256 * 256 + 2 * 64 * 256 + 3 * 512 * 256 and 3 norms, 2 matrices of 512.
        assert_eq!(row["parameters"], 557_056 + 3 * 256 + 2 * 512 * 256, "{row}");
        assert_eq!(row["size_bytes"], 4 * (557_056 + 3 * 256 + 2 * 512 * 256), "{row}");
        assert_eq!(row["version"], env!("CARGO_PKG_VERSION"), "{row}");
        let samples = row["samples"].as_array().expect("samples");
        let samples: Vec<f64> = samples.iter().filter_map(serde_json::Value::as_f64).collect();
        let median = row["tokens_per_second"].as_f64().expect("a number");
        assert_eq!(samples.len(), 2, "{row}");
        assert!(samples.iter().all(|sample| sample.is_finite() && *sample > 0.0), "{row}");
        assert!((median / ((samples[0] + samples[1]) / 2.0) - 1.0).abs() < 1e-12, "{row}");
        // Plain Rust has no ceiling of multiply-adds.
        let has_ceiling = row["kind"] == "generation";
        assert_eq!((row["ceiling"].is_null(), row["share"].is_null()), (!has_ceiling, !has_ceiling), "{row}");
        if has_ceiling {
            let share = median / row["ceiling"].as_f64().expect("a number");
            assert!((row["share"].as_f64().expect("a number") / share - 1.0).abs() < 1e-12, "{row}");
        }
        assert!(row["machine"]["read_bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        assert!(row["load_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{row}");
        if cfg!(target_os = "linux") {
            let peak = row["peak_memory_bytes"].as_u64().expect("Linux says it");
            assert!((1 << 20..512 << 20).contains(&peak), "without the memory of the ceilings: {row}");
        }
    }
}

#[test]
fn tables_and_csv_have_the_same_rows() {
    let home = Home::new();
    let table = home.run("bench -p 4 -n 2 -t 1,2 -r 1");
    assert!(table.stderr.starts_with("rustorch: the embedded demo model"), "{}", table.stderr);
    let table = table.ok();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = table.lines().map(cells).collect();
    assert_eq!(lines.len(), 2 + 4, "{table}");
    assert_eq!(lines[0][6..], ["threads", "test", "t/s", "ceiling", "share", ""], "{table}");
    let tests: Vec<_> = lines[2..].iter().map(|cells| (&*cells[6], &*cells[7])).collect();
    assert_eq!(tests, [("1", "pp4"), ("1", "tg2"), ("2", "pp4"), ("2", "tg2")]);
    assert!(lines[2][8].contains(" ± 0.00"), "{table}");

    let csv = home.run("bench -m MODEL -p 0 -n 2 -t 1 -r 1 -o csv --no-ceilings").quiet();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 2, "{csv}");
    assert_eq!(lines[0].len(), lines[1].len(), "{csv}");
    assert_eq!((lines[0][6], lines[1][6]), ("cache_type", "f16"));
    assert_eq!((lines[0][7], lines[1][7]), ("no_repack", "false"));
    assert_eq!((lines[0][9], lines[1][9]), ("test", "tg2"));
    assert_eq!((lines[0][0], lines[1][0]), ("model", "model.gguf"));
    assert_eq!((lines[0][13], lines[1][13]), ("ceiling", ""));
}

/// The model's matrices take 3.3 MB.
#[test]
fn weights_that_stay_in_the_file_take_no_memory() {
    let home = Home::new();
    let anonymous = |flag: &str, no_repack: bool| {
        let args = format!("bench -m MODEL -p 40 -n 2 -t 1 -r 1 -o json --no-ceilings {flag}");
        let rows = home.run(&args).json();
        assert_eq!(rows[0]["no_repack"], no_repack, "{rows}");
        rows[1]["anonymous_memory_bytes"].as_u64()
    };
    let (packed, mapped) = (anonymous("", false), anonymous("--no-repack", true));
    if cfg!(target_os = "linux") {
        let (packed, mapped) = packed.zip(mapped).expect("Linux says it");
        assert!(mapped + (2 << 20) < packed, "{mapped} bytes, {packed} of packed weights");
    }
}

#[test]
fn the_command_line_is_checked() {
    let home = Home::new();
    for (args, said) in [
        ("bench -p 0 -n 0", "there is nothing to measure"),
        ("bench -t 0", "expected a number from 1 to 1024"),
        ("bench --isa mmx", "there is no such kernel set; there are scalar"),
        ("bench model.gguf", "to name a model, use '-m model.gguf'"),
        ("bench -mg 99", "unexpected argument '-mg'"),
    ] {
        let error = home.run(args).failed(2);
        assert!(error.contains(said), "{args}: {error}");
    }
    let error = home.run("bench -m no/such.gguf").failed(1);
    assert!(error.contains("no/such.gguf"), "{error}");
    for (variable, value) in [("RUSTORCH_THREADS", "two"), ("RUSTORCH_ISA", "mmx")] {
        let ran = home.command("bench").env(variable, value).output().expect("the program starts");
        let error = crate::common::Ran::from(ran).failed(2);
        assert!(error.contains(&format!("'{value}' for '{variable}'")), "{error}");
    }
}

/// What bench's options are called elsewhere still means the same there.
#[test]
fn run_keeps_its_options() {
    let home = Home::new();
    let ran = home.run("-m MODEL --raw -p Hi -n2 --temp 0 --ignore-eos -rx.y -b4 --json").json();
    assert_eq!(ran["ids"].as_array().map(Vec::len), Some(2), "{ran}");
}
