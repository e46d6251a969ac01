//! The file that a checkpoint becomes: keys, tensors and their formats.

use std::io::Write;
use std::ops::Range;

use gguf::{Layout, Metadata};
use quant::{Format, Mix};

use crate::checkpoint::{Checkpoint, Elements};
use crate::config::Config;
use crate::families::Family;
use crate::keys::Keys;
use crate::output::{Output, Outputs};
use crate::rules::{COMMON, Place, Rule, number_after};
use crate::{Error, describe, tokenizer, unsupported};

/// The formats that matrices can get; vectors stay in F32. Other mixes are made by [`crate::quantize`].
pub const FILE_TYPES: [Mix; 6] = [Mix::F32, Mix::F16, Mix::BF16, Mix::Q8_0, Mix::TQ1_0, Mix::TQ2_0];

/// What will be written: everything is checked, nothing is converted yet.
#[derive(Debug)]
pub struct Plan<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) architecture: &'static str,
    pub(crate) file_type: Mix,
    pub(crate) metadata: Metadata,
    pub(crate) outputs: Vec<Output>,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Plan<'a> {
    /// Chooses names, keys and formats.
    /// Fails if the class of the model is not known, if its configuration or tokenizer is incomplete, or if a tensor is
    /// unknown or does not have the expected shape.
    pub fn new(checkpoint: &'a Checkpoint, options: &Options) -> Result<Plan<'a>, Error> {
        let config = &checkpoint.config;
        let family = Family::of(config)?;
        let file_type = options.file_type.unwrap_or_else(|| file_type(checkpoint));
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture", family.architecture);
        let mut keys = Keys { architecture: family.architecture, metadata: &mut metadata };
        (family.parameters)(config, &mut keys)?;
        let (mut outputs, left_out) = convert(checkpoint, family)?;
        for (name, values) in (family.extra)(config)? {
            outputs.insert(0, Output::from_values(name.to_owned(), values));
        }
        for output in &mut outputs {
            output.format = family.format(output, file_type);
        }
        let has_blocks = outputs.iter().any(|output| output.format == Format::MXFP4);
        let is_float = matches!(file_type, Mix::F32 | Mix::F16 | Mix::BF16);
        let named = if has_blocks && is_float { Mix::MXFP4_MOE } else { file_type };
        let pre_tokenizer = options.pre_tokenizer.as_deref();
        let tokenizer =
            tokenizer::read(checkpoint.folder(), family.tokenizer, &config.values(), pre_tokenizer)?;
        for (key, value) in tokenizer.iter() {
            metadata.insert(key, value.clone());
        }
        describe::write(checkpoint, options.name.as_deref(), named.file_type(), &outputs, &mut metadata);
        let mut warnings = unsupported::find(config, &metadata, &outputs)?;
        if left_out > 0 {
            let [tensors, are] = if left_out == 1 { ["tensor", "is"] } else { ["tensors", "are"] };
            warnings.push(format!(
                "{left_out} {tensors} for images or sound {are} left out: the file is the language model"
            ));
        }
        Ok(Plan { checkpoint, architecture: family.architecture, file_type, metadata, outputs, warnings })
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// The format of the matrices.
    pub fn file_type(&self) -> Mix {
        self.file_type
    }

    /// `general.name`.
    pub fn name(&self) -> &str {
        self.metadata.str("general.name").ok().flatten().unwrap_or_default()
    }

    /// The keys of the file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What the file lacks of the checkpoint, and what is doubtful: why this program would not run the file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Number of tensors.
    pub fn tensors(&self) -> usize {
        self.outputs.len()
    }

    /// Size of the file in bytes.
    pub fn file_len(&self) -> Result<u64, Error> {
        Ok(self.layout()?.file_len())
    }

    fn layout(&self) -> Result<Layout, Error> {
        let mut layout = Layout::new(&self.metadata)?;
        for output in &self.outputs {
            layout.tensor(&output.name, &output.file_shape(), output.format)?;
        }
        Ok(layout)
    }

    /// Writes the file. Memory does not depend on the size of the model. Calls `progress` with the number of bytes after each
    /// tensor and each part of a large one. Fails if a shard changed meanwhile, or if `out` fails.
    pub fn write<W: Write>(&self, out: W, progress: &dyn Fn(u64)) -> Result<W, Error> {
        let mut writer = self.layout()?.begin(out)?;
        for output in &self.outputs {
            writer.tensor_with(&output.name, |out| output.write(out, progress))?;
            self.checkpoint.check_intact()?;
        }
        Ok(writer.finish()?)
    }
}

/// What the user chooses.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format of matrices; without it, that of the checkpoint.
    pub file_type: Option<Mix>,
    /// The model's name; without it, that of the folder.
    pub name: Option<String>,
    /// llama.cpp's name of the pre-tokenizer, if it cannot be found out.
    pub pre_tokenizer: Option<String>,
}

/// That of the first matrix: BF16 and F16 stay, others become F16, as with llama.cpp's `auto`.
fn file_type(checkpoint: &Checkpoint) -> Mix {
    let matrices = checkpoint.tensors.values().filter(|view| view.shape().len() > 1);
    let mut known = matrices.filter_map(|view| match view.elements() {
        Elements::Bf16 => Some(Mix::BF16),
        Elements::F16 => Some(Mix::F16),
        _ => None,
    });
    known.next().unwrap_or(Mix::F16)
}

/// Applies the rules of a family to all tensors. Returns also how many are of other parts than the language model.
fn convert(checkpoint: &Checkpoint, family: &Family) -> Result<(Vec<Output>, usize), Error> {
    let mut outputs = Outputs::default();
    let mut left_out = 0;
    let predicted = family.drops_prediction.then(|| prediction_layers(&checkpoint.config)).transpose()?;
    for (name, view) in &checkpoint.tensors {
        let Some(name) = stem(name) else {
            left_out += 1;
            continue;
        };
        let layer = number_after("layers.", &name);
        if predicted.as_ref().zip(layer).is_some_and(|(predicted, layer)| predicted.contains(&layer)) {
            continue;
        }
        let name = (family.alias)(&name, &checkpoint.config)?.unwrap_or(name);
        let (rule, place) = find(family, &name).ok_or_else(|| {
            view.error(format!("a model of the architecture {} has no such tensor", family.architecture))
        })?;
        outputs.begin();
        for (to, view) in rule.apply(view.clone(), &checkpoint.config)? {
            outputs.add(place.stem(to) + place.ending, place.expert, view)?;
        }
    }
    Ok((outputs.finish()?, left_out))
}

/// The layers after the model's own that predict further tokens.
fn prediction_layers(config: &Config) -> Result<Range<usize>, Error> {
    let layers = config.layers()?;
    let more = config.u32(&["num_nextn_predict_layers", "num_mtp_layers"])?.unwrap_or(0) as usize;
    Ok(layers..layers + more)
}

pub(crate) fn find<'r>(family: &'r Family, name: &str) -> Option<(&'r Rule, Place)> {
    let rules = family.rules.iter().chain(family.shared).chain(COMMON);
    rules.filter_map(|rule| Some((rule, rule.place(name)?))).next()
}

/// A name without the prefixes that models of several parts have; `None` for parts other than the language model.
pub(crate) fn stem(name: &str) -> Option<String> {
    const OTHER: &str = "visual. vision_ vision. audio_ audio. talker. token2wav. code2wav. projector. image_newline \
        view_seperator patch_embed patch_merger. embed_vision.";
    if OTHER.split(' ').any(|other| name.contains(other)) {
        return None;
    }
    let name = name.replace("language_model.", "");
    let name = ["model.", "distilbert.", "bert.", "roberta.", "transformer.", "backbone."]
        .iter()
        .fold(name.as_str(), |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    Some(name.to_owned())
}
