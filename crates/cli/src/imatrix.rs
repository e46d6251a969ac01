//! `rustorch imatrix`: sums the inputs of a model's matrices, as `llama-imatrix` does.

use std::io::BufWriter;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::Context;
use backend::Taps;
use clap::ValueEnum;
use convert::imatrix::{Calibration, Imatrix, InputSums};
use engine::Model;
use eval::imatrix::Inputs;
use indicatif::ProgressBar;
use runner::{FileWeights, Workload};
use serde_json::json;

use crate::args::{BackendArgs, ContextArgs, ModelArgs};
use crate::files::{TextFile, without_newline};
use crate::output::{self, counted, note};
use crate::perplexity::{N_CTX, windows};
use crate::placement::Placement;
use crate::values::from_1_to;
use crate::{files, load};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The text is cut into chunks of -c tokens. `quantize --imatrix` of this program and llama-quantize read
the result. Of mixtures of experts, each expert has its own columns; an expert that the text never
uses has none, which the command says.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// File with the text, without a final newline; - is stdin
    #[arg(short, long, value_name = "TEXT", help_heading = "Text")]
    file: PathBuf,
    /// Encode special tokens in the text
    #[arg(long, help_heading = "Text")]
    parse_special: bool,
    /// Maximum number of chunks to compute [default: all]
    #[arg(long, value_name = "N", value_parser = from_1_to::<0x7fff_ffff>, help_heading = "Text")]
    chunks: Option<NonZero<usize>>,
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "imatrix.gguf", help_heading = "Output")]
    #[arg(alias = "output-file")]
    output: PathBuf,
    /// File format: gguf, or the dat of older programs
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FileFormat::Gguf)]
    #[arg(help_heading = "Output")]
    output_format: FileFormat,
    /// Include output.weight, which most quantisation types store in more bits
    #[arg(long, help_heading = "Output")]
    process_output: bool,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    context: ContextArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FileFormat {
    Gguf,
    Dat,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let file = load::introduced(&args.model)?;
    let mut read = files::model_files(&file);
    read.push(&args.file);
    let is_imatrix = |path: &Path| Imatrix::open(path).is_ok();
    let target = files::target("-o", &args.output, &read, "imatrix", is_imatrix)?;
    let model = Model::new(file)?;
    let n_ctx = load::requested_n_ctx(args.context.ctx_size, &model).unwrap_or(N_CTX);
    let text = TextFile::open(&args.file)?.whole().map(without_newline)?;
    let tokens = model.encode_prompt(&text, args.parse_special);
    let windows = windows(tokens, n_ctx, &model)?.limited(args.chunks.map_or(usize::MAX, NonZero::get));
    let inputs = Inputs {
        file: model.file(),
        graph: model.graph(),
        windows: &windows,
        bos: model.tokenizer().bos_to_add(),
        kv: args.context.cache.format(),
        rows: args.backend.batch_size.get(),
        output: args.process_output,
        threads: load::threads(args.backend.cpu.threads),
    };
    let mut sums = compute(&inputs, &args.backend)?;
    sums.dataset = args.file.display().to_string();

    for (name, InputSums { counts, .. }) in &sums.tensors {
        let (unused, all) = (counts.iter().filter(|&&count| count == 0).count(), counts.len());
        if unused > 0 {
            let name = output::printable(name, "");
            note(format_args!(
                "warning: {name}: the text uses none of {unused} of {all} experts; a longer one may"
            ));
        }
    }
    let mut out = BufWriter::with_capacity(1 << 20, target.create()?);
    match args.output_format {
        FileFormat::Gguf => sums.write_gguf(&mut out).context("cannot write the imatrix")?,
        FileFormat::Dat => sums.write_dat(&mut out).context("cannot write the imatrix")?,
    }
    out.into_inner().map_err(|error| error.into_error()).context("cannot write the imatrix")?.finish()?;
    report(&model, &args, &sums)
}

fn compute(inputs: &Inputs<'_>, args: &BackendArgs) -> anyhow::Result<Calibration> {
    let (weights, taps) = (FileWeights(inputs.file), inputs.taps());
    let workload = Workload {
        weights: &weights,
        graph: inputs.graph,
        kv_layout: inputs.kv_layout(),
        buckets: vec![inputs.bucket()],
        taps: Taps::Names(&taps),
    };
    let bar = ProgressBar::new(inputs.windows.tokens().len() as u64);
    let bar = output::show(bar, "computing {bar:20} {pos}/{len} tokens, {eta} left");
    let sums = Placement::new(args, &workload)?
        .with(|backend, _| Ok(inputs.sum(backend, &mut |tokens| bar.set_position(tokens as u64))?));
    bar.finish_and_clear();
    sums
}

fn report(model: &Model, args: &Args, sums: &Calibration) -> anyhow::Result<()> {
    let output = args.output.display().to_string();
    let Calibration { tensors, chunks, chunk_size, .. } = sums;
    if args.json {
        let row = |(name, InputSums { sums, counts }): (&String, &InputSums)| json!({ "name": name, "columns": sums.len() / counts.len(), "counts": counts });
        let (model, tensors) = (model.file().file(), tensors.iter().map(row).collect::<Vec<_>>());
        return output::json(&json!({
            "model": model, "output": output, "chunks": chunks, "chunk_size": chunk_size, "tensors": tensors,
        }));
    }
    let (entries, chunks) = (counted(tensors.len() as u64, "tensor"), counted(u64::from(*chunks), "chunk"));
    note(format_args!("{}: {entries}, {chunks} of {chunk_size} tokens", output::printable(&output, "")));
    Ok(())
}
