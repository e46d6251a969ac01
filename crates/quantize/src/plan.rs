//! What becomes of each tensor, and the file's metadata: all that is decided before any value is read.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::num::NonZero;
use std::str::FromStr;

use gguf::{Gguf, Layout, Metadata, Tensor, quoted};
use models::Family;
use quant::Format;
use regex::Regex;

use crate::convert::{convert, scan};
use crate::error::{LARGEST_F16, listed};
use crate::mix::{fitting, is_quantised};
use crate::{Error, Facts, Imatrix, Mix, Warning, choose};

/// What files of these formats say of the layout of blocks: ggml's `GGML_QNT_VERSION`.
const QUANTIZATION_VERSION: u32 = 2;

/// How a model is to be quantised.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// Formats of the tensors; none copies them.
    pub mix: Option<Mix>,
    /// Other formats for the matrices whose names a pattern matches: the first that does.
    pub overrides: &'a [Override],
    /// All matrices get the mix's main format, as far as their rows allow.
    pub pure: bool,
    /// The importance of columns, and the name of its file.
    pub imatrix: Option<(&'a str, &'a Imatrix)>,
    /// What is quantised already is quantised again.
    pub requantize: bool,
}

/// A format for the matrices whose names match a pattern, such as `attn_v=Q8_0`.
#[derive(Clone, Debug)]
pub struct Override {
    /// Found anywhere in a name.
    pub pattern: Regex,
    /// What they get, as far as their rows allow.
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

/// A tensor and what becomes of it.
#[derive(Debug)]
pub struct Planned<'a> {
    /// The tensor as it is.
    pub tensor: &'a Tensor,
    /// Its new format.
    pub format: Format,
    /// A weight for each column.
    pub importance: Option<&'a [f32]>,
}

impl Planned<'_> {
    /// Whether its bytes stay as they are.
    pub fn is_copied(&self) -> bool {
        self.format == self.tensor.format
    }

    /// How many values it has.
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
    /// What is worth knowing before it is carried out.
    pub warnings: Vec<Warning>,
}

impl<'a> Plan<'a> {
    /// Decides what becomes of each tensor of `file`, in the file's order.
    ///
    /// # Errors
    /// When it is not known which formats suit the model, or the recipe does not suit it.
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
            None => Vec::new(),
        };
        Ok(Plan { file, metadata: metadata(file, recipe), tensors, warnings })
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> &[Planned<'a>] {
        &self.tensors
    }

    /// Bytes of all tensors as they are, which is how far [`Plan::check`] and [`Plan::write`] count.
    pub fn work(&self) -> u64 {
        self.tensors.iter().map(|planned| planned.tensor.data.len() as u64).sum()
    }

    /// Bytes of the file to be written.
    ///
    /// # Errors
    /// As those of [`Layout::tensor`].
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

    /// Looks at every value; what is worth knowing of them. `progress` is called with bytes that were looked at, by any
    /// of the threads.
    ///
    /// # Errors
    /// When some are not finite, or the file was truncated meanwhile.
    pub fn check(
        &self,
        threads: NonZero<usize>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Vec<Warning>, Error> {
        let mut warnings = Vec::new();
        for planned @ Planned { tensor, format, .. } in &self.tensors {
            let largest = scan(tensor, threads, progress)?;
            self.file.release(&tensor.data);
            let has_f16 = !matches!(format, Format::F32 | Format::BF16);
            if largest > LARGEST_F16 && !planned.is_copied() && has_f16 {
                warnings.push(Warning::BeyondF16 { tensor: tensor.name.clone(), largest, format: *format });
            }
        }
        self.file.check_intact()?;
        Ok(warnings)
    }

    /// Writes the file. `progress` is called with bytes of the tensors as they were, by any of the threads.
    ///
    /// # Errors
    /// When `out` cannot be written, or the file was truncated meanwhile.
    pub fn write(
        &self,
        out: impl Write,
        threads: NonZero<usize>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let mut writer = self.layout()?.begin(BufWriter::new(out))?;
        for planned in &self.tensors {
            let Planned { tensor, format, importance } = *planned;
            if planned.is_copied() {
                progress(tensor.data.len() as u64);
                writer.tensor(&tensor.name, &tensor.data)?;
            } else {
                let name = &tensor.name;
                writer
                    .tensor_with(name, |out| convert(tensor, format, importance, threads, out, progress))?;
            }
            self.file.release(&tensor.data);
        }
        writer.finish()?;
        Ok(self.file.check_intact()?)
    }
}

/// Whether a format holds values as they are, but for their precision.
fn is_float(format: Format) -> bool {
    matches!(format, Format::F32 | Format::F16 | Format::BF16)
}

/// What the choice of formats depends on.
fn facts(file: &Gguf, recipe: &Recipe<'_>) -> Result<Facts, Error> {
    let (metadata, name) = (file.metadata(), || file.file().to_owned());
    let wrong = |source| Error::Metadata { file: name(), source };
    let architecture = metadata.str("general.architecture").map_err(wrong)?.unwrap_or_default();
    let Some(architecture) = Family::from_name(architecture) else {
        return Err(Error::Architecture { file: name(), architecture: architecture.to_owned() });
    };
    let number = |key: &str| {
        let key = format!("{architecture}.{key}");
        metadata.u32(&key).map_err(wrong)?.ok_or_else(|| Error::MissingKey { file: name(), key })
    };
    let or = |default, number: Result<u32, Error>| match number {
        Err(Error::MissingKey { .. }) => Ok(default),
        number => number,
    };
    let experts = or(0, number("expert_count"))?;
    if experts != 0 {
        return Err(Error::Experts { file: name(), experts });
    }
    let (layers, heads) = (number("block_count")?, number("attention.head_count")?);
    let kv_heads = or(heads, number("attention.head_count_kv"))?;
    Ok(Facts {
        architecture,
        layers: layers as usize,
        heads: heads as usize,
        kv_heads: kv_heads as usize,
        tied: file.tensor("output.weight").is_none(),
        imatrix: recipe.imatrix.is_some(),
        pure: recipe.pure,
    })
}

/// Gives tensors their importance.
fn add_importance<'a>(plan: &mut [Planned<'a>], imatrix: &'a Imatrix) -> Result<Vec<Warning>, Error> {
    let mut unknown = Vec::new();
    for planned in plan.iter_mut().filter(|planned| !planned.is_copied() && !is_float(planned.format)) {
        let (name, row_len) = (&planned.tensor.name, planned.tensor.row_len());
        match imatrix.get(name) {
            None => unknown.push(name.clone()),
            Some(columns) if columns.len() == row_len => planned.importance = Some(columns),
            // Its rows are looked up, not multiplied: some programs count them instead.
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
    let warnings = [Warning::Strangers(strangers), Warning::Unknown(unknown)];
    let says = |warning: &Warning| !matches!(warning, Warning::Strangers(names) | Warning::Unknown(names) if names.is_empty());
    Ok(warnings.into_iter().filter(says).collect())
}

/// The metadata of the file to be written.
fn metadata(file: &Gguf, recipe: &Recipe<'_>) -> Metadata {
    let mut metadata = file.metadata().clone();
    metadata.insert("general.quantization_version", QUANTIZATION_VERSION);
    if let Some(mix) = recipe.mix {
        metadata.insert("general.file_type", mix.file_type());
    }
    // As llama-quantize names them; the file may have others, of the imatrix that it was made with.
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
