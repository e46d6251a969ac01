//! What an unquantised model would need in other formats.

use engine::{Model, Options};
use quant::Format;
use runner::FileWeights;
use serde::Serialize;

use crate::fit::formats::{OtherFormats, Zeros};
use crate::fit::machine::Machine;
use crate::fit::{self, Candidate, Fit};
use crate::output::{columns, size};

/// Types of `rustorch quantize`, the largest first.
const TYPES: [&str; 8] = ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XXS", "Q2_K"];

#[derive(Serialize)]
pub(super) struct Row {
    r#type: &'static str,
    bytes: u64,
    #[serde(flatten)]
    fit: Fit,
}

/// Where a model fits, and where it would fit in fewer bits.
#[derive(Serialize)]
pub(super) struct Fits {
    #[serde(flatten)]
    pub(super) own: Fit,
    /// Empty if the model is quantised.
    quantised: Vec<Row>,
    /// The type that fits best.
    best: Option<&'static str>,
    #[serde(skip)]
    has_gpu: bool,
}

impl Fits {
    pub(super) fn of(machine: &mut Machine<'_>, model: &Model, options: &Options) -> anyhow::Result<Fits> {
        let file = model.file();
        let own = machine.fit(model, &FileWeights(file), options, 1.0)?;
        let is_float = |format| matches!(format, Format::F32 | Format::F16 | Format::BF16);
        let has_gpu = machine.gpus().next().is_some();
        if !file.tensors().all(|tensor| is_float(tensor.format)) {
            return Ok(Fits { own, quantised: Vec::new(), best: None, has_gpu });
        }
        let zeros = Zeros::for_tensors_of(file)?;
        let tensors: u64 = file.tensors().map(|tensor| tensor.data.len() as u64).sum();
        let header = file.files().map(|(_, bytes)| bytes).sum::<u64>().saturating_sub(tensors);
        let mut quantised = Vec::new();
        for name in TYPES {
            let Some(weights) = OtherFormats::of(file, name, &zeros) else { continue };
            let fit = machine.fit(model, &weights, options, 1.0)?;
            quantised.push(Row { r#type: name, bytes: header + weights.bytes(), fit });
        }
        let candidates = quantised.iter().map(|row| Candidate {
            fit: Some(&row.fit),
            bytes: Some(row.bytes),
            quant: Some(row.r#type),
        });
        let best = fit::best(candidates).map(|at| quantised[at].r#type);
        Ok(Fits { own, quantised, best, has_gpu })
    }

    pub(super) fn in_words(&self) -> String {
        self.own.in_words(true)
    }

    /// A table; empty if the model is quantised.
    pub(super) fn table(&self) -> String {
        if self.quantised.is_empty() {
            return String::new();
        }
        let [memory, gpu_memory, fits] = fit::HEAD.map(str::to_owned);
        let head = ["TYPE".to_owned(), "SIZE".to_owned(), memory, gpu_memory, fits];
        let row = |row: &Row| {
            let [memory, gpu_memory, fits] = fit::cells(Some(&row.fit), self.has_gpu);
            [row.r#type.to_owned(), size(row.bytes), memory, gpu_memory, fits]
        };
        let rows: Vec<_> = [head].into_iter().chain(self.quantised.iter().map(row)).collect();
        let table = if self.has_gpu {
            columns(&rows, &[1, 2, 3])
        } else {
            let rows = rows.into_iter().map(|[name, size, memory, _, fits]| [name, size, memory, fits]);
            columns(&rows.collect::<Vec<_>>(), &[1, 2])
        };
        let best = self.best.map_or_else(
            || "  none fits; a smaller context (-c N) takes less memory\n".to_owned(),
            |best| format!("  best that fits: {best} ({})\n", fit::rule(self.has_gpu)),
        );
        table + &best
    }
}
