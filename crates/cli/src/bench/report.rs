//! Measured rows as a table, CSV or JSON.

use std::io::Write;

use backend::Timing;
use backend_cpu::Ceilings;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::measure::Test;
use crate::output::{self, BOLD};

/// The facts that all rows share.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Subject {
    /// The file name, or the shape of random weights.
    pub(super) model: String,
    /// Such as `Q4_K_M`.
    pub(super) r#type: &'static str,
    /// Of all tensors.
    pub(super) size_bytes: u64,
    pub(super) parameters: u64,
    pub(super) processor: String,
    pub(super) isa: &'static str,
    pub(super) batch_size: usize,
    pub(super) cache_type: String,
    pub(super) no_repack: bool,
    pub(super) version: &'static str,
}

/// A test on a number of threads.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row<'a> {
    #[serde(flatten)]
    pub(super) subject: &'a Subject,
    pub(super) backend: String,
    pub(super) gpu_layers: usize,
    pub(super) threads: usize,
    #[serde(rename = "test")]
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) test: Test,
    #[serde(flatten)]
    pub(super) speed: Speed,
    #[serde(serialize_with = "timings")]
    pub(super) kernels: Vec<Timing>,
    #[serde(flatten)]
    pub(super) limits: Limits,
    /// From the file to a ready engine.
    pub(super) load_seconds: f64,
    pub(super) peak_memory_bytes: Option<u64>,
    /// Resident memory that is not of the file.
    pub(super) anonymous_memory_bytes: Option<u64>,
}

fn timings<S: Serializer>(timings: &[Timing], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(timings.iter().map(|Timing { what, calls, seconds, bytes, multiply_adds }| {
        json!({ "what": what, "calls": calls, "seconds": seconds, "bytes": bytes, "multiply_adds": multiply_adds })
    }))
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Speed {
    /// The median.
    tokens_per_second: f64,
    mean: f64,
    /// Standard deviation of the samples; 0 for one.
    deviation: f64,
    samples: Vec<f64>,
}

impl Speed {
    /// `samples`, in tokens per second, must not be empty.
    pub(super) fn new(samples: Vec<f64>) -> Speed {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviation = (squares / samples.len().saturating_sub(1).max(1) as f64).sqrt();
        Speed { tokens_per_second: median, mean, deviation, samples }
    }
}

/// The speed that the machine allows, if known.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Limits {
    /// The highest possible rate in tokens per second.
    ceiling: Option<f64>,
    share: Option<f64>,
    /// The rates of the machine.
    machine: Option<Value>,
}

impl Limits {
    pub(super) fn new(machine: Ceilings, ceiling: Option<f64>, speed: &Speed) -> Limits {
        let machine = json!({
            "int8_macs_per_second": machine.int8_macs_per_second,
            "f32_macs_per_second": machine.f32_macs_per_second,
            "read_bytes_per_second": machine.read_bytes_per_second,
        });
        let share = ceiling.map(|ceiling| speed.tokens_per_second / ceiling);
        Limits { ceiling, share, machine: Some(machine) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Style {
    /// In the manner of llama-bench
    Table,
    /// With a heading
    Csv,
    /// An array of objects, with every sample
    Json,
}

pub(super) fn print(rows: &[Row<'_>], style: Style) -> anyhow::Result<()> {
    if style == Style::Json {
        return output::json(&rows);
    }
    let mut out = output::stdout();
    if style == Style::Csv {
        writeln!(out, "{COLUMNS}")?;
        for row in rows {
            let fields: Vec<String> = fields(row)?.iter().map(|field| quoted(field)).collect();
            writeln!(out, "{}", fields.join(","))?;
        }
        return Ok(out.flush()?);
    }
    let kernels = rows.iter().filter(|row| !row.kernels.is_empty()).map(kernel_table);
    for (number, table) in std::iter::once(table(rows)).chain(kernels).enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let (heading, lines) = table.split_first().expect("a table has a heading");
        writeln!(out, "{BOLD}{heading}{BOLD:#}")?;
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(out.flush()?)
}

/// The columns of `-o csv`.
const COLUMNS: &str = "model,type,size_bytes,parameters,isa,batch_size,cache_type,no_repack,threads,test,\
    tokens_per_second,mean,deviation,ceiling,share,load_seconds,peak_memory_bytes,anonymous_memory_bytes,backend,\
    gpu_layers";

/// The JSON values of [`COLUMNS`].
fn fields(row: &Row<'_>) -> anyhow::Result<Vec<String>> {
    let object = serde_json::to_value(row)?;
    let field = |name: &str| match &object[name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.4}", number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    };
    Ok(COLUMNS.split(',').map(field).collect())
}

/// A field of CSV (RFC 4180).
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn table(rows: &[Row<'_>]) -> Vec<String> {
    let heading =
        ["model", "type", "size", "params", "backend", "threads", "test", "t/s", "ceiling", "share"];
    let cells = rows.iter().map(|row| {
        let subject = row.subject;
        let unknown = || "?".to_owned();
        [
            output::abbreviated(&subject.model, 40).replace('|', "\\|"),
            subject.r#type.to_owned(),
            output::size(subject.size_bytes),
            output::count(usize::try_from(subject.parameters).unwrap_or(usize::MAX)),
            match &*row.backend {
                "cpu" if subject.no_repack => format!("{}, not repacked", subject.isa),
                "cpu" => subject.isa.to_owned(),
                other => other.replace('|', "\\|"),
            },
            row.threads.to_string(),
            row.test.to_string(),
            format!("{:.2} ± {:.2}", row.speed.mean, row.speed.deviation),
            row.limits.ceiling.map_or_else(unknown, |ceiling| format!("{ceiling:.1}")),
            row.limits.share.map_or_else(unknown, |share| format!("{:.1} %", 100.0 * share)),
        ]
    });
    let lines: Vec<[String; 10]> = std::iter::once(heading.map(str::to_owned)).chain(cells).collect();
    markdown(&lines, &[2, 3, 5, 7, 8, 9])
}

/// The lines of a Markdown table whose first row is the heading; columns in `right` are right-aligned.
fn markdown<const N: usize>(rows: &[[String; N]], right: &[usize]) -> Vec<String> {
    let rows = output::aligned(rows, right);
    let rule = rows[0].iter().enumerate().map(|(at, cell)| {
        let dashes = "-".repeat(cell.chars().count());
        if right.contains(&at) { format!(" {dashes}:|") } else { format!(" {dashes} |") }
    });
    let rule = format!("|{}", rule.collect::<String>());
    let mut lines: Vec<String> = rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    lines.insert(1, rule);
    lines
}

/// The time of each kernel in a test, the longest first.
fn kernel_table(row: &Row<'_>) -> Vec<String> {
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
    use super::super::measure::Kind;
    use super::*;

    const CEILINGS: Ceilings =
        Ceilings { int8_macs_per_second: Some(1e12), f32_macs_per_second: None, read_bytes_per_second: 2e10 };

    fn subject() -> Subject {
        Subject {
            model: "a, \"b\"|.gguf".into(),
            r#type: "Q4_K_M",
            size_bytes: 667_000_000,
            parameters: 1_100_048_384,
            processor: "a processor".into(),
            isa: "avx512",
            batch_size: 128,
            cache_type: "f16".into(),
            no_repack: false,
            version: "0.1.0",
        }
    }

    fn row<'a>(subject: &'a Subject, samples: &[f64], ceiling: Option<f64>) -> Row<'a> {
        let test = Test { kind: Kind::Prompt, tokens: 512, depth: 4096, parallel: 1 };
        let speed = Speed::new(samples.to_vec());
        Row {
            subject,
            backend: "cpu".into(),
            gpu_layers: 0,
            threads: 2,
            name: test.to_string(),
            test,
            limits: Limits::new(CEILINGS, ceiling, &speed),
            speed,
            kernels: Vec::new(),
            load_seconds: 0.25,
            peak_memory_bytes: None,
            anonymous_memory_bytes: None,
        }
    }

    #[test]
    fn statistics_by_hand() {
        let subject = subject();
        let many = row(&subject, &[4.0, 1.0, 2.0, 9.0], Some(12.0));
        assert_eq!((many.speed.tokens_per_second, many.speed.mean), (3.0, 4.0));
        // Squares 0 + 9 + 4 + 25 over 3.
        assert_eq!(many.speed.deviation, (38.0f64 / 3.0).sqrt());
        assert_eq!(many.limits.share, Some(0.25));
        let one = row(&subject, &[5.0], None);
        assert_eq!((one.speed.tokens_per_second, one.speed.deviation, one.limits.share), (5.0, 0.0, None));
    }

    #[test]
    fn an_object_says_all() {
        let json = serde_json::to_value(row(&subject(), &[1.0, 3.0], Some(4.0))).expect("JSON");
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
        let subject = subject();
        let kernels = vec![kernel("short", 0.5), kernel("long", 1.5)];
        let row = Row { kernels, ..row(&subject, &[1.0], None) };
        let lines = kernel_table(&row);
        let cells = |at: usize| lines[at].split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(cells(0)[1..7], ["kernels of pp512 @ d4096", "times", "µs", "GB/s", "GMAC/s", "share"]);
        assert_eq!(cells(2)[1..7], ["long", "4", "375000.00", "2", "4", "75.0 %"]);
        assert_eq!(cells(3)[1..7], ["short", "4", "125000.00", "6", "12", "25.0 %"]);
    }

    #[test]
    fn fields_with_commas_are_quoted() {
        let fields = fields(&row(&subject(), &[1.0], None)).expect("JSON");
        assert_eq!(quoted(&fields[0]), "\"a, \"\"b\"\"|.gguf\"");
        assert_eq!(fields[6], "f16");
        assert_eq!(fields[9], "pp512 @ d4096");
        assert_eq!(fields[13], "");
    }

    #[test]
    fn columns_are_aligned() {
        let subject = subject();
        let lines = table(&[row(&subject, &[1.0, 3.0], Some(4.0)), row(&subject, &[100.0], None)]);
        assert_eq!(lines.len(), 4);
        let width = lines[0].chars().count();
        assert!(lines.iter().all(|line| line.chars().count() == width), "{lines:#?}");
        assert!(lines[2].contains("| pp512 @ d4096 |") && lines[2].contains(" 2.00 ± 1.41 |"), "{lines:#?}");
        assert!(lines[2].ends_with(" 50.0 % |") && lines[3].ends_with(" ? |"), "{lines:#?}");
        assert!(lines[2].contains("a, \"b\"\\|.gguf"));
    }
}
