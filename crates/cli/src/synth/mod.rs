//! `rustorch synth`: a model of random weights in the shape of a real one.
//!
//! Speed and memory do not depend on what a model has learnt, so such a file measures as the real one does,
//! and everything else about it is real: names, formats of tensors, a tokenizer that takes any text. Weights
//! repeat: each matrix is made of the same million or so of values ([`weights`]), so nothing that counts
//! distinct weights, such as a compressor, should be measured with it.

mod shape;
mod vocabulary;
mod weights;

use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use gguf::{Gguf, Layout};
use quantize::Mix;
use trace::Draft;

use crate::interrupt::Unfinished;
use crate::outfile;
use crate::output::{count, note, size};
use crate::quantize::mix;
use shape::Shape;
use weights::Pools;

/// What `synth` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Shapes are those of the models of these names, to the parameter; formats of tensors are those that
`rustorch quantize` chooses. The weights are Gaussian and repeat: the file is made in seconds, says
nothing sensible, and is as fast and as large as the real one.")]
pub(crate) struct Args {
    #[arg(value_name = "SHAPE", value_parser = <&Shape>::from_str, help = format!("The shape: {}", shape::names()))]
    shape: &'static Shape,
    /// The file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Formats of the weights, such as Q4_K_M
    #[arg(value_name = "TYPE", value_parser = mix(), ignore_case = true)]
    mix: Mix,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    outfile::check("OUT", &args.output, &[])?;
    let synth = Synth { shape: args.shape, mix: args.mix };
    let is_random = |file: Gguf| {
        file.metadata()
            .str("general.name")
            .is_ok_and(|name| name.is_some_and(|name| name.ends_with(shape::RANDOM)))
    };
    let mut draft = Draft::new(&args.output, "GGUF file of random weights", |path| {
        Gguf::open(path).is_ok_and(is_random)
    })?;
    let _unfinished = Unfinished::begin(draft.part())?;
    let out = draft.begin()?;
    synth.write(&out).with_context(|| format!("cannot write {}", draft.part().display()))?;
    draft.finish()?;
    let written = std::fs::metadata(&args.output).map_or(0, |metadata| metadata.len());
    let (name, parameters) = (args.output.display(), count(args.shape.parameters()));
    note(format_args!("{name}: {synth}, {parameters} parameters of random weights, {}", size(written)));
    Ok(ExitCode::SUCCESS)
}

/// A shape and the formats of its weights, such as `llama-3.2-1b:Q8_0`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synth {
    pub(crate) shape: &'static Shape,
    pub(crate) mix: Mix,
}

impl fmt::Display for Synth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shape.name, self.mix)
    }
}

impl FromStr for Synth {
    type Err = String;

    fn from_str(text: &str) -> Result<Synth, String> {
        let example = "such as llama-3.2-1b:Q8_0";
        let (shape, mix) = text.split_once(':').ok_or_else(|| format!("expected SHAPE:TYPE, {example}"))?;
        let mix = mix.parse::<Mix>().map_err(|error| error.to_string())?;
        Ok(Synth { shape: shape.parse()?, mix })
    }
}

impl Synth {
    /// Writes the file.
    pub(crate) fn write_to(&self, path: &Path) -> anyhow::Result<()> {
        let cannot_write = || format!("cannot write {}", path.display());
        self.write(&File::create(path).with_context(cannot_write)?).with_context(cannot_write)
    }

    fn write(&self, out: &File) -> anyhow::Result<()> {
        let tensors = self.shape.tensors(self.mix);
        let mut layout = Layout::new(&self.shape.metadata(self.mix))?;
        for tensor in &tensors {
            layout.tensor(tensor.name.as_str(), &tensor.shape, tensor.format)?;
        }
        let mut pools = Pools::default();
        let mut writer = layout.begin(BufWriter::with_capacity(1 << 20, out))?;
        for tensor in &tensors {
            writer.tensor_with(&tensor.name, |out| pools.write(tensor, out))?;
        }
        writer.finish()?;
        Ok(())
    }
}
