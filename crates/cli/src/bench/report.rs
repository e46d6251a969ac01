//! What was measured, as a table, CSV or JSON.

use std::io::Write;

use backend::Timing;
use backend_cpu::Ceilings;
use serde::Serialize;
use serde_json::Value;

use super::plan::{Kind, Test};
use super::table::markdown;
use crate::output::{self, BOLD};

/// What is the same in all rows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Subject {
    /// The file's name, or the shape of random weights.
    pub(super) model: String,
    /// The formats of its weights, such as `Q4_K_M`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Bytes of all tensors.
    pub(super) size_bytes: u64,
    pub(super) parameters: u64,
    pub(super) processor: String,
    pub(super) isa: &'static str,
    pub(super) batch_size: usize,
    pub(super) cache_type: &'static str,
    /// Whether weights are used in the file.
    pub(super) no_repack: bool,
    pub(super) version: &'static str,
}

/// One test on a number of threads.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What computes, in words.
    pub(super) backend: String,
    /// Layers on a graphics processor.
    pub(super) gpu_layers: usize,
    pub(super) test: Test,
    pub(super) threads: usize,
    /// Tokens a second; not empty.
    pub(super) samples: Vec<f64>,
    /// What kernels took in all of them, when that was to be measured.
    pub(super) kernels: Vec<Timing>,
    /// Tokens a second at best, where that is known.
    pub(super) ceiling: Option<f64>,
    /// What the machine could do, when that was measured.
    pub(super) machine: Option<Ceilings>,
    /// From the file to an engine that is ready.
    pub(super) load_seconds: f64,
    /// Resident memory of this process.
    pub(super) peak_memory_bytes: Option<u64>,
    /// That part of what is resident at the end which is not the file's.
    pub(super) anonymous_memory_bytes: Option<u64>,
}

impl Row {
    fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = |at: usize| sorted.get(at).copied().unwrap_or(f64::NAN);
        (middle((sorted.len() - 1) / 2) + middle(sorted.len() / 2)) / 2.0
    }

    fn mean(&self) -> f64 {
        self.samples.iter().sum::<f64>() / self.samples.len() as f64
    }

    /// Of the samples; 0 for one.
    fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        (squares / self.samples.len().saturating_sub(1).max(1) as f64).sqrt()
    }

    /// The median as a part of the ceiling.
    fn share(&self) -> Option<f64> {
        Some(self.median() / self.ceiling?)
    }
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Style {
    /// For people, as llama-bench prints it.
    Table,
    /// With a heading.
    Csv,
    /// An array of objects, with every sample.
    Json,
}

/// Prints `rows` to stdout.
pub(super) fn print(subject: &Subject, rows: &[Row], style: Style) -> anyhow::Result<()> {
    match style {
        Style::Json => {
            let objects: Vec<Object<'_>> = rows.iter().map(|row| Object::new(subject, row)).collect();
            return output::json(&objects);
        }
        Style::Csv => {
            let mut out = output::stdout();
            writeln!(out, "{}", COLUMNS.join(","))?;
            for row in rows {
                writeln!(out, "{}", fields(subject, row)?.map(|field| quoted(&field)).join(","))?;
            }
            out.flush()?;
        }
        Style::Table => {
            let mut out = output::stdout();
            let kernels = rows.iter().filter(|row| !row.kernels.is_empty());
            for (number, table) in
                std::iter::once(table(subject, rows)).chain(kernels.map(of_kernels)).enumerate()
            {
                if number > 0 {
                    writeln!(out)?;
                }
                for (number, line) in table.iter().enumerate() {
                    if number == 0 {
                        writeln!(out, "{BOLD}{line}{BOLD:#}")?
                    } else {
                        writeln!(out, "{line}")?
                    }
                }
            }
            out.flush()?;
        }
    }
    Ok(())
}

/// A row of `-o json`.
#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    subject: &'a Subject,
    backend: &'a str,
    gpu_layers: usize,
    threads: usize,
    test: String,
    kind: Kind,
    tokens: usize,
    depth: usize,
    /// The median.
    tokens_per_second: f64,
    mean: f64,
    deviation: f64,
    samples: &'a [f64],
    kernels: Vec<Kernel<'a>>,
    ceiling: Option<f64>,
    share: Option<f64>,
    machine: Option<Machine>,
    load_seconds: f64,
    peak_memory_bytes: Option<u64>,
    anonymous_memory_bytes: Option<u64>,
}

/// What all calls of a kernel took in the samples.
#[derive(Serialize)]
struct Kernel<'a> {
    what: &'a str,
    calls: u64,
    seconds: f64,
    bytes: u64,
    multiply_adds: u64,
}

impl<'a> From<&'a Timing> for Kernel<'a> {
    fn from(timing: &'a Timing) -> Kernel<'a> {
        let Timing { ref what, calls, seconds, bytes, multiply_adds } = *timing;
        Kernel { what, calls, seconds, bytes, multiply_adds }
    }
}

/// The ceilings of the machine.
#[derive(Serialize)]
struct Machine {
    int8_macs_per_second: Option<f64>,
    f32_macs_per_second: Option<f64>,
    read_bytes_per_second: f64,
}

impl<'a> Object<'a> {
    fn new(subject: &'a Subject, row: &'a Row) -> Object<'a> {
        let Test { kind, tokens, depth } = row.test;
        Object {
            subject,
            backend: &row.backend,
            gpu_layers: row.gpu_layers,
            threads: row.threads,
            test: row.test.to_string(),
            kind,
            tokens,
            depth,
            tokens_per_second: row.median(),
            mean: row.mean(),
            deviation: row.deviation(),
            samples: &row.samples,
            kernels: row.kernels.iter().map(Kernel::from).collect(),
            ceiling: row.ceiling,
            share: row.share(),
            machine: row.machine.map(|machine| Machine {
                int8_macs_per_second: machine.int8_macs_per_second,
                f32_macs_per_second: machine.f32_macs_per_second,
                read_bytes_per_second: machine.read_bytes_per_second,
            }),
            load_seconds: row.load_seconds,
            peak_memory_bytes: row.peak_memory_bytes,
            anonymous_memory_bytes: row.anonymous_memory_bytes,
        }
    }
}

/// The columns of `-o csv`.
const COLUMNS: [&str; 20] = [
    "model",
    "type",
    "size_bytes",
    "parameters",
    "isa",
    "batch_size",
    "cache_type",
    "no_repack",
    "threads",
    "test",
    "tokens_per_second",
    "mean",
    "deviation",
    "ceiling",
    "share",
    "load_seconds",
    "peak_memory_bytes",
    "anonymous_memory_bytes",
    "backend",
    "gpu_layers",
];

/// The columns of a row: what JSON has under these names.
fn fields(subject: &Subject, row: &Row) -> anyhow::Result<[String; COLUMNS.len()]> {
    let object = serde_json::to_value(Object::new(subject, row))?;
    Ok(COLUMNS.map(|name| match &object[name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.4}", number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }))
}

/// A field of CSV (RFC 4180).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// The lines of a table in Markdown, numbers to the right.
fn table(subject: &Subject, rows: &[Row]) -> Vec<String> {
    let heading =
        ["model", "type", "size", "params", "backend", "threads", "test", "t/s", "ceiling", "share"];
    let cells = rows.iter().map(|row| {
        let unknown = || "?".to_owned();
        [
            output::abbreviated(&subject.model, 40).replace('|', "\\|"),
            subject.kind.clone(),
            output::size(subject.size_bytes),
            output::count(usize::try_from(subject.parameters).unwrap_or(usize::MAX)),
            match &*row.backend {
                "cpu" if subject.no_repack => format!("{}, not repacked", subject.isa),
                "cpu" => subject.isa.to_owned(),
                other => other.replace('|', "\\|"),
            },
            row.threads.to_string(),
            row.test.to_string(),
            format!("{:.2} ± {:.2}", row.mean(), row.deviation()),
            row.ceiling.map_or_else(unknown, |ceiling| format!("{ceiling:.1}")),
            row.share().map_or_else(unknown, |share| format!("{:.1} %", 100.0 * share)),
        ]
    });
    let lines: Vec<[String; 10]> = std::iter::once(heading.map(str::to_owned)).chain(cells).collect();
    markdown(&lines, &[2, 3, 5, 7, 8, 9])
}

/// What kernels took in a test, the longest first.
fn of_kernels(row: &Row) -> Vec<String> {
    let mut kernels: Vec<&Timing> = row.kernels.iter().collect();
    kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let all: f64 = kernels.iter().map(|kernel| kernel.seconds).sum();
    let of_test = format!("kernels of {}", row.test);
    let heading = [&*of_test, "times", "µs", "GB/s", "GMAC/s", "share"].map(str::to_owned);
    let cells = kernels.iter().map(|kernel| {
        let rate = |amount: u64| format!("{:.0}", amount as f64 / kernel.seconds / 1e9);
        [
            kernel.what.clone(),
            kernel.calls.to_string(),
            format!("{:.2}", 1e6 * kernel.seconds / kernel.calls as f64),
            rate(kernel.bytes),
            rate(kernel.multiply_adds),
            format!("{:.1} %", 100.0 * kernel.seconds / all),
        ]
    });
    let lines: Vec<[String; 6]> = std::iter::once(heading).chain(cells).collect();
    markdown(&lines, &[1, 2, 3, 4, 5])
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILINGS: Ceilings =
        Ceilings { int8_macs_per_second: Some(1e12), f32_macs_per_second: None, read_bytes_per_second: 2e10 };

    fn subject() -> Subject {
        Subject {
            model: "a, \"b\"|.gguf".into(),
            kind: "Q4_K_M".into(),
            size_bytes: 667_000_000,
            parameters: 1_100_048_384,
            processor: "a processor".into(),
            isa: "avx512",
            batch_size: 128,
            cache_type: "f16",
            no_repack: false,
            version: "0.1.0",
        }
    }

    fn row(samples: &[f64], ceiling: Option<f64>) -> Row {
        Row {
            backend: "cpu".into(),
            gpu_layers: 0,
            test: Test { kind: Kind::Prompt, tokens: 512, depth: 4096 },
            threads: 2,
            samples: samples.to_vec(),
            kernels: Vec::new(),
            ceiling,
            machine: Some(CEILINGS),
            load_seconds: 0.25,
            peak_memory_bytes: None,
            anonymous_memory_bytes: None,
        }
    }

    #[test]
    fn statistics_by_hand() {
        let row = row(&[4.0, 1.0, 2.0, 9.0], Some(12.0));
        assert_eq!((row.median(), row.mean()), (3.0, 4.0));
        // Squares 0 + 9 + 4 + 25 over 3.
        assert_eq!(row.deviation(), (38.0f64 / 3.0).sqrt());
        assert_eq!(row.share(), Some(0.25));
        let one = super::tests::row(&[5.0], None);
        assert_eq!((one.median(), one.deviation(), one.share()), (5.0, 0.0, None));
    }

    #[test]
    fn an_object_says_all() {
        let (subject, row) = (subject(), row(&[1.0, 3.0], Some(4.0)));
        let json = serde_json::to_value(Object::new(&subject, &row)).expect("JSON");
        for (key, expected) in [
            ("type", serde_json::json!("Q4_K_M")),
            ("threads", serde_json::json!(2)),
            ("test", serde_json::json!("pp512 @ d4096")),
            ("tokens_per_second", serde_json::json!(2.0)),
            ("samples", serde_json::json!([1.0, 3.0])),
            ("ceiling", serde_json::json!(4.0)),
            ("share", serde_json::json!(0.5)),
            ("load_seconds", serde_json::json!(0.25)),
            ("peak_memory_bytes", serde_json::Value::Null),
            ("parameters", serde_json::json!(1_100_048_384u64)),
        ] {
            assert_eq!(json[key], expected, "{key}");
        }
        assert_eq!(json["machine"]["f32_macs_per_second"], serde_json::Value::Null);
    }

    #[test]
    fn kernels_are_told_by_rates() {
        let kernel = |what: &str, seconds| Timing {
            what: what.into(),
            calls: 4,
            seconds,
            bytes: 3_000_000_000,
            multiply_adds: 6_000_000_000,
        };
        let row = Row { kernels: vec![kernel("short", 0.5), kernel("long", 1.5)], ..row(&[1.0], None) };
        let lines = of_kernels(&row);
        let cells = |at: usize| lines[at].split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(cells(0)[1..7], ["kernels of pp512 @ d4096", "times", "µs", "GB/s", "GMAC/s", "share"]);
        assert_eq!(cells(2)[1..7], ["long", "4", "375000.00", "2", "4", "75.0 %"]);
        assert_eq!(cells(3)[1..7], ["short", "4", "125000.00", "6", "12", "25.0 %"]);
    }

    #[test]
    fn fields_with_commas_are_quoted() {
        let fields = fields(&subject(), &row(&[1.0], None)).expect("JSON");
        assert_eq!(quoted(&fields[0]), "\"a, \"\"b\"\"|.gguf\"");
        assert_eq!(fields[6], "f16");
        assert_eq!(fields[9], "pp512 @ d4096");
        assert_eq!(fields[13], "");
    }

    #[test]
    fn columns_are_aligned() {
        let lines = table(&subject(), &[row(&[1.0, 3.0], Some(4.0)), row(&[100.0], None)]);
        assert_eq!(lines.len(), 4);
        let width = lines[0].chars().count();
        assert!(lines.iter().all(|line| line.chars().count() == width), "{lines:#?}");
        assert!(lines[2].contains("| pp512 @ d4096 |") && lines[2].contains(" 2.00 ± 1.41 |"), "{lines:#?}");
        assert!(lines[2].ends_with(" 50.0 % |") && lines[3].ends_with(" ? |"), "{lines:#?}");
        assert!(lines[2].contains("a, \"b\"\\|.gguf"));
    }
}
