//! The report as text.

use super::{Gpu, Report, Row};
use crate::fit;
use crate::output::{self, printable, size};

pub(super) fn text(report: &Report) -> String {
    let memory = report.n_ctx.zip(report.available).map(|(n_ctx, available)| {
        format!("{} are available; computed for a context of {n_ctx} tokens", size(available))
    });
    let gpus = report.gpus.iter().map(|Gpu { name, memory }| ("GPU", Some(format!("{name}, {memory}"))));
    let known = [
        ("from", Some(report.from.clone())),
        ("commit", report.commit.clone()),
        ("licence", report.license.clone()),
        ("access", report.gated.then(|| "gated: its owner decides who may download it".to_owned())),
        ("downloads", report.downloads.map(|number| format!("{number} in a month"))),
        ("architecture", report.architecture.clone()),
        ("parameters", report.parameters.map(output::count)),
        ("memory", memory),
        ("memory", report.error.as_ref().map(|why| format!("unknown: {why}"))),
    ];
    let known = known.into_iter().chain(gpus);
    let known = known.filter_map(|(name, value)| Some((name, printable(&value?, ""))));
    let has_gpu = !report.gpus.is_empty();
    let [memory, gpu_memory, fits] = fit::HEAD.map(str::to_owned);
    let text = |text: &str| text.to_owned();
    let head = [text(""), text("NAME"), text("SIZE"), memory, gpu_memory, fits, text("HERE")];
    let row = |row: &Row| {
        let bytes = row.bytes.map_or_else(|| "?".to_owned(), size);
        let [memory, gpu_memory, fits] = fit::cells(row.fit.as_ref(), has_gpu);
        let (mark, here) = (if row.usual { "*" } else { "" }, if row.path.is_some() { "yes" } else { "" });
        [text(mark), printable(&row.name, ""), bytes, memory, gpu_memory, fits, text(here)]
    };
    let rows: Vec<_> = [head].into_iter().chain(report.models.iter().map(row)).collect();
    let table = if has_gpu {
        output::columns(&rows, &[2, 3, 4])
    } else {
        let rows = rows
            .into_iter()
            .map(|[mark, name, size, memory, _, fits, here]| [mark, name, size, memory, fits, here]);
        output::columns(&rows.collect::<Vec<_>>(), &[2, 3])
    };
    let is_known = report.models.iter().any(|row| row.fits.is_some());
    let best = match &report.best {
        Some(name) if report.models.len() > 1 => {
            format!("best that fits: {} ({})\n", printable(name, ""), fit::rule(has_gpu))
        }
        None if is_known => "none fits; a smaller context (-c N) takes less memory\n".to_owned(),
        _ => String::new(),
    };
    format!("{}\n{}\n{table}{best}", printable(&report.name, ""), output::pairs(known))
}
