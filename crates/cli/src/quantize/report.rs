//! What `rustorch quantize` says: the plan, and what came of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use serde::Serialize;

use super::mix::Mix;
use super::plan::Planned;
use crate::output::{self, counted, note, size};

/// What `--json` prints.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    input: &'a str,
    output: String,
    r#type: &'static str,
    pure: bool,
    imatrix: Option<String>,
    dry_run: bool,
    before: Size,
    after: Size,
    /// Null for a dry run.
    seconds: Option<f64>,
    tensors: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Size {
    /// Of the whole file.
    file_bytes: u64,
    tensor_bytes: u64,
    bits_per_weight: f64,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    shape: &'a [usize],
    from: &'static str,
    to: &'static str,
    bytes: u64,
    importance: bool,
}

/// What was asked for.
pub(crate) struct Asked<'a> {
    pub(crate) input: &'a str,
    pub(crate) output: String,
    pub(crate) mix: Mix,
    pub(crate) pure: bool,
    pub(crate) imatrix: Option<String>,
}

impl<'a> Report<'a> {
    /// `before` and `after` are the sizes of the files; `took` is for work that was done.
    pub(crate) fn new(
        asked: Asked<'a>,
        plan: &[Planned<'a>],
        (before, after): (u64, u64),
        took: Option<Duration>,
    ) -> Report<'a> {
        let values: u64 = plan.iter().map(Planned::values).sum();
        let size = |file_bytes: u64, tensor_bytes: u64| Size {
            file_bytes,
            tensor_bytes,
            bits_per_weight: tensor_bytes as f64 * 8.0 / values.max(1) as f64,
        };
        let row = |planned: &Planned<'a>| Row {
            name: &planned.tensor.name,
            shape: &planned.tensor.shape,
            from: planned.tensor.format.name(),
            to: planned.format.name(),
            bytes: planned.bytes(),
            importance: planned.importance.is_some(),
        };
        Report {
            input: asked.input,
            output: asked.output,
            r#type: asked.mix.name(),
            pure: asked.pure,
            imatrix: asked.imatrix,
            dry_run: took.is_none(),
            before: size(before, plan.iter().map(|planned| planned.tensor.data.len() as u64).sum()),
            after: size(after, plan.iter().map(Planned::bytes).sum()),
            seconds: took.map(|took| took.as_secs_f64()),
            tensors: plan.iter().map(row).collect(),
        }
    }

    /// Prints the plan, a tensor a line.
    pub(crate) fn print_plan(&self) -> anyhow::Result<()> {
        let mut out = output::stdout();
        let width = self.tensors.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        for Row { name, shape, from, to, bytes, importance } in &self.tensors {
            let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let what = if from == to { "as it is" } else { to };
            let importance = if *importance { "  by importance" } else { "" };
            writeln!(
                out,
                "{:width$}  {:>14}  {from:>6} -> {what:8} {:>10}{importance}",
                output::printable(name, ""),
                shape.join(" x "),
                size(*bytes)
            )?;
        }
        Ok(out.flush()?)
    }

    /// Says on stderr what came of it, or would.
    pub(crate) fn say(&self) {
        let mut formats: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.tensors {
            *formats.entry(row.to).or_default() += 1;
        }
        let formats: Vec<String> =
            formats.iter().map(|(format, count)| format!("{count} {format}")).collect();
        let (before, after) = (&self.before, &self.after);
        note(format_args!(
            "{}: {}, {:.2} bits per weight; was {}, {:.2}",
            if self.dry_run { "it would be" } else { self.output.as_str() },
            size(after.file_bytes),
            after.bits_per_weight,
            size(before.file_bytes),
            before.bits_per_weight,
        ));
        let time = self.seconds.map(|seconds| format!("; {seconds:.1} s")).unwrap_or_default();
        note(format_args!("{}: {}{time}", counted(self.tensors.len(), "tensor"), formats.join(", ")));
    }
}
