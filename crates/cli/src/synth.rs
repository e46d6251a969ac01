//! `rustorch synth`: a model with random weights in the shape of a real one.
//!
//! Speed and memory do not depend on the weights, so such a file benchmarks like the real one. Tensor names, formats and a
//! tokenizer for any text are real.

use std::io::BufWriter;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use gguf::Gguf;
use quant::Mix;
use synth::{Shape, Synth};

use crate::files;
use crate::output::{count, note, size};
use crate::quantize::mix;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file has exactly the parameters of the model of that name, or of its first layers, in the
formats that `rustorch quantize` chooses. Its weights are random: it is as fast and as large as the
real model, but writes nonsense.")]
pub(crate) struct Args {
    #[arg(value_name = "SHAPE", value_parser = <&Shape>::from_str, help = format!("Shape: {}", Shape::names()))]
    shape: &'static Shape,
    /// File to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Type, such as Q4_K_M
    #[arg(value_name = "TYPE", value_parser = mix(), ignore_case = true)]
    mix: Mix,
    /// Number of layers, where fewer fit into memory [default: the model's]
    #[arg(long, value_name = "N")]
    layers: Option<NonZeroU32>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let synth = Synth { shape: args.shape, layers: args.layers, mix: args.mix };
    let is_random = |path: &Path| Gguf::open(path).is_ok_and(|file| Synth::wrote(&file));
    let target = files::target("OUT", &args.output, &[], "GGUF file of random weights", is_random)?;
    let mut out = BufWriter::with_capacity(1 << 20, target.create()?);
    synth.write(&mut out)?;
    out.into_inner().map_err(|error| error.into_error()).context("cannot write the file")?.finish()?;
    let written = std::fs::metadata(&args.output).map_or(0, |metadata| metadata.len());
    let (name, parameters) = (args.output.display(), count(synth.parameters()));
    note(format_args!("{name}: {synth}, {parameters} parameters of random weights, {}", size(written)));
    Ok(())
}
