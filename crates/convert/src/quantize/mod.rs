//! Quantises models, as `llama-quantize` does.
//!
//! A [`Plan`] chooses the format of each tensor by a [`Mix`], and weighs columns by an [`Imatrix`]. [`Plan::check`] scans
//! every value, then [`Plan::write`] writes the file tensor by tensor, so that memory does not grow with the model.

pub(crate) mod error;
mod rows;

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::num::NonZero;
use std::str::FromStr;

use gguf::{Gguf, Layout, Metadata, Tensor, WrongType, quoted};
use models::Family;
use quant::Format;
use quant::mix::{Facts, Mix, choose, fitting, is_quantised};
use regex::Regex;

use crate::imatrix::Imatrix;
use error::{LARGEST_F16, listed};
use rows::write_quantised;

pub use error::{Error, NotFinite, Warning};
pub use rows::{Progress, scan};

/// ggml's `GGML_QNT_VERSION`, the version of the block layouts.
pub(crate) const QUANTIZATION_VERSION: u32 = 2;

/// How a model is to be quantised.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// The formats of tensors; without one, tensors are copied.
    pub mix: Option<Mix>,
    /// Formats for matrices by name; the first pattern that matches counts.
    pub overrides: &'a [Override],
    /// Gives all matrices the mix's main format, as far as their rows allow.
    pub pure: bool,
    /// The importance of columns, and the name of its file.
    pub imatrix: Option<(&'a str, &'a Imatrix)>,
    /// Quantises again what is already quantised.
    pub requantize: bool,
}

/// A format for the matrices whose names match a pattern, such as `attn_v=Q8_0`.
#[derive(Clone, Debug)]
pub struct Override {
    /// Is searched for anywhere in the name.
    pub pattern: Regex,
    /// Their format, as far as their rows allow.
    pub format: Format,
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Override, String> {
        let example = "such as attn_v=Q8_0";
        let (pattern, name) =
            text.rsplit_once('=').ok_or_else(|| format!("expected PATTERN=TYPE, {example}"))?;
        let format = Format::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name));
        let format = format.ok_or_else(|| {
            let all = Format::ALL.map(Format::name).join(", ");
            format!("no format {name:?}; there are {all}")
        })?;
        Ok(Override { pattern: Regex::new(pattern).map_err(|error| error.to_string())?, format })
    }
}

/// A tensor and its new format.
#[derive(Debug)]
pub struct Planned<'a> {
    /// The tensor in the input file.
    pub tensor: &'a Tensor,
    /// Its new format.
    pub format: Format,
    /// A weight for each column, or for each column of each expert.
    pub importance: Option<&'a [f32]>,
}

impl Planned<'_> {
    /// Whether its bytes stay as they are.
    pub fn is_copied(&self) -> bool {
        self.format == self.tensor.format
    }

    /// Number of values.
    pub fn values(&self) -> u64 {
        self.tensor.row_len() as u64 * self.tensor.rows() as u64
    }

    /// Bytes of its data in the new format.
    pub fn bytes(&self) -> u64 {
        self.format.bytes_for(self.values()).unwrap_or(u64::MAX)
    }
}

/// A file to be written.
#[derive(Debug)]
pub struct Plan<'a> {
    file: &'a Gguf,
    metadata: Metadata,
    tensors: Vec<Planned<'a>>,
    /// What users should know before it is carried out.
    pub warnings: Vec<Warning>,
}

impl<'a> Plan<'a> {
    /// Chooses the format of each tensor of `file`. Fails if the formats for such a model are not known, or the recipe does not
    /// suit it.
    pub fn new(file: &'a Gguf, recipe: &Recipe<'a>) -> Result<Plan<'a>, Error> {
        let chosen = recipe.mix.map(|mix| Ok::<_, Error>((mix, facts(file, recipe)?))).transpose()?;
        let mut tensors = Vec::with_capacity(file.tensors().len());
        for tensor in file.tensors() {
            let matches = |other: &&Override| other.pattern.is_match(&tensor.name);
            let format = match (recipe.overrides.iter().find(matches), &chosen) {
                (Some(other), _) if is_quantised(&tensor.name, &tensor.shape) => {
                    Some(fitting(other.format, tensor.row_len()))
                }
                (_, Some((mix, facts))) => choose(*mix, &tensor.name, &tensor.shape, facts),
                (_, None) => None,
            };
            let format = format.unwrap_or(tensor.format);
            let loses = format != tensor.format && format != Format::F32 && !is_float(tensor.format);
            if loses && !recipe.requantize {
                let (file, tensor, format) = (file.file().to_owned(), tensor.name.clone(), tensor.format);
                return Err(Error::Requantize { file, tensor, format });
            }
            tensors.push(Planned { tensor, format, importance: None });
        }
        let warnings = match recipe.imatrix {
            Some((_, imatrix)) => add_importance(&mut tensors, imatrix)?,
            None => tensors.iter().try_for_each(refuse_blind).map(|()| Vec::new())?,
        };
        Ok(Plan { file, metadata: metadata(file, recipe), tensors, warnings })
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> &[Planned<'a>] {
        &self.tensors
    }

    /// Bytes of all tensors in the input file: the total of the progress of [`Plan::check`] and [`Plan::write`].
    pub fn work(&self) -> u64 {
        self.tensors.iter().map(|planned| planned.tensor.data.len() as u64).sum()
    }

    /// Bytes of the file to be written.
    pub fn file_len(&self) -> Result<u64, Error> {
        Ok(self.layout()?.file_len())
    }

    fn layout(&self) -> Result<Layout, Error> {
        let mut layout = Layout::new(&self.metadata)?;
        for Planned { tensor, format, .. } in &self.tensors {
            layout.tensor(tensor.name.as_str(), &tensor.shape, *format)?;
        }
        Ok(layout)
    }

    /// Scans every value, for warnings; fails if some are not finite, or the file was truncated meanwhile.
    pub fn check(&self, threads: NonZero<usize>, progress: Progress<'_>) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        for planned @ Planned { tensor, format, .. } in &self.tensors {
            let largest = scan(tensor, threads, progress)?;
            self.file.release(&tensor.data);
            let has_f16 = !matches!(format, Format::F32 | Format::BF16 | Format::MXFP4 | Format::NVFP4);
            if largest > LARGEST_F16 && !planned.is_copied() && has_f16 {
                warnings.push(Warning::BeyondF16 { tensor: tensor.name.clone(), largest, format: *format });
            }
        }
        self.file.check_intact()?;
        Ok(warnings)
    }

    /// Writes the file; fails if the input was truncated meanwhile.
    pub fn write(
        &self,
        out: impl Write,
        threads: NonZero<usize>,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let mut writer = self.layout()?.begin(BufWriter::new(out))?;
        for planned in &self.tensors {
            let Planned { tensor, format, importance } = *planned;
            if planned.is_copied() {
                progress(tensor.data.len() as u64);
                writer.tensor(&tensor.name, &tensor.data)?;
            } else {
                let name = &tensor.name;
                writer.tensor_with(name, |out| {
                    write_quantised(tensor, format, importance, threads, out, progress)
                })?;
            }
            self.file.release(&tensor.data);
        }
        writer.finish()?;
        Ok(self.file.check_intact()?)
    }
}

/// The format of each tensor of `file` in `mix`, in the order of the file, as if an imatrix were used. Fails if the formats for
/// such a model are not known.
pub fn formats(file: &Gguf, mix: Mix) -> Result<Vec<Format>, Error> {
    let recipe = Recipe { mix: Some(mix), overrides: &[], pure: false, imatrix: None, requantize: true };
    let facts = Facts { imatrix: true, ..facts(file, &recipe)? };
    let format = |tensor: &Tensor| choose(mix, &tensor.name, &tensor.shape, &facts).unwrap_or(tensor.format);
    Ok(file.tensors().map(format).collect())
}

fn is_float(format: Format) -> bool {
    matches!(format, Format::F32 | Format::F16 | Format::BF16)
}

fn facts(file: &Gguf, recipe: &Recipe<'_>) -> Result<Facts, Error> {
    let metadata = file.metadata();
    let error = |why: String| Error::Model { file: file.file().to_owned(), why };
    let words = |wrong: WrongType| error(wrong.to_string());
    let name = metadata.str("general.architecture").map_err(words)?.unwrap_or_default();
    let architecture = Family::from_name(name).ok_or_else(|| {
        let (name, known) = (quoted(name), Family::names());
        error(format!(
            "the architecture is {name}; which formats suit a model's tensors is known for {known}"
        ))
    })?;
    let number = |key: &str| metadata.u32(&format!("{architecture}.{key}")).map_err(words);
    let required = |key: &str| {
        number(key)?.ok_or_else(|| error(format!("{architecture}.{key} is missing: no whole model")))
    };
    let (layers, heads) = (required("block_count")?, required("attention.head_count")?);
    Ok(Facts {
        architecture: architecture.name,
        layers: layers as usize,
        heads: heads as usize,
        kv_heads: number("attention.head_count_kv")?.unwrap_or(heads) as usize,
        experts: number("expert_count")?.unwrap_or(0) as usize,
        tied: file.tensor("output.weight").is_none(),
        imatrix: recipe.imatrix.is_some(),
        pure: recipe.pure,
    })
}

/// Refuses formats of about two bits without an imatrix, except for embeddings and the output matrix.
fn refuse_blind(planned: &Planned<'_>) -> Result<(), Error> {
    let Planned { tensor, format, .. } = planned;
    let is_blind = matches!(format, Format::IQ2_XXS | Format::IQ2_XS | Format::IQ1_S | Format::IQ1_M);
    if is_blind && !planned.is_copied() && !["token_embd.weight", "output.weight"].contains(&&*tensor.name) {
        return Err(Error::Blind { tensor: tensor.name.clone(), format: *format });
    }
    Ok(())
}

fn add_importance<'a>(plan: &mut [Planned<'a>], imatrix: &'a Imatrix) -> Result<Vec<Warning>, Error> {
    let mut unknown = Vec::new();
    for planned in plan.iter_mut().filter(|planned| !planned.is_copied() && !is_float(planned.format)) {
        let (name, row_len) = (&planned.tensor.name, planned.tensor.row_len());
        let experts = planned.tensor.shape.get(2..).unwrap_or_default().iter().product::<usize>();
        match imatrix.get(name) {
            None => unknown.push(name.clone()),
            Some(columns) if columns.len() == row_len || columns.len() == row_len * experts => {
                planned.importance = Some(columns);
            }
            // Its rows are looked up, not multiplied; some programs count the look-ups instead.
            Some(_) if name == "token_embd.weight" => unknown.push(name.clone()),
            Some(columns) => {
                let (name, columns) = (quoted(name), columns.len());
                let why = format!("it has {columns} columns for {name}, whose rows have {row_len}");
                return Err(Error::OtherModel(why));
            }
        }
    }
    let names: HashSet<&str> = plan.iter().map(|planned| planned.tensor.name.as_str()).collect();
    let strangers = imatrix.names().filter(|name| !names.contains(name)).map(str::to_owned);
    let strangers: Vec<String> = strangers.collect();
    if strangers.len() == imatrix.names().len() {
        let why = format!("it has none of this one's tensors, but {}", listed(&strangers));
        return Err(Error::OtherModel(why));
    }
    let mut warnings = Vec::new();
    if !strangers.is_empty() {
        warnings.push(Warning::Strangers(strangers));
    }
    if !unknown.is_empty() {
        warnings.push(Warning::Unknown(unknown));
    }
    Ok(warnings)
}

fn metadata(file: &Gguf, recipe: &Recipe<'_>) -> Metadata {
    let mut metadata = file.metadata().clone();
    metadata.insert("general.quantization_version", QUANTIZATION_VERSION);
    if let Some(mix) = recipe.mix {
        metadata.insert("general.file_type", mix.file_type());
    }
    // The keys of llama-quantize. The file may have those of an earlier imatrix.
    for key in ["file", "dataset", "entries_count", "chunks_count"] {
        metadata.remove(&format!("quantize.imatrix.{key}"));
    }
    if let Some((path, imatrix)) = recipe.imatrix {
        metadata.insert("quantize.imatrix.file", path);
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
