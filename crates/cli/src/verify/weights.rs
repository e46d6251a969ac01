//! Every value of every tensor, looked at once.

use std::num::NonZero;

use anyhow::{bail, ensure};
use gguf::{Gguf, Tensor};
use indicatif::ProgressBar;
use quantize::{NotFinite, scan};

use super::report::measure;
use crate::output::{count, counted};

/// That no weight is NaN or infinite: such a one spreads to every logit.
pub(super) fn are_finite(
    file: &Gguf,
    threads: Option<NonZero<usize>>,
    bar: &ProgressBar,
) -> anyhow::Result<String> {
    measure(bar, file.tensors().map(|tensor| tensor.data.len()).sum());
    let threads = threads.unwrap_or(NonZero::<usize>::MIN);
    let fault = |tensor: &Tensor| {
        let fault = scan(tensor, threads, &|bytes| bar.inc(bytes)).err()?;
        Some((tensor.format, fault))
    };
    let faults: Vec<_> = file.tensors().filter_map(fault).collect();
    file.check_intact()?;
    if let Some((format, NotFinite { tensor, row, column, value, .. })) = faults.first() {
        let bad: usize = faults.iter().map(|(_, fault)| fault.count).sum();
        bail!(
            "{} not finite; the first is {value} in `{tensor}` ({format}), row {row}, column {column}: the file is \
             damaged",
            counted(bad, "value")
        );
    }
    let (tensors, values) =
        file.tensors().fold((0, 0), |(n, values), tensor| (n + 1, values + tensor.row_len() * tensor.rows()));
    ensure!(tensors > 0, "the file has no tensors");
    Ok(format!("all {} values of {} are finite", count(values), counted(tensors, "tensor")))
}
