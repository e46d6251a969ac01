//! Output of `rustorch quantize`.

use std::collections::BTreeMap;
use std::time::Duration;

use convert::quantize::{Plan, Planned, Recipe};
use gguf::Gguf;
use quant::Mix;
use serde::Serialize;

use crate::output::{self, counted, note, size};

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

impl<'a> Report<'a> {
    /// `took` is `None` for a dry run.
    pub(crate) fn new(
        file: &'a Gguf,
        output: String,
        recipe: &Recipe<'_>,
        plan: &Plan<'a>,
        took: Option<Duration>,
    ) -> anyhow::Result<Report<'a>> {
        let values: u64 = plan.tensors().iter().map(Planned::values).sum();
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
        Ok(Report {
            input: file.file(),
            output,
            r#type: recipe.mix.map_or(super::COPY, Mix::name),
            pure: recipe.pure,
            imatrix: recipe.imatrix.map(|(path, _)| path.to_owned()),
            dry_run: took.is_none(),
            before: size(file.file_len(), plan.work()),
            after: size(plan.file_len()?, plan.tensors().iter().map(Planned::bytes).sum()),
            seconds: took.map(|took| took.as_secs_f64()),
            tensors: plan.tensors().iter().map(row).collect(),
        })
    }

    pub(crate) fn print_plan(&self) -> anyhow::Result<()> {
        let row = |Row { name, shape, from, to, bytes, importance }: &Row<'_>| {
            let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let format = format!("{from} -> {}", if from == to { "unchanged" } else { to });
            let importance = if *importance { "by importance" } else { "" };
            [output::printable(name, ""), shape.join(" x "), format, size(*bytes), importance.to_owned()]
        };
        let rows: Vec<_> = self.tensors.iter().map(row).collect();
        Ok(output::write_all(output::columns(&rows, &[1, 3]).as_bytes())?)
    }

    /// Summarises the result on stderr.
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
            if self.dry_run { "the file would be" } else { self.output.as_str() },
            size(after.file_bytes),
            after.bits_per_weight,
            size(before.file_bytes),
            before.bits_per_weight,
        ));
        let time = self.seconds.map(|seconds| format!("; {seconds:.1} s")).unwrap_or_default();
        note(format_args!("{}: {}{time}", counted(self.tensors.len(), "tensor"), formats.join(", ")));
    }
}
