//! What becomes of each tensor, and the file's metadata: all that is decided before any number is read.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use gguf::{Gguf, Metadata, Tensor, quoted};
use models::Family;
use quant::Format;

use super::imatrix::Imatrix;
use super::mix::{Facts, Mix, choose};
use crate::output::{Usage, counted, note};

/// What files of these formats say of the layout of blocks: ggml's `GGML_QNT_VERSION`.
const QUANTIZATION_VERSION: u32 = 2;

/// A tensor and what becomes of it.
#[derive(Debug)]
pub(crate) struct Planned<'a> {
    pub(crate) tensor: &'a Tensor,
    pub(crate) format: Format,
    /// A weight for each column.
    pub(crate) importance: Option<&'a [f32]>,
}

impl Planned<'_> {
    /// Whether its bytes stay as they are.
    pub(crate) fn is_copied(&self) -> bool {
        self.format == self.tensor.format
    }

    /// Values.
    pub(crate) fn values(&self) -> u64 {
        self.tensor.row_len() as u64 * self.tensor.rows() as u64
    }

    /// Bytes of the data to come.
    pub(crate) fn bytes(&self) -> u64 {
        self.format.bytes_for(self.values()).unwrap_or(u64::MAX)
    }
}

/// Whether a format holds numbers as they are, but for their precision.
fn is_float(format: Format) -> bool {
    matches!(format, Format::F32 | Format::F16 | Format::BF16)
}

/// What the choice of formats depends on.
pub(crate) fn facts(file: &Gguf, imatrix: bool, pure: bool) -> anyhow::Result<Facts> {
    let metadata = file.metadata();
    let architecture = metadata.str("general.architecture")?.unwrap_or_default();
    let Some(architecture) = Family::from_name(architecture) else {
        bail!(
            "{}: the architecture is {}; which formats suit a model's tensors is known for {}",
            file.file(),
            quoted(architecture),
            Family::names()
        );
    };
    let key = |name: &str| format!("{architecture}.{name}");
    let experts = metadata.u32(&key("expert_count"))?.unwrap_or(0);
    ensure!(
        experts == 0,
        "{}: the model is a mixture of {}, and formats for these are not known",
        file.file(),
        counted(experts, "expert")
    );
    let number = |name: &str| -> anyhow::Result<Option<usize>> {
        Ok(metadata.u32(&key(name)).with_context(|| file.file().to_owned())?.map(|number| number as usize))
    };
    let heads = number("attention.head_count")?;
    let (Some(layers), Some(heads)) = (number("block_count")?, heads) else {
        let [layers, heads] = ["block_count", "attention.head_count"].map(key);
        bail!("{}: {layers} or {heads} is missing: no whole model", file.file());
    };
    let kv_heads = number("attention.head_count_kv")?.unwrap_or(heads);
    let tied = file.tensor("output.weight").is_none();
    Ok(Facts { architecture, layers, heads, kv_heads, tied, imatrix, pure })
}

/// What becomes of each tensor, in the file's order.
pub(crate) fn plan<'a>(
    file: &'a Gguf,
    mix: Mix,
    facts: &Facts,
    imatrix: Option<&'a Imatrix>,
    requantize: bool,
) -> anyhow::Result<Vec<Planned<'a>>> {
    let mut plan = Vec::with_capacity(file.tensors().len());
    for tensor in file.tensors() {
        let format = choose(mix, &tensor.name, &tensor.shape, facts).unwrap_or(tensor.format);
        if format != tensor.format && format != Format::F32 && !is_float(tensor.format) && !requantize {
            return Err(Usage(format!(
                "{}: {} is in {} already, and what that lost would be lost again; start from the file in \
                 F16, BF16 or F32, or allow it with --allow-requantize",
                file.file(),
                quoted(&tensor.name),
                tensor.format
            ))
            .into());
        }
        plan.push(Planned { tensor, format, importance: None });
    }
    if let Some(imatrix) = imatrix {
        add_importance(&mut plan, imatrix)?;
    }
    Ok(plan)
}

/// Gives tensors their importance; says of which nothing is known, and of what there is no tensor.
fn add_importance<'a>(plan: &mut [Planned<'a>], imatrix: &'a Imatrix) -> anyhow::Result<()> {
    let mut unknown = Vec::new();
    for planned in plan.iter_mut().filter(|planned| !planned.is_copied() && !is_float(planned.format)) {
        let (name, row_len) = (&planned.tensor.name, planned.tensor.row_len());
        match imatrix.get(name) {
            None => unknown.push(name.as_str()),
            Some(columns) if columns.len() == row_len => planned.importance = Some(columns),
            // Its rows are looked up, not multiplied: some programs count them instead.
            Some(_) if name == "token_embd.weight" => unknown.push(name),
            Some(columns) => bail!(
                "the imatrix has {} for {}, whose rows have {row_len}: it is of another model",
                counted(columns.len(), "column"),
                quoted(name)
            ),
        }
    }
    let names: HashSet<&str> = plan.iter().map(|planned| planned.tensor.name.as_str()).collect();
    let strangers: Vec<&str> = imatrix.names().filter(|name| !names.contains(name)).collect();
    ensure!(
        strangers.len() < imatrix.names().len(),
        "the imatrix is of another model: it has none of this one's tensors, but {}",
        listed(&strangers)
    );
    if !strangers.is_empty() {
        note(format_args!(
            "warning: the imatrix knows tensors that this model has not: {}",
            listed(&strangers)
        ));
    }
    if !unknown.is_empty() {
        note(format_args!(
            "warning: the imatrix does not know {}; all columns count the same there",
            listed(&unknown)
        ));
    }
    Ok(())
}

/// The first few names, and how many more there are.
fn listed(names: &[&str]) -> String {
    const MOST: usize = 4;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| quoted(name).to_string()).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The metadata of the file to be written.
pub(crate) fn metadata(file: &Gguf, mix: Mix, imatrix: Option<(&Path, &Imatrix)>) -> Metadata {
    let mut metadata = file.metadata().clone();
    metadata.insert("general.quantization_version", QUANTIZATION_VERSION);
    metadata.insert("general.file_type", mix.file_type());
    // As llama-quantize names them; what the model came from may have had others.
    for key in ["file", "dataset", "entries_count", "chunks_count"] {
        metadata.remove(&format!("quantize.imatrix.{key}"));
    }
    if let Some((path, imatrix)) = imatrix {
        metadata.insert("quantize.imatrix.file", path.display().to_string());
        if let Some(dataset) = &imatrix.dataset {
            metadata.insert("quantize.imatrix.dataset", dataset.clone());
        }
        metadata.insert("quantize.imatrix.entries_count", imatrix.names().len() as u32);
        if let Some(chunks) = imatrix.chunks {
            metadata.insert("quantize.imatrix.chunks_count", chunks);
        }
    }
    metadata
}
